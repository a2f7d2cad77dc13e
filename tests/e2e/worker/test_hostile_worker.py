"""Workers written by hand after docs/protocol/link.md: one that keeps its rules, and many that break them."""

import os
import re
import select
import socket
import struct

import grpc
import numpy as np
import pytest

from support import wait
from support.process import procs
from support.protocol import link, oip
from support.protocol.link import Page, Worker

pytestmark = [pytest.mark.core, pytest.mark.quick]


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


@pytest.fixture
def page():
    page = Page()
    yield page
    page.close()


@pytest.fixture(autouse=True)
def others_unharmed(server, request):
    """The dispatcher lives and its own workers serve, whatever the test did."""
    before = server.dispatcher, server.workers()["echo-0"]
    yield
    assert (server.dispatcher, server.workers()["echo-0"]) == before
    with oip.Client(server.address) as client:
        assert client.infer("echo", {"x": np.ones(3)})["x"].sum() == 3


# --- one that keeps the rules ---

def test_echo(server, client):
    with Worker(server, "well") as worker:
        target = worker.serve("well")
        sent = {"f": np.arange(6, dtype=np.float32).reshape(2, 3), "b": oip.bytes_array([b"", b"abc"]),
                "e": np.zeros((0, 3)), "s": np.int8(-3)}
        call = client.begin("well", sent, id="i-7", parameters={"t": "ü", "n": -1, "f": 0.5, "b": True},
                            metadata=[("x-key", "v"), ("x-raw-bin", b"\xff\0")], timeout=20)
        q = worker.take()
        assert (q.stream, q.target, q.id) == (1, target, "i-7")
        assert q.parameters == {"t": "ü", "n": -1, "f": 0.5, "b": True}
        assert (q.headers["x-key"], q.headers["x-raw-bin"]) == (b"v", b"\xff\0")
        assert 0 < q.timeout <= 21e9  # gRPC rounds up
        for name, array in sent.items():
            assert oip.raw_of(q.inputs[name]) == oip.raw_of(np.asarray(array))
        worker.answer(q, parameters={"p": "q", "n": 7})
        answer = oip.Answer(call.result())
        assert (answer.message.id, answer.parameters) == ("i-7", {"p": "q", "n": 7})
        assert {n: (a.shape, a.tolist()) for n, a in answer.outputs.items()} == \
            {n: (np.asarray(a).shape, np.asarray(a).tolist()) for n, a in sent.items()}


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 1 << 20, (1 << 20) - 16, (1 << 20) + 1, 9_000_000])
def test_sizes(server, client, size):
    with Worker(server, "well") as worker:
        worker.serve("well")
        sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        call = client.begin("well", {"x": sent})
        worker.answer(worker.take())
        assert np.array_equal(oip.Answer(call.result())["x"], sent)


def test_many_at_once_in_any_order(server, client):
    with Worker(server, "well8") as worker:
        worker.serve("well8", slots=8)
        calls = [client.begin("well8", {"x": np.full(20_000, i, np.int32)}) for i in range(8)]
        taken = [worker.take() for _ in range(8)]
        assert [q.stream for q in taken] == list(range(1, 17, 2))
        worker.send(b"".join(link.message(q.stream, q.inputs) for q in reversed(taken)))
        for i, call in enumerate(calls):
            assert set(oip.Answer(call.result())["x"]) == {i}


def test_bytes_in_small_pieces(server, client):
    with Worker(server, "well") as worker:
        worker.serve("well")
        call = client.begin("well", {"x": np.arange(40_000)})
        data = link.message(worker.take().stream, {"x": np.arange(40_000)})
        cuts = [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 192, 193, *range(5000, len(data), 7919), len(data)]
        for a, b in zip(cuts, cuts[1:]):
            worker.send(data[a:b])
        assert np.array_equal(oip.Answer(call.result())["x"], np.arange(40_000))


def test_error(server, client):
    with Worker(server, "well") as worker:
        worker.serve("well")
        call = client.begin("well", {"x": np.ones(1)})
        worker.send(link.error(worker.take().stream, 9, "nicht jetzt: ü".encode(), link.ERROR_STARTED))
        error = call.exception()
        assert (error.code(), error.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "nicht jetzt: ü")


def test_error_that_may_be_tried_again(server, client):
    with Worker(server, "well") as worker:
        worker.serve("well")
        call = client.begin("well", {"x": np.ones(1)})
        worker.send(link.error(worker.take().stream, 14, b"busy", link.ERROR_RETRY))
        worker.answer(worker.take())
        assert oip.Answer(call.result())["x"] == 1


