"""Streams whose client stops in the middle: --send-timeout and --body-timeout hold for them as for single answers.

Time is told by a second stream that has stopped as well: when that one is given up, the other was looked at too.
"""

import json
import socket

import grpc
import numpy as np
import pytest

from support import wait
from support.protocol import oip, prometheus
from support.protocol.h2client import H2, messages_of, prefixed
from support.protocol.raw import HOST, Raw

pytestmark = pytest.mark.core

CANCEL = 8
LEAST = 2000  # --min-progress
# A second: who reads a little every 20 ms is itself not scheduled for a third of one on a busy machine.
OPTIONS = ("--send-timeout", "1s", "--body-timeout", "1s", "--min-progress", LEAST)
TOLD = ("closed", "GeneratorExit", "CancelledError")


@pytest.fixture(autouse=True)
def empty_stage(stage):
    stage.reset()


@pytest.fixture(scope="module")
def server(serve_module, stage):
    return serve_module("streaming.py", *OPTIONS, "--threads", 2, env={"ANYSERVE_TEST_STAGE": stage.path})


@pytest.fixture(scope="module")
def events(serve_module, stage):
    return serve_module("generating.py", *OPTIONS, env={"ANYSERVE_TEST_STAGE": stage.path})


def one(model, id="", n=None):
    inputs = {} if n is None else {"n": np.array([n], np.int32)}
    return prefixed(oip.infer_request(model, inputs, id=id).SerializeToString())


def begin(http, model, id, deaf=False):
    """A ModelStreamInfer with one request on it."""
    call = http.open_grpc("ModelStreamInfer")
    if deaf:
        http.deaf.add(call)
    http.send(call, one(model, id))
    return call


