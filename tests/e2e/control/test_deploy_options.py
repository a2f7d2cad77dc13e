"""Options of a deployment that its workers are told: at the start, under load, and when they go again."""

import http.client
import json
import os

import grpc
import numpy as np
import pytest

from support import wait
from support.protocol.http import Unix

APP = """
import asyncio, logging
from anyserve import AnyServe
app = AnyServe()
go = asyncio.Event()

@app.model("wait", deployment="main")
async def wait(x):
    logging.getLogger("shop").info("waits")
    await go.wait()
    return x

@app.model("go", deployment="main", max_ongoing_requests=100)
async def let_go(x):
    logging.getLogger("shop").info("lets go")
    go.set()
    return x
"""
X = {"x": np.array([1.0])}
ONE = {"name": "x", "datatype": "FP64", "shape": [1], "data": [1.0]}
WARM = {"model": "go", "request": {"id": "warm", "inputs": [ONE]}}


def put(server, spec, status=200):
    c = Unix(os.path.join(server.folder_of_port(), "control.sock"))
    try:
        c.request("PUT", "/api/serve/applications/", json.dumps(spec))
        r = c.getresponse()
        text = r.read().decode()
        assert r.status == status, text
        return text
    finally:
        c.close()


@pytest.fixture
def file(tmp_path):
    """file(**options of the deployment) → the deployment file"""
    (tmp_path / "shop.py").write_text(APP)

    def file(**more):
        return {"applications": [{"import_path": "shop:app", "working_dir": str(tmp_path),
                                  "deployments": [{"name": "main", **more}]}]}
    return file


@pytest.fixture
def start(serve, tmp_path):
    def start(spec):
        path = tmp_path / "anyserve.yaml"
        path.write_text(json.dumps(spec))
        return serve(path, "--state-dir", tmp_path / "state", verb="start")
    return start


def slots(server):
    (replica,) = server.status()["replicas"]
    return replica["slots"]


def counts(server):
    (d,) = server.status()["deployments"]
    return d["ongoing"], d["queued"] + d["prefetched"]


def reach(look, want):
    wait.until(lambda: look() == want, look)


def test_limits_change_under_load(start, file, connect):
    server = start(file(max_ongoing_requests=2, max_queued_requests=1))
    client, pid = connect(server), server.worker()
    calls = [client.begin("wait", X) for _ in range(3)]
    reach(lambda: counts(server), (2, 1))
    assert client.begin("wait", X).exception().code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    put(server, file(max_ongoing_requests=1, max_queued_requests=4))  # fewer than execute, and more may wait
    reach(lambda: slots(server), 1)
    calls += [client.begin("wait", X) for _ in range(2)]
    reach(lambda: sum(counts(server)), 5)
    put(server, file(max_ongoing_requests=6, max_queued_requests=1))
    reach(lambda: slots(server), 6)
    reach(lambda: counts(server), (5, 0))  # all that waited
    calls.append(client.begin("go", X))
    assert all(c.result() is not None for c in calls)
    put(server, file())  # as the code says
    reach(lambda: slots(server), 100)
    assert server.worker() == pid


def refused_over_http(server):
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        c.request("POST", "/v2/models/wait/infer", json.dumps({"inputs": [ONE]}))
        r = c.getresponse()
        assert "queue" in json.loads(r.read())["error"]
        return r.status, r.headers["retry-after"]
    finally:
        c.close()


def test_how_clients_of_http_are_refused(start, file, connect):
    limits = {"max_ongoing_requests": 1, "max_queued_requests": 1}
    server = start(file(**limits, backpressure_config={"status_code": 429, "retry_after_s": 6.2}))
    client, pid = connect(server), server.worker()
    calls = [client.begin("wait", X) for _ in range(2)]
    reach(lambda: counts(server), (1, 1))
    assert refused_over_http(server) == (429, "7")
    assert client.begin("wait", X).exception().code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    put(server, file(**limits, backpressure_config={"retry_after_s": 0}))
    reach(lambda: refused_over_http(server), (503, "0"))
    put(server, file(**limits, backpressure_config={"status_code": 429}))
    reach(lambda: refused_over_http(server)[0], 429)
    assert int(refused_over_http(server)[1]) >= 1  # estimated
    put(server, file(**limits))
    reach(lambda: refused_over_http(server)[0], 503)
    put(server, file(max_ongoing_requests=3))
    reach(lambda: slots(server), 3)
    client.infer("go", X)
    assert all(c.result() is not None for c in calls)
    assert server.worker() == pid
    assert "backpressure_config: retry_after_s is not a number from 0 to 86400" in put(
        server, file(backpressure_config={"retry_after_s": 86401}), status=400)


def test_logging_changes_and_goes(start, file, connect):
    server = start(file(logging_config={"log_level": "INFO"}, warmup_requests=[WARM]))
    want = r"\[main-0\] time=\S+ level=info logger=shop replica=main-0 request=warm message=\"lets go\""
    server.log.wait(want)
    client, pid = connect(server), server.worker()
    put(server, file(logging_config={"encoding": "JSON"}, warmup_requests=[WARM]))
    server.log.wait(r'\[main-0\] \{.*"event": "reconfigured"')
    client.infer("wait", X)
    line = server.log.wait(r'\[main-0\] (\{.*"message": "waits".*\})')[1]
    row = json.loads(line)
    assert {k: row[k] for k in ("level", "logger", "replica", "deployment", "application")} == {
        "level": "info", "logger": "shop", "replica": "main-0", "deployment": "main", "application": "default"}
    put(server, file(logging_config={"log_level": "ERROR"}, warmup_requests=[WARM]))
    server.log.wait(r"\[main-0\] time=\S+ level=info event=reconfigured")
    seen = len(server.log.lines)
    client.infer("wait", X)
    put(server, file(warmup_requests=[WARM]))
    server.log.wait("event=reconfigured", since=seen)
    client.infer("wait", X)
    assert not any("waits" in line for line in server.log.lines[seen:])
    assert server.worker() == pid


def test_a_warm_up_that_fails_is_taken_back(start, file, connect):
    """Another warm-up is another version: it becomes healthy, or what was there stays."""
    server = start(file())
    client, pid = connect(server), server.worker()
    bad = {"model": "go", "request": {"inputs": [{**ONE, "name": "y"}]}}
    put(server, file(warmup_requests=[bad]))
    server.log.wait(r"warmup_requests\[0\]: model 'go' failed in run 1 of 1: INVALID_ARGUMENT: missing input 'x'")
    assert client.infer("go", X)
    put(server, file(warmup_requests=[WARM]))
    server.log.wait("event=warmed_up requests=1")
    wait.until(lambda: pid not in server.workers().values(), lambda: server.status())