def test_errors_that_may_be_tried_again_end(server, client):
    with Worker(server, "well") as worker:
        worker.serve("well")
        call = client.begin("well", {"x": np.ones(1)})
        tries, f = 0, worker.next(link.OPEN)
        while f.type == link.OPEN:
            tries += 1
            worker.send(link.error(f.stream, 14, b"still busy", link.ERROR_RETRY))
            worker.send(link.frame(link.PING, b"12345678"))
            f = worker.next(link.OPEN, link.PONG)  # the next try is sent before the PONG
            if f.type == link.OPEN:
                worker.next(link.PONG)
        assert 1 < tries < 100
        assert call.exception().code() == grpc.StatusCode.UNAVAILABLE
        assert "still busy" in call.exception().details()


def test_declared_signature(server, client):
    with Worker(server, "strict") as worker:
        worker.serve("strict", inputs=[("x", "FP32", [-1, 2])], outputs=[("y", "INT64", [-1])])
        m = client.call("ModelMetadata", oip.message("ModelMetadataRequest", name="strict"))
        assert (m.platform, m.inputs[0].name, list(m.inputs[0].shape), m.outputs[0].datatype) == \
            ("by hand", "x", [-1, 2], "INT64")
        assert client.refused("strict", {"x": np.ones(2, np.float32)}).code() == grpc.StatusCode.INVALID_ARGUMENT
        call = client.begin("strict", {"x": np.ones((1, 2), np.float32)})
        worker.answer(worker.take(), {"y": np.ones(1)})
        assert call.exception().code() == grpc.StatusCode.INTERNAL
        assert "'y'" in call.exception().details()
        call = client.begin("strict", {"x": np.ones((1, 2), np.float32)})
        worker.answer(worker.take(), {"y": np.array([4])})
        assert oip.Answer(call.result())["y"] == 4


@pytest.mark.parametrize("fields, code", [
    ({"name": "echo"}, 6), ({"name": "bad name"}, 3), ({"name": "a//b"}, 3), ({"name": "infer"}, 3), ({"name": ""}, 3),
    ({"name": "x" * 129}, 3), ({"name": "fine", "version": "no good"}, 3), ({"name": "fine", "version": ""}, 3)])
def test_refused_registration(server, fields, code):
    with Worker(server, "refused") as worker:
        worker.greeted()
        _, got, text = worker.register(**fields)
        assert got == code and text
        _, got, text = worker.register("accepted", model=1)  # the link lives on
        assert got == 0, text


def test_replicas_must_agree(server):
    with Worker(server, "agree", "a") as a, Worker(server, "agree", "b") as b:
        a.greeted(), b.greeted()
        assert a.register("agree", inputs=[("x", "FP32", [1])])[1] == 0
        assert b.register("agree", inputs=[("x", "FP32", [1])])[1] == 0
        assert b.register("agree", inputs=[("x", "FP32", [2])])[1] == 6
        assert b.register("agree-2", budget=2)[1] == 0  # slots are its own: an update may change them
        assert b.register("agree-3", max_queued=5)[1] == 3


def test_cancel(server, client):
    with Worker(server, "well") as worker:
        worker.serve("well")
        call = client.begin("well", {"x": np.ones(1)})
        q = worker.take()
        call.cancel()
        f = worker.next(link.CANCEL)
        assert (f.stream, struct.unpack("<Q", f.payload)[0]) == (q.stream, 1)
        later = client.begin("well", {"x": np.ones(2)})
        worker.answer(q)  # the slot was taken until now
        worker.answer(worker.take())
        assert oip.Answer(later.result())["x"].shape == (2,)


def test_deadline(server, client):
    with Worker(server, "well") as worker:
        worker.serve("well")
        call = client.begin("well", {"x": np.ones(1)}, timeout=1)
        q = worker.take()
        f = worker.next(link.CANCEL)
        assert f.stream == q.stream
        assert struct.unpack("<Q", f.payload)[0] in (1, 4)  # the client's own clock may be first
        assert call.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
        worker.answer(q)


def warm(worker, client, name):
    """Lets the dispatcher measure a service time of 1 µs, so that it prefetches."""
    for _ in range(20):
        call = client.begin(name, {"x": np.ones(1)})
        worker.answer(worker.take(), service=1000)
        call.result()


