"""What people type who know other tools, or this one half: it is done where only one thing can be meant, else the answer is in
their words and says what to type."""

import json

import pytest

from support import wait
from support.process.commands import Watch, at, run

CODE = """
import os
from anyserve import AnyServe

app = AnyServe()
name = os.environ.get("NAME", "main")
print("module is imported", flush=True)


@app.model(name, deployment=name)
def same(x):
    return x
"""


@pytest.fixture(scope="module")
def server(serve_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    (folder / "words.py").write_text(CODE)
    code = {"import_path": "words:app", "working_dir": str(folder)}
    (folder / "anyserve.yaml").write_text(json.dumps({"applications": [
        {"name": "shop", **code, "deployments": [{"name": "main", "num_replicas": 2}]},
        {"name": "extra", **code, "env": {"NAME": "side"}, "deployments": [{"name": "side"}]}]}))
    server = serve_module(folder / "anyserve.yaml", "--state-dir", folder / "state", verb="start")
    wait.until(lambda: len(server.workers()) == 3, server.status)
    server.note_fds()
    return server


# --- commands of other tools ---

@pytest.mark.parametrize("word, command", [
    ("stop", "shutdown"), ("kill", "shutdown"), ("down", "shutdown"), ("ps", "status"), ("ls", "status"), ("list", "status"),
    ("get", "status"), ("describe", "status"), ("top", "status -w"), ("serve", "run"), ("up", "start"), ("apply", "deploy"),
    ("update", "deploy"), ("rm", "delete"), ("remove", "delete"), ("undo", "rollback"), ("predict", "infer"), ("call", "infer"),
    ("log", "logs"), ("validate", "check")])
def test_hints(word, command):
    for args in ((word,), ("help", word)):
        said = run(*args, code=2)
        assert f"no command '{word}'" in said.stderr and f"anyserve {command} " in said.stderr, said
        assert not said.stdout and len(said.stderr.splitlines()) <= 4


def test_words_without_a_hint():
    assert "did you mean 'status'?" in run("stauts", code=2).stderr
    assert "anyserve help" in run("frobnicate", code=2).stderr


# --- arguments that are options ---

def test_the_port_by_its_letter(server):
    place = ("--runtime-dir", server.runtime)
    assert run("status", "-p", server.port, *place, code=0).stdout
    assert run("status", f"-p{server.port}", *place, code=0).stdout
    assert run("logs", "-n1", *at(server), code=0).stdout.count("\n") == 1
    assert "--port needs a value" in run("status", "-p", code=2).stderr
    assert "--port=x: 'x' is not a whole number" in run("status", "-p", "x", code=2).stderr
    assert "unknown option -q" in run("status", "-q", code=2).stderr
    assert "unknown option -yx" in run("shutdown", "-yx", code=2).stderr  # a switch takes no value
    assert "unknown option -f" in run("status", "-f", code=2).stderr  # of another command


def test_logs_of_one(server):
    """By the name of a replica, of a process of the server, or of a deployment."""
    def logs(*names):
        return run("logs", *names, *at(server), code=0).stdout

    assert logs("dispatcher") == logs("--replica", "dispatcher") != ""
    assert logs("main-1") == logs("--replica", "main-1")
    of_main = logs("main")
    assert "[shop#main-0] " in of_main and "[shop#main-1] " in of_main and "side-0]" not in of_main
    assert logs("shop/main") == of_main == logs("--replica", "main")
    assert logs("shop/main-1") == logs("shop#main-1") == logs("main-1") and "shop#" not in logs("main-1")
    assert "[dispatcher] " in logs() and "[shop#main-0] " in logs()
    said = run("logs", "man", *at(server), code=66).stderr
    assert "no output of 'man' is kept" in said and "main-0" in said
    assert "too many arguments" in run("logs", "main", "side", *at(server), code=2).stderr


def test_logs_of_one_followed(server):
    with Watch("logs", "main", "-f", *at(server)) as watch:
        watch.log.wait(r"^\[shop#main-0\] module is imported")
        before = len(watch.log.lines)
        run("restart", "main", *at(server), code=0)
        watch.log.wait(r"^\[shop#main-\d\] module is imported", before)
        assert not watch.log.find(r"^\[(\w+#side|dispatcher)")
        watch.end(0)
    server.forget_fds()


def test_inputs_without_the_option(server):
    port = ("--url", server.address)
    said = run("infer", "main", "x:INT32=1,2", *port, "--json", code=0)
    assert json.loads(said.stdout) == {**json.loads(said.stdout), "model_name": "main"}
    both = run("infer", "main", "--input", "x:INT32=1,2", *port, "--json", code=0)
    assert json.loads(both.stdout)["outputs"] == json.loads(said.stdout)["outputs"]
    assert "'x' is given twice" in run("infer", "main", "x=1", "--input", "x=2", *port, code=2).stderr
    assert "'5' is not NAME=VALUE" in run("infer", "main", "5", *port, code=2).stderr
    assert "answers/s" in run("bench", "main", "x:INT32=1", "--requests", "5", "--warmup", "off", *port, code=0).stdout
    many = [f"x{i}=1" for i in range(256)]
    assert "x255" not in run("infer", "main", *many, *port, code=2).stderr  # as many as --input takes
    assert "more than 256 values of repeatable options" in run("infer", "main", *many, "y=1", *port, code=2).stderr


# --- names ---

@pytest.mark.parametrize("verb, more", [("restart", ()), ("rollback", ()), ("scale", ("1",)), ("scale", ("--reset",))])
def test_a_replica_is_named(server, verb, more):
    typed = " ".join(more)
    for name in "main-0", "shop/main-0", "default/main-0":
        said = run(verb, name, *more, *at(server), code=1).stderr
        assert "'main-0' is a replica of the deployment 'main'" in said, said
        assert f"anyserve {verb} shop/main {typed}".strip() in said and "404" not in said and "control.sock" not in said, said


def test_another_thing_is_named(server):
    def said(*args):
        text = run(*args, *at(server), code=1).stderr
        assert "404" not in text and "control.sock" not in text, text
        return text

    assert "there is no deployment 'man'; did you mean 'main'?" in said("restart", "man")
    assert "there is no deployment 'nothing'; there are: shop/main, extra/side" in said("restart", "nothing")
    assert "'main' is a deployment of the application 'shop': anyserve restart shop/main" in said("restart", "default/main")
    assert "'shop' is an application; name one of its deployments: shop/main" in said("restart", "shop")
    assert "there is no application 'shp'; did you mean 'shop'?" in said("delete", "shp")
    assert "there is no application 'nothing'; there are: shop, extra" in said("delete", "nothing")
    assert "'main' is a deployment of the application 'shop', which can only be deleted whole: anyserve delete shop" in said("delete", "main")
    assert "'side-0' is a replica of the deployment 'side'" in said("delete", "side-0")
    # what the server itself refuses is told in its words alone
    assert said("rollback", "main") == "anyserve: 'main' has no earlier generation to go back to\n"
