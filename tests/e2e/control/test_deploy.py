"""A deployment file is served, and changed while it is served: `anyserve start`, PUT and DELETE of the control API."""

import contextlib
import copy
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import grpc
import numpy as np
import pytest

from support import paths, ports, wait
from support.deployments import APPLICATIONS, QUICK, api, causes, deployment, failed, healthy, procs_env, put, run, spec
from support.load import Load
from support.process import procs
from support.protocol import oip
from support.protocol.http import Unix

def pids(server, name):
    return {r["pid"] for r in deployment(server, name, "shop" if name == "main" else "extra")["replicas"]}


def ask(client, model="main"):
    got = client.infer(model, {"x": np.array([1.0])})
    return {k: v[0].decode() if isinstance(v[0], bytes) else v[0] for k, v in got.outputs.items()}


@pytest.fixture(scope="module")
def server(serve_module, tmp_path_factory):
    """For tests that change nothing."""
    folder = tmp_path_factory.mktemp("state")
    (folder / "anyserve.yaml").write_text(json.dumps(spec()))
    return serve_module(folder / "anyserve.yaml", "--state-dir", folder / "state", *QUICK, verb="start")


def called(client, n):
    assert client.infer("main", {"x": np.array([n])})["x"] == n


def test_two_applications(start, connect):
    server = start(spec())
    healthy(server)
    healthy(server, "side", 1, "extra")
    client = connect(server)
    assert ask(client) | {"pid": 0} == {"x": 1, "pid": 0, "top": 1, "size": 0, "version": "", "application": "shop"}
    assert ask(client, "side")["application"] == "extra"
    text = api(server, "GET", "/api/serve/config")[1]
    assert "name: shop" in text and "user_config: {\"top\":1}" in text and "request_timeout_s" not in text
    assert api(server, "PUT", APPLICATIONS + "?dry_run=1", text)[1] == {"changes": [
        {"application": a, "deployment": d, "step": "unchanged", "class": "", "keys": ""}
        for a, d in (("shop", "main"), ("extra", "side"))]}
    # the dispatcher hears of it from the controller, by way of the supervisor
    wait.until(lambda: {(a["name"], a["status"]) for a in server.status()["applications"]} == {
        ("shop", "RUNNING"), ("extra", "RUNNING")}, server.status)


def test_a_deployment_is_known_by_its_own_name(start):
    """Whichever application it is of."""
    server = start(spec())
    healthy(server)

    def scale(*args):
        done = run("scale", *args, "--runtime-dir", server.runtime)
        return done.returncode, done.stdout.strip(), done.stderr.strip().splitlines()[-1:]

    assert scale("side", "2")[:2] == (0, "extra/side is healthy")
    healthy(server, "side", app="extra")
    assert scale("main", "1", "--no-wait")[:2] == (0, "shop/main changes")
    assert scale("shop/main", "2")[:2] == (0, "shop/main is healthy")
    assert scale("shop/side", "2") == (1, "", ["anyserve: 'side' is a deployment of the application 'extra': anyserve scale extra/side 2"])
    assert scale("other", "2") == (1, "", ["anyserve: there is no deployment 'other'; there are: shop/main, extra/side"])
    assert scale("side", "1")[0] == 0


def test_light_changes_restart_nothing(start, connect):
    server = start(spec())
    healthy(server)
    before, client = pids(server, "main"), connect(server)
    assert put(server, spec(user_config={"top": 5})) == {"shop/main": ("changed", "reconfigure"),
                                                          "extra/side": ("unchanged", "")}
    healthy(server, generation=2)
    assert {ask(client)["top"] for _ in range(8)} == {5}
    assert put(server, spec(user_config={"top": 5}, graceful_shutdown_timeout_s=3))["shop/main"] == ("changed", "light")
    assert put(server, spec(user_config={"top": 5}, graceful_shutdown_timeout_s=3))["shop/main"] == ("unchanged", "")
    assert api(server, "GET", APPLICATIONS)[1]["generation"] == 3
    assert pids(server, "main") == before
    assert put(server, spec(num_replicas=3))["shop/main"][0] == "changed"
    healthy(server, replicas=3)
    assert before < pids(server, "main")
    assert {ask(client)["top"] for _ in range(9)} == {1}
    put(server, spec())
    healthy(server)