def test_prefetch_and_recall(server, client):
    with Worker(server, "fetch", "a") as a, Worker(server, "fetch", "b") as b:
        a.serve("fetch", prefetch=16)
        warm(a, client, "fetch")
        calls = [client.begin("fetch", {"i": np.array([i])}) for i in range(4)]
        held = [a.take() for _ in range(4)]  # more than its slot
        b.serve("fetch", prefetch=16)  # an idle replica: something is asked back
        f = a.next(link.RECALL)
        asked = [n[0] for n in struct.iter_unpack("<Q", f.payload)]
        assert asked and set(asked) <= {q.stream for q in held[1:]}
        a.send(link.ids(link.RETURNED, asked))
        moved = b.take()
        b.answer(moved, service=1000)
        for q in held:
            if q.stream not in asked:
                a.answer(q, service=1000)
        done = {int(moved.inputs["i"][0])} | {int(q.inputs["i"][0]) for q in held if q.stream not in asked}
        while len(done) < 4:
            worker = next(w for w in (a, b) if len(w._in) or readable(w, a, b))
            q = worker.take()
            done.add(int(q.inputs["i"][0]))
            worker.answer(q, service=1000)
        assert [int(oip.Answer(c.result())["i"][0]) for c in calls] == [0, 1, 2, 3]


def readable(worker, *all):
    return worker.sock in select.select([w.sock for w in all], [], [], wait.SECONDS)[0]


def test_drain(server, client):
    with Worker(server, "going", "a") as a, Worker(server, "going", "b") as b:
        a.serve("going")
        call = client.begin("going", {"x": np.ones(1)})
        q = a.take()
        a.send(link.frame(link.DRAIN) + link.frame(link.PING, b"12345678"))
        assert a.next(link.PONG).payload == b"12345678"
        b.serve("going")
        others = [client.begin("going", {"x": np.ones(1)}) for _ in range(3)]
        for _ in others:
            b.answer(b.take())
        a.answer(q)
        for c in (call, *others):
            c.result()
        a.send(link.frame(link.GOODBYE, b"done"))
        a.sock.close()
        server.log.wait(r'event=worker_gone replica=a .*reason="?said goodbye')


def test_optional_frames_are_skipped(server, client):
    with Worker(server, "well") as worker:
        worker.serve("well")
        worker.send(link.frame(99, b"from the future", flags=link.F_OPTIONAL) +
                    link.frame(link.ATTACH, b"reserved", flags=link.F_OPTIONAL) + link.frame(link.STARTED, b""))
        call = client.begin("well", {"x": np.ones(1)})
        worker.answer(worker.take())
        call.result()


def test_status_page(server, client, page):
    """What had not started when the link broke goes to another replica, as the page says."""
    with Worker(server, "paged", "a", page=page) as a, Worker(server, "paged", "b") as b:
        a.serve("paged", slots=2)
        calls = [client.begin("paged", {"i": np.array([i])}) for i in range(2)]
        first, second = a.take(), a.take()
        page.started(first.stream)
        a.send(link.frame(link.GOODBYE))
        a.sock.close()
        b.serve("paged", slots=2)
        q = b.take()
        assert q.inputs["i"] == second.inputs["i"]
        b.answer(q)
        outcome = {int(i): calls[i].exception() for i in (first.inputs["i"][0], second.inputs["i"][0])}
        error = outcome[int(first.inputs["i"][0])]
        assert error.code() == grpc.StatusCode.UNAVAILABLE
        assert oip.trailers_of(error)["anyserve-may-have-executed"] == "1"
        assert oip.trailers_of(error)["grpc-retry-pushback-ms"] == "-1"
        assert outcome[int(second.inputs["i"][0])] is None


def test_idempotent(server, client, page):
    with Worker(server, "again", "a", page=page) as a, Worker(server, "again", "b") as b:
        a.serve("again", idempotent=True)
        call = client.begin("again", {"x": np.ones(1)})
        page.started(a.take().stream)
        a.sock.close()
        b.serve("again", idempotent=True)
        b.answer(b.take())
        call.result()


# --- those that break the rules, before they are let in ---

def bad_page(**fields):
    def make(server):
        page = Page(**fields)
        worker = Worker(server, "hand", page=page)
        page.close()
        return worker
    return make


def says(data):
    def make(server):
        worker = Worker(server, greet=False)
        worker.send(data(server) if callable(data) else data)
        return worker
    return make


def labelled(*labels):
    return lambda s: link.register("m", outputs=[("x", "FP32", [-1, 3], labels)])


