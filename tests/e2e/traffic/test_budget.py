"""What clients hold of the dispatcher's memory: bytes count when they have come, answers until they are taken; who holds
much of it goes first when others have no room."""

import contextlib
import json
import random
import socket

import grpc
import numpy as np
import pytest

from support import wait
from support.process import procs
from support.protocol import link, oip, prometheus
from support.protocol.h2client import H2, messages_of, prefixed
from support.protocol.link import Worker
from support.protocol.raw import HOST, Raw
from support.protocol.simple import Simple, echo

pytestmark = pytest.mark.core

MIB = 1 << 20
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
CANCEL = 8  # code of RST_STREAM


def held(server):
    return server.status()["server"]["inflight_bytes"]


def unread(server):
    return server.status()["server"]["answer_bytes"]


def wait_known(http, model):
    """The loop of this connection knows the model: a moment after the worker is told that it is registered."""
    wait.until(lambda: http.request("GET", f"/v2/models/{model}").headers[":status"] == "200", model)


def until_held(server, n):
    wait.until(lambda: held(server) == n, lambda: f"{held(server)} bytes are held, not {n}")


def answered(server):
    return prometheus.total(prometheus.parse(server.metrics()), "anyserve_requests_total", method="ModelInfer")


def padded(n):
    """A request for the model echo of exactly n bytes."""
    body = oip.infer_request("echo", {"x": np.zeros(n - 100, np.uint8)}).SerializeToString()
    rest = n - len(body)
    assert 4 <= rest < 128
    return body + b"\x9a\x06" + bytes([rest - 3]) + bytes(rest - 3)


# --- what comes in ---

LARGE = 15 * MIB  # of a budget of 64 MiB
SENT = 110  # bytes of it that come


def by_grpc(http, method="ModelInfer"):
    http.send(http.open_grpc(method), prefixed(bytes(SENT), length=LARGE))


def by_stream(http):
    by_grpc(http, "ModelStreamInfer")


def by_http(http):
    stream = http.open([(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/echo/infer"),
                        (":authority", "a"), ("content-length", str(LARGE))])
    http.send(stream, bytes(SENT))


@pytest.mark.parametrize("begin", [by_grpc, by_stream, by_http])
def test_a_declared_length_holds_nothing(serve, begin):
    """Four messages of 15 MiB are announced, and nobody else is refused for it."""
    server = serve("echo.py", "--max-inflight-bytes", 64 * MIB)
    x = np.ones(LARGE // 8, np.float64)
    with H2(server.host, server.port) as http, oip.Client(server.address) as other:
        for _ in range(4):
            begin(http)
        assert http.request("GET", "/v2/health/live").headers[":status"] == "200"  # all that was sent has been read
        assert held(server) < MIB
        assert other.infer("echo", {"x": x})["x"].size == x.size


@pytest.fixture(scope="module")
def roomy(serve_module):
    return serve_module("echo.py", "--threads", "2")


# around what is taken at once, and where more room is made
STEPS = [n + d for n in (8 << 10, 128 << 10, MIB, 8 * MIB) for d in (-100, -64, -1, 0, 1)]


@pytest.mark.parametrize("n", STEPS)
def test_bytes_that_come_over_time_are_those_that_were_sent(roomy, n):
    x = np.random.default_rng(n).integers(0, 256, n, np.uint8)
    with oip.Client(roomy.address) as client:
        assert np.array_equal(client.infer("echo", {"x": x})["x"], x)
        call = client.stream("echo", {"x": x}) if hasattr(client, "stream") else None
        assert call is None or np.array_equal(call["x"], x)


def body_of(x):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [x.size],
                                   "parameters": {"binary_data_size": x.size}}],
                       "outputs": [{"name": "x", "parameters": {"binary_data": True}}]}).encode()
    return b"Inference-Header-Content-Length: %d\r\n" % len(head), head + x.tobytes()


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("n", STEPS)
def test_and_over_plain_http(roomy, n, chunked):
    """In pieces of any size, so that reads end anywhere."""
    rng = random.Random(n)
    x = np.random.default_rng(n).integers(0, 256, n, np.uint8)
    extra, body = body_of(x)
    with Raw(roomy) as client:
        extra += b"Transfer-Encoding: chunked\r\n" if chunked else b"Content-Length: %d\r\n" % len(body)
        client.send(b"POST /v2/models/echo/infer HTTP/1.1\r\n" + HOST + extra + b"\r\n")
        at = 0
        while at < len(body):
            piece = body[at:at + rng.choice((1, 100, 5000, 70_000, 300_000, 2_000_000))]
            client.send(b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece)
            at += len(piece)
        client.send(b"0\r\n\r\n" if chunked else b"")
        assert client.until(rb"\r\n\r\n")
        head, _, data = client.seen.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200")
        length = int(head.lower().split(b"\r\ncontent-length: ")[1].split(b"\r\n")[0])
        data = bytearray(data)
        while len(data) < length:
            data += client.sock.recv(1 << 20)
        assert bytes(data[-n:]) == x.tobytes()