def test_a_version_rolls_without_a_failure(start):
    server = start(spec(version="1"))
    healthy(server)
    before = pids(server, "main")
    with Load(server.address, called, threads=4) as load:
        load.wait_more(50)
        assert put(server, spec(version="2"))["shop/main"] == ("changed", "restart")
        healthy(server, generation=2)
        load.wait_more(50)
        assert not before & pids(server, "main")
        status, answer = api(server, "POST", "/api/v1/applications/shop/deployments/main/rollback")
        assert (status, answer) == (200, {"generation": 3})
        healthy(server, generation=3)
        load.wait_more(50)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    with oip.Client(server.address) as client:
        assert ask(client)["version"] == "1"
    assert sorted(r["rank"] for r in deployment(server, "main")["replicas"]) == [0, 1]
    assert causes(server)[0] == "rollback main to generation 1"


def test_versions_with_other_models(start):
    """A model that only one version has is never asked of the other's replicas."""
    def mixed(models):
        return {"applications": [{"name": "shop", "import_path": "named:app", "working_dir": str(paths.APPS),
                                  "env": {"MODELS": models}, "deployments": [{"name": "main"}]}]}

    def call(name):
        def call(client, n):
            outcomes[name].append(("wrong", None))
            outcomes[name][-1] = ("OK", int(client.infer(name, {"x": np.array([1.0])})["pid"][0]))
        return call

    outcomes = {"old": [], "both": [], "new": []}
    server = start(mixed("old,both"))
    healthy(server, replicas=1)
    before = pids(server, "main")
    with Load(server.address, call("old"), 1) as old, Load(server.address, call("both"), 2) as both, \
            Load(server.address, call("new"), 1) as new:
        both.wait_more(20)
        new.wait_more(5, "NOT_FOUND")
        put(server, mixed("both,new"))
        new.wait_more(5)
        healthy(server, replicas=1, generation=2)
        old.wait_more(5, "NOT_FOUND")
        both.wait_more(20)
    after = pids(server, "main")
    assert set(both.outcomes) == {"OK"}, both.outcomes
    assert set(new.outcomes) == {"OK", "NOT_FOUND"}, new.outcomes
    assert set(old.outcomes) <= {"OK", "NOT_FOUND", "UNAVAILABLE"} and old.count("UNAVAILABLE") <= 1, old.outcomes
    asked = {name: {pid for outcome, pid in calls if outcome == "OK"} for name, calls in outcomes.items()}
    assert asked["old"] == before and asked["new"] == after and asked["both"] == before | after
    answers = [outcome for outcome, _ in outcomes["new"]]
    assert answers == sorted(answers, reverse=True)  # unknown, then served: never anything else again
    assert server.workers()
    server.log.wait("event=model_gone deployment=shop#main model=old version=1")
    assert not server.log.find("event=worker_exit")


@pytest.mark.parametrize("bad, why, options", [
    ({"env": {"BREAK_IMPORT": "1"}}, "this version cannot be imported", ("--update-failures", "2")),
    # the time is that of the good version as well, on a machine that may be busy
    ({"env": {"HANG": "1"}}, "it was not ready in time", ("--update-failures", "1", "--start-timeout", "10s")),
    ({"user_config": {"refuse": 1}}, "this config is refused", ("--update-failures", "2"))])
def test_a_bad_version_is_taken_back(start, bad, why, options):
    server = start(spec(version="1"), *options)
    healthy(server)
    before = pids(server, "main")
    with Load(server.address, called, threads=4) as load:
        load.wait_more(50)
        assert put(server, spec(version="1", **bad))["shop/main"][0] == "changed"
        assert why in failed(server)
        load.wait_more(50)
        assert pids(server, "main") == before
        assert causes(server)[0].startswith("update of shop/main failed, back to generation 1: ")
        newest = api(server, "GET", "/api/serve/history")[1]["generations"][0]["failed"]
        assert (newest["application"], newest["deployment"]) == ("shop", "main") and why in newest["message"]
        # the next controller neither tries it again nor forgets it
        first = server.controller
        procs.kill(first)
        wait.until(lambda: server.controller not in (None, first), server.log.text)
        assert why in failed(server)
        load.wait_more(50)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    assert pids(server, "main") == before
    assert put(server, spec(version="1", user_config={"top": 2}))["shop/main"][0] == "changed"
    healthy(server)


