"""Two applications with deployments of one name: each has its replicas, its number, its history, its lines of output."""

import numpy as np
import pytest

import chaos  # noqa: F401, of tests/e2e: the path of tests/chaos
from scenarios import upgrade as scenario

from support import wait
from support.deployments import APPLICATIONS, api, deployment, healthy, put, run
from support.process import procs
from support.protocol import prometheus

CODE = """
import os
import numpy as np
import anyserve
app = anyserve.AnyServe()
NAME, VERSION = os.environ["MODEL"].split(":")
print("this is", NAME, VERSION, flush=True)

@app.model(NAME, version=VERSION, deployment="main")
def m(x):
    return {"who": np.array([anyserve.get_replica_context().application.encode()], object)}
"""


@pytest.fixture
def spec(tmp_path):
    (tmp_path / "same.py").write_text(CODE)

    def spec(left=None, right=None, models=("a:1", "b:1")):
        return {"applications": [
            {"name": name, "import_path": "same:app", "working_dir": str(tmp_path), "env": {"MODEL": model},
             "deployments": [{"name": "main", **(keys or {})}]}
            for name, keys, model in (("left", left, models[0]), ("right", right, models[1]))]}
    return spec


def command(server, *args):
    done = run(*args, "--runtime-dir", server.runtime)
    server.forget_fds()
    return done.returncode, done.stdout, done.stderr


def served_by(client, model):
    return client.infer(model, {"x": np.array([1.0])}).outputs["who"][0].decode()


def ready(server, left=1, right=1):
    healthy(server, "main", left, "left")
    healthy(server, "main", right, "right")


def test_each_is_its_own(start, connect, spec):
    server = start(spec())
    ready(server)
    client = connect(server)
    assert (served_by(client, "a"), served_by(client, "b")) == ("left", "right")
    code, _, said = command(server, "scale", "main", "2")
    assert code == 1 and "several applications have a deployment 'main'; name one of them: left/main, right/main" in said
    assert command(server, "scale", "right/main", "2")[0] == 0
    ready(server, 1, 2)
    assert deployment(server, "main", "left")["target_num_replicas"] == 1
    page = server.status()
    assert sorted((d["application"], d["name"], d["wanted"]) for d in page["deployments"]) \
        == [("left", "main", 1), ("right", "main", 2)]
    assert sorted((r["application"], r["deployment"], r["name"]) for r in page["replicas"]) \
        == [("left", "main", "main-0"), ("right", "main", "main-0"), ("right", "main", "main-1")]
    metrics = prometheus.parse(server.metrics())
    assert prometheus.total(metrics, "anyserve_replicas_ready", application="right", deployment="main") == 2
    assert prometheus.total(metrics, "anyserve_worker_calls_total", application="left", replica="main-0") >= 1
    code, _, said = command(server, "logs", "main-0")
    assert code == 1 and "several applications have 'main-0'; name one of them: left/main-0 right/main-0" in said
    assert "this is a 1" in command(server, "logs", "left/main-0")[1]
    everything = command(server, "logs", "right/main")[1]
    assert "[right#main-1] this is b 1" in everything and "this is a" not in everything


def test_one_changes_and_the_other_does_not(start, spec):
    server = start(spec())
    ready(server)
    kept = [r["pid"] for r in deployment(server, "main", "right")["replicas"]]
    assert put(server, spec(left={"version": "two"})) == {"left/main": ("changed", "restart"), "right/main": ("unchanged", "")}
    healthy(server, "main", 1, "left", generation=2)
    assert command(server, "rollback", "left/main")[0] == 0
    healthy(server, "main", 1, "left", generation=3)
    history = api(server, "GET", "/api/serve/history")[1]["generations"]
    assert [[(c["application"], c["deployment"]) for c in g["changes"]] for g in history[:2]] == [[("left", "main")]] * 2
    assert [g["state"] for g in history] == ["healthy", "rolled back", "healthy"]
    assert [r["pid"] for r in deployment(server, "main", "right")["replicas"]] == kept
    assert api(server, "DELETE", APPLICATIONS + "left")[0] == 200
    wait.until(lambda: list(api(server, "GET", APPLICATIONS)[1]["applications"]) == ["right"], server.log.text)
    assert [r["pid"] for r in deployment(server, "main", "right")["replicas"]] == kept


def test_they_outlive_every_process_of_the_server(start, connect, spec):
    server = start(spec(right={"num_replicas": 2}))
    ready(server, 1, 2)
    assert command(server, "scale", "left/main", "3")[0] == 0
    ready(server, 3, 2)
    pids = [[r["pid"] for r in deployment(server, "main", name)["replicas"]] for name in ("left", "right")]
    done, _ = scenario.upgrade(server)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    for process in ("controller", "dispatcher"):
        old = getattr(server, process)
        procs.kill(old)
        wait.until(lambda: getattr(server, process) not in (None, old), server.log.text)
        ready(server, 3, 2)
    wait.until(server.all_ready, server.status)
    assert pids == [[r["pid"] for r in deployment(server, "main", name)["replicas"]] for name in ("left", "right")]
    client = connect(server)
    assert (served_by(client, "a"), served_by(client, "b")) == ("left", "right")
    server.expected += ["unexpected_exit", "child_exit", "worker_gone"]


def test_the_fallback_of_one_is_the_other(start, connect, spec):
    server = start(spec(left={"fallback": "right/main"}, models=("a:1", "a:2")))
    ready(server)
    assert command(server, "scale", "left/main", "0")[0] == 0
    client = connect(server)
    wait.until(lambda: not [r for r in server.status()["replicas"] if r["application"] == "left"], server.status)
    status, said = api(server, "PUT", APPLICATIONS, spec(left={"fallback": "main"}))
    assert status == 400 and "the deployments form a circle: main → main" in said["error"]
    status, said = api(server, "PUT", APPLICATIONS, spec(left={"fallback": "other/main"}))
    assert status == 400 and "there is no deployment 'other/main'" in said["error"]
    assert served_by(client, "a") == "right"
