"""Connections: their number, their silence, their headers; each limit answers and leaves the others alone."""

import os
import shutil
import socket
import subprocess

import numpy as np
import pytest

from support import wait
from support.protocol import oip, prometheus
from support.protocol.h2client import H2, prefixed

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py", "--max-connections", "8", "--max-header-bytes", "16K", "--max-headers", "50")


@pytest.fixture(scope="module")
def hasty(serve_module):
    return serve_module("echo.py", "--header-timeout", "300ms", "--idle-timeout", "300ms")


def open_connections(server):
    return server.status()["server"]["connections"]


def wait_closed(sock):
    sock.settimeout(wait.SECONDS)
    try:
        while sock.recv(65536):
            pass
    except ConnectionResetError:
        pass


# --- silence ---

@pytest.mark.parametrize("said", [b"", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"PRI * HTT"])
def test_connection_that_asks_nothing(hasty, said):
    with socket.create_connection((hasty.host, hasty.port)) as s:
        s.sendall(said)
        wait_closed(s)


def test_header_that_never_ends(hasty):
    """HEADERS without END_HEADERS, and nothing after it."""
    with H2(hasty.host, hasty.port) as http:
        http.sock.sendall(b"\0\0\1\1\0\0\0\0\1\x83")
        wait_closed(http.sock)


def test_idle_connection_is_told_to_go(hasty):
    with H2(hasty.host, hasty.port) as http:
        assert http.request("GET", "/v2/health/live").headers[":status"] == "200"
        while http.read():
            pass
        assert http.goaways


def ended(server):
    """A connection whose side the server has ended, for being idle."""
    http = H2(server.host, server.port)
    assert http.request("GET", "/v2/health/live").headers[":status"] == "200"
    while http.read():
        pass
    assert http.goaways
    return http.sock


def meets_a_reset(sock):
    try:
        sock.sendall(b"x")
        return False
    except (ConnectionResetError, BrokenPipeError):
        return True


@pytest.mark.parametrize("options", [("--linger-timeout", "off"), ("--max-lingering", "1"), ("--max-lingering", "2")],
                         ids=" ".join)
def test_how_long_the_server_listens_to_who_was_told_to_go(serve, options):
    server = serve("echo.py", "--idle-timeout", "300ms", "--linger-timeout", "30s", *options)
    with ended(server) as first, ended(server) as second:
        if options[1] == "2":
            for _ in range(5):
                assert not meets_a_reset(first) and not meets_a_reset(second)
                server.status()
        else:
            wait.until(lambda: meets_a_reset(first), "a reset")
        if options[1] == "1":
            assert not meets_a_reset(second) and not meets_a_reset(second)


def test_what_a_client_says_behind_its_goaway_meets_no_reset(server):
    """The server ends its side; a reset could take back what the client has not read."""
    with H2(server.host, server.port) as http:
        http.conn.close_connection()
        http.flush()
        while http.sock.recv(65536):
            pass
        for _ in range(2):  # the second send would fail, had the first one met a reset
            http.sock.sendall(b"\0\0\x08\6\0\0\0\0\0h2spec\0\0")
        assert http.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def ends(server):
    """Reason → how many connections have ended for it."""
    return {dict(labels)["reason"]: n for (name, labels), n in prometheus.parse(server.metrics()).items()
            if name == "anyserve_connections_closed_total"}


def test_goaway_of_a_client_is_an_orderly_end(server):
    """grpc-go names the last stream of its own in it; what it has asked for before is answered."""
    before, lines = ends(server), len(server.log.lines)
    with H2(server.host, server.port) as http:
        http.request("GET", "/v2/health/live")
        stream = http.open([(":method", "GET"), (":scheme", "http"), (":path", "/v2"), (":authority", "localhost")], end=True)
        http.sock.sendall(b"\0\0\x08\7\0\0\0\0\0" + stream.to_bytes(4, "big") + bytes(4))
        assert http.reply(stream).headers[":status"] == "200"
        while http.read():
            pass
        assert not http.goaways
    wait.until(lambda: ends(server) != before, "the connection is closed")
    assert ends(server) == {**before, "client": before["client"] + 1}
    assert not server.log.find("client_closed", lines)


# --- authority ---

def bare(method, path, *headers):
    return [(":method", method), (":scheme", "http"), (":path", path), *headers]


def test_request_without_authority_is_answered(server):
    """RFC 9113 §8.3.1: it is left out where it is not known; the h2 check of HAProxy does that."""
    body = prefixed(oip.infer_request("echo", {"x": np.ones(1)}).SerializeToString())
    with H2(server.host, server.port) as http:
        assert http.reply(http.open(bare("OPTIONS", "*"), end=True)).headers[":status"] == "204"
        assert http.reply(http.open(bare("OPTIONS", "/v2"), end=True)).headers[":status"] == "204"
        assert http.reply(http.open(bare("GET", "/v2/health/ready"), end=True)).headers[":status"] == "200"
        call = http.open(bare("POST", f"/{oip.SERVICE}/ModelInfer", ("content-type", "application/grpc"), ("te", "trailers")))
        http.send(call, body, end=True)
        assert http.reply(call).grpc_status == 0