STRANGERS = {
    "wrong_token": (lambda s: Worker(s, token="0" * 64), "wrong token"),
    "empty_token": (says(link.hello("", "r", "d")), "wrong token"),
    "half_a_token": (lambda s: Worker(s, token=s.join_token()[:32]), "wrong token"),
    "magic": (says(lambda s: link.hello(s.join_token(), "r", "d", magic=0x12345678)), "HELLO"),
    "version_2": (says(lambda s: link.hello(s.join_token(), "r", "d", low=2, high=3)), "no common protocol version"),
    "version_0": (says(lambda s: link.hello(s.join_token(), "r", "d", low=0, high=3)), "HELLO"),
    "versions_reversed": (says(lambda s: link.hello(s.join_token(), "r", "d", low=3, high=1)), "HELLO"),
    "no_replica_name": (lambda s: Worker(s, replica=""), "bad replica name"),
    "a_replica_name_of_two_lines": (lambda s: Worker(s, replica="x\nlevel=error"), "bad replica name"),
    "a_long_replica_name": (lambda s: Worker(s, replica="x" * 129), "bad replica name"),
    "bad_deployment": (lambda s: Worker(s, deployment="a b"), "bad deployment name"),
    "name_of_257": (lambda s: Worker(s, replica="r" * 257), "HELLO"),
    "cut_hello": (says(link.frame(link.HELLO, struct.pack("<I", link.MAGIC))), "HELLO"),
    "lengths_beyond": (says(link.frame(link.HELLO, struct.pack("<IHHQQQIHHHHI", link.MAGIC, 1, 1, 0, 0, 0, 0, 200, 200,
                                                                200, 200, 0))), "HELLO"),
    "text": (says(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + b" " * 64), "malformed frame header"),
    "random": (says(bytes(range(255, 0, -1)) * 4), "malformed frame header"),
    "zeros": (says(bytes(64)), "."),
    "reserved_bits": (says(struct.pack("<IBBHQ", 0, link.HELLO, 0, 1, 0) + bytes(48)), "malformed frame header"),
    "unknown_flag": (says(struct.pack("<IBBHQ", 0, link.HELLO, 4, 0, 0) + bytes(48)), "malformed frame header"),
    "huge_frame": (says(struct.pack("<IBBHQ", link.FRAME_MAX + 1, link.HELLO, 0, 0, 0) + bytes(48)),
                   "malformed frame header"),
    "register_first": (says(link.register("m")), "REGISTER before HELLO"),
    "credit_first": (says(link.credit(1)), "CREDIT before"),
    "data_first": (says(link.message(1, {"x": np.ones(1)})), "before slots were granted"),
    "page_without_descriptor": (says(lambda s: link.hello(s.join_token(), "r", "d", link.CAP_PAGE)), "bad status page"),
    "page_not_sealed": (bad_page(seals=0), "bad status page"),
    "page_may_shrink": (bad_page(seals=4), "bad status page"),
    "page_too_small": (bad_page(size=2048), "bad status page"),
    "page_too_large": (bad_page(size=8192), "bad status page"),
    "page_without_magic": (bad_page(magic=1), "bad status page"),
}


def assert_ended(server, worker, reason, since):
    """The link is closed, and the log says why."""
    worker.sock.settimeout(wait.SECONDS)
    worker.wait_end()
    # others may end in between: the one before, whose line was late
    server.log.wait(r"event=worker_gone.*" + (reason if reason == "." else re.escape(reason)), since)


@pytest.mark.parametrize("name", STRANGERS)
def test_stranger(server, name):
    make, reason = STRANGERS[name]
    since = len(server.log.lines)
    with make(server) as worker:
        assert_ended(server, worker, reason, since)


def test_more_descriptors_than_one(server):
    """They are closed; Server.settle sees that none is left."""
    with Worker(server, greet=False) as worker:
        page = Page()
        fds = [page.fd] * 20
        socket.send_fds(worker.sock, [link.hello(server.join_token(), "r", "hand", link.CAP_PAGE)], fds)
        worker.greeted()
        page.close()


def stolen_token(server):
    with open(f"/proc/{server.workers()['echo-0']}/environ", "rb") as f:
        environment = dict(row.split(b"=", 1) for row in f.read().split(b"\0") if b"=" in row)
    return environment[b"ANYSERVE_TOKEN"].decode()


def test_token_of_another(server):
    """A token of ours has one link: the thief ends the owner's, and the owner, coming back, the thief's."""
    since = len(server.log.lines)
    with Worker(server, "", token=stolen_token(server)) as thief:
        assert thief.greeted()[1:] == ("echo-0", "default#echo")
        assert_ended(server, thief, "connected again", since)
    wait.until(lambda: "echo-0" in server.workers(), "the owner")


def test_token_for_another_deployment(server):
    since = len(server.log.lines)
    with Worker(server, "mine", token=stolen_token(server)) as thief:
        assert_ended(server, thief, "another deployment", since)


# --- in the greeting ---