@pytest.mark.parametrize("more", [0, 1])
def test_the_most_that_one_connection_may_hold(serve, more):
    """--connection-share: a quarter of 4 MiB, and a byte more that never fits."""
    server = serve("echo.py", "--max-inflight-bytes", 4 * MIB, "--connection-share", 25)
    with H2(server.host, server.port) as http:
        stream = http.open_grpc()
        http.send(stream, prefixed(padded(MIB + more)), end=True)
        reply = http.reply(stream)
        assert reply.grpc_status == (EXHAUSTED if more else 0)
        if more:
            assert "--connection-share 25" in reply.grpc_message
            assert "grpc-retry-pushback-ms" not in reply.all
        body = bytes(MIB - 64 + more)  # 64 zeros behind it
        reply = http.request("POST", "/v2/models/echo/infer", [("content-length", str(len(body)))], body)
        assert reply.headers[":status"] == ("413" if more else "400")


def test_who_holds_its_share_is_refused_and_others_are_not(serve):
    server = serve("echo.py", "--max-inflight-bytes", 4 * MIB)
    with H2(server.host, server.port) as greedy, H2(server.host, server.port) as other:
        upload = greedy.open_grpc()
        greedy.send(upload, prefixed(padded(2 * MIB)[:-1], length=2 * MIB))
        until_held(server, 2 * MIB)
        reply = greedy.grpc(prefixed(padded(1000)))
        assert reply.grpc_status == EXHAUSTED
        assert "this connection holds 2097152 (--connection-share 50)" in reply.grpc_message
        assert reply.all["grpc-retry-pushback-ms"] == "1000"
        reply = greedy.request("POST", "/v2/models/echo/infer", [("content-length", "9")], b"{}       ")
        assert (reply.headers[":status"], reply.headers["retry-after"]) == ("503", "1")
        assert other.grpc(prefixed(padded(MIB))).grpc_status == 0  # half of what is free
        assert other.grpc(prefixed(padded(MIB + 1))).grpc_status == EXHAUSTED
        assert greedy.grpc(prefixed(b""), method="ServerLive").grpc_status == 0
        greedy.send(upload, padded(2 * MIB)[-1:], end=True)
        assert greedy.reply(upload).grpc_status == 0
        until_held(server, 0)
        assert greedy.grpc(prefixed(padded(1000))).grpc_status == 0


def test_who_has_sent_an_eighth_has_room_for_all(serve):
    """Small messages that come later do not take it away."""
    server = serve("echo.py", "--max-inflight-bytes", 32 * MIB, "--connection-share", 100)
    message = padded(16 * MIB)
    with H2(server.host, server.port) as large, H2(server.host, server.port) as small:
        upload = large.open_grpc()
        large.send(upload, prefixed(message[:2 * MIB - 1000], length=len(message)))
        wait.until(lambda: 2 * MIB <= held(server) < 16 * MIB, lambda: held(server))
        large.send(upload, message[2 * MIB - 1000:2 * MIB + 1])
        until_held(server, 16 * MIB)
        for _ in range(16):
            small.send(small.open_grpc(), prefixed(bytes(MIB - 1), length=MIB))
        until_held(server, 32 * MIB)
        assert small.grpc(prefixed(padded(1000))).grpc_status == EXHAUSTED
        large.send(upload, message[2 * MIB + 1:], end=True)
        assert large.reply(upload).grpc_status == 0


