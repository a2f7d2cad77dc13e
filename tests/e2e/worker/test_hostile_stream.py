"""Workers written by hand that answer with streams: by the rules of docs/protocol/link.md, section 6, and against them."""

import contextlib
import queue
import re
import struct

import grpc
import numpy as np
import pytest

from support import wait
from support.protocol import link, oip
from support.protocol.link import Worker

pytestmark = pytest.mark.core

MESSAGES, BYTES = 4, 100_000


@pytest.fixture(scope="module", params=[1, 2], ids=["1-loop", "2-loops"])
def server(request, serve_module):
    return serve_module("echo.py", "--stream-credit", MESSAGES, "--stream-credit-bytes", BYTES, "--threads", request.param)


class Call:
    """A ModelStreamInfer whose requests are sent one by one."""

    def __init__(self, client):
        self.client = client
        self._out = queue.SimpleQueue()
        method = client.channel.stream_stream(f"/{oip.SERVICE}/ModelStreamInfer", lambda q: q.SerializeToString(),
                                              oip.messages()["ModelStreamInferResponse"].FromString)
        self.call = method(iter(self._out.get, None), timeout=oip.SECONDS)

    def send(self, model="hand", **inputs):
        self._out.put(oip.infer_request(model, inputs, id="i"))

    def end(self):
        self._out.put(None)

    def next(self):
        return next(self.call)

    def rest(self):
        return list(self.call)


@pytest.fixture
def call(client):
    call = Call(client)
    yield call
    call.call.cancel()
    call.end()


def credit_of(f):
    slots, prefetch, messages, zero, n = struct.unpack("<IIIIQ", f.payload)
    assert (slots, prefetch, zero) == (0, 0, 0)
    return messages, n


def y_of(m):
    assert not m.error_message, m.error_message
    return oip.Answer(m.infer_response)["y"]


def begin(worker, call, model="hand", **fields):
    """A worker with one stream open; (request, its first credit). The kind of a model never changes."""
    worker.serve(model, decoupled=True, **fields)
    asked = oip.message("ModelReadyRequest", name=model)  # the client's loop may hear of it a moment later
    wait.until(lambda: call.client.call("ModelReady", asked).ready, "the model is not ready")
    call.send(model, x=np.ones(1))
    q = worker.next(link.OPEN)
    assert bool(q.flags & link.F_END) != fields.get("streams_inputs", False)
    f = worker.next(link.CREDIT)
    assert f.stream == q.stream
    return q, credit_of(f)


def test_messages_and_an_end(server, call):
    with Worker(server, "hand") as worker:
        q, granted = begin(worker, call)
        assert granted == (MESSAGES, BYTES)
        worker.send(link.message(q.stream, {"y": np.array([1])}, more=True))
        assert y_of(call.next()) == 1
        worker.send(link.message(q.stream, {"y": np.zeros(50_000)}, more=True))  # over the bytes, and in frames of its own
        assert y_of(call.next()).size == 50_000
        while granted[1] < BYTES + 400_000:
            granted = tuple(map(sum, zip(granted, credit_of(worker.next(link.CREDIT)))))
        worker.send(link.message(q.stream, {"y": np.array([3])}))  # END on the last one
        assert y_of(call.next()) == 3
        call.send(x=np.ones(1))
        q = worker.take()
        worker.send(link.end(q.stream))  # none at all
        call.end()
        assert call.rest() == []


def test_error_in_the_middle_of_a_body(server, call):
    with Worker(server, "hand") as worker:
        q, _ = begin(worker, call)
        worker.send(link.message(q.stream, {"y": np.array([1])}, more=True))
        worker.send(link.message(q.stream, {"y": np.zeros(50_000)}, more=True)[:-100_032])
        # the frame of the body is whole in the protocol: the rest of it first
        worker.send(link.message(q.stream, {"y": np.zeros(50_000)}, more=True)[-100_032:])
        worker.send(link.error(q.stream, 9, b"enough"))
        assert y_of(call.next()) == 1
        assert y_of(call.next()).size == 50_000
        assert call.next().error_message == "enough"


def test_what_a_cancelled_stream_still_gives_is_dropped(server, call, connect):
    with Worker(server, "hand") as worker:
        q, _ = begin(worker, call)
        large = link.message(q.stream, {"y": np.zeros(500_000)}, more=True)
        worker.send(large[:1_500_000])
        call.call.cancel()
        assert worker.next(link.CANCEL).stream == q.stream
        worker.send(large[1_500_000:] + link.message(q.stream, {"y": np.ones(3)}, more=True) + large + link.end(q.stream))
        again = Call(connect(server))
        again.send(x=np.ones(1))
        worker.send(link.message(worker.take().stream, {"y": np.array([5])}))
        assert y_of(again.next()) == 5
        again.end()