GREETING = {
    "hello_twice": (lambda s: link.hello(s.join_token(), "r", "d"), "HELLO"),
    "credit_without_model": (lambda s: link.credit(1), "CREDIT before a model"),
    "register_cut": (lambda s: link.frame(link.REGISTER, b"\0" * 39), "REGISTER"),
    "register_no_slots": (lambda s: link.register("m", max_ongoing=0), "REGISTER"),
    "register_too_many_slots": (lambda s: link.register("m", budget=65536), "REGISTER"),
    "register_negative_queue": (lambda s: link.register("m", max_queued=-2), "REGISTER"),
    "register_not_utf8": (lambda s: link.register(b"\xff"), "REGISTER: a name is not UTF-8"),
    "register_twice_named": (lambda s: link.register("m", inputs=[("x", "FP32", [1])] * 2), "signature: a tensor name is given twice"),
    "register_bad_shape": (lambda s: link.register("m", inputs=[("x", "FP32", [-2])]), "signature: bad shape"),
    "register_33_dimensions": (lambda s: link.register("m", inputs=[("x", "FP32", [1] * 33)]), "signature: bad shape"),
    "register_count": (lambda s: link.frame(link.REGISTER, struct.pack("<IHHHHIIIqII", 0, 1, 1, 0, 2, 1, 1, 0, 1,
                                                                       2**32 - 1, 0) + b"m1"), "signature: too many tensors"),
    "register_label_with_nul": (labelled(b"a", b"b\0"), "label"),
    "register_label_of_two_lines": (labelled(b"a\nb"), "label"),
    "register_label_not_utf8": (labelled(b"\xc3"), "label"),
    "register_label_too_long": (labelled(b"x" * 1025), "label"),
    "register_too_many_labels": (labelled(*[b""] * 65537), "too many labels"),
    "register_more_labels_than_bytes": (lambda s: link.frame(link.REGISTER, struct.pack(
        "<IHHHHIIIqII", 0, 1, 1, 0, 4, 1, 1, 0, 0, 0, 1) + struct.pack("<HBBI", 1, 11, 0, 2**32 - 1) + b"x".ljust(8, b"\0")
        + b"m1"), "too many labels"),
    "register_labels_of_an_input": (lambda s: link.register("m", inputs=[("x", "FP32", [1], [b"a"])]), "labels on an input"),
    "register_empty_name": (lambda s: link.register("m", inputs=[("", "FP32", [1])]), "signature: a tensor name is empty"),
}


@pytest.mark.parametrize("name", GREETING)
def test_greeting(server, name):
    make, reason = GREETING[name]
    since = len(server.log.lines)
    with Worker(server, "hand") as worker:
        worker.greeted()
        worker.send(make(server))
        assert_ended(server, worker, reason, since)


# --- lies about a request in hand ---

def raw_answer(tensors=(), body=b"", body_len=None, stream=None, flags=link.F_MSG | link.F_END, params=b"", n_params=0,
               n_tensors=None):
    """tensors: arguments of tensor_record."""
    def make(q):
        table = b"".join(link.tensor_record(*t) for t in tensors) + params
        n = len(tensors) if n_tensors is None else n_tensors
        return link.frame(link.DATA, link.message_payload(table, n, n_params, body, body_len=body_len),
                          q.stream if stream is None else stream, flags)
    return make


def header_of(payload):
    return lambda q: link.frame(link.DATA, payload, q.stream, link.F_MSG | link.F_END)


def fixed(table=b"", **fields):
    """A message without a body, with fields of its fixed part replaced."""
    names = ["kind", "service", "body_len", "n_tensors", "n_params", "n_meta", "id_len", "table_len",
             "n_tensor_params"]
    values = dict.fromkeys(names, 0) | fields
    return header_of(struct.pack("<QQQIIIIII", *(values[n] for n in names)) + table)


