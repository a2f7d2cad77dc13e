"""Hostile clients, for a moment each: closed for the right reason, nothing left behind, healthy clients never fail.

How long healthy calls take meanwhile is measured by `make attack` on a quiet machine.
"""

import socket
import sys
import time

import grpc
import numpy as np
import pytest

from support import paths, wait
from support.load import Load
from support.protocol import oip, prometheus
from support.protocol.h2client import H2, prefixed

sys.path.insert(0, str(paths.ROOT / "tests/attack"))

import attacks  # noqa: E402
import run  # noqa: E402
import workers  # noqa: E402

pytestmark = pytest.mark.core

ALL = attacks.attacks()
FLOODS = sorted(name for name, a in ALL.items() if not a.slow and not a.worker and not a.tls)
WORKERS = sorted(name for name, a in ALL.items() if a.worker)
QUICK = ("--header-timeout", "500ms", "--body-timeout", "500ms", "--send-timeout", "500ms")
MIB = 1 << 20


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py", "--log-level", "warn")


@pytest.fixture(scope="module")
def impatient(serve_module):
    return serve_module("echo.py", "--log-level", "warn", "--keepalive-time", "500ms", "--keepalive-timeout", "2s",
                        "--max-connections", "32", *QUICK)


def call(client, n):
    x = np.full(16, n, np.float32)
    assert np.array_equal(client.infer("echo", {"x": x})["x"], x)


def gang_of(server, name, seconds, connections=2, is_closed=True):
    """Goes on until one of them is closed, however slow this machine is."""
    end = time.monotonic() + seconds
    gang = attacks.Gang(ALL[name], (server.host, server.port), connections)
    return gang.run(wait.SECONDS, lambda gang: time.monotonic() > end and (gang.times or not is_closed))


def closed_for(server, reason):
    return run.closings(server)[0].get(reason, 0)


@pytest.mark.parametrize("name", FLOODS)
def test_flood(server, name):
    reason = ALL[name].reason
    gang_of(server, name, 0.1)  # memory that is kept for the next time
    before, closed = run.rss(server.dispatcher), closed_for(server, reason)
    lines = len(server.log.lines)
    with Load(server.address, call, threads=2) as load:
        load.wait_more(1)
        seen = gang_of(server, name, 0.6)
        load.wait_more(1)
    assert set(load.outcomes) == {"OK"}, load.errors
    assert seen["closed"] > 0 and seen["slowest_close_s"] < 5 and seen["oldest_open_s"] < 5, seen
    wait.until(lambda: closed_for(server, reason) >= closed + seen["closed"],
               lambda: (seen, run.closings(server)))
    if not paths.SANITIZED:
        wait.until(lambda: run.rss(server.dispatcher) - before <= 4 * MIB,
                   lambda: f"memory grew by {run.rss(server.dispatcher) - before}", 10)
    server.log.wait(f"event=client_closed reason={reason} client=127.0.1")
    assert len(server.log.lines) - lines <= 10, server.log.text(lines)


def test_a_limit_can_be_taken_away(serve):
    server = serve("echo.py", "--window-update-burst", "off")
    assert gang_of(server, "window_update", 0.3, is_closed=False)["closed"] == 0
    assert gang_of(server, "ping", 0.3)["closed"] > 0


@pytest.mark.parametrize("name", ["ping", "rapid_reset", "stream_faults"])
def test_the_client_is_told(server, name):
    seen = gang_of(server, "malformed_headers" if name == "stream_faults" else name, 0.5)
    told = [g for g in seen["goaways"] if g.startswith("11:")]  # ENHANCE_YOUR_CALM
    assert told == [f"11:{'too_many_pings' if name == 'ping' else name}"], seen


@pytest.mark.parametrize("name", ["slow_greeting", "slow_header", "never_reads"])
def test_slow_client_is_closed(impatient, name):
    reason = ALL[name].reason
    closed = closed_for(impatient, reason)
    with Load(impatient.address, call, threads=2) as load:
        load.wait_more(1)
        gang = attacks.Gang(ALL[name], (impatient.host, impatient.port), 2)
        seen = gang.run(wait.SECONDS, lambda gang: gang.times)
    assert set(load.outcomes) == {"OK"}, load.errors
    assert seen["closed"] > 0, seen
    assert closed_for(impatient, reason) > closed


def test_stalled_upload_gives_back_its_bytes(impatient, connect):
    """Each holds 64 KiB of the budget, until it is answered DEADLINE_EXCEEDED."""
    stalls = run.closings(impatient)[1].get("request", 0)
    gang = attacks.Gang(ALL["slow_body"], (impatient.host, impatient.port), 1)
    gang.run(wait.SECONDS, lambda _: run.closings(impatient)[1].get("request", 0) >= stalls + 100)
    assert run.closings(impatient)[1].get("request", 0) >= stalls + 100
    wait.until(lambda: impatient.status()["server"]["inflight_bytes"] == 0, "the budget to be free")
    found = prometheus.parse(impatient.metrics())
    assert prometheus.total(found, "anyserve_requests_total", method="ModelInfer", code="DEADLINE_EXCEEDED") >= 100
    call(connect(impatient), 1)


def test_answers_that_nobody_takes_are_given_up(impatient):
    stalls = run.closings(impatient)[1].get("answer", 0)
    gang = attacks.Gang(ALL["zero_window"], (impatient.host, impatient.port), 2)
    gang.run(wait.SECONDS, lambda _: run.closings(impatient)[1].get("answer", 0) >= stalls + 100)
    assert run.closings(impatient)[1].get("answer", 0) >= stalls + 100