def test_removed_and_back(start, connect):
    server = start(spec())
    healthy(server)
    client = connect(server)
    status, answer = api(server, "DELETE", APPLICATIONS + "shop")
    assert status == 200 and [c["step"] for c in answer["changes"]] == ["unchanged", "removed"]
    wait.until(lambda: "shop" not in api(server, "GET", APPLICATIONS)[1]["applications"], server.status)
    # the dispatcher hears of it by way of the supervisor
    wait.until(lambda: [a["name"] for a in server.status()["applications"]] == ["extra"], server.status)
    wait.until(lambda: [d["name"] for d in server.status()["deployments"]] == ["side"], server.status)
    assert client.refused("main", {"x": np.ones(1)}).code() == grpc.StatusCode.NOT_FOUND
    assert ask(client, "side")["application"] == "extra"
    assert put(server, spec())["shop/main"] == ("added", "")
    healthy(server)
    assert ask(client)["top"] == 1
    assert api(server, "DELETE", APPLICATIONS)[0] == 200
    wait.until(lambda: not api(server, "GET", APPLICATIONS)[1]["applications"], server.status)
    wait.until(lambda: server.workers() == {}, server.status)
    assert api(server, "DELETE", APPLICATIONS + "shop")[0] == 404


def test_what_was_executing_is_answered_when_it_is_removed(serve, stage, connect, tmp_path):
    stage.reset()
    file = tmp_path / "a.yaml"
    file.write_text(f"applications: [{{import_path: staged.py, working_dir: {paths.APPS}}}]")
    server = serve(file, "--state-dir", tmp_path / "state", verb="start", env={"ANYSERVE_TEST_STAGE": stage.path})
    client = connect(server)
    call = client.begin("staged", {})
    (scene,) = stage.started(1)
    waits = client.begin("staged", {})
    wait.until(lambda: server.deployment()["queued"] + server.deployment()["prefetched"] == 1, server.status)
    assert api(server, "DELETE", APPLICATIONS)[0] == 200
    assert waits.code() == grpc.StatusCode.UNAVAILABLE  # no replica will take it
    assert client.refused("staged", {}).code() == grpc.StatusCode.NOT_FOUND
    scene.go()
    assert call.exception() is None
    wait.until(lambda: not server.workers(), server.status)


@pytest.mark.parametrize("text, want", [
    ("applications: [{import_path: a, import_path: b}]", "request:1:33: import_path: duplicate key"),
    ("applications:\n  - import_path: deployed:app\n    deploymnts: []", "did you mean deployments?"),
    ("applications: [{import_path: 'nothing.such'}]", "no module named 'nothing"),
    ("", "request:1:1: expected a mapping of file keys"),
    (json.dumps(spec(num_replicas=1025)), "num_replicas"),
    (json.dumps({"applications": [{"import_path": "deployed:app", "working_dir": str(paths.APPS),
                                   "env": {"BREAK_IMPORT": "1"}}]}), "this version cannot be imported"),
    (json.dumps({"applications": [{"import_path": "deployed:app", "working_dir": "/nowhere"}]}), "/nowhere"),
    (json.dumps(spec(env={"A": "x" * 40000})), "at most 40000")])
def test_what_is_wrong_changes_nothing(server, text, want):
    healthy(server)
    before = pids(server, "main")
    status, answer = api(server, "PUT", APPLICATIONS, text)
    assert status == 400 and want in answer["error"], answer
    assert (api(server, "GET", APPLICATIONS)[1]["generation"], pids(server, "main")) == (1, before)
    assert len(causes(server)) == 1