def post_events(http, id):
    call = http.open([(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/endless/generate_stream"),
                      (":authority", "localhost")])
    http.deaf.add(call)
    http.send(call, json.dumps({"n": 1, "id": id}).encode(), end=True)
    return call


def stalled(server, part):
    return prometheus.total(prometheus.parse(server.metrics()), "anyserve_requests_stalled_total", part=part)


def values(reply):
    found = [oip.messages()["ModelStreamInferResponse"].FromString(m) for _, m in messages_of(reply.data)]
    return [int(oip.Answer(m.infer_response)["output0"][0]) for m in found]


# --- answers ---

@pytest.mark.parametrize("model", ["endless_sync", "endless_threads", "endless_async"])
def test_a_stream_that_nobody_reads_is_ended_and_others_live_on(server, stage, model):
    before = stalled(server, "answer")
    with H2(server.host, server.port) as http:
        other = begin(http, "one_then_wait", "other")
        (waits,) = stage.started(1)
        http.send(other, b"", end=True)  # the client's own end is not that of the answer
        deaf = begin(http, model, "deaf", deaf=True)
        scene = stage.started(2)[1]
        assert http.reply(deaf).reset == CANCEL
        assert scene.last_word() in TOLD
        assert stalled(server, "answer") == before + 1
        wait.until(lambda: sum(d["ongoing"] for d in server.status()["deployments"]) == 1, lambda: server.status())
        server.log.wait("event=request_stalled part=answer method=ModelStreamInfer")
        waits.go()
        assert values(http.reply(other)) == [1, 2]
        assert http.replies[other].grpc_status == 0


def test_events_that_nobody_reads_are_ended(events, stage):
    before = stalled(events, "answer")
    with H2(events.host, events.port) as http:
        deaf = post_events(http, "deaf")
        (scene,) = stage.started(1)
        assert http.reply(deaf).reset == CANCEL
        assert scene.last_word() == "closed"
        assert stalled(events, "answer") == before + 1


def test_events_that_nobody_reads_are_ended_over_http1(events, stage):
    with Raw(events) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        body = b'{"n":1}'
        client.send(b"POST /v2/models/endless/generate_stream HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s"
                    % (HOST, len(body), body))
        (scene,) = stage.started(1)
        assert scene.last_word() == "closed"
        events.log.wait("event=client_closed reason=send_timeout")


def is_given_up(server, id):
    """Begins a stream that reads nothing, on a connection of its own; yields until the server has given it up."""
    with H2(server.host, server.port) as http:
        deaf = begin(http, "endless_async", id, deaf=True)
        http.sock.settimeout(0.02)
        while http.replies[deaf].reset is None:
            try:
                assert http.read()
            except TimeoutError:
                yield


def test_who_reads_a_little_lives(server, stage):
    """A quarter of what it must, but several times in the time that it has."""
    with H2(server.host, server.port) as http:
        slow = begin(http, "endless_async", "slow", deaf=True)
        scene = stage.started(1)[0]
        while len(http.replies[slow].data) < 60_000:
            http.read()
        got = len(http.replies[slow].data)
        for i in range(2):
            for _ in is_given_up(server, f"deaf {i}"):
                want = len(http.replies[slow].data) + LEAST // 4
                http.conn.increment_flow_control_window(LEAST // 4, slow)
                http.flush()
                while len(http.replies[slow].data) < want:
                    assert http.read() and http.replies[slow].reset is None
        assert len(http.replies[slow].data) > got
        http.conn.reset_stream(slow, CANCEL)
        http.flush()
        assert scene.last_word() in TOLD


def test_who_has_read_all_is_waited_for(server, stage):
    with H2(server.host, server.port) as http:
        call = begin(http, "one_then_wait", "waits")
        (scene,) = stage.started(1)
        for _ in is_given_up(server, "deaf"):
            pass
        scene.go()
        http.send(call, b"", end=True)
        assert values(http.reply(call)) == [1, 2]


# --- requests ---

def test_a_message_that_stops_in_the_middle_ends_its_call(server, stage):
    """And gives back its part of the budget."""
    before = stalled(server, "request")
    with H2(server.host, server.port) as http:
        other = begin(http, "one_then_wait", "other")
        (waits,) = stage.started(1)
        call = http.open_grpc("ModelStreamInfer")
        http.send(call, one("async", n=1) + prefixed(bytes(50_000), length=100_000))
        wait.until(lambda: server.status()["server"]["inflight_bytes"] >= 100_000, "the message to be begun")
        reply = http.reply(call)
        assert reply.grpc_status == grpc.StatusCode.DEADLINE_EXCEEDED.value[0]
        assert "--body-timeout" in reply.grpc_message
        assert values(reply) == [0]  # what came before it was answered
        assert stalled(server, "request") == before + 1
        wait.until(lambda: server.status()["server"]["inflight_bytes"] < 10_000, lambda: server.status())
        waits.go()
        http.send(other, b"", end=True)
        assert values(http.reply(other)) == [1, 2]


def test_a_message_that_comes_slowly_is_waited_for(server, stage):
    n = 100_000
    message = prefixed(oip.infer_request("sum", {"n": np.ones(n, np.int32)}).SerializeToString())
    with H2(server.host, server.port) as http:
        call = http.open_grpc("ModelStreamInfer")
        at = 1000
        http.send(call, message[:at])
        for i in range(2):
            for _ in is_given_up(server, f"deaf {i}"):
                http.send(call, message[at:at + LEAST // 4])
                at += LEAST // 4
        assert at < len(message)
        http.send(call, message[at:], end=True)
        assert values(http.reply(call)) == [n]


def test_a_message_that_its_handler_does_not_take_is_no_fault_of_the_client(server, stage):
    """What the server does not read is not counted against who sends it."""
    with H2(server.host, server.port) as http:
        call = http.open_grpc("ModelStreamInfer")
        small = prefixed(oip.infer_request("slow_reader", {"n": np.zeros(1, np.int32)}, id="s").SerializeToString())
        http.send(call, small * 100 + small[:10])
        (scene,) = stage.started(1)
        for _ in is_given_up(server, "deaf"):
            pass
        scene.go()
        http.send(call, small[10:], end=True)
        assert values(http.reply(call)) == [101]


def test_timeouts_can_be_taken_away(server, serve, stage):
    patient = serve("streaming.py", "--send-timeout", "off", "--body-timeout", "off",
                    env={"ANYSERVE_TEST_STAGE": stage.path})
    with H2(patient.host, patient.port) as http:
        deaf = begin(http, "endless_async", "patient", deaf=True)
        half = http.open_grpc("ModelStreamInfer")
        http.send(half, prefixed(bytes(5000), length=10_000))
        stage.started(1)
        for _ in is_given_up(server, "deaf"):
            pass
        http.grpc(prefixed(b""), "ServerLive")
        assert http.replies[deaf].reset is None and not http.replies[half].all
    assert stalled(patient, "answer") == stalled(patient, "request") == 0