FP32 = 11
BIG = 100_000
LIES = {
    "unknown_stream": (lambda q: link.message(q.stream + 2, {"x": np.ones(1)}), "not open"),
    "even_stream": (lambda q: link.message(2, {"x": np.ones(1)}), "a caller without the capability CALLS"),
    "stream_0": (lambda q: link.message(0, {"x": np.ones(1)}), "not open"),
    "stream_2_63": (lambda q: link.message(2**63 + 1, {"x": np.ones(1)}), "not open"),
    "answer_twice": (lambda q: link.message(q.stream, {"x": np.ones(1)}) * 2, "not open"),
    "error_after_answer": (lambda q: link.message(q.stream, {"x": np.ones(1)}) + link.error(q.stream, 13), "not open"),
    "error_code_0": (lambda q: link.error(q.stream, 0), "malformed ERROR"),
    "error_code_17": (lambda q: link.error(q.stream, 17), "malformed ERROR"),
    "error_flags": (lambda q: link.error(q.stream, 13, flags=4), "malformed ERROR"),
    "error_cut": (lambda q: link.frame(link.ERROR, b"\0" * 23, q.stream), "malformed ERROR"),
    "error_text_beyond": (lambda q: link.frame(link.ERROR, struct.pack("<IIQII", 13, 0, 0, 100, 0), q.stream),
                          "malformed ERROR"),
    "error_text_too_long": (lambda q: link.error(q.stream, 13, b"x" * 16385), "malformed ERROR"),
    "end_frame": (lambda q: link.frame(link.END, b"", q.stream), "."),
    "open_by_worker": (lambda q: link.frame(link.OPEN, b"\0" * 48, 2, 1), "."),
    "unknown_mandatory": (lambda q: link.frame(99), "unknown mandatory frame"),
    "reserved_mandatory": (lambda q: link.frame(link.DETACH), "unknown mandatory frame"),
    "batch_by_worker": (lambda q: link.frame(link.BATCH, struct.pack("<QII", 1, 2, 0)), "may not send"),
    "unregister": (lambda q: link.frame(link.UNREGISTER, b"\0" * 8), "unknown mandatory frame"),
    "attach": (lambda q: link.frame(link.ATTACH, b"\0" * 8), "unknown mandatory frame"),
    "recall_by_worker": (lambda q: link.ids(link.RECALL, [1]), "may not send"),
    "registered_by_worker": (lambda q: link.frame(link.REGISTERED, b"\0" * 16), "may not send"),
    "cancel_by_worker": (lambda q: link.frame(link.CANCEL, b"\1" + b"\0" * 7, q.stream), "."),
    "returned_not_recalled": (lambda q: link.ids(link.RETURNED, [q.stream]), "not recalled"),
    "returned_unknown": (lambda q: link.ids(link.RETURNED, [4711]), "not recalled"),
    "returned_ragged": (lambda q: link.frame(link.RETURNED, b"\0" * 9), "RETURNED"),
    "returned_too_many": (lambda q: link.ids(link.RETURNED, range(1, 2051, 2)), "RETURNED"),
    "pong_without_ping": (lambda q: link.frame(link.PONG, b"12345678"), "PONG without its PING"),
    "ping_of_7": (lambda q: link.frame(link.PING, b"1234567"), "malformed PING"),
    "control_request": (lambda q: link.frame(link.CONTROL, struct.pack("<HHIII", 1, 0, 0, 0, 0)), "CONTROL"),
    "control_cut": (lambda q: link.frame(link.CONTROL, b"\1"), "CONTROL"),
    "credit_huge": (lambda q: link.credit(65536), "malformed CREDIT"),
    "credit_cut": (lambda q: link.frame(link.CREDIT, b"\0" * 23), "malformed CREDIT"),
    "hello_again": (lambda q: link.hello("x", "y", "z"), "HELLO"),
    "message_cut": (header_of(b"\0" * 47), "cut short"),
    "kind_set": (fixed(kind=1), "kind"),
    "reserved_set": (fixed(kind=1 << 16), "reserved"),
    "tensor_params_without_table": (fixed(n_tensor_params=1), "table"),
    "too_many_tensor_params": (fixed(n_tensor_params=1025), "limit"),
    "id_beyond": (fixed(id_len=1), "table: its length is not that of its entries"),
    "id_set": (fixed(b"i".ljust(8, b"\0"), id_len=1, table_len=8), "an answer with a request id"),
    "too_many_tensors": (fixed(n_tensors=4097), "limit"),
    "all_the_tensors": (fixed(n_tensors=2**32 - 1), "limit"),
    "too_many_params": (fixed(n_params=1025), "limit"),
    "tensors_without_table": (fixed(n_tensors=1), "table"),
    "table_beyond": (fixed(table_len=1024), "table"),
    "table_ragged": (fixed(table_len=4), "table"),
    "body_without_end": (fixed(body_len=2**62), "."),
    "body_of_2_63": (fixed(body_len=2**63), "body"),
    "no_datatype": (raw_answer([("x", 0, [1], 0, 4)], b"1234"), "datatype"),
    "datatype_15": (raw_answer([("x", 15, [1], 0, 4)], b"1234"), "datatype"),
    "negative_size": (raw_answer([("x", FP32, [-1], 0, 4)], b"1234"), "shape"),
    "overflow": (raw_answer([("x", FP32, [2**32, 2**32], 0, 4)], b"1234"), "shape"),
    "wraps_to_4": (raw_answer([("x", FP32, [2**62 + 1], 0, 4)], b"1234"), "shape"),
    "33_dimensions": (raw_answer([("x", FP32, [1] * 33, 0, 4)], b"1234"), "dimensions"),
    "length_too_short": (raw_answer([("x", FP32, [2], 0, 4)], b"1234"), "length"),
    "length_too_long": (raw_answer([("x", FP32, [1], 0, 8)], b"12345678"), "length"),
    "bytes_too_short": (raw_answer([("x", 13, [2], 0, 4)], b"1234"), "length"),
    "offset": (raw_answer([("x", FP32, [1], 4, 4)], b"12341234"), "offset"),
    "offset_huge": (raw_answer([("x", FP32, [1], 2**63 - 64, 4)], b"1234"), "offset"),
    "overlap": (raw_answer([("x", FP32, [1], 0, 4), ("y", FP32, [1], 0, 4)], b"1234"), "offset"),
    "body_longer": (raw_answer([("x", FP32, [1], 0, 4)], b"12345678"), "body"),
    "body_shorter_than_frame": (raw_answer([("x", FP32, [1], 0, 4)], b"1234", body_len=8), "body"),
    "no_name": (raw_answer([("", FP32, [1], 0, 4)], b"1234"), "name"),
    "name_not_utf8": (raw_answer([(b"\xff", FP32, [1], 0, 4)], b"1234"), "name"),
    "name_twice": (raw_answer([("x", FP32, [0], 0, 0)] * 2), "twice"),
    "param_type": (raw_answer(params=struct.pack("<HBBIQ", 1, 9, 0, 0, 0) + b"p" + bytes(7), n_params=1), "parameter"),
    "param_bool_2": (raw_answer(params=struct.pack("<HBBIQ", 1, 1, 0, 0, 2) + b"p" + bytes(7), n_params=1),
                     "parameter"),
    "param_text_beyond": (raw_answer(params=struct.pack("<HBBIQ", 1, 3, 0, 2**32 - 1, 0) + b"p" + bytes(7),
                                     n_params=1), "table"),
    "large_with_end": (raw_answer([("x", 2, [BIG], 0, BIG)], body_len=BIG), "END|ends"),
    "small_without_end": (raw_answer([("x", FP32, [1], 0, 4)], b"1234", flags=link.F_MSG), "without END"),
    "data_without_message": (lambda q: link.frame(link.DATA, b"1234", q.stream, link.F_END), "before its message"),
    "data_of_unknown": (lambda q: link.frame(link.DATA, b"1234", 99, link.F_END), "not open"),
}


