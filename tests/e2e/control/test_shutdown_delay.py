"""--shutdown-delay: a server that is to end says so, and goes on serving until load balancers have seen it."""

import json
import signal

import numpy as np
import pytest

from support import wait
from support.process import procs
from support.protocol import http as rest
from support.protocol import oip

pytestmark = pytest.mark.core

ADD_ONE = json.dumps({"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}]}).encode()


def get(server, path):
    http = rest.Http1(server.host, server.port)
    try:
        return http.request("GET", path)
    finally:
        http.close()


def begin_end(server):
    procs.kill(server.supervisor, signal.SIGTERM)
    wait.until(lambda: server.get("/-/healthz") == (503, "draining\n"), "readiness to turn")


@pytest.mark.parametrize("threads", [1, 3])
def test_it_is_not_ready_and_serves(staged, threads):
    server = staged("--shutdown-delay", "1h", "--threads", threads)
    h1, h2 = rest.Http1(server.host, server.port), rest.Http2(server.host, server.port)
    with oip.Client(server.address) as client:
        assert client.infer("fast", {"x": np.array([1])})["y"] == 2
        assert h1.request("GET", "/v2/health/ready").status == h2.request("GET", "/v2/health/ready").status == 200
        begin_end(server)
        assert server.log.wait("event=drain signal=15 .*delay_ms=([0-9]+)")[1] == "3600000"
        for seen in h1.request("GET", "/v2/health/ready"), h2.request("GET", "/v2/health/ready"), \
                get(server, "/v2/health/ready"), get(server, "/v2/models/fast/ready"):
            assert seen.status == 503, seen
        assert get(server, "/v2/health/live").status == 200
        for _ in range(6):  # on connections that are kept, and on new ones, which may be any loop's
            assert client.infer("fast", {"x": np.array([1])})["y"] == 2
            assert h1.request("POST", "/v2/models/fast/infer", ADD_ONE).status == 200
            assert h2.request("POST", "/v2/models/fast/infer", ADD_ONE).status == 200
            with oip.Client(server.address) as other:
                assert other.infer("fast", {"x": np.array([1])})["y"] == 2
        reply = h1.request("POST", "/v2/models/fast/infer", ADD_ONE)
        assert reply.status == 200 and "connection" not in reply.headers
        assert not h2.conn.goaways
        server.stop(code=128 + signal.SIGTERM)  # a second one ends it at once
    h1.close()
    h2.close()


def test_then_it_drains(staged, stage):
    server = staged("--shutdown-delay", "3s", "--goaway-grace", "20ms")
    with oip.Client(server.address) as client:
        client.infer("fast", {"x": np.array([1])})
        procs.kill(server.supervisor, signal.SIGTERM)
        server.log.wait("event=leaving delay_ms=3000")
        call = client.begin("staged", {})  # it has come in time
        (scene,) = stage.started(1)
        server.log.wait("event=draining unanswered=1")
        scene.go()
        assert call.exception() is None
    server.ended()


def test_a_worker_that_dies_meanwhile_is_replaced(staged):
    server = staged("--shutdown-delay", "1h", "--restart-backoff", "10ms")
    begin_end(server)
    before = server.workers()
    procs.kill(*before.values())
    wait.until(lambda: server.workers() not in ({}, before), "the next worker")
    with oip.Client(server.address) as client:
        assert client.infer("fast", {"x": np.array([1])})["y"] == 2
    server.stop(code=128 + signal.SIGTERM)


def test_the_time_is_not_taken_from_the_drain(staged, stage):
    server = staged("--shutdown-delay", "2500ms", "--drain-timeout", "1ms", "--goaway-grace", "1ms", "--stop-timeout", "1ms")
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        stage.started(1)
        procs.kill(server.supervisor, signal.SIGTERM)
        server.log.wait("event=draining")
        assert call.exception() is not None
        server.log.wait("event=drain_timeout unanswered=1")
    server.ended()
