"""What is unanswered at --drain-timeout is answered before the server ends: nobody's connection just closes."""

import json
import threading

import grpc
import pytest

from support import wait
from support.protocol import http as rest
from support.protocol import oip
from support.protocol.h2client import H2, prefixed
from support.protocol.raw import HOST, Raw

pytestmark = pytest.mark.core

DRAIN = ("--drain-timeout", "300ms", "--stop-timeout", "100ms", "--goaway-grace", "10ms")
INFER = "/v2/models/staged/infer"
EXECUTED = "anyserve-may-have-executed"


def body_of(tag):
    return json.dumps({"id": tag, "inputs": []}).encode()


class Beside(threading.Thread):
    """A blocking request beside the test."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self._call, self.reply = call, None
        self.start()

    def run(self):
        self.reply = self._call()

    def wait(self):
        self.join(oip.SECONDS)
        assert self.reply is not None, "the request was not answered"
        return self.reply


def stream_request(http, *requests, extra=()):
    stream = http.open_grpc("ModelStreamInfer", extra)
    for request in requests:
        http.send(stream, prefixed(request.SerializeToString()))
    return stream


def reply_of(http, stream):
    while not http.replies[stream].ended:
        assert http.read(), f"the connection was closed without an answer: {http.replies[stream]}"
    return http.replies[stream]


@pytest.mark.parametrize("threads", [1, 3])
def test_what_executes_is_answered_by_every_protocol(staged, stage, threads):
    server = staged(*DRAIN, "--threads", threads, "--workers", "2", app="staged_async.py")
    h1, h2 = rest.Http1(server.host, server.port), rest.Http2(server.host, server.port)
    with oip.Client(server.address) as client, H2(server.host, server.port) as http:
        call = client.begin("staged", {}, id="grpc")
        plain = [Beside(lambda c=c: c.request("POST", INFER, body_of("rest"))) for c in (h1, h2)]
        stream = stream_request(http, oip.infer_request("staged", {}, id="stream"))
        stage.started(4)
        server.stop()
        error = call.exception()
        assert error.code() == grpc.StatusCode.UNAVAILABLE and "--drain-timeout" in error.details()
        assert oip.trailers_of(error)[EXECUTED] == "1"
        for p in plain:
            reply = p.wait()
            assert (reply.status, reply.headers[EXECUTED]) == (503, "1"), reply
            assert "--drain-timeout" in reply.error and "retry-after" not in reply.headers
        reply = reply_of(http, stream)
        assert (reply.grpc_status, reply.all[EXECUTED]) == (14, "1"), reply
        found = oip.messages()["ModelStreamInferResponse"].FromString(reply.data[5:])
        assert "--drain-timeout" in found.error_message
    h1.close()
    h2.close()
    assert server.log.find("event=drain_timeout unanswered=4")


def test_a_stream_that_ends_with_an_error_says_it_too(staged, stage):
    """triton_grpc_error: the first error is the status of the call."""
    server = staged(*DRAIN, app="staged_async.py")
    with H2(server.host, server.port) as http:
        stream = stream_request(http, oip.infer_request("staged", {}, id="stream"), extra=[("triton_grpc_error", "true")])
        stage.started(1)
        server.stop()
        reply = reply_of(http, stream)
        assert (reply.grpc_status, reply.all[EXECUTED]) == (14, "1"), reply
        assert "--drain-timeout" in reply.grpc_message


def test_what_did_not_begin_is_not_said_to_have_executed(staged, stage):
    """Queued, or of which only a part has come: it may be sent again."""
    server = staged(*DRAIN)
    with oip.Client(server.address) as client, H2(server.host, server.port) as http, Raw(server) as raw:
        running = client.begin("staged", {}, id="runs")
        stage.started(1)
        queued = [client.begin("staged", {}, id=f"waits {i}") for i in range(4)]
        body = body_of("half")
        raw.send(b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (INFER.encode(), HOST, len(body)) + body[:5])
        half = http.open_grpc()
        http.send(half, prefixed(oip.infer_request("staged", {}, id="half").SerializeToString())[:9])
        wait.until(lambda: server.status()["server"]["unanswered"] == 5, "the queue")
        server.stop()
        assert oip.trailers_of(running.exception())[EXECUTED] == "1"
        for call in queued:
            error = call.exception()
            assert error.code() == grpc.StatusCode.UNAVAILABLE and "the server is ending" in error.details()
            assert EXECUTED not in oip.trailers_of(error)
        reply = reply_of(http, half)
        assert reply.grpc_status == 14 and EXECUTED not in reply.all, reply
        answer = raw.rest().lower()
        assert answer.startswith(b"http/1.1 503 ") and EXECUTED.encode() not in answer and b"retry-after" in answer


def test_events_that_have_begun_end_with_an_error(serve, stage):
    stage.reset()
    server = serve("generating.py", *DRAIN, env={"ANYSERVE_TEST_STAGE": stage.path})
    with Raw(server) as raw:
        body = json.dumps({"n": 10, "id": "sse"}).encode()
        raw.send(b"POST /v2/models/one_large_then_wait/generate_stream HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n"
                 % (HOST, len(body)) + body)
        assert raw.until(b"x{10}")
        stage.started(1)
        server.stop()
        last = raw.rest()
        assert b'data: {"error":' in last and b"--drain-timeout" in last and last.endswith(b"0\r\n\r\n"), last


def test_a_client_that_does_not_read_does_not_hold_it_up(serve, stage):
    stage.reset()
    server = serve("generating.py", *DRAIN, env={"ANYSERVE_TEST_STAGE": stage.path})
    with Raw(server) as raw:
        body = json.dumps({"n": 1, "id": "sse"}).encode()
        raw.send(b"POST /v2/models/endless/generate_stream HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n"
                 % (HOST, len(body)) + body)
        stage.started(1)
        server.stop()
