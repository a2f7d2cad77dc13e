"""TLS on the port of clients: who can speak to it, and what it does with those who cannot."""

import asyncio
import collections
import json
import select
import shutil
import socket
import ssl
import subprocess
import threading

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc
import tritonclient.http
from websockets.asyncio.client import connect as websocket_connect

from support import ports, wait
from support.protocol import oip, prometheus, websocket

pytestmark = pytest.mark.core
ADD = {"inputs": [{"name": n, "datatype": "FP32", "shape": [2], "data": [1, 2]} for n in "ab"]}


def context(authority, alpn=("http/1.1",), client=None, least=None, most=None):
    c = ssl.create_default_context(cafile=authority.cert)
    if alpn:
        c.set_alpn_protocols(list(alpn))
    if client:
        c.load_cert_chain(client.cert, client.key)
    if least:
        c.minimum_version = least
    if most:
        c.maximum_version = most
    return c


def connect(server, c, name="localhost", session=None):
    s = socket.create_connection(("127.0.0.1", server.port), oip.SECONDS)
    return c.wrap_socket(s, server_hostname=name, session=session)


def ask(s, path="/v2/health/ready", close=True):
    s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{'Connection: close' if close else 'X: y'}\r\n\r\n".encode())
    received = b""
    while chunk := s.recv(65536):
        received += chunk
        if not close and b"}" in received:
            break
    return received


def subject(s):
    return dict(pair[0] for pair in s.getpeercert()["subject"])["commonName"]


def by_label(server, metric, label):
    return {dict(labels)[label]: n for (name, labels), n in prometheus.parse(server.metrics()).items() if name == metric}


def closings(server):
    return by_label(server, "anyserve_connections_closed_total", "reason")


def total(server, name):
    return prometheus.total(prometheus.parse(server.metrics()), name)


def run(*command, text=""):
    return subprocess.run([str(c) for c in command], input=text, capture_output=True, text=True, timeout=wait.SECONDS)