@pytest.mark.skipif(not shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin"), reason="no haproxy")
def test_check_of_haproxy(server, tmp_path):
    """Its h2 check says no authority; the server behind it is up at the first check."""
    config, said = tmp_path / "haproxy.cfg", tmp_path / "stats.sock"
    config.write_text(f"""
global
    stats socket {said}
defaults
    mode http
    timeout connect 10s
    timeout client 10s
    timeout server 10s
backend models
    option httpchk
    http-check send meth GET uri /v2/health/ready
    server one {server.host}:{server.port} proto h2 check inter 50ms
""")
    haproxy = subprocess.Popen([shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin"), "-db", "-f", config],
                               stderr=subprocess.DEVNULL)
    try:
        def last_check():
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(str(said))
                s.sendall(b"show stat models 4 -1\n")
                head, line, *_ = s.makefile().read().removeprefix("# ").splitlines()
            return dict(zip(head.split(","), line.split(",")))["check_status"]

        wait.until(lambda: said.exists(), "haproxy runs")
        wait.until(lambda: last_check() not in ("", "INI", "* INI"), "a check is done")
        assert last_check().removeprefix("* ") == "L7OK"
    finally:
        haproxy.terminate()
        haproxy.wait()


def test_slow_upload_is_not_idle(hasty):
    """A request that is under way keeps its connection, however long it takes."""
    body = prefixed(oip.infer_request("echo", {"x": np.ones(1)}).SerializeToString())
    with H2(hasty.host, hasty.port) as slow:
        stream = slow.open_grpc()
        slow.send(stream, body[:20])
        with H2(hasty.host, hasty.port) as idle:  # that one goes in the meantime
            idle.request("GET", "/v2")
            wait_closed(idle.sock)
        slow.send(stream, body[20:], end=True)
        assert slow.reply(stream).grpc_status == 0


# --- number ---

def test_connection_limit(server):
    """The ninth is hung up on; there is room again when one has gone."""
    held = [H2(server.host, server.port) for _ in range(8)]
    streams = [http.open_grpc() for http in held]  # so that none of them is idle
    wait.until(lambda: open_connections(server) == 8, "eight connections")
    with socket.create_connection((server.host, server.port)) as ninth:
        wait_closed(ninth)
    held.pop().sock.close()
    wait.until(lambda: open_connections(server) == 7, "one to go")
    with H2(server.host, server.port) as http:
        assert http.request("GET", "/v2").headers[":status"] == "200"
    body = prefixed(oip.infer_request("echo", {"x": np.ones(1)}).SerializeToString())
    for http, stream in zip(held, streams):
        http.send(stream, body, end=True)
        assert http.reply(stream).grpc_status == 0
        http.sock.close()


# --- headers ---

def test_headers_up_to_the_limit(server):
    with H2(server.host, server.port) as http:
        extra = [(f"x-{i}", "v") for i in range(40)] + [("x-long", "v" * 10_000)]
        assert http.grpc(prefixed(b""), method="ServerLive", extra=extra).grpc_status == 0


@pytest.mark.parametrize("extra", [[(f"x-{i}", "v") for i in range(60)], [("x-long", "v" * 20_000)]],
                         ids=["number", "bytes"])
def test_headers_over_the_limit(server, extra):
    """Refused, without harm to the connection."""
    with H2(server.host, server.port) as http:
        stream = http.open_grpc("ServerLive", extra, end=True)
        reply = http.reply(stream)
        assert reply.reset is not None or reply.headers[":status"] == "431" or reply.grpc_status not in (None, 0), reply
        assert http.grpc(prefixed(b""), method="ServerLive").grpc_status == 0


def test_continuation_flood(server, connect):
    """Headers that grow for ever end their connection, and nothing else."""
    frame = b"\x00\x40\x00\x09\x00\x00\x00\x00\x01" + b"\x00\x7f\xff\x3e" + b"x" * (16384 - 4)
    with H2(server.host, server.port) as http:
        http.sock.sendall(b"\0\0\1\1\0\0\0\0\1\x83")
        with pytest.raises((ConnectionError, TimeoutError)):
            for _ in range(2000):
                http.sock.sendall(frame)
        assert connect(server).call("ServerLive").live


def test_rapid_reset(server, connect):
    """Thousands of requests that are taken back at once: bounded work, and others are served."""
    with H2(server.host, server.port) as http:
        try:
            for _ in range(3000):
                stream = http.open_grpc("ServerLive")
                http.conn.reset_stream(stream)
                http.flush()
        except (ConnectionError, OSError):
            pass  # it may have enough of us
        assert connect(server).call("ServerLive").live


def test_ping_and_settings_floods(server, connect):
    with H2(server.host, server.port) as http:
        try:
            for _ in range(200):
                http.sock.sendall(b"\0\0\x08\6\0\0\0\0\0abcdefgh" * 50 + b"\0\0\0\4\0\0\0\0\0" * 50)
        except OSError:
            pass
        assert connect(server).call("ServerLive").live
