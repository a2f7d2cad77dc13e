"""`anyserve infer` and `anyserve bench` by TLS: what they verify, what they show, and what they say when it fails."""

import json
import os
import socket
import ssl
from contextlib import suppress

import h2.config
import h2.connection
import h2.events
import pytest

from security.certificates import encrypt
from support import ports
from support.tool import bench, infer_json, listening, outputs, run

pytestmark = pytest.mark.core
INPUTS = ["--input", "a=1,2", "--input", "b=10,20"]
UNAVAILABLE = 114
METADATA = json.dumps({"name": "add", "platform": "any", "outputs": [],
                       "inputs": [{"name": name, "datatype": "FP32", "shape": [-1]} for name in "ab"]}).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(METADATA), METADATA)  # to any request
PROTOCOLS = ["grpc", "http", "http-binary"]


@pytest.fixture(scope="module")
def me(authority):
    return authority.sign("client")


@pytest.fixture(scope="module")
def server(serve_module, pair):
    return serve_module("echo.py", *pair.options)


@pytest.fixture(scope="module")
def mutual(serve_module, authority, pair):
    return serve_module("echo.py", *pair.options, "--tls-client-ca", authority.cert)


def tool(server):
    """tool(server)("infer", "add", …): by --url of this server."""
    return lambda command, *args, **kwargs: run(server, command, *args, runtime=False, **kwargs)


