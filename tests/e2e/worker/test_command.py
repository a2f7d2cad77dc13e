"""Applications that are a `command`: any program that speaks the link is started, told, replaced and updated like a
Python one."""

import json
import os
import re

import numpy as np
import pytest

from support import paths, wait
from support.deployments import api, causes, deployment, failed, healthy, put, run
from support.load import Load
from support.process import procs

TOLD = paths.BUILD / "tests/workers/told"
QUICK = ("--update-min-ready", "30ms", "--restart-backoff", "10ms")


def spec(args=(), env=None, folder=None, **more):
    """The application `shop` with the deployment `main` of two replicas."""
    app = {"name": "shop", "command": [str(TOLD), "main", *args], "env": {"COLOUR": "red", "SIZE": "large"},
           "deployments": [{"name": "main", "num_replicas": 2, **more}]}
    if folder:
        app["working_dir"] = str(folder)
    if env:
        app["deployments"][0]["env"] = env
    return {"applications": [app]}


@pytest.fixture(scope="module")
def server(serve_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("command")
    (folder / "anyserve.yaml").write_text(json.dumps(spec(folder=folder)))
    server = serve_module(folder / "anyserve.yaml", "--state-dir", folder / "state", *QUICK, "--update-failures", "2",
                          verb="start")
    server.files = folder
    return server


def ask(client):
    """What one replica says of itself; its words without the model's."""
    got = client.infer("main", {"x": np.ones(1)}).outputs
    told = {k: v[0].decode() if isinstance(v[0], bytes) else int(v[0]) for k, v in got.items()}
    return {**told, "args": told["args"].split(";")[1:-1]}


def asked(client, n):
    assert client.infer("main", {"x": np.full(1, n)})["cwd"].size == 1


def replicas(server):
    return {r["rank"]: r["pid"] for r in deployment(server, "main")["replicas"]}


def serves(server, what, generation=None):
    """Deploys it and waits until it is served."""
    step = put(server, what)["shop/main"]
    healthy(server, generation=generation)
    return step


@pytest.mark.core
def test_it_is_started_as_the_file_says(server, client):
    serves(server, spec(["--quality", 80], {"SIZE": "small"}, server.files, version="1"))
    told = ask(client)
    assert told["args"] == ["--quality", "80"]
    assert os.path.realpath(told["cwd"]) == os.path.realpath(server.files)
    assert (told["colour"], told["size"]) == ("red", "small")  # the deployment's word over the application's
    context = json.loads(told["context"])
    assert (context["application"], context["deployment"], context["version"]) == ("shop", "main", "1")
    assert (context["world_size"], sorted(replicas(server))) == (2, [0, 1])
    assert told["pid"] in replicas(server).values()
    config = api(server, "GET", "/api/serve/config")[1]
    assert str(TOLD) in config and put(server, config) == {"shop/main": ("unchanged", "")}


def test_a_killed_one_is_replaced_in_its_place(server):
    serves(server, spec())
    before = replicas(server)
    with Load(server.address, asked, threads=4) as load:
        for rank in (0, 1, 0):
            victim = replicas(server)[rank]
            load.wait_more(20)
            procs.kill(victim)
            wait.until(lambda: replicas(server).get(rank, victim) != victim, server.status)
            healthy(server)
            load.wait_more(20)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])  # the model is idempotent
    after = replicas(server)
    assert sorted(after) == [0, 1] and not set(before.values()) & set(after.values())


@pytest.mark.parametrize("change", [{"version": "next"}, {"args": ["--faster"]}, {"env": {"SIZE": "huge"}}])
def test_another_version_rolls(server, client, change):
    serves(server, spec())
    before = set(replicas(server).values())
    with Load(server.address, asked, threads=4) as load:
        load.wait_more(20)
        assert serves(server, spec(**change)) == ("changed", "restart")
        load.wait_more(20)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    assert not before & set(replicas(server).values())
    told = ask(client)
    assert (told["args"], told["size"]) == (change.get("args", []), change.get("env", {}).get("SIZE", "large"))