def test_one_at_a_time(start):
    server = start(spec())
    slow = copy.deepcopy(spec(version="2"))
    slow["applications"][0]["env"] = {"SLOW_IMPORT": "5"}
    c = Unix(os.path.join(server.folder_of_port(), "control.sock"))
    c.request("PUT", APPLICATIONS, json.dumps(slow))
    wait.until(lambda: any("--describe" in procs.command(p) for p in server.family()), server.log.text)
    status, answer = api(server, "PUT", APPLICATIONS, spec(version="3"))
    assert status == 409 and "another deployment file is being read" in answer["error"]
    c.close()  # who asked for it has gone: nothing comes of it
    wait.until(lambda: not any("--describe" in procs.command(p) for p in server.family()), server.log.text)
    assert put(server, spec(version="3"))["shop/main"] == ("changed", "restart")
    healthy(server, generation=2)


def test_a_controller_that_dies_in_an_update_is_followed(start):
    server = start(spec(version="1"))
    healthy(server)
    with Load(server.address, called, threads=4) as load:
        for n in range(2, 5):
            load.wait_more(20)
            assert put(server, spec(version=str(n)))["shop/main"] == ("changed", "restart")
            for _ in range(2):
                first = server.controller
                procs.kill(first)
                wait.until(lambda: server.controller not in (None, first), server.log.text)
                load.wait_more(10)
            healthy(server, generation=n)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    with oip.Client(server.address) as client:
        assert {ask(client)["version"] for _ in range(8)} == {"4"}


def test_started_again_from_its_state(start, connect):
    server = start(spec(version="1"))
    healthy(server)
    put(server, spec(version="2", user_config={"top": 2}))
    healthy(server, generation=2)
    server.stop()
    server = start(None)
    healthy(server)
    assert "generation 2, as it is stored" in server.log.text()
    assert (ask(connect(server))["version"], ask(connect(server))["top"]) == ("2", 2)
    assert api(server, "POST", "/api/v1/applications/shop/deployments/main/rollback")[0] == 200  # known from the state
    healthy(server, generation=3)
    assert ask(connect(server))["version"] == "1"
    server.stop()
    server = start(spec(version="1"))  # the same file makes no generation
    healthy(server)
    assert api(server, "GET", APPLICATIONS)[1]["generation"] == 3
    server.stop()
    server = start(spec(version="9"))
    assert "replaces generation 3" in server.log.text()
    healthy(server, generation=4)


def test_what_cannot_start_does_not_end_the_server(start, connect):
    """It is ready when that is known, and the next deploy mends it."""
    server = start(spec(env={"BREAK_IMPORT": "1"}))
    server.expect_error("worker_exit .*given up")
    assert server.log.find(r"^Ready: .* \(1 of 3 replicas, ")
    assert "this version cannot be imported" in deployment(server, "main")["message"]
    assert api(server, "GET", APPLICATIONS)[1]["applications"]["shop"]["status"] == "DEPLOY_FAILED"
    client = connect(server)
    assert ask(client, "side")["application"] == "extra"
    put(server, spec())
    healthy(server)
    assert ask(client)["top"] == 1
    server.forget_fds()


def test_a_server_that_starts_with_nothing(start, connect):
    server = start(None)
    assert api(server, "GET", APPLICATIONS)[1]["applications"] == {}
    assert put(server, spec()) == {"shop/main": ("added", ""), "extra/side": ("added", "")}
    healthy(server)
    assert ask(connect(server))["top"] == 1
    put(server, {"applications": []})
    wait.until(lambda: not server.workers(), server.status)


def test_a_long_user_config(start, connect):
    """Longer than a variable of the environment, a control message and a CONTROL frame."""
    server = start(spec(user_config={"text": "x" * 1000000}))
    healthy(server)
    client, before = connect(server), pids(server, "main")
    assert ask(client)["size"] == 1000000
    assert put(server, spec(user_config={"text": "y" * 999999}))["shop/main"] == ("changed", "reconfigure")
    healthy(server, generation=2)
    assert {ask(client)["size"] for _ in range(8)} == {999999}
    assert pids(server, "main") == before
    wait.until(lambda: not [f for f in os.listdir(server.folder_of_port()) if f.startswith("context-")],
               lambda: os.listdir(server.folder_of_port()))