def large(*follow):
    """A message of BIG bytes and what follows: (bytes, flags) each."""
    def make(q):
        start = raw_answer([("x", 2, [BIG], 0, BIG)], body_len=BIG, flags=link.F_MSG)(q)
        return start + b"".join(link.frame(link.DATA, bytes(n), q.stream, flags) for n, flags in follow)
    return make


LIES |= {
    "large_too_much": (large((BIG + 1, link.F_END)), "more DATA"),
    "large_too_much_later": (large((BIG, 0), (1, link.F_END)), "more DATA"),
    "large_too_little": (large((BIG - 1, link.F_END)), "before the body was complete"),
    "large_nothing": (large((0, link.F_END)), "before the body was complete"),
    "large_two_messages": (lambda q: large((10, 0))(q) + large()(q), "two messages"),
    "large_beyond_max_message": (raw_answer([("x", 2, [2**32], 0, 2**32)], body_len=2**32, flags=link.F_MSG), "limit"),
    "large_beyond_everything": (raw_answer([("x", 2, [2**62], 0, 2**62)], body_len=2**62, flags=link.F_MSG), "limit"),
    "large_then_error_then_data": (lambda q: large((10, 0))(q) + link.error(q.stream, 13)
                                   + link.frame(link.DATA, b"x" * 10, q.stream), "not open"),
}
ANSWERED = {"answer_twice", "error_after_answer", "large_then_error_then_data"}


@pytest.mark.parametrize("name", LIES)
def test_lie(server, client, name):
    """The link ends with a reason; its request may have run, and its client is told so."""
    lie, reason = LIES[name]
    since = len(server.log.lines)
    with Worker(server, "hand") as worker:
        worker.serve("hand")
        call = client.begin("hand", {"x": np.ones(1)})
        worker.send(lie(worker.take()))
        worker.wait_end()
        line = server.log.wait(r"event=worker_gone replica=hand-0.*", since)[0]
        assert re.search(reason, line.partition("reason=")[2]), line
        if name in ANSWERED:
            call.exception()
        else:
            error = call.exception()
            assert error.code() == grpc.StatusCode.UNAVAILABLE, error
            assert oip.trailers_of(error)["anyserve-may-have-executed"] == "1"


def test_closes_with_a_request_in_hand(server, client):
    since = len(server.log.lines)
    with Worker(server, "hand") as worker:
        worker.serve("hand")
        call = client.begin("hand", {"x": np.ones(1)})
        worker.take()
    assert call.exception().code() == grpc.StatusCode.UNAVAILABLE
    server.log.wait("event=worker_gone replica=hand-0", since)


def test_closes_in_mid_frame(server, client):
    for n in (1, 100, 70_000):
        since = len(server.log.lines)
        with Worker(server, "hand") as worker:
            worker.serve("hand")
            call = client.begin("hand", {"x": np.ones(1)})
            q = worker.take()
            worker.send(link.message(q.stream, {"x": np.ones(20_000)})[:n])
        assert call.exception().code() == grpc.StatusCode.UNAVAILABLE
        server.log.wait("event=worker_gone replica=hand-0", since)


