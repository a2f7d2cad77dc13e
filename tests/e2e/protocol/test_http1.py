"""HTTP/1.1 as clients use it: connections that live on, pipelining, 100-continue, slow and vanishing clients."""

import asyncio
import http.client
import json
import socket
import struct
import subprocess
import threading

import aiohttp
import numpy as np
import pytest

from support import wait
from support.protocol import http as rest
from support.protocol.raw import HOST, Raw

pytestmark = pytest.mark.core
LIVE = b"GET /v2/health/live HTTP/1.1\r\n" + HOST + b"\r\n"


@pytest.fixture(scope="module")
def server(serve_module, stage):
    return serve_module("staged.py", "--header-timeout", "400ms", "--idle-timeout", "400ms", "--body-timeout", "400ms",
                        "--send-timeout", "400ms", env={"ANYSERVE_TEST_STAGE": stage.path})


@pytest.fixture(scope="module")
def patient(serve_module):
    """A server whose timers do not matter."""
    return serve_module("echo.py", "--max-request-line", "1000", "--max-chunk-extension", "16", "--max-headers", "20",
                        "--max-header-bytes", "2000")


def infer(model, body, extra=b"", host=HOST):
    return (b"POST /v2/models/%s/infer HTTP/1.1\r\n" % model.encode() + host + extra +
            b"Content-Length: %d\r\n\r\n" % len(body) + body)


def staged(name):
    return infer("staged", rest.infer_json({"x": np.zeros(1)}, id=name))


@pytest.fixture
def scene(stage):
    """The one handler that waits, when it has begun."""
    stage.reset()
    yield lambda: stage.started(len(stage.scenes) or 1)[-1]
    stage.reset()


# --- real clients ---

def test_curl(patient):
    base = f"http://{patient.host}:{patient.port}"
    out = subprocess.run(["curl", "-sS", f"{base}/v2/health/live", f"{base}/v2/health/ready", f"{base}/v2", "-w",
                          "|%{http_code} %{http_version} %{num_connects}|"], capture_output=True, text=True, check=True)
    assert [part.split()[:2] for part in out.stdout.split("|")[1::2]] == [["200", "1.1"]] * 3
    assert [part.split()[2] for part in out.stdout.split("|")[1::2]] == ["1", "0", "0"]  # one connection for all


def test_curl_expects_100_continue(patient, tmp_path):
    array = np.arange(300_000, dtype=np.float64)
    headers, body = rest.infer_binary({"x": array})
    (tmp_path / "body").write_bytes(body)
    out = subprocess.run(["curl", "-sSv", "-H", "Expect: 100-continue", "-H", f"{headers[0][0]}: {headers[0][1]}",
                          "--data-binary", f"@{tmp_path}/body", "-o", tmp_path / "out", "-w", "%{http_code}",
                          f"http://{patient.host}:{patient.port}/v2/models/echo/infer"],
                         capture_output=True, text=True, check=True)
    assert out.stdout == "200" and "< HTTP/1.1 100 Continue" in out.stderr
    assert array.tobytes() in (tmp_path / "out").read_bytes()


def test_aiohttp(patient):
    async def run():
        async with aiohttp.ClientSession(f"http://{patient.host}:{patient.port}") as session:
            async def one(i):
                body = rest.infer_json({"x": np.full(3, i)})
                async with session.post("/v2/models/echo/infer", data=body) as got:
                    assert got.status == 200
                    assert (await got.json())["outputs"][0]["data"] == [i] * 3
            await asyncio.gather(*(one(i) for i in range(200)))
            async with session.post("/v2/models/echo/infer", data=chunks(rest.infer_json({"x": np.full(3, 7)}))) as got:
                assert got.status == 200  # in chunks
            async with session.head("/v2/health/live") as got:
                assert got.status == 200 and await got.read() == b""

    async def chunks(body):
        for i in range(0, len(body), 7):
            yield body[i:i + 7]
    asyncio.run(run())


def test_http_client_keeps_its_connection(patient):
    conn = http.client.HTTPConnection(patient.host, patient.port, timeout=wait.SECONDS)
    conn.connect()
    sock = conn.sock
    for path, status in [("/v2", 200), ("/none", 404), ("/v2/models/none/ready", 404), ("/v2/health/ready", 200)] * 3:
        conn.request("GET", path)
        got = conn.getresponse()
        json.loads(got.read())
        assert got.status == status and conn.sock is sock
    conn.close()


# --- one connection, many requests ---