def test_a_new_application_does_not_make_the_server_unready(start):
    server = start(spec())
    more = spec()
    more["applications"].append({"name": "third", "import_path": "echo:app", "working_dir": str(paths.APPS)})
    put(server, more)
    assert deployment(server, "echo", "third")["status"] == "UPDATING"
    assert server.status()["server"]["ready"]
    healthy(server, "echo", 1, "third")
    put(server, spec())
    wait.until(lambda: len(server.workers()) == 3, server.status)


def test_a_relative_interpreter_with_a_working_dir(start):
    server = start(spec(), "--python", os.path.relpath(sys.executable, paths.E2E), cwd=paths.E2E)
    healthy(server)
    assert put(server, spec(version="2"))["shop/main"] == ("changed", "restart")
    healthy(server, generation=2)


def test_what_run_serves_is_changed_too(serve, connect):
    server = serve("echo.py", *QUICK)
    text = api(server, "GET", "/api/serve/config")[1]
    assert "import_path: echo.py" in text
    put(server, text + "        version: two\n")
    healthy(server, "echo", 1, "default", 2)
    client = connect(server)
    assert client.infer("echo", {"x": np.ones(1)})["x"] == 1
    assert causes(server) == ["deploy", "run"]


def test_devices_are_taken_and_given_back(start):
    env = {"CUDA_VISIBLE_DEVICES": "0,1"}
    server = start(spec(num_gpus=1), "--update-failures", "2", env=env)
    healthy(server)

    def visible():
        return sorted(procs_env(r["pid"])["CUDA_VISIBLE_DEVICES"] for r in deployment(server, "main")["replicas"])
    assert visible() == ["0", "1"]
    first = server.controller
    procs.kill(first)
    wait.until(lambda: server.controller not in (None, first), server.log.text)
    victim = sorted(pids(server, "main"))[0]
    procs.kill(victim)
    wait.until(lambda: victim not in pids(server, "main"), server.status)
    healthy(server)
    assert visible() == ["0", "1"]
    put(server, spec(num_gpus=1, num_replicas=3))
    wait.until(lambda: "fewer of the 2 are free" in deployment(server, "main")["message"],
               lambda: deployment(server, "main"))
    server.expect_error("worker_exit .*given up")
    put(server, spec(num_gpus=1))
    healthy(server)
    assert visible() == ["0", "1"]


@pytest.mark.parametrize("text, code, want", [
    ("applications: [{}]", 78, "bad.yaml:1:16: "), (None, 66, "bad.yaml"),
    ("applications: [{import_path: nothing.such}]", 66, "bad.yaml:1:16: import_path: application 'default' cannot be loaded")])
def test_a_bad_file_starts_nothing(tmp_path, text, code, want):
    if text is not None:
        (tmp_path / "bad.yaml").write_text(text)
    done = run("start", tmp_path / "bad.yaml", "--state-dir", tmp_path / "state", "--runtime-dir", tmp_path / "run",
               "--port", "0", "--status-port", "0", "--python", sys.executable)
    assert done.returncode == code and want in done.stderr, done


def test_an_empty_state_is_not_a_new_one(start, tmp_path):
    server = start(spec())
    healthy(server)
    server.stop()
    os.truncate(tmp_path / "state" / "state.db", 0)
    done = run("start", "--state-dir", tmp_path / "state", "--runtime-dir", tmp_path / "run", "--port", "0",
               "--status-port", "0", "--python", sys.executable)
    assert done.returncode == 78 and "state.db is empty (0 bytes)" in done.stderr, done
    (tmp_path / "state" / "state.db").unlink()  # as it says
    server = start(None)
    assert "nothing yet, as generation 1" in server.log.text()


def test_a_change_that_cannot_be_stored_is_logged_as_it_is_answered(serve):
    server = serve("echo.py")
    server.expect_error("event=state_not_written")
    os.mkdir(os.path.join(server.folder_of_port(), "state.db"))  # where its first change is kept
    for n in 2, 3:
        status, answer = api(server, "POST", "/api/v1/applications/default/deployments/echo/scale",
                             {"target_num_replicas": n})
        assert status == 503 and "state.db" in answer["error"], answer
        assert server.log.wait(rf'event=state_not_written what="scale echo to {n}" reason="(.*)"')[1] == answer["error"]
    assert len(server.workers()) == 1
    os.rmdir(os.path.join(server.folder_of_port(), "state.db"))