def test_client_leaves_a_large_answer(server, connect):
    """The rest of the answer is passed over, the link lives on."""
    with Worker(server, "hand") as worker:
        worker.serve("hand")
        client = connect(server)
        call = client.begin("hand", {"x": np.ones(1)})
        q = worker.take()
        data = link.message(q.stream, {"x": np.zeros(5_000_000, np.uint8)})
        worker.send(data[:2_000_000])
        call.cancel()
        assert worker.next(link.CANCEL).stream == q.stream
        worker.send(data[2_000_000:])
        call = client.begin("hand", {"x": np.ones(1)})
        worker.answer(worker.take())
        assert oip.Answer(call.result())["x"] == 1


def test_random_bytes_after_a_good_start(server, client):
    rng = np.random.default_rng(11)
    for _ in range(30):
        since = len(server.log.lines)
        with Worker(server, "hand") as worker:
            worker.serve("hand")
            call = client.begin("hand", {"x": np.ones(1)})
            data = bytearray(link.message(worker.take().stream, {"x": np.ones(4), "y": np.zeros(2)}))
            for at in rng.integers(0, len(data), 3):
                data[at] = rng.integers(0, 256)
            worker.send(bytes(data))
            worker.sock.shutdown(socket.SHUT_WR)
            worker.wait_end()
            call.exception()
        server.log.wait("event=worker_gone replica=hand-0", since)


def test_a_name_alone_is_not_waited_for(serve, connect):
    """A worker that says HELLO and never serves does not make the server unready."""
    server = serve("echo.py")
    client = connect(server)
    with Worker(server, "only-hello") as worker:
        worker.greeted()
        assert client.call("ServerReady").ready
    wait.until(lambda: len(server.status()["replicas"]) == 1, "its link to go")
    assert client.call("ServerReady").ready


# --- silence ---

@pytest.fixture(scope="module")
def impatient(serve_module):
    return serve_module("echo.py", "--handshake-timeout", "1s", "--ping-interval", "100ms", "--ping-timeout", "1s")


def test_silent_stranger(impatient):
    with Worker(impatient, greet=False) as worker:
        since = len(impatient.log.lines)
        assert_ended(impatient, worker, "did not register in time", since)


def test_silent_after_hello(impatient):
    since = len(impatient.log.lines)
    with Worker(impatient, "slow") as worker:
        worker.greeted()
        assert_ended(impatient, worker, "did not register in time", since)


def test_pings_are_answered(impatient):
    with Worker(impatient, "polite") as worker:
        worker.serve("polite")
        for _ in range(3):
            f = worker.next(link.PING)
            worker.send(link.frame(link.PONG, f.payload))


def test_no_pong(impatient):
    since = len(impatient.log.lines)
    with Worker(impatient, "deaf") as worker:
        worker.serve("deaf")
        assert_ended(impatient, worker, "did not answer a ping in time", since)


def test_wrong_pong(impatient):
    since = len(impatient.log.lines)
    with Worker(impatient, "wrong") as worker:
        worker.serve("wrong")
        worker.next(link.PING)
        worker.send(link.frame(link.PONG, b"87654321"))
        assert_ended(impatient, worker, "PONG without its PING", since)


def test_sick_worker_gets_nothing(impatient, connect):
    client = connect(impatient)
    with Worker(impatient, "sick", "a") as a, Worker(impatient, "sick", "b") as b:
        a.serve("sick")
        f = a.next(link.CONTROL)
        op = struct.unpack("<H", f.payload[:2])[0]
        a.send(link.frame(link.CONTROL, struct.pack("<HHIII", op, 1, 14, 0, 0), f.stream))
        impatient.log.wait("event=worker_health replica=a healthy=0")
        b.serve("sick")
        call = client.begin("sick", {"x": np.ones(1)})
        b.answer(b.take())
        call.result()


def test_does_not_read(impatient, connect):
    """A worker that takes nothing off its socket is ended, and holds up nobody."""
    client = connect(impatient)
    with Worker(impatient, "full", "a") as worker:
        worker.serve("full", slots=64)
        since = len(impatient.log.lines)
        calls = [client.begin("full", {"x": np.zeros(1 << 20, np.uint8)}) for _ in range(20)]
        assert client.infer("echo", {"x": np.ones(1)})["x"] == 1
        assert all(c.exception().code() == grpc.StatusCode.UNAVAILABLE for c in calls)
        impatient.log.wait('event=worker_gone replica=a .*reason="?did not answer a ping', since)


def test_our_own_process_stays(server):
    """A worker that was not started by the server is not killed for its lies."""
    assert procs.alive(os.getpid())