def test_pipelining(patient):
    """Answers come in the order of the requests, and small ones do not overtake large ones."""
    parts, want = [], []
    for i in range(50):
        body = rest.infer_json({"x": np.full(1 + i % 3 * 2000, i, np.float32)}, id=f"r{i}")
        parts += [infer("echo", body), LIVE]
        want += [f'"id":"r{i}"'.encode(), b'{"live":true}']
    with Raw(patient) as client:
        client.send(b"".join(parts))
        at = 0
        for text in want:
            while (found := client.seen.find(text, at)) < 0:
                data = client.sock.recv(65536)
                assert data, client.seen[at:]
                client.seen += data
            at = found + len(text)


def test_a_thousand_pipelined_at_once(patient):
    with Raw(patient) as client:
        client.send(LIVE * 5000 + LIVE.replace(HOST, HOST + b"Connection: close\r\n"))
        assert client.rest().count(b'{"live":true}') == 5001


def test_pipelined_answers_beyond_what_may_wait(patient):
    """One read holds requests whose answers are more than the output may hold: the rest is taken up again."""
    small = b"GET /v2 HTTP/1.1\r\nHost:h\r\n\r\n"
    with Raw(patient) as client:
        sender = threading.Thread(target=client.send, args=(small * 20000 + LIVE.replace(HOST, HOST + b"Connection: close\r\n"),))
        sender.start()
        parts = []
        while data := client.sock.recv(1 << 20):
            parts.append(data)
        sender.join()
        assert b"".join(parts).count(b"HTTP/1.1 200 OK") == 20001


def test_one_byte_at_a_time(patient):
    body = rest.infer_json({"x": np.arange(3)})
    with Raw(patient) as client:
        client.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in infer("echo", body) + LIVE:
            client.send(bytes([byte]))
        assert client.until(rb'"outputs".*"live":true')


def test_head_has_no_body(patient):
    with Raw(patient) as client:
        client.send(LIVE.replace(b"GET", b"HEAD") + LIVE)
        assert client.until(rb"live")
        first, second, body = client.seen.split(b"\r\n\r\n")
        assert first == second and body == b'{"live":true}'