def test_inputs_are_sent_as_far_as_they_are_granted(server, call):
    with Worker(server, "talk", "talk-0") as worker:
        q, _ = begin(worker, call, "talk", streams_inputs=True)
        for k in range(3):
            call.send("talk", x=np.array([k]))
        worker.send(link.credit(0, stream=q.stream, messages=2, bytes=1))
        first = worker.next(link.DATA)
        assert (first.stream, first.flags) == (q.stream, link.F_MSG)
        worker.send(link.credit(0, stream=q.stream, bytes=500))
        assert worker.next(link.DATA).stream == q.stream
        worker.send(link.credit(0, stream=q.stream, messages=5))
        assert worker.next(link.DATA).stream == q.stream
        call.end()
        assert worker.next(link.END).stream == q.stream
        worker.send(link.end(q.stream))
        assert call.rest() == []


def parts(n, q, size=1):
    return link.message(q.stream, {"y": np.zeros(size)}, more=True) * n


def head(q):
    """The frame before the 160,000 bytes of a body."""
    return parts(1, q, 20_000)[:128]


LIES = {
    "request_id": (lambda q: link.frame(link.DATA, struct.pack("<QQQIIIIII", 0, 0, 0, 0, 0, 0, 1, 8, 0) + b"i" + bytes(7),
                                        q.stream, link.F_MSG), "an answer with a request id"),
    "beyond_its_credit": (lambda q: parts(100, q, 20_000), "beyond its stream's credit"),  # more than clients read ahead
    "inside_a_body": (lambda q: head(q) + parts(1, q), "inside the body of another"),
    "end_inside_a_body": (lambda q: head(q) + link.end(q.stream), "before the body was complete"),
    "too_much_data": (lambda q: head(q) + link.frame(link.DATA, bytes(160_001), q.stream), "more DATA"),
    "end_twice": (lambda q: link.end(q.stream) * 2, "not open"),
    "malformed_end": (lambda q: link.frame(link.END, b"1234567", q.stream), "malformed END"),
    "data_without_a_message": (lambda q: link.frame(link.DATA, b"x", q.stream), "DATA before its message"),
    "data_behind_a_message": (lambda q: parts(1, q) + link.frame(link.DATA, b"x", q.stream), "DATA"),
    "returned": (lambda q: parts(1, q) + link.ids(link.RETURNED, [q.stream]), "not recalled"),
    "credit_for_no_inputs": (lambda q: link.credit(0, stream=q.stream, messages=1), "malformed CREDIT of a stream"),
    "slots_for_a_stream": (lambda q: link.credit(1, stream=q.stream), "malformed CREDIT of a stream"),
}


@pytest.mark.parametrize("name", LIES)
def test_lie(server, call, name):
    lie, reason = LIES[name]
    since = len(server.log.lines)
    with Worker(server, "hand") as worker:
        q, _ = begin(worker, call)
        with contextlib.suppress(ConnectionError):  # it need not listen to the end
            worker.send(lie(q))
        worker.wait_end()
        line = server.log.wait(r"event=worker_gone replica=hand-0.*", since)[0]
        assert re.search(reason, line.partition("reason=")[2]), line
        call.end()
        if name != "end_twice":
            assert "may have been executed" in call.rest()[-1].error_message


def test_a_stream_of_a_plain_model_is_refused(server, client):
    since = len(server.log.lines)
    with Worker(server, "plain", "plain-0") as worker:
        worker.serve("plain")
        pending = client.begin("plain", {"x": np.ones(1)})
        worker.send(link.end(worker.take().stream))
        worker.wait_end()
        assert "END without an answer" in server.log.wait(r"event=worker_gone replica=plain-0.*", since)[0]
        assert pending.exception().code() == grpc.StatusCode.UNAVAILABLE


def test_streaming_inputs_without_streaming_answers_is_refused(server):
    since = len(server.log.lines)
    with Worker(server, "hand") as worker:
        worker.greeted()
        worker.send(link.register("hand", streams_inputs=True))
        worker.wait_end()
        server.log.wait(r"a stream of inputs needs a stream of answers", since)


def test_replicas_agree_on_streaming(server, call):
    with Worker(server, "hand") as worker:
        worker.serve("hand", decoupled=True)
        with Worker(server, "hand", "hand-1") as other:
            other.greeted()
            _, code, text = other.register("hand")
            assert code == 6 and "streaming" in text