def test_one_that_has_not_is_refused_in_the_middle(serve):
    """And gives back at once what it had."""
    server = serve("echo.py", "--max-inflight-bytes", 32 * MIB, "--connection-share", 100)
    with H2(server.host, server.port) as large, H2(server.host, server.port) as other:
        uploads = [large.open_grpc(), large.open_grpc("ModelStreamInfer"),
                   large.open([(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/echo/infer"),
                               (":authority", "a"), ("content-length", str(16 * MIB))])]
        for k, upload in enumerate(uploads):
            large.send(upload, prefixed(bytes(50_000), length=16 * MIB) if k < 2 else bytes(50_000))
        until_held(server, 3 * 128 << 10)
        for _ in range(31):
            other.send(other.open_grpc(), prefixed(bytes(MIB - 1), length=MIB))
        until_held(server, 31 * MIB + (3 * 128 << 10))
        for k, upload in enumerate(uploads):
            large.send(upload, bytes(100_000))
            reply = large.reply(upload)
            if k < 2:
                assert (reply.grpc_status, reply.all["grpc-retry-pushback-ms"]) == (EXHAUSTED, "1000")
            else:
                assert (reply.headers[":status"], reply.headers["retry-after"]) == ("503", "1")
        until_held(server, 31 * MIB)


def stalled(server, part):
    samples = prometheus.parse(server.metrics())
    return prometheus.total(samples, "anyserve_requests_stalled_total", part=part)


TRICKLE = 600  # bytes every time that something else is looked at


def test_slow_senders_lose_against_others(serve):
    """What moves by --min-progress is waited for, but not while it keeps others out."""
    server = serve("echo.py", "--max-inflight-bytes", 8 * MIB, "--body-timeout", "2s")
    message = padded(4 * MIB)
    with H2(server.host, server.port) as slow, H2(server.host, server.port) as other, \
            H2(server.host, server.port) as third:
        upload = slow.open_grpc()
        slow.send(upload, prefixed(message[:MIB], length=len(message)))
        at = MIB
        until_held(server, 4 * MIB)

        def trickle():
            nonlocal at
            slow.send(upload, message[at:at + TRICKLE])
            at += TRICKLE
            return slow.replies[upload].ended

        for _ in range(2):  # nobody needs the room: it is waited for, longer than it would take to give it up
            before = stalled(server, "request")
            third.send(third.open_grpc(), prefixed(b"", length=1000))
            wait.until(lambda: trickle() or stalled(server, "request") > before, "the one that stops to be given up")
            assert not slow.replies[upload].ended
        assert other.grpc(prefixed(padded(3 * MIB))).grpc_status == EXHAUSTED
        wait.until(lambda: trickle() or other.grpc(prefixed(padded(3 * MIB))).grpc_status == 0, "room for others")
        reply = slow.reply(upload)
        assert reply.grpc_status == EXHAUSTED and "too slowly" in reply.grpc_message
        assert other.grpc(prefixed(padded(3 * MIB))).grpc_status == 0


def test_who_holds_little_is_not_judged_by_its_pace(serve):
    server = serve("echo.py", "--max-inflight-bytes", 8 * MIB, "--body-timeout", "2s")
    message = padded(MIB)
    with H2(server.host, server.port) as slow, H2(server.host, server.port) as other:
        upload = slow.open_grpc()
        slow.send(upload, prefixed(message[:200_000], length=len(message)))
        at = 200_000
        until_held(server, MIB)
        before = stalled(server, "request")
        third = other.open_grpc()
        other.send(third, prefixed(b"", length=1000))
        while stalled(server, "request") == before:  # longer than a slow one would have
            assert other.grpc(prefixed(padded(4 * MIB))).grpc_status == EXHAUSTED
            slow.send(upload, message[at:at + TRICKLE])
            at += TRICKLE
        assert not slow.replies[upload].ended
        slow.send(upload, message[at:], end=True)
        assert slow.reply(upload).grpc_status == 0


# --- what is pipelined ---

def ask(model, n):
    body = json.dumps({"inputs": [], "parameters": {"n": n}}).encode()
    return b"POST /v2/models/%s/infer HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (model, HOST, len(body), body)


def test_pipelined_bytes_count(serve, stage):
    server = serve("staged.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    request = (b'POST /v2/models/staged/infer HTTP/1.1\r\n%sContent-Length: 13\r\n\r\n{"inputs":[]}' % HOST)
    with Raw(server) as client:
        client.send(request)
        (scene,) = stage.started(1)
        client.send(request * 300)
        wait.until(lambda: held(server) > 20_000, lambda: held(server))
        for k in range(1, 4):
            scene.go()
            scene = stage.started(k + 1)[k]
    # those that wait go with their client; the fourth is in its handler, which has its body
    wait.until(lambda: held(server) == len(b'{"inputs":[]}'), lambda: held(server))
    scene.go()
    wait.until(lambda: held(server) == 0, lambda: held(server))
    stage.reset()


@pytest.mark.parametrize("room", [False, True])
def test_pipelined_requests_that_there_is_no_room_for(serve, stage, room):
    """The answer under way is given, and the connection ends: its client knows that nothing else was read."""
    server = serve("staged.py", "--max-inflight-bytes", "20K", env={"ANYSERVE_TEST_STAGE": stage.path})
    request = (b'POST /v2/models/staged/infer HTTP/1.1\r\n%sContent-Length: 13\r\n\r\n{"inputs":[]}' % HOST)
    with Raw(server) as client:
        client.send(request)
        (scene,) = stage.started(1)
        client.send(request * (2 if room else 200))
        refused = lambda: prometheus.total(prometheus.parse(server.metrics()), "anyserve_budget_refusals_total")  # noqa: E731
        wait.until(lambda: held(server) > 100 if room else refused() > 0, lambda: server.status()["server"])
        scene.go()
        if room:
            for k in (1, 2):
                stage.started(k + 1)[k].go()
            assert client.until(rb"(HTTP/1.1 200.*){3}")
        else:
            client.rest()
            assert client.statuses() == [200]
            assert b"connection: close" in client.seen.lower()
    stage.reset()


# --- answers ---

def want(n):
    return prefixed(oip.infer_request("big", {}, parameters={"n": n}).SerializeToString())


def test_answers_that_nobody_reads(serve):
    """A hundred answers of a MiB for one client that takes none, with 16 MiB for what is held."""
    server = serve("failing/misbehaving.py", "--max-inflight-bytes", 16 * MIB)
    with oip.Client(server.address) as other:
        other.infer("big", {}, parameters={"n": MIB})
        before = procs.status(server.dispatcher, "VmRSS")
        with H2(server.host, server.port) as http:
            http.is_reading = False
            for _ in range(100):
                http.send(http.open_grpc(), want(MIB), end=True)
            wait.until(lambda: answered(server) == 101, lambda: server.status())
            grown = procs.status(server.dispatcher, "VmRSS") - before
            assert 4 * MIB <= unread(server) <= 8 * MIB
            assert other.infer("big", {}, parameters={"n": 1000})["output0"].size == 1000
            assert other.infer("big", {}, parameters={"n": 2 * MIB})["output0"].size == 2 * MIB
        if not procs.is_sanitized(server.dispatcher):
            assert grown < 32 << 10  # KiB
        wait.until(lambda: unread(server) == 0, lambda: unread(server))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [20_032, MIB])
def test_the_largest_answer(serve, threads, n):
    """--max-answer-bytes, and a byte more: what was executed is said to have been."""
    server = serve("failing/misbehaving.py", "--max-answer-bytes", n + (200 if n < MIB else 0), "--connection-share", 100,
                   "--threads", threads)
    with H2(server.host, server.port) as http:
        assert http.grpc(want(n)).grpc_status == 0
        before = server.counts("misbehaving")["dispatched"]
        reply = http.grpc(want(n + 300))
        assert reply.grpc_status == EXHAUSTED
        assert "--max-answer-bytes" in reply.grpc_message
        assert reply.all["anyserve-may-have-executed"] == "1"
        assert reply.all["grpc-retry-pushback-ms"] == "-1"
        assert server.counts("misbehaving")["dispatched"] == before + 1
        reply = http.request("POST", "/v2/models/big/infer", body=json.dumps(
            {"inputs": [], "parameters": {"n": n + 300}, "outputs": [
                {"name": "output0", "parameters": {"binary_data": True}}]}).encode())
        assert (reply.headers[":status"], reply.headers["anyserve-may-have-executed"]) == ("503", "1")
        assert "retry-after" not in reply.headers
        assert http.grpc(want(n)).grpc_status == 0
        wait.until(lambda: unread(server) == 0, lambda: unread(server))


def test_nothing_is_executed_for_who_takes_no_answers(serve):
    server = serve("failing/misbehaving.py", "--max-answer-bytes", 4 * MIB)
    with H2(server.host, server.port) as deaf, H2(server.host, server.port) as other:
        deaf.is_reading = False
        for _ in range(2):
            deaf.send(deaf.open_grpc(), want(MIB), end=True)
        wait.until(lambda: unread(server) >= 2 * MIB, lambda: unread(server))
        before = server.counts("misbehaving")["dispatched"]
        reply = deaf.grpc(want(1))
        assert reply.grpc_status == EXHAUSTED and "no room for an answer" in reply.grpc_message
        assert reply.all["grpc-retry-pushback-ms"] == "1000"
        assert server.counts("misbehaving")["dispatched"] == before
        assert other.grpc(want(MIB - 100)).grpc_status == 0
        deaf.resume()
        wait.until(lambda: deaf.read() and unread(server) == 0, lambda: unread(server))
        assert deaf.grpc(want(MIB)).grpc_status == 0


def test_slow_readers_lose_against_others(serve):
    server = serve("failing/misbehaving.py", "--max-answer-bytes", 8 * MIB, "--send-timeout", "2s")
    with H2(server.host, server.port) as slow, H2(server.host, server.port) as other, \
            H2(server.host, server.port) as third:
        slow.is_reading = False
        stream = slow.open_grpc()
        slow.send(stream, want(4 * MIB - 64), end=True)
        slow.sock.settimeout(0.02)

        def sip():
            """It reads a little, as much as it must; true once it was reset."""
            if slow.replies[stream].reset is not None:
                return True
            slow.conn.increment_flow_control_window(TRICKLE)
            slow.conn.increment_flow_control_window(TRICKLE, stream)
            slow.flush()
            try:
                assert slow.read()
            except TimeoutError:
                pass
            return False

        wait.until(lambda: sip() or unread(server) > 3 * MIB, lambda: unread(server))
        for _ in range(2):  # nobody needs the room
            before = stalled(server, "answer")
            third.is_reading = False
            third.send(third.open_grpc(), want(100_000), end=True)
            wait.until(lambda: sip() or stalled(server, "answer") > before, "the one that does not read to be given up")
            assert slow.replies[stream].reset is None
        assert other.grpc(want(3 * MIB)).grpc_status == EXHAUSTED
        wait.until(lambda: sip() or other.grpc(want(3 * MIB)).grpc_status == 0, "room for others")
        wait.until(sip, "the slow one to be reset")
        assert slow.replies[stream].reset == CANCEL
        assert other.grpc(want(3 * MIB)).grpc_status == 0


def test_bytes_that_wait_in_the_socket_count(roomy):
    """Small answers of a client that opens its windows and reads nothing."""
    body = prefixed(padded(8000))
    with H2(roomy.host, roomy.port) as http:
        http.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        http.conn.increment_flow_control_window(2**30)
        http.request("GET", "/v2")  # its windows are known
        http.sock.settimeout(2)
        with contextlib.suppress(TimeoutError):  # the server may stop reading
            for _ in range(1000):
                http.conn.send_data(http.open_grpc(), body, end_stream=True)
                http.flush()
        wait.until(lambda: unread(roomy) > 0, lambda: roomy.status())
        assert unread(roomy) < 2 * MIB
    wait.until(lambda: unread(roomy) == 0, lambda: unread(roomy))


# --- streams ---

N = 60_000  # elements of eight bytes


def part(q, n):
    return link.message(q.stream, {"y": np.zeros(n)}, more=True)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_part_that_there_is_no_room_for_ends_its_stream(serve, threads):
    """With the parts before it, and its worker is told; the link goes on."""
    server = serve("echo.py", "--max-answer-bytes", 900_000, "--connection-share", 100, "--stream-credit-bytes", "8M",
                   "--threads", threads)
    with Worker(server) as worker, H2(server.host, server.port) as http, H2(server.host, server.port) as other:
        worker.serve("hand", slots=2, decoupled=True)
        wait_known(http, "hand")
        wait_known(other, "hand")
        http.is_reading = False
        call = http.open_grpc("ModelStreamInfer")
        http.send(call, prefixed(oip.infer_request("hand", {"x": np.ones(1)}).SerializeToString()))
        q = worker.next(link.OPEN)
        worker.next(link.CREDIT)
        worker.send(part(q, N))
        wait.until(lambda: unread(server) >= 8 * N, lambda: unread(server))
        worker.send(part(q, N))
        wait.until(lambda: worker.cancelled or worker.send(link.frame(link.PING, bytes(8))) or
                   (worker.next(link.PONG) and worker.cancelled), "the worker to be told")
        assert q.stream in worker.cancelled
        worker.send(part(q, N) * 2)  # they cross
        second = other.open_grpc("ModelStreamInfer")
        other.send(second, prefixed(oip.infer_request("hand", {"x": np.ones(1)}).SerializeToString()), end=True)
        q2 = worker.next(link.OPEN)
        worker.send(part(q2, 10) + link.end(q2.stream) + link.error(q.stream, 1, b"cancelled", flags=1))
        assert other.reply(second).grpc_status == 0
        http.resume()
        http.send(call, b"", end=True)
        reply = http.reply(call)
        assert len(messages_of(reply.data)) == 2  # a response, and the error of the request
        error = oip.messages()["ModelStreamInferResponse"].FromString(messages_of(reply.data)[1][1])
        assert "--max-answer-bytes" in error.error_message


def test_an_event_that_there_is_no_room_for(serve):
    server = serve("echo.py", "--max-answer-bytes", 600_000, "--connection-share", 100, "--stream-credit-bytes", "8M")
    with Worker(server) as worker, H2(server.host, server.port) as http:
        worker.serve("hand", decoupled=True)
        http.is_reading = False
        call = http.open([(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/hand/generate_stream"),
                          (":authority", "a")])
        http.send(call, b'{"x":1}', end=True)
        q = worker.next(link.OPEN)
        worker.next(link.CREDIT)
        worker.send(link.message(q.stream, {"y": np.zeros(5000)}, more=True) * 10)
        wait.until(lambda: worker.cancelled or worker.send(link.frame(link.PING, bytes(8))) or
                   (worker.next(link.PONG) and worker.cancelled), "the worker to be told")
        worker.send(link.error(q.stream, 1, b"cancelled", flags=1))
        http.resume()
        reply = http.reply(call)
        assert reply.reset is not None or b'data: {"error":"the answer of' in reply.data


# --- simple workers ---

@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("n", [30_000, 300_000, 3 * MIB])
def test_simple_workers(serve, threads, n):
    server = serve(None, "--ping-interval", "200ms", "--worker-heartbeat-timeout", "off", "--max-answer-bytes", n + 300,
                   "--connection-share", 100, "--threads", threads)
    small, large = np.zeros(n - 100, np.uint8), np.ones(n + 400, np.uint8)
    with Simple(server, "echo"), H2(server.host, server.port) as http:
        def call(x):
            return http.grpc(prefixed(oip.infer_request("echo", {"x": x}).SerializeToString()))

        wait_known(http, "echo")
        if n > 64 << 10 or threads == 2:  # else it is read as one piece, and copied where it is sent
            for _ in range(2):
                assert call(small).grpc_status == 0
                reply = call(large)
                assert (reply.grpc_status, reply.all["anyserve-may-have-executed"]) == (EXHAUSTED, "1"), reply
        else:
            assert call(small[:n // 2]).grpc_status == 0
            assert call(large).grpc_status == EXHAUSTED
        assert call(small[:1000]).grpc_status == 0
        wait.until(lambda: unread(server) == 0, lambda: unread(server))