@pytest.mark.parametrize("name", ["declared_length", "unread_answers"])
def test_what_hostile_clients_hold_keeps_nobody_out(serve, name):
    """Of the budgets, whatever they take; and it is given back."""
    kind = ALL[name]
    server = serve(kind.app, "--log-level", "warn", *run.SLOW, *kind.options)
    with Load(server.address, call, threads=2) as load:
        load.wait_more(1)
        before = run.rss(server.dispatcher)
        gang = attacks.Gang(kind, (server.host, server.port), 4)
        peak = []
        gang.run(wait.SECONDS, lambda _: peak.append(run.rss(server.dispatcher)) or
                 run.closings(server)[1].get(kind.stalled, 0) >= 50)
        load.wait_more(1)
    assert set(load.outcomes) == {"OK"}, load.errors
    assert run.closings(server)[1].get(kind.stalled, 0) >= 50
    if not paths.SANITIZED:
        assert max(peak) - before <= kind.peak * MIB
    wait.until(lambda: not server.status()["server"]["inflight_bytes"] and not server.status()["server"]["answer_bytes"],
               lambda: server.status()["server"])


@pytest.mark.parametrize("name", WORKERS)
def test_hostile_workers(serve, name):
    """They are ended, in little memory, and nobody else notices."""
    kind = ALL[name]
    server = serve(kind.app, "--log-level", "warn", "--ping-interval", "200ms", "--ping-timeout", "500ms")
    with Load(server.address, call, threads=2) as load:
        load.wait_more(1)
        before, peak = run.rss(server.dispatcher), []
        worker = workers.HostileWorker(kind.worker, server.link_path(), server.join_token())
        wait.until(lambda: peak.append(run.rss(server.dispatcher)) or not worker.step(), "the worker to be ended")
        worker.sock.close()
        load.wait_more(1)
    assert set(load.outcomes) == {"OK"}, load.errors
    server.log.wait("event=worker_gone replica=hostile.*does not read" if name == "worker_pings" else
                    "event=worker_gone replica=hostile.*ping")
    if not paths.SANITIZED:
        assert max(peak) - before <= 16 * MIB


def test_dead_peer_is_found(impatient):
    """It greets, and never answers our ping."""
    ping = attacks.frame(attacks.PING, 0, 0, bytes(8))
    hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + attacks.frame(attacks.SETTINGS, 0, 0)
    closed = closed_for(impatient, "keepalive_timeout")
    with socket.create_connection((impatient.host, impatient.port), wait.SECONDS) as s:
        s.sendall(hello)
        said = b""
        while chunk := s.recv(65536):
            said += chunk
    assert ping in said
    assert closed_for(impatient, "keepalive_timeout") == closed + 1


def test_live_peer_is_kept(impatient, connect):
    """A silent client that answers pings stays connected."""
    client = connect(impatient)
    call(client, 1)
    closed = closed_for(impatient, "keepalive_timeout"), closed_for(impatient, "client")
    sent = prometheus.total(prometheus.parse(impatient.metrics()), "anyserve_received_bytes_total")
    wait.until(lambda: prometheus.total(prometheus.parse(impatient.metrics()), "anyserve_received_bytes_total")
               >= sent + 3 * 17, "three pings to be answered")
    assert (closed_for(impatient, "keepalive_timeout"), closed_for(impatient, "client")) == closed
    call(client, 2)


def test_idle_connections_make_room(serve):
    """Whoever only holds a connection goes when somebody else needs it. (Nothing else ends these.)"""
    server = serve("echo.py", "--log-level", "warn", "--max-connections", "32")
    evicted = closed_for(server, "evicted")
    gang = attacks.Gang(ALL["idle"], (server.host, server.port), 32)
    while len(gang.clients) < gang.most:
        gang._begin()
    for client in gang.clients:
        wait.until(client.connected, "a connection")
        client.write(0)
    wait.until(lambda: server.status()["server"]["connections"] == 32, "32 connections")

    def served():
        try:
            with oip.Client(server.address) as client:
                return client.call("ServerLive").live
        except Exception:
            return False  # within the first second the others have the older right
    wait.until(served, "room for one more")
    assert closed_for(server, "evicted") > evicted
    for client in gang.clients:
        client.sock.close()
    wait.until(lambda: server.status()["server"]["connections"] == 0, "all to go")


def test_request_limit(serve, connect):
    """One more than --max-requests is refused with a hint; the others are served."""
    server = serve("echo.py", "--max-requests", "8")
    body = prefixed(oip.infer_request("echo", {"x": np.ones(1)}).SerializeToString())
    with H2(server.host, server.port) as http:
        streams = [http.open_grpc() for _ in range(8)]
        error = http.reply(http.open_grpc())
        assert error.grpc_status == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert "--max-requests" in error.grpc_message
        for stream in streams:
            http.send(stream, body, end=True)
            assert http.reply(stream).grpc_status == 0
        assert http.grpc(body).grpc_status == 0


@pytest.mark.parametrize("path, status", [("/v2/models/echo/infer", "400"), ("/v2", "405"), ("/nothing", "404")])
def test_request_limit_of_plain_http(serve, path, status):
    """Who is over it is refused at once: the end of a request that is not there yet is not waited for."""
    server = serve("echo.py", "--max-requests", "8")
    head = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "a")]
    with H2(server.host, server.port) as http:
        streams = [http.open(head) for _ in range(8)]
        for _ in range(20):
            reply = http.reply(http.open(head))
            assert reply.headers[":status"] == "503" and b"--max-requests" in reply.data, reply
            assert reply.headers["retry-after"] == "1"
        for stream in streams:
            assert not http.replies[stream].headers
            http.send(stream, b"{", end=True)
            assert http.reply(stream).headers[":status"] == status
