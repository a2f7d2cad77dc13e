"""Workers of the simple protocol that break its rules: a clear status for the client, a logged reason, and nothing else
that is under way is harmed, on other connections of the same worker neither."""

import itertools
import re
import struct
import threading

import grpc
import numpy as np
import pytest

from support import wait
from support.protocol import oip
from support.protocol.simple import Simple, echo, error, framed, take

pytestmark = pytest.mark.core

LIMIT = 1 << 20
X = {"x": np.arange(6, dtype=np.float32)}
numbers = itertools.count()


class Liar(Simple):
    """`lie(q, conn)` does what it likes with requests whose parameter `lie` is set; it returns when to go on. Those with
    `hold` are answered, rightly, when `go` is set."""

    def __init__(self, server, lie, **options):
        n = next(numbers)
        self.lie, self.held, self.go = lie, threading.Event(), threading.Event()
        super().__init__(server, f"liar{n}", f"liar{n}", slots=2, **options)

    def _serve(self, conn):
        try:
            while (q := take(conn)) is not None:
                if "hold" in q.parameters:
                    self.held.set()
                    self.go.wait(wait.SECONDS)
                if "lie" not in q.parameters:
                    conn.sendall(framed(echo(q)))
                elif not self.lie(q, conn):
                    break
        except OSError:
            pass
        conn.close()


def sends(make):
    """A lie that stays on its connection."""
    def lie(q, conn):
        conn.sendall(make(q))
        return True
    return lie


def closes(make):
    def lie(q, conn):
        conn.sendall(make(q))
    return lie


def with_id(q, id):
    r = echo(q)
    r.id = id
    return r


def error_with_outputs(q):
    r = echo(q)
    oip.set_parameter(r.parameters, "anyserve_error", "INTERNAL")
    return r


def too_short(q):
    r = echo(q)
    r.raw_output_contents[0] = r.raw_output_contents[0][:-1]
    return r


def mixed(q):
    """A part of another answer, cut within its id, then the right one, whose length completes that id. As long as the
    other says, this is a message with the right id and no output."""
    names = {"model_name": q.model_name, "model_version": q.model_version}
    head = oip.message("ModelInferResponse", id=q.id, **names).ByteSize()
    other = framed(oip.message("ModelInferResponse", id="z" * 8, raw_output_contents=[bytes(head - 2)], **names))
    return other[:other.index(b"z" * 8) + 4] + framed(echo(q))


INTERNAL, UNAVAILABLE = grpc.StatusCode.INTERNAL, grpc.StatusCode.UNAVAILABLE
MAY = "may have been executed"
LIES = {
    "length_0": (sends(lambda q: bytes(4)), INTERNAL, "its length is 0", "its length is 0"),
    "length_over_the_limit": (sends(lambda q: struct.pack(">I", LIMIT + 1)), INTERNAL, "--max-message-bytes",
                              f"its length is {LIMIT + 1} bytes, --max-message-bytes is {LIMIT}"),
    "length_4_GiB": (sends(lambda q: b"\xff" * 4 + b"x"), INTERNAL, "--max-message-bytes", "its length is 4294967295 bytes"),
    "garbage": (sends(lambda q: framed(b"\x07garbage")), INTERNAL, "not valid", "malformed"),
    "http": (sends(lambda q: b"\0\0\0\x20HTTP/1.1 200 OK\r\ncontent-length: 0"[:36]), INTERNAL, "not valid", "malformed"),
    "protobuf_cut_short": (sends(lambda q: framed(echo(q).SerializeToString()[:-1])), INTERNAL, "not valid", "malformed"),
    "another_id": (sends(lambda q: framed(with_id(q, "of another"))), INTERNAL, "another request",
                   "the id is that of another request"),
    "part_of_another_then_the_answer": (sends(mixed), INTERNAL, "not valid", "given twice"),
    "bytes_that_do_not_fit": (sends(lambda q: framed(too_short(q))), INTERNAL, "not valid", "'x'"),
    "error_with_outputs": (sends(lambda q: framed(error_with_outputs(q))), INTERNAL, "not valid", "but the answer has outputs"),
    "error_without_a_name": (sends(lambda q: framed(error(q, "NO_SUCH_THING", ""))), INTERNAL, "NO_SUCH_THING",
                             "'NO_SUCH_THING' is not a gRPC status"),
    "nothing": (closes(lambda q: b""), UNAVAILABLE, MAY, "closed without an answer"),
    "half_a_length": (closes(lambda q: b"\0\0"), UNAVAILABLE, MAY, "closed in the middle of an answer"),
    "a_length_only": (closes(lambda q: framed(echo(q))[:4]), UNAVAILABLE, MAY, "closed in the middle of an answer"),
    "half_an_answer": (closes(lambda q: framed(echo(q))[:-1]), UNAVAILABLE, MAY, "closed in the middle of an answer"),
}


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module(None, "--max-message-bytes", LIMIT, "--worker-heartbeat-timeout", "off")


@pytest.fixture(autouse=True)
def others_unharmed(server, client):
    """The dispatcher lives, and a worker that keeps the rules serves, whatever the test did."""
    pid = server.dispatcher
    with Simple(server, "well", "well"):
        held = threading.Event()
        yield
        assert np.array_equal(client.infer("well", X)["x"], X["x"])
        held.set()
    assert server.dispatcher == pid