@pytest.fixture
def small_disk(tmp_path):
    """A file system that is full with 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "tmpfs", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr}")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_logged(serve, small_disk, tmp_path):
    (tmp_path / "anyserve.yaml").write_text(json.dumps(spec()))
    server = serve(tmp_path / "anyserve.yaml", "--state-dir", small_disk, *QUICK, verb="start")
    healthy(server)
    server.expect_error("event=state_not_written")
    with open(small_disk / "filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while f.write(b"x" * 512):
            pass
    status, answer = api(server, "PUT", APPLICATIONS, spec(user_config={"top": 2, "text": "x" * 100000}))
    assert status == 503 and "full" in answer["error"], answer
    assert "full" in server.log.wait('event=state_not_written what=deploy reason="(.*)"')[1]
    (small_disk / "filler").unlink()
    put(server, spec(user_config={"top": 2}))
    healthy(server, generation=2)
    server.stop()


def test_one_server_per_state(start, tmp_path):
    start(spec())
    done = run("start", "--state-dir", tmp_path / "state", "--runtime-dir", tmp_path / "run", "--port", "0",
               "--status-port", "0", "--python", sys.executable)
    assert done.returncode == 75 and "another server uses" in done.stderr, done


def test_one_server_per_state_also_without_a_controller(start, tmp_path):
    """Nobody has the store open while a controller is dead: here for as long as its supervisor is stopped."""
    server = start(spec())
    healthy(server)
    first = server.controller
    os.kill(server.supervisor, signal.SIGSTOP)
    try:
        procs.kill(first)
        done = run("start", "--state-dir", tmp_path / "state", "--runtime-dir", tmp_path / "run", "--port", "0",
                   "--status-port", "0", "--python", sys.executable)
        assert done.returncode == 75 and "another server uses" in done.stderr, done
    finally:
        os.kill(server.supervisor, signal.SIGCONT)
    wait.until(lambda: server.controller not in (None, first), server.log.text)
    healthy(server)


def test_a_failed_update_is_kept_whatever_its_names_are(start, tmp_path):
    name, application = "n" * 128, "a" * 127
    (tmp_path / "long_names.py").write_text(f"""
import os
import anyserve
if os.environ.get("BREAK"):
    raise RuntimeError("\\n".join(["x" * 200] * 10))
app = anyserve.AnyServe()

@app.model("m", deployment="{name}")
def m(x):
    return x
""")

    def long(**env):
        return {"applications": [{"name": application, "import_path": "long_names:app", "working_dir": str(tmp_path),
                                  "deployments": [{"name": name, "env": env}]}]}
    server = start(long(), "--update-failures", "1")
    put(server, long(BREAK="1"))
    wait.until(lambda: deployment(server, name, application)["status"] == "DEPLOY_FAILED", server.log.text)
    (cause, *_) = causes(server)
    assert cause.startswith(f"update of {application}/{name} failed, back to generation 1: ") and "xxx" in cause
    status, said = api(server, "PUT", APPLICATIONS, json.dumps({"applications": [
        {"name": "a" * 128, "import_path": "long_names:app", "working_dir": str(tmp_path)}]}))
    assert status == 400 and "1 to 127 bytes" in said["error"]


def test_detached(tmp_path):
    file = tmp_path / "anyserve.yaml"
    file.write_text(json.dumps(spec()))
    port = ports.free()
    with tempfile.TemporaryDirectory(prefix="as-", dir="/tmp") as runtime:
        args = ("start", file, "--state-dir", tmp_path / "state", "--runtime-dir", runtime, "--port", port,
                "--status-port", "0", "--python", sys.executable, "--detach")
        done = run(*args)
        assert done.returncode == 0 and f"Ready: 127.0.0.1:{port}" in done.stderr, done
        with open(os.path.join(runtime, str(port), "lock")) as f:
            pid = int(f.read())
        try:
            assert f"pid {pid}" in done.stderr
            with oip.Client(f"127.0.0.1:{port}") as client:
                assert ask(client)["top"] == 1
            again = run(*args)
            assert again.returncode == 75 and f"port {port}" in again.stderr
            assert "Ready: " in (tmp_path / "state" / "server.log").read_text()
        finally:
            os.kill(pid, signal.SIGTERM)
        wait.until(lambda: not procs.alive(pid), "the server to end")
        assert "notify_failed" not in (tmp_path / "state" / "server.log").read_text()


TALKS = """
from anyserve import AnyServe