def test_http_1_0(patient):
    with Raw(patient) as client:
        client.send(b"GET /v2/health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert client.rest().endswith(b'connection: close\r\n\r\n{"live":true}')


def test_grpc_needs_http2(patient):
    with Raw(patient) as client:
        client.send(b"POST /inference.GRPCInferenceService/ServerLive HTTP/1.1\r\n" + HOST +
                    b"Content-Type: application/grpc\r\nTE: trailers\r\nContent-Length: 5\r\n\r\n\0\0\0\0\0" + LIVE)
        assert client.until(rb"live")
        assert client.statuses() == [505, 200] and b"gRPC needs HTTP/2" in client.seen


def test_expectations(patient):
    body = rest.infer_json({"x": np.zeros(1)})
    with Raw(patient) as client:
        head, _, _ = infer("echo", body, b"Expect: 100-continue\r\n").partition(body)
        client.send(head)
        assert client.until(rb"^HTTP/1.1 100 Continue\r\n\r\n$")
        client.send(body)
        assert client.until(rb"HTTP/1.1 200 OK.*outputs")
    with Raw(patient) as client:  # refused before it has sent its body
        client.send(b"POST /none HTTP/1.1\r\n" + HOST + b"Expect: 100-continue\r\nContent-Length: 100\r\n\r\n")
        client.rest()
        assert client.statuses() == [404] and b"connection: close" in client.seen


# --- limits, at N and one more ---

@pytest.mark.parametrize("more, status", [(0, 404), (1, 414)])
def test_request_line(patient, more, status):
    line = b"GET /" + b"a" * (1000 - len("GET / HTTP/1.1") + more) + b" HTTP/1.1\r\n"
    with Raw(patient) as client:
        client.send(line + HOST + b"Connection: close\r\n\r\n")
        client.rest()
        assert client.statuses() == [status]


@pytest.mark.parametrize("more, status", [(0, 200), (1, 400)])
def test_chunk_extension(patient, more, status):
    body = rest.infer_json({"x": np.zeros(1)})
    with Raw(patient) as client:
        client.send(b"POST /v2/models/echo/infer HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n"
                    b"Connection: close\r\n\r\n%x;" % len(body) + b"a" * (15 + more) + b"\r\n" + body + b"\r\n0\r\n\r\n")
        client.rest()
        assert client.statuses() == [status]


@pytest.mark.parametrize("more, status", [(0, 200), (1, 431)])
def test_header_fields(patient, more, status):
    with Raw(patient) as client:
        client.send(LIVE.replace(HOST, HOST + b"Connection: close\r\n" + b"a: b\r\n" * (18 + more)))
        client.rest()
        assert client.statuses() == [status]
        assert (b"--max-headers" in client.seen) == bool(more)


@pytest.mark.parametrize("more, status", [(0, 200), (1, 431)])
def test_header_bytes(patient, more, status):
    """Each field counts with its line and 32 bytes."""
    others = len("Host: h") + 32 + len("Connection: close") + 32
    with Raw(patient) as client:
        client.send(LIVE.replace(HOST, HOST + b"Connection: close\r\na: " + b"b" * (2000 - others - 35 + more) + b"\r\n"))
        client.rest()
        assert client.statuses() == [status]
        assert (b"--max-header-bytes" in client.seen) == bool(more)


@pytest.mark.parametrize("size", [0, 1, 8192, 8193, 65536, 1 << 20, 20 << 20])
def test_bodies_of_every_size(patient, size):
    """Small ones are copied, larger ones received where they lie, in as many reads as it takes."""
    array = np.random.default_rng(size).integers(0, 256, size, dtype=np.uint8)
    client = rest.Http1(patient.host, patient.port)
    headers, body = rest.infer_binary({"x": array})
    for _ in range(2):
        got = client.request("POST", "/v2/models/echo/infer", body, headers)
        assert got.status == 200
        assert rest.outputs_of(got)["x"].tobytes() == array.tobytes()
    client.close()


# --- clients that are slow, or leave ---

@pytest.mark.parametrize("said", [b"", b"G", b"GET /v2 HTTP/1.1\r\nHost: h\r\n", LIVE + b"GET /v2"])
def test_slow_heads(server, said):
    with Raw(server) as client:
        client.send(said)
        client.rest()
        if said and said != b"":
            assert client.statuses() == ([200, 408] if said.startswith(LIVE) else [408])


def test_idle_connections_go(server):
    with Raw(server) as client:
        client.send(LIVE)
        client.rest()
        assert client.statuses() == [200]


def test_a_body_that_stops(server):
    with Raw(server) as client:
        client.send(infer("fast", b"x" * 100)[:-50])
        client.rest()
        assert client.statuses() == [408] and b"--body-timeout" in client.seen


def test_a_client_that_does_not_read(serve):
    server = serve("echo.py", "--send-timeout", "400ms")
    body = rest.infer_json({"x": np.zeros(100_000, np.float32)})
    with Raw(server) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.sock.settimeout(wait.SECONDS)
        try:
            for _ in range(200):
                client.sock.sendall(infer("echo", body))
        except (ConnectionResetError, BrokenPipeError):
            pass
        server.log.wait(r"event=client_closed reason=send_timeout")
    with Raw(server) as other:
        other.send(LIVE)
        assert other.until(rb"live")


@pytest.mark.parametrize("how", ["fin", "reset", "pipelined"])
def test_who_leaves_is_noticed(server, scene, how):
    """While a handler works on its request, and with requests that wait behind the first one."""
    with Raw(server) as client:
        client.send(staged(how))
        waiting = scene()
        if how == "pipelined":
            client.send(LIVE * 1000)  # fits in the kernel's receive buffer: behind a full one the FIN would wait
        if how == "reset":
            client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait.until(lambda: server.status()["server"]["connections"] == 0, "the connection to be gone")
    waiting.go()


def test_who_ends_its_side_gets_the_answer_that_is_ready(server):
    with Raw(server) as client:
        client.send(LIVE * 3)
        client.sock.shutdown(socket.SHUT_WR)
        client.rest()
        assert client.statuses() == [200] * 3


@pytest.mark.parametrize("cut", ["line", "field", "head", "body", "chunk_size", "chunk", "trailer", "answered"])
def test_who_leaves_in_any_state(patient, cut):
    te = b"POST /v2/models/echo/infer HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    said = {"line": b"GET /v2 HT", "field": LIVE[:-4], "head": LIVE[:-1], "body": infer("echo", b"x" * 20000)[:-5],
            "chunk_size": te + b"1", "chunk": te + b"10\r\nabc", "trailer": te + b"1\r\nx\r\n0\r\nA: ", "answered": LIVE}
    for reset in (False, True):
        with Raw(patient) as client:
            client.send(said[cut])
            if cut == "answered":
                client.until(rb"live")
            if reset:
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_drain_says_close(serve, stage, scene):
    """A request under way is answered, and told that the connection ends."""
    server = serve("staged.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    with Raw(server) as busy, Raw(server) as idle:
        idle.send(LIVE)
        assert idle.until(rb"live")
        busy.send(staged("drain"))
        waiting = scene()
        server.process.terminate()
        idle.rest()
        waiting.go()
        busy.rest()
        assert busy.statuses() == [200] and b"\r\nconnection: close\r\n" in busy.seen
    server.ended()


def test_malformed_requests_are_logged_and_counted(patient):
    with Raw(patient) as client:
        client.send(b"GET / HTTP/1.1\r\nHost : h\r\n\r\n")
        client.rest()
    patient.log.wait(r"event=client_closed reason=bad_request .*detail=")