class TestClients:
    @pytest.fixture(scope="class")
    def server(self, serve_module, pair):
        return serve_module("echo.py", *pair.options)

    @pytest.mark.parametrize("version", ["--http1.1", "--http2"])
    @pytest.mark.parametrize("tls", ["--tlsv1.2", "--tlsv1.3"])
    def test_curl(self, server, authority, version, tls):
        most = ["--tls-max", tls[-3:]]
        done = run("curl", "-sS", version, tls, *most, "--cacert", authority.cert, "-d", json.dumps(ADD), "-w", "\n%{http_version}",
                   f"https://localhost:{server.port}/v2/models/add/infer")
        body, _, spoken = done.stdout.rpartition("\n")
        assert (json.loads(body)["outputs"][0]["data"], spoken) == ([2, 4], "2" if version == "--http2" else "1.1"), done

    def test_httpx(self, server, authority):
        with httpx.Client(http2=True, verify=context(authority, ["h2", "http/1.1"])) as client:
            answer = client.post(f"https://localhost:{server.port}/v2/models/add/infer", json=ADD)
            assert (answer.http_version, answer.json()["outputs"][0]["data"]) == ("HTTP/2", [2, 4])

    def test_grpcio(self, server, authority):
        credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes())
        with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
            call = channel.unary_unary(f"/{oip.SERVICE}/ServerReady", request_serializer=lambda m: m.SerializeToString(),
                                       response_deserializer=oip.messages()["ServerReadyResponse"].FromString)
            assert call(oip.message("ServerReadyRequest"), timeout=oip.SECONDS).ready

    def test_tritonclient_grpc(self, server, authority):
        client = tritonclient.grpc.InferenceServerClient(f"localhost:{server.port}", ssl=True, root_certificates=str(authority.cert))
        inputs = [tritonclient.grpc.InferInput(n, [2], "FP32") for n in "ab"]
        for i in inputs:
            i.set_data_from_numpy(np.array([1, 2], "f4"))
        assert client.infer("add", inputs).as_numpy("sum").tolist() == [2, 4]
        client.close()

    def test_tritonclient_http(self, server, authority):
        client = tritonclient.http.InferenceServerClient(f"localhost:{server.port}", ssl=True,
                                                         ssl_context_factory=lambda: context(authority))
        inputs = [tritonclient.http.InferInput(n, [2], "FP32") for n in "ab"]
        for i in inputs:
            i.set_data_from_numpy(np.array([1, 2], "f4"))
        assert client.infer("add", inputs).as_numpy("sum").tolist() == [2, 4]
        client.close()

    def test_openssl_client(self, server, authority):
        done = run("openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-CAfile", authority.cert, "-verify_return_error",
                   "-servername", "localhost", "-quiet", text="GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert "200 OK" in done.stdout and "verify error" not in done.stderr, done

    @pytest.mark.skipif(not shutil.which("gnutls-cli"), reason="gnutls-cli is not installed")
    def test_gnutls_client(self, server, authority):
        done = run("gnutls-cli", "--x509cafile", authority.cert, "--port", server.port, "localhost", "--logfile", "/dev/null",
                   text="GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert done.returncode == 0 and "200 OK" in done.stdout, done

    def test_without_alpn_the_first_bytes_choose(self, server, authority):
        with connect(server, context(authority, alpn=())) as s:
            assert ask(s).startswith(b"HTTP/1.1 200")
        with connect(server, context(authority, alpn=())) as s:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            assert s.recv(9)[3] == 4, "the server's SETTINGS"

    def test_alpn_without_a_known_protocol_is_refused(self, server, authority):
        with pytest.raises(ssl.SSLError, match="NO_APPLICATION_PROTOCOL|no application protocol"):
            connect(server, context(authority, ["spdy/1"]))

    def test_http2_needs_no_round_trip_for_settings(self, server, authority):
        with connect(server, context(authority, ["h2"])) as s:
            assert s.selected_alpn_protocol() == "h2" and s.recv(9)[3] == 4

    @pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
    def test_a_session_is_resumed(self, server, authority, version):
        v = ssl.TLSVersion[version]
        c = context(authority, least=v, most=v)
        before = total(server, "anyserve_tls_handshakes_total")
        with connect(server, c) as s:
            ask(s, close=False)
            session = s.session
            assert not s.session_reused
        with connect(server, c, session=session) as s:
            assert ask(s).startswith(b"HTTP/1.1 200") and s.session_reused
        assert total(server, "anyserve_tls_handshakes_total") == before + 2
        assert by_label(server, "anyserve_tls_handshakes_total", "kind")["resumed"] >= 1

    def test_tls_1_1_is_refused(self, server):
        done = run("openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_1", "-cipher", "ALL:@SECLEVEL=0")
        assert done.returncode != 0 and "alert" in done.stderr, done

    def test_renegotiation_is_refused(self, server):
        p = subprocess.Popen(["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-tls1_2"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        out, _ = p.communicate("R\n", timeout=wait.SECONDS)
        assert "no renegotiation" in out, out

    @pytest.mark.parametrize("size", [1, 16384, 16385, 1 << 20, (8 << 20) + 3])
    @pytest.mark.parametrize("alpn", ["http/1.1", "h2"])
    def test_bodies_of_any_size(self, server, authority, size, alpn):
        payload = np.random.default_rng(size).integers(0, 256, size, "u1")
        head = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [size], "parameters": {"binary_data_size": size}}],
                           "parameters": {"binary_data_output": True}}).encode()
        with httpx.Client(http2=alpn == "h2", verify=context(authority, [alpn]), timeout=wait.SECONDS) as client:
            answer = client.post(f"https://localhost:{server.port}/v2/models/echo/infer", content=head + payload.tobytes(),
                                 headers={"Inference-Header-Content-Length": str(len(head))})
            assert answer.status_code == 200 and answer.content.endswith(payload.tobytes())

    def test_pipelined_requests(self, server, authority):
        one = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
        with connect(server, context(authority)) as s:
            s.sendall(one * 500 + one.replace(b"Host", b"Connection: close\r\nHost"))
            received = b""
            while chunk := s.recv(65536):
                received += chunk
        assert received.count(b"HTTP/1.1 200") == 501

    def test_a_slow_reader_gets_all(self, server, authority):
        size = 4 << 20
        body = json.dumps({"inputs": [{"name": "x", "datatype": "UINT8", "shape": [size], "parameters": {"binary_data_size": size}}],
                           "parameters": {"binary_data_output": True}}).encode()
        payload = bytes(range(256)) * (size // 256)
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        raw.settimeout(oip.SECONDS)
        raw.connect(("127.0.0.1", server.port))
        with context(authority).wrap_socket(raw, server_hostname="localhost") as s:
            s.sendall(f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {len(body) + size}\r\n"
                      f"Inference-Header-Content-Length: {len(body)}\r\n\r\n".encode() + body + payload)
            received = bytearray()
            while chunk := s.recv(3000):
                received += chunk
        assert received.endswith(payload)

    def test_a_record_in_pieces(self, server, authority):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", server.port), oip.SECONDS) as raw:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def send():
                for byte in outgoing.read():
                    raw.sendall(bytes([byte]))

            def step(action):
                while True:
                    try:
                        return action()
                    except ssl.SSLWantReadError:
                        send()
                        incoming.write(raw.recv(65536))
            step(client.do_handshake)
            client.write(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            send()
            assert step(lambda: client.read(4096)).startswith(b"HTTP/1.1 200")

    def test_a_part_of_a_record_counts_as_what_is_held(self, server, authority):
        """It is of no request yet, but of the budget of requests."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context(authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
        before = total(server, "anyserve_inflight_bytes")
        with socket.create_connection(("127.0.0.1", server.port), oip.SECONDS) as s:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    s.sendall(outgoing.read())
                    incoming.write(s.recv(65536))
            s.sendall(outgoing.read())
            client.write(b" " * 16384)
            s.sendall(outgoing.read()[:-1])
            wait.until(lambda: total(server, "anyserve_inflight_bytes") - before >= 16384, "a record is held")
            assert total(server, "anyserve_inflight_bytes") - before < 16384 + 100
        wait.until(lambda: total(server, "anyserve_inflight_bytes") == before, "nothing is held")

    def test_the_end_of_a_connection_is_announced(self, server, authority):
        c = context(authority)
        c.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF
        with connect(server, c) as s:
            assert ask(s).startswith(b"HTTP/1.1 200")  # a truncated end would raise SSLEOFError


class TestWhoIsNotUnderstood:
    @pytest.fixture(scope="class")
    def server(self, serve_module, pair):
        return serve_module("echo.py", *pair.options, "--tls-handshake-timeout", "300ms", "--max-handshakes", "20", "--threads", "1",
                            "--listen", "127.0.0.1:0")

    def clear_port(self, server):
        return int(server.log.wait(r"http://127.0.0.1:(\d+)  the same")[1])

    def talk(self, port, data):
        with socket.create_connection(("127.0.0.1", port), oip.SECONDS) as s:
            s.sendall(data)
            received = b""
            try:
                while chunk := s.recv(65536):
                    received += chunk
            except ConnectionResetError:
                pass
        return received

    @pytest.mark.parametrize("request_line", [b"GET / HTTP/1.1", b"POST /v2 HTTP/1.0", b"PRI * HTTP/2.0"])
    def test_clear_text_gets_a_readable_400(self, server, request_line):
        answer = self.talk(server.port, request_line + b"\r\nHost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 400") and b"speaks TLS" in answer

    def test_tls_on_the_clear_port(self, server, authority):
        with pytest.raises(ssl.SSLError):
            context(authority).wrap_socket(socket.create_connection(("127.0.0.1", self.clear_port(server)), oip.SECONDS),
                                           server_hostname="localhost")

    @pytest.mark.parametrize("data", [b"\x16\x03\x01\x00\x05hello", b"\x16" + b"\xff" * 20000, b"\x15\x03\x01\x00\x02\x02\x28", b"\x00" * 100])
    def test_garbage_ends_the_connection(self, server, data):
        before = closings(server)["handshake_failed"]
        self.talk(server.port, data)
        wait.until(lambda: closings(server)["handshake_failed"] == before + 1, lambda: closings(server))

    def test_a_server_name_of_10_kb_is_refused(self, server):
        name = b"a" * 10000
        sni = b"\0\0" + (len(name) + 5).to_bytes(2) + (len(name) + 3).to_bytes(2) + b"\0" + len(name).to_bytes(2) + name
        hello = b"\3\3" + b"r" * 32 + b"\0" + b"\0\2\x13\x01" + b"\1\0" + len(sni).to_bytes(2) + sni
        hello = b"\1" + len(hello).to_bytes(3) + hello
        answer = self.talk(server.port, b"\x16\3\1" + len(hello).to_bytes(2) + hello)
        assert answer[:1] == b"\x15", "an alert"

    def test_a_silent_client_is_closed_after_the_timeout(self, server):
        before = closings(server)["handshake_timeout"]
        assert self.talk(server.port, b"") == b""
        assert closings(server)["handshake_timeout"] == before + 1

    def test_a_handshake_of_one_byte_at_a_time_is_closed_after_the_timeout(self, server, authority):
        out = ssl.MemoryBIO()
        client = context(authority).wrap_bio(ssl.MemoryBIO(), out, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        before = closings(server)["handshake_timeout"]
        with socket.create_connection(("127.0.0.1", server.port), oip.SECONDS) as s:
            s.settimeout(0.02)
            for byte in out.read()[:-1]:
                try:
                    s.sendall(bytes([byte]))
                    if s.recv(1) == b"":
                        break
                except TimeoutError:
                    continue
                except OSError:
                    break
        assert closings(server)["handshake_timeout"] == before + 1

    def test_one_more_than_the_limit_replaces_the_one_that_is_silent_longest(self, server, authority):
        wait.until(lambda: total(server, "anyserve_tls_handshakes_in_progress") == 0, "no handshake is left")
        before = closings(server)["handshake_evicted"]
        silent = [socket.create_connection(("127.0.0.1", server.port), oip.SECONDS) for _ in range(20)]
        wait.until(lambda: total(server, "anyserve_tls_handshakes_in_progress") == 20 or closings(server)["handshake_timeout"], "20 wait")
        with connect(server, context(authority)) as s:
            assert ask(s).startswith(b"HTTP/1.1 200")
        assert silent[0].recv(1) == b""  # evicted, or by the timeout on a machine that is very slow
        assert closings(server)["handshake_evicted"] + closings(server)["handshake_timeout"] >= before + 1
        for s in silent:
            s.close()

    def test_the_header_timeout_begins_when_the_handshake_is_done(self, serve, pair, authority):
        """Handshakes that took longer than it, whose clients then take a moment for their request, while the sweep comes by."""
        server = serve("echo.py", *pair.options, "--header-timeout", "1s", "--tls-handshake-timeout", "60s", "--listen", "127.0.0.1:0",
                       "--threads", "1")
        clear = ("127.0.0.1", self.clear_port(server))
        slow = collections.deque(socket.create_connection(("127.0.0.1", server.port), oip.SECONDS) for _ in range(400))
        with socket.create_connection(clear, oip.SECONDS) as silent:
            assert silent.recv(1) == b""
        ready, done = collections.deque(), 0
        with socket.create_connection(clear, oip.SECONDS) as silent:  # until the sweep has closed this one
            while slow and not select.select([silent], [], [], 0)[0]:
                ready.append(context(authority).wrap_socket(slow.popleft(), server_hostname="localhost"))
                if len(ready) == 5:
                    with ready.popleft() as s:
                        assert ask(s).startswith(b"HTTP/1.1 200")
                    done += 1
        assert done
        for s in (*slow, *ready):
            s.close()

    def test_two_thousand_silent_clients_keep_nobody_out(self, server, authority):
        silent = []
        for i in range(2000):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", server.port))
            silent.append(s)
            if i % 100 == 99:
                with connect(server, context(authority)) as healthy:
                    assert ask(healthy).startswith(b"HTTP/1.1 200")
        for s in silent:
            s.close()


class TestMutual:
    @pytest.fixture(scope="class")
    def server(self, serve_module, pair, authority):
        return serve_module("echo.py", *pair.options, "--tls-client-ca", authority.cert)

    def test_a_client_with_a_certificate(self, server, authority):
        mine = authority.sign("alice")
        with connect(server, context(authority, client=mine)) as s:
            assert ask(s).startswith(b"HTTP/1.1 200")
        credentials = grpc.ssl_channel_credentials(authority.cert.read_bytes(), mine.key.read_bytes(), mine.cert.read_bytes())
        with grpc.secure_channel(f"localhost:{server.port}", credentials) as channel:
            call = channel.unary_unary(f"/{oip.SERVICE}/ServerLive", request_serializer=lambda m: m.SerializeToString(),
                                       response_deserializer=oip.messages()["ServerLiveResponse"].FromString)
            assert call(oip.message("ServerLiveRequest"), timeout=oip.SECONDS).live
        done = run("curl", "-sS", "--cacert", authority.cert, "--cert", mine.cert, "--key", mine.key,
                   f"https://localhost:{server.port}/v2/health/live", "-w", "%{http_code}", "-o", "/dev/null")
        assert done.stdout == "200", done
        done = run("gnutls-cli", "--x509cafile", authority.cert, "--x509certfile", mine.cert, "--x509keyfile", mine.key, "--port",
                   server.port, "localhost", "--logfile", "/dev/null", text="GET /v2/health/live HTTP/1.0\r\n\r\n")
        assert "200 OK" in done.stdout, done

    def test_httpx_and_tritonclient(self, server, authority):
        mine = authority.sign("carol")
        with httpx.Client(http2=True, verify=context(authority, ["h2"], client=mine)) as client:
            assert client.post(f"https://localhost:{server.port}/v2/models/add/infer", json=ADD).json()["outputs"][0]["data"] == [2, 4]
        client = tritonclient.grpc.InferenceServerClient(f"localhost:{server.port}", ssl=True, root_certificates=str(authority.cert),
                                                         private_key=str(mine.key), certificate_chain=str(mine.cert))
        assert client.is_server_live()
        client.close()
        client = tritonclient.http.InferenceServerClient(f"localhost:{server.port}", ssl=True,
                                                         ssl_context_factory=lambda: context(authority, client=mine))
        assert client.is_server_live()
        client.close()

    @pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
    @pytest.mark.parametrize("who", ["nobody", "a stranger", "expired"])
    def test_a_client_without_a_valid_one(self, server, authority, stranger, who, version):
        mine = {"nobody": lambda: None, "a stranger": lambda: stranger.sign("bob"),
                "expired": lambda: authority.sign(f"old{version}", not_after="20210101000000Z")}[who]()
        v = ssl.TLSVersion[version]
        before = closings(server)["handshake_failed"]
        with pytest.raises((ssl.SSLError, ConnectionResetError)):  # TLS 1.3: the client knows it at its first read
            with connect(server, context(authority, client=mine, least=v, most=v)) as s:
                assert not ask(s)
                raise ssl.SSLError("the server has closed")
        assert closings(server)["handshake_failed"] == before + 1


class TestNames:
    @pytest.fixture(scope="class")
    def server(self, serve_module, pair, authority):
        one = authority.sign("one", "one.example")
        wild = authority.sign("wild", "*.wild.example", rsa=True)
        return serve_module("echo.py", *pair.options, *one.options, *wild.options)

    @pytest.mark.parametrize("name, expected", [("localhost", "server"), ("one.example", "one"), ("ONE.example", "one"),
                                                ("a.wild.example", "wild"), ("a.b.wild.example", "server"), ("unknown.example", "server"),
                                                (None, "server")])
    def test_the_certificate_of_the_name(self, server, authority, name, expected):
        c = context(authority)
        c.check_hostname = False
        with connect(server, c, name) as s:
            assert subject(s) == expected
            session = s.session if ask(s, close=False) else None
        with connect(server, c, name, session=session or s.session) as s:
            assert ask(s).startswith(b"HTTP/1.1 200")


class TestOptions:
    @pytest.mark.parametrize("most, works", [("TLSv1_2", False), ("TLSv1_3", True)])
    def test_the_least_version(self, serve, pair, authority, most, works):
        server = serve("echo.py", *pair.options, "--tls-min-version", "1.3")
        c = context(authority, most=ssl.TLSVersion[most])
        if works:
            with connect(server, c) as s:
                assert ask(s).startswith(b"HTTP/1.1 200")
        else:
            with pytest.raises(ssl.SSLError):
                connect(server, c)

    @pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])
    def test_no_tickets(self, serve, pair, authority, version):
        server = serve("echo.py", *pair.options, "--tls-ticket-lifetime", "off")
        v = ssl.TLSVersion[version]
        c = context(authority, least=v, most=v)
        with connect(server, c) as s:
            ask(s, close=False)
            session = s.session
        with connect(server, c, session=session if session and session.has_ticket else None) as s:
            assert ask(s).startswith(b"HTTP/1.1 200") and not s.session_reused

    def test_one_file_for_both(self, serve, pair, authority, tmp_path):
        both = tmp_path / "both.pem"
        both.write_bytes(pair.cert.read_bytes() + pair.key.read_bytes())
        server = serve("echo.py", "--tls-cert", both)
        with connect(server, context(authority)) as s:
            assert ask(s).startswith(b"HTTP/1.1 200")

    def test_the_status_port(self, serve, pair, authority):
        port = ports.free()
        server = serve("echo.py", *pair.options, "--status-tls", "--status-port", str(port))
        done = run("curl", "-sS", "--cacert", authority.cert, f"https://localhost:{port}/-/healthz")
        assert done.stdout == "success\n", done
        assert "speaks TLS" in run("curl", "-sS", f"http://localhost:{port}/-/healthz").stdout
        assert total(server, "anyserve_tls_certificate_expires_seconds") > 1e9

    def test_a_websocket(self, tmp_path, pair, authority):
        server = websocket.start(tmp_path, *pair.options)
        try:
            async def talk():  # by one thread: websockets.sync uses a TLS session with two, which Python 3.11 does not guard
                async with websocket_connect(f"wss://localhost:{server.port}/echo", ssl=context(authority)) as s:
                    await s.send("x" * 100000)
                    assert len(await s.recv()) >= 100000
            asyncio.run(talk())
            server.settle()
            server.stop()
        finally:
            server.kill()

    def test_applications_see_https(self, serve, pair, authority, tmp_path):
        server = serve("app.py", *pair.options, source="""
from anyserve import serve


@serve.deployment
class App:
    async def __call__(self, request):
        return str(request.url)


app = App.bind()
""")
        with httpx.Client(verify=context(authority)) as client:
            assert client.get(f"https://localhost:{server.port}/x").text.strip('"') == f"https://localhost:{server.port}/x"


def test_many_at_once(serve, pair, authority):
    """Both versions, both protocols, requests of all sizes, and clients that leave in the middle."""
    server = serve("echo.py", *pair.options, "--threads", "2")
    errors = []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            with httpx.Client(http2=bool(seed % 2), verify=context(authority, ["h2", "http/1.1"] if seed % 2 else ["http/1.1"]),
                              timeout=wait.SECONDS) as client:
                for _ in range(30):
                    n = int(rng.integers(1, 60000))
                    data = rng.integers(0, 100, n).tolist()
                    answer = client.post(f"https://localhost:{server.port}/v2/models/echo/infer",
                                         json={"inputs": [{"name": "x", "datatype": "INT32", "shape": [n], "data": data}]})
                    assert answer.json()["outputs"][0]["data"] == data
        except Exception as e:
            errors.append(repr(e))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for t in threads:
        t.start()
    for i in range(50):
        s = connect(server, context(authority))
        s.sendall(b"POST /v2/models/echo/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n" + b"x" * (i * 97))
        s.close()
    for t in threads:
        t.join()
    assert not errors