def context_of(pair, alpn=()):
    """For a server that is no AnyServe."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def https(server, host="localhost"):
    return ["--url", f"https://{host}:{server.port}"]


def refused(server, *args, code=UNAVAILABLE, command="infer"):
    """The error text of a call that does not get through."""
    more = ["--duration", "1s"] if command == "bench" else []
    return tool(server)(command, "add", *INPUTS, *more, *args, code=code).err


# --- calls that get through ---

@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_infer(server, authority, protocol):
    answer = infer_json(tool(server), "add", *INPUTS, *https(server), "--ca", authority.cert, "--protocol", protocol)
    assert outputs(answer)["sum"]["data"] == [11, 22]
    assert answer["timing_ms"]["connect"] > 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_bench(server, authority, protocol):
    result = bench(tool(server), "add", *INPUTS, *https(server), "--ca", authority.cert, "--protocol", protocol, "--requests",
                   500, "--warmup", "off", "--connections", 3, "--same-answers")
    assert (result["ok"], result["due"], result["lost_connections"]) == (500, 500, 0)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_large_tensor_in_both_directions(server, authority, protocol, tmp_path):
    values = list(range(1 << 18))  # 1 MiB
    (tmp_path / "x.json").write_text(json.dumps(values))
    answer = infer_json(tool(server), "echo", "--input", f"x:INT32=@{tmp_path / 'x.json'}", *https(server), "--ca",
                        authority.cert, "--protocol", protocol)
    assert outputs(answer)["x"]["data"] == values


def test_a_stream(server, authority):
    shown = tool(server)("infer", "echo", "--input", "x:INT32=1", "--input", "x:INT32=2", "--stream", *https(server), "--ca",
                         authority.cert, "--json").out
    assert [outputs(json.loads(line))["x"]["data"] for line in shown.splitlines()] == [[1], [2]]


@pytest.mark.parametrize("where", [lambda s: ["--tls", "--url", f"localhost:{s.port}"],
                                   lambda s: ["--url", f"grpcs://localhost:{s.port}"],
                                   lambda s: ["--url", f"127.0.0.1:{s.port}"],  # --ca asks for TLS
                                   lambda s: ["--runtime-dir", s.runtime]],
                         ids=["--tls", "grpcs", "--ca alone", "without --url"])
def test_ways_to_ask_for_it(server, authority, where):
    assert outputs(infer_json(tool(server), "add", *INPUTS, *where(server), "--ca", authority.cert))["sum"]["data"] == [11, 22]


def test_the_authorities_of_the_system(server, authority):
    """Without --ca; OpenSSL takes the file of SSL_CERT_FILE for those of the system."""
    env = {**os.environ, "SSL_CERT_FILE": str(authority.cert)}
    assert outputs(infer_json(tool(server), "add", *INPUTS, *https(server), env=env))["sum"]["data"] == [11, 22]


def test_the_server_sees_the_scheme_https(server, authority, pair):
    context = context_of(pair, ["h2"])
    seen = []

    def keep(c):
        with context.wrap_socket(c, server_side=True) as s:
            connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
            while not seen and (received := s.recv(65536)):
                seen.extend(e for e in connection.receive_data(received) if isinstance(e, h2.events.RequestReceived))

    with listening() as listen:
        text = refused(server, "--url", f"https://localhost:{listen(keep)}", "--ca", authority.cert)
    assert "the server closed the connection" in text or "the connection broke" in text
    assert dict(seen[0].headers)[b":scheme"] == b"https"


def test_bench_does_not_ask_for_more_handshakes_at_once_than_a_server_takes(serve, authority, pair):
    """Nor is a handshake part of a latency: the load begins when all are done."""
    server = serve("echo.py", *pair.options, "--max-handshakes", "200")
    result = bench(tool(server), "add", *INPUTS, *https(server), "--ca", authority.cert, "--connections", 400, "--requests", 800,
                   "--warmup", "off")
    assert (result["ok"], result["lost_connections"]) == (800, 0)


def test_a_load_whose_handshakes_are_not_answered(authority, pair, server):
    """The server answers the first call, and no later handshake."""
    context = context_of(pair)
    waiting = []

    def once(c):
        if waiting:
            waiting.append(c.dup())
            return
        waiting.append(None)
        with context.wrap_socket(c, server_side=True) as s:
            while s.recv(65536):
                s.sendall(ANSWER)

    with listening() as listen:
        text = refused(server, "--url", f"https://localhost:{listen(once)}", "--ca", authority.cert, "--protocol", "http",
                       "--connect-timeout", "200ms", "--connections", 3, command="bench")
    for c in waiting[1:]:
        c.close()
    assert "every connection was lost: no TLS handshake within 0.2 s (--connect-timeout)" in text


@pytest.mark.parametrize("says_so", [True, False], ids=["close_notify", "no close_notify"])
def test_a_load_over_connections_that_end_behind_each_answer(server, authority, pair, says_so):
    """Each further call has a handshake of its own. The length of the answer says that it is whole."""
    context = context_of(pair)
    answered = []

    def once(c):
        with context.wrap_socket(c, server_side=True) as s:
            if not answered:  # the first connection is also asked for the metadata
                s.recv(65536)
                s.sendall(ANSWER)
            s.recv(65536)
            s.sendall(ANSWER.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            answered.append(1)
            if says_so:
                with suppress(OSError):  # the client may be gone already
                    s.unwrap()

    with listening() as listen:
        result = bench(tool(server), "add", *INPUTS, "--url", f"https://localhost:{listen(once)}", "--ca", authority.cert,
                       "--protocol", "http", "--requests", 20, "--warmup", "off")
    assert (result["ok"], result["lost_connections"]) == (20, 0)
    assert result["reopened_connections"] >= 19


# --- mutual TLS ---

@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_client_with_a_certificate(mutual, authority, me, protocol):
    mine = ["--ca", authority.cert, "--cert", me.cert, "--key", me.key, "--protocol", protocol]
    assert outputs(infer_json(tool(mutual), "add", *INPUTS, *https(mutual), *mine))["sum"]["data"] == [11, 22]
    result = bench(tool(mutual), "add", *INPUTS, *https(mutual), *mine, "--requests", 100, "--warmup", "off")
    assert result["ok"] == 100


def test_certificate_and_key_in_one_file(mutual, authority, me, tmp_path):
    both = tmp_path / "both.pem"
    both.write_bytes(me.cert.read_bytes() + me.key.read_bytes())
    answer = infer_json(tool(mutual), "add", *INPUTS, *https(mutual), "--ca", authority.cert, "--cert", both)
    assert outputs(answer)["sum"]["data"] == [11, 22]


@pytest.mark.parametrize("command", ["infer", "bench"])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_client_without_a_certificate(mutual, authority, command, protocol):
    text = refused(mutual, *https(mutual), "--ca", authority.cert, "--protocol", protocol, command=command)
    assert "certificate required (--cert)" in text


def test_a_client_with_a_certificate_of_another_authority(mutual, authority, stranger):
    other = stranger.sign("other")
    text = refused(mutual, *https(mutual), "--ca", authority.cert, "--cert", other.cert, "--key", other.key)
    assert "alert unknown ca" in text


# --- servers that cannot be verified ---

@pytest.mark.parametrize("command", ["infer", "bench"])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_server_of_another_authority(server, stranger, command, protocol):
    text = refused(server, *https(server), "--ca", stranger.cert, "--protocol", protocol, command=command)
    assert "the server's certificate cannot be verified: unable to get local issuer certificate (--ca)" in text


def test_a_certificate_for_other_names(serve, authority):
    server = serve("echo.py", *authority.sign("elsewhere", "elsewhere.example", addresses=["192.0.2.1"]).options)
    assert "cannot be verified: hostname mismatch" in refused(server, *https(server), "--ca", authority.cert)
    assert "cannot be verified: IP address mismatch" in refused(server, *https(server, "127.0.0.1"), "--ca", authority.cert)


def test_an_address_is_no_name(serve, authority):
    server = serve("echo.py", *authority.sign("name", "127.0.0.1").options)  # as a DNS name
    assert "IP address mismatch" in refused(server, *https(server, "127.0.0.1"), "--ca", authority.cert)


def test_an_expired_certificate(server, authority):
    context = context_of(authority.server("old", not_after="20210101000000Z"))

    def shake(c):
        with suppress(ssl.SSLError):  # the client refuses the certificate
            context.wrap_socket(c, server_side=True).close()

    with listening() as listen:
        text = refused(server, "--url", f"https://localhost:{listen(shake)}", "--ca", authority.cert)
    assert "the server's certificate cannot be verified: certificate has expired" in text


# --- ports that speak something else ---

@pytest.fixture(scope="module")
def clear(serve_module):
    return serve_module("echo.py")


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_tls_to_a_port_of_clear_text(clear, authority, protocol):
    assert "not speak TLS" in refused(clear, *https(clear), "--ca", authority.cert, "--protocol", protocol)


def test_clear_text_to_a_port_of_tls(server):
    assert "(--tls)" in refused(server, "--url", server.address)
    text = refused(server, "--url", f"http://{server.address}", "--protocol", "http", code=103)
    assert "this port speaks TLS" in text


def test_a_server_that_says_nothing(server, authority):
    with socket.create_server(("127.0.0.1", 0)) as s:
        text = refused(server, "--url", f"https://127.0.0.1:{s.getsockname()[1]}", "--ca", authority.cert, "--connect-timeout",
                       "100ms")
    assert "no TLS handshake within 0.1 s (--connect-timeout)" in text


@pytest.mark.parametrize("alpn", [[], ["http/1.1"]], ids=["no ALPN", "another"])
def test_a_server_without_http2(server, authority, pair, alpn):
    context = context_of(pair, alpn)

    def shake(c):
        with context.wrap_socket(c, server_side=True) as s:
            s.recv(1)

    with listening() as listen:
        text = refused(server, "--url", f"https://localhost:{listen(shake)}", "--ca", authority.cert)
    assert "does not agree to HTTP/2 by ALPN" in text and "--protocol http" in text


def test_a_server_that_ends_within_an_answer(server, authority, pair):
    """HTTP/1.1 without a length lasts until the connection ends: only close_notify tells a whole answer from a cut one."""
    context = context_of(pair)

    def cut(c):
        s = context.wrap_socket(c, server_side=True)
        s.recv(65536)
        s.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"name":"add","inputs":[')
        socket.socket(fileno=s.detach()).shutdown(socket.SHUT_RDWR)

    with listening() as listen:
        text = refused(server, "--url", f"https://localhost:{listen(cut)}", "--ca", authority.cert, "--protocol", "http")
    assert "the connection broke: unexpected eof while reading" in text


# --- options ---

@pytest.mark.parametrize("command", ["infer", "bench"])
def test_options_that_contradict_each_other(server, authority, me, command):
    def wrong(*args):
        return refused(server, *args, code=2, command=command)

    clear_url = ["--url", f"http://{server.address}"]
    assert f"--tls is for TLS, but --url 'http://{server.address}' is for clear text: write https://" in wrong("--tls", *clear_url)
    assert "--ca is for TLS" in wrong("--ca", authority.cert, *clear_url)
    assert "--cert is for TLS" in wrong("--cert", me.cert, "--url", f"grpc://{server.address}")
    assert "--no-tls and --ca cannot be used together" in wrong("--no-tls", "--ca", authority.cert)
    assert "--no-tls and --url 'https://" in wrong("--no-tls", *https(server))
    assert "--key needs the certificate of this key: --cert FILE" in wrong("--key", me.key)


def test_files_that_cannot_be_used(server, authority, me, stranger, tmp_path):
    def wrong(*args):
        return refused(server, *https(server), *args, code=2)

    encrypted, nothing = tmp_path / "encrypted.key", tmp_path / "nothing.pem"
    encrypt(me.key, encrypted)
    nothing.write_text("no PEM\n")
    ca = ["--ca", authority.cert]
    assert f"{tmp_path / 'missing.pem'}: No such file" in wrong("--ca", tmp_path / "missing.pem")
    assert f"{tmp_path} is not a file" in wrong("--ca", tmp_path)
    assert f"{nothing} holds no certificates of authorities" in wrong("--ca", nothing)
    assert f"{nothing} holds no certificate in PEM" in wrong(*ca, "--cert", nothing)
    assert f"{me.cert} holds no private key" in wrong(*ca, "--cert", me.cert)
    assert f"{encrypted} is encrypted" in wrong(*ca, "--cert", me.cert, "--key", encrypted)
    assert "does not belong to the certificate" in wrong(*ca, "--cert", me.cert, "--key", stranger.sign("x").key)
    old = authority.sign("expired", not_after="20210101000000Z")
    assert "has expired: 2021-01-01" in wrong(*ca, "--cert", old.cert, "--key", old.key)


def test_a_port_that_refuses(server, authority):
    text = refused(server, "--url", f"https://localhost:{ports.free()}", "--ca", authority.cert)
    assert "cannot connect" in text