app = AnyServe()


@app.model("talks")
def talks(n):
    for i in range(int(n[0])):
        print(f"line {i:07d} " + "x" * 500, flush=True)
    return n
"""


def read_all(paths):
    """The bytes of those files that are still there: a file of the log is renamed at any time."""
    found = b""
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            found += path.read_bytes()
    return found


def test_the_log_of_a_detached_server_is_bounded(tmp_path):
    """8 MB of a handler's output."""
    state, limit = tmp_path / "state", 256 << 10
    (tmp_path / "talks.py").write_text(TALKS)
    (tmp_path / "anyserve.yaml").write_text(json.dumps({"applications": [
        {"name": "talks", "import_path": "talks:app", "working_dir": str(tmp_path)}]}))
    port = ports.free()
    with tempfile.TemporaryDirectory(prefix="as-", dir="/tmp") as runtime:
        done = run("start", tmp_path / "anyserve.yaml", "--state-dir", state, "--runtime-dir", runtime, "--port", port,
                   "--status-port", "0", "--python", sys.executable, "--detach", "--log-file-size", "256K",
                   "--log-files", "2")
        assert done.returncode == 0, done
        pid = int(re.search(r"in the background, pid (\d+)", done.stderr)[1])
        try:
            with oip.Client(f"127.0.0.1:{port}") as client:
                client.infer("talks", {"n": np.array([16000])})
                wait.until(lambda: b"line 0015999 " in read_all(state.glob("server.log*")), "the last line")
                sizes = {p.name: p.stat().st_size for p in state.glob("server.log*")}
                assert sorted(sizes) == ["server.log", "server.log.1", "server.log.2"]
                assert max(sizes.values()) <= 2 * limit, sizes
                # dispatcher and controller write on where it begins anew, in one line after the other
                os.kill(pid, signal.SIGTERM)
                wait.until(lambda: not procs.alive(pid), "the server to end")
        finally:
            if procs.alive(pid):
                os.kill(pid, signal.SIGKILL)
        text = (state / "server.log").read_bytes()
        assert b"event=drained" in text and b"\0" not in text
        kept = b"".join((state / name).read_bytes() for name in ("server.log.2", "server.log.1", "server.log"))
        numbers = [int(n) for n in re.findall(rb"line (\d{7}) x{500}\n", kept)]
        assert numbers == list(range(numbers[0], 16000)), "lines are lost in between"


@pytest.mark.parametrize("size, begins_anew", [(16 << 20, False), ((16 << 20) + 1, True)])
def test_a_long_log_of_a_detached_server_begins_anew(tmp_path, size, begins_anew):
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    (state / "server.log").touch()
    os.truncate(state / "server.log", size)
    with tempfile.TemporaryDirectory(prefix="as-", dir="/tmp") as runtime:
        done = run("start", "--state-dir", state, "--runtime-dir", runtime, "--port", "0", "--status-port", "0",
                   "--python", sys.executable, "--detach")
        pid = int(re.search(r"\bpid (\d+)", done.stderr)[1])
        os.kill(pid, signal.SIGTERM)
        wait.until(lambda: not procs.alive(pid), "the server to end")
    assert done.returncode == 0, done
    assert (state / "server.log.1").exists() == begins_anew
    assert ((state / "server.log").stat().st_size < 1 << 20) == begins_anew
    assert "Ready: " in (state / "server.log").read_bytes()[0 if begins_anew else size:].decode()