def test_a_light_change_is_told(server, client):
    serves(server, spec(user_config={"top": 1}))
    before = set(replicas(server).values())
    assert json.loads(ask(client)["context"])["user_config"] == {"top": 1}
    assert serves(server, spec(user_config={"top": 7})) == ("changed", "reconfigure")
    assert {json.loads(ask(client)["config"])["user_config"]["top"] for _ in range(8)} == {7}
    assert set(replicas(server).values()) == before


def test_one_that_cannot_be_told_needs_another_version(server, client):
    serves(server, spec(env={"DEAF": "1"}))
    before = set(replicas(server).values())
    assert put(server, spec(env={"DEAF": "1"}, user_config={"top": 1}))["shop/main"] == ("changed", "reconfigure")
    assert "the worker cannot be reconfigured" in failed(server)
    assert set(replicas(server).values()) == before and "user_config" not in json.loads(ask(client)["context"])
    serves(server, spec(env={"DEAF": "1"}, user_config={"top": 1}, version="told"))
    assert json.loads(ask(client)["context"])["user_config"] == {"top": 1}


@pytest.mark.core
@pytest.mark.parametrize("bad, why", [
    ({"env": {"FAIL": "no weights"}}, "exit code 3.*no weights"),
    ({"command": ["/no/such/worker"]}, "cannot start /no/such/worker: No such file or directory"),
    ({"command": ["/bin/true"]}, "exit code 0"),
    ({"working_dir": "/no/such/folder"}, "cannot start in /no/such/folder: No such file or directory")])
def test_one_that_does_not_come_is_taken_back(server, client, bad, why):
    serves(server, spec())  # HEALTHY again, also where it is what the last failure went back to
    before = replicas(server)
    what = spec(env=bad.get("env"))
    what["applications"][0].update({k: v for k, v in bad.items() if k != "env"})
    assert put(server, what)["shop/main"] == ("changed", "restart")
    message = failed(server)
    assert re.search(why, message, re.S), message
    assert causes(server)[0].startswith("update of shop/main failed, back to generation ")
    assert replicas(server) == before and ask(client)["size"] == "large"


@pytest.mark.core
def test_one_that_never_came_says_why(serve, tmp_path):
    """The first version: there is none to go back to. `status` has the reason and the last lines."""
    (tmp_path / "anyserve.yaml").write_text(json.dumps(spec(env={"FAIL": "no weights"}, num_replicas=1)))
    server = serve(tmp_path / "anyserve.yaml", "--state-dir", tmp_path / "state", *QUICK, "--max-start-failures", "2",
                   verb="start")
    server.expect_error("worker_exit .*given up")
    d = deployment(server, "main")
    assert (d["status"], d["target_num_replicas"]) == ("DEPLOY_FAILED", 1)
    words = ("exit code 3", "loading main;", "no weights")
    assert all(word in d["message"] for word in words), d

    def shown():
        return run("status", "--runtime-dir", server.runtime, "--port", server.port).stdout
    wait.until(lambda: all(word in shown() for word in words), shown)  # the dispatcher hears of it a moment later
    put(server, spec(num_replicas=1))
    healthy(server, replicas=1)
    server.forget_fds()


def test_without_a_rollback_it_is_tried_on_beside_what_serves(serve, tmp_path, connect):
    (tmp_path / "anyserve.yaml").write_text(json.dumps(spec()))
    server = serve(tmp_path / "anyserve.yaml", "--state-dir", tmp_path / "state", *QUICK, "--update-failures", "2",
                   "--no-update-rollback", "--max-start-failures", "0", "--restart-backoff-max", "20ms", verb="start")
    healthy(server)
    before, client = replicas(server), connect(server)
    assert put(server, spec(env={"FAIL": "no weights"}))["shop/main"] == ("changed", "restart")
    for _ in range(4):  # twice as often as an update that is taken back
        server.log.wait(r"event=worker_exit replica=shop#main-\d .*last=\"no weights\"", len(server.log.lines))
    d = deployment(server, "main")
    assert "no weights" in d["message"] and d["status"] != "HEALTHY", d
    assert set(before.values()) <= set(replicas(server).values()) and ask(client)["size"] == "large"
    assert causes(server)[0] == "deploy"
    put(server, spec(env={"SIZE": "small"}))
    healthy(server)
    assert ask(client)["size"] == "small" and not set(before.values()) & set(replicas(server).values())
    server.forget_fds()