def fault(server, worker, since):
    found = server.log.wait(rf"event=worker_fault replica={worker.worker} deployment={worker.model}:1 reason=(.*) request=",
                            since)
    return found[1]


@pytest.mark.parametrize("name", LIES)
def test_lies(server, client, name):
    lie, code, told, logged = LIES[name]
    since = len(server.log.lines)
    with Liar(server, lie) as worker:
        beside = client.begin(worker.model, X, parameters={"hold": True})
        worker.held.wait(wait.SECONDS)
        refused = client.refused(worker.model, X, parameters={"lie": True})
        assert refused.code() == code, refused.details()
        assert told in refused.details()
        assert logged in fault(server, worker, since)
        worker.go.set()
        assert np.array_equal(oip.Answer(beside.result())["x"], X["x"])
        for i in range(3):  # and it is asked again
            assert np.array_equal(client.infer(worker.model, {"x": X["x"] + i})["x"], X["x"] + i)


def test_what_is_torn_is_replayed_if_it_may(server, client):
    """An idempotent model: the client sees nothing of it."""
    torn = []

    def lie(q, conn):
        torn.append(q.id)
        conn.sendall(framed(echo(q)) if len(torn) > 2 else framed(echo(q))[:9])
        return len(torn) > 2

    with Liar(server, lie) as worker:
        worker.options["idempotent"] = True
        worker.register()
        assert np.array_equal(client.infer(worker.model, X, id="me", parameters={"lie": True})["x"], X["x"])
    assert torn == ["me"] * 3


def test_two_answers(server, client):
    """The first counts; the second is nobody's."""
    since = len(server.log.lines)
    with Liar(server, sends(lambda q: 2 * framed(echo(q)))) as worker:
        for i in range(20):
            assert np.array_equal(client.infer(worker.model, {"x": X["x"] + i}, parameters={"lie": True})["x"], X["x"] + i)
        assert re.search("two answers to one request|bytes on a connection without a request", fault(server, worker, since))


def test_a_second_answer_when_the_next_request_is_there(server, client):
    """It has the first one's id: the next request is told so, and is not given what belongs to another."""
    since, last = len(server.log.lines), []

    def lie(q, conn):
        conn.sendall(framed(last.pop()) if last else framed(echo(q)))
        last.append(echo(q))
        return True

    with Liar(server, lie) as worker:
        answer = client.infer(worker.model, X, parameters={"lie": True})
        assert np.array_equal(answer["x"], X["x"])
        refused = client.refused(worker.model, {"x": X["x"] + 1}, parameters={"lie": True})
        assert refused.code() == INTERNAL
        assert "the id is that of another request" in fault(server, worker, since)


def test_an_answer_after_the_deadline(server, client):
    """Its connection is closed, its slot free; what comes later reaches nobody."""
    late, sent = threading.Event(), []

    def lie(q, conn):
        late.wait(wait.SECONDS)
        try:
            for _ in range(3):
                conn.sendall(framed(echo(q)))
            sent.append(conn.recv(1))
        except OSError as e:
            sent.append(e)

    with Liar(server, lie) as worker:
        for _ in range(4):  # twice its slots
            call = client.begin(worker.model, X, parameters={"lie": True}, timeout=0.5)
            assert call.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
        late.set()
        for i in range(10):
            assert np.array_equal(client.infer(worker.model, {"x": X["x"] + i})["x"], X["x"] + i)
        wait.until(lambda: len(sent) == 4, "the worker does not see its connections end")
    assert all(s == b"" or isinstance(s, OSError) for s in sent), sent


def test_bytes_that_nobody_asked_for(server, client):
    since, later = len(server.log.lines), []
    with Liar(server, lambda q, conn: conn.sendall(framed(echo(q))) or later.append(conn) or True) as worker:
        client.infer(worker.model, X, parameters={"lie": True})
        wait.until(lambda: later, "the worker has not seen its answer go")
        later[0].sendall(b"hello?")
        assert "bytes on a connection without a request" in fault(server, worker, since)
        assert np.array_equal(client.infer(worker.model, X)["x"], X["x"])


def test_one_byte_at_a_time(server, client):
    """Not hostile: the answer is right, however it is cut."""
    def lie(q, conn):
        for byte in framed(echo(q)):
            conn.sendall(bytes([byte]))
        return True

    with Liar(server, lie) as worker:
        assert np.array_equal(client.infer(worker.model, X, parameters={"lie": True})["x"], X["x"])


@pytest.mark.parametrize("more, code", [(0, None), (1, INTERNAL)])
def test_limit_of_an_answer(server, client, more, code):
    """--max-message-bytes, at it and one over."""
    def padded(q):
        def answer(n):
            r = oip.message("ModelInferResponse", id=q.id, raw_output_contents=[bytes(n)])
            r.outputs.add(name="x", datatype="UINT8", shape=[n])
            return r
        n = 2 * (LIMIT + more - 1000) - answer(LIMIT + more - 1000).ByteSize() + 1000
        assert answer(n).ByteSize() == LIMIT + more
        return framed(answer(n))

    with Liar(server, sends(padded)) as worker:
        if code:
            assert client.refused(worker.model, X, parameters={"lie": True}).code() == code
        else:
            assert len(client.infer(worker.model, X, parameters={"lie": True})["x"]) > LIMIT - 100
