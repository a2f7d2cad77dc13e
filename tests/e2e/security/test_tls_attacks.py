"""Hostile clients of a port that speaks TLS, for a moment each: closed for the right reason, and healthy clients by TLS never fail.

The attacks are those of tests/attack; `make attack` with TLS=1 measures how long healthy clients wait meanwhile.
"""

import contextlib
import dataclasses
import http.client
import json
import socket
import ssl
import sys
import threading

import pytest

from support import paths, wait

sys.path.insert(0, str(paths.ROOT / "tests/attack"))

import attacks  # noqa: E402
import healthy  # noqa: E402
import hostile_tls  # noqa: E402
import run  # noqa: E402
import smuggling  # noqa: E402

pytestmark = pytest.mark.core

ALL = attacks.attacks()
APPLICATION = attacks.attacks(attacks.Application())
CLIENTS = {"tls_silent": 1100, "tls_slow_hello": 20}  # else 2
MIB = 1 << 20


@pytest.fixture(scope="module")
def server(serve_module, pair):
    return serve_module("echo.py", "--log-level", "warn", *pair.options, "--tls-handshake-timeout", "500ms",
                        "--max-handshakes", "1000")


@pytest.fixture(scope="module")
def application(serve_module, pair):
    server = serve_module(paths.ROOT / "tests/attack" / attacks.Application.app, "--log-level", "warn", *pair.options, *smuggling.LIMITS)
    server.wait_all_ready()
    return server


@contextlib.contextmanager
def healthy_clients(server, authority, path, body, expected):
    """One keeps its connection, one comes anew each time; both are answered while the block runs, and at its end once more."""
    tls, stop, wrong, done = healthy.client_context(authority.cert, "http/1.1"), threading.Event(), [], [0, 0]

    def work(i):
        connection = http.client.HTTPSConnection(server.host, server.port, timeout=wait.SECONDS, context=tls)
        try:
            while not stop.is_set():
                connection.request("POST", path, body)
                answer = connection.getresponse()
                if (got := (answer.status, answer.read())) != expected:
                    wrong.append(got)
                done[i] += 1
                if i:
                    connection.close()
        except Exception as e:
            wrong.append(repr(e))
        finally:
            connection.close()

    def are_answered():
        seen = list(done)
        wait.until(lambda: wrong or all(now > before for now, before in zip(done, seen)), "an answer to both")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for t in threads:
        t.start()
    try:
        are_answered()
        yield
        are_answered()
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not wrong, wrong[:3]


def healthy_models(server, authority):
    return healthy_clients(server, authority, "/v2/logging", b"{}", expected_of(server, authority))


def expected_of(server, authority):
    connection = http.client.HTTPSConnection(server.host, server.port, context=healthy.client_context(authority.cert, "http/1.1"))
    try:
        connection.request("POST", "/v2/logging", b"{}")
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def gang_of(server, kind, seen, clients=2):
    gang = attacks.Gang(dataclasses.replace(kind, clients=clients), (server.host, server.port), clients, tls=True)
    return gang.run(wait.SECONDS, lambda gang: seen(gang))


@pytest.mark.parametrize("name", sorted(n for n, a in ALL.items() if a.tls and a.reason and n != "tls_key_updates_and_data"))
def test_tls_itself(server, authority, name):
    kind = ALL[name]
    closed = run.closings(server)[0].get(kind.reason, 0)
    before = run.rss(server.dispatcher)
    with healthy_models(server, authority):
        seen = gang_of(server, kind, lambda gang: len(gang.times) >= 4 and run.closings(server)[0].get(kind.reason, 0) >= closed + 2,
                       CLIENTS.get(name, 2))
    assert run.closings(server)[0].get(kind.reason, 0) >= closed + 2, (seen, run.closings(server))
    if not paths.SANITIZED:
        assert run.rss(server.dispatcher) - before < 16 * MIB


def test_silent_clients_do_not_take_the_place_of_one_that_has_said_hello(serve, pair, authority):
    server = serve("echo.py", "--log-level", "warn", *pair.options, "--threads", "1", "--max-handshakes", "5")
    address, (incoming, outgoing) = (server.host, server.port), (ssl.MemoryBIO(), ssl.MemoryBIO())
    session = healthy.client_context(authority.cert, "http/1.1").wrap_bio(incoming, outgoing, server_hostname=server.host)
    with contextlib.ExitStack() as opened:
        client = opened.enter_context(socket.create_connection(address, wait.SECONDS))
        with pytest.raises(ssl.SSLWantReadError):
            session.do_handshake()
        client.sendall(outgoing.read())
        first = client.recv(65536)  # the server's hello
        for i in range(20):
            opened.enter_context(socket.create_connection(address, wait.SECONDS))
        wait.until(lambda: run.closings(server)[0].get("handshake_evicted", 0) >= 16, lambda: run.closings(server))
        incoming.write(first)
        session.do_handshake()
        session.write(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        client.sendall(outgoing.read())
        while True:
            data = client.recv(65536)
            assert data, "it was sent away"
            incoming.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                assert session.read(4096).startswith(b"HTTP/1.1 200")
                break


def test_data_between_is_no_help_when_nobody_reads_the_answers(server, authority):
    kind = ALL["tls_key_updates_and_data"]
    closed = run.closings(server)[0].get("tls_flood", 0)
    with healthy_models(server, authority):
        gang_of(server, kind, lambda gang: run.closings(server)[0].get("tls_flood", 0) > closed, 1)
    assert run.closings(server)[0].get("tls_flood", 0) > closed


@pytest.mark.parametrize("limit, n, closed", [("5", 5, False), ("5", 6, True), ("off", 100, False)])
def test_max_tls_messages(serve, pair, limit, n, closed):
    server = serve("echo.py", "--log-level", "warn", *pair.options, "--max-tls-messages", limit)
    with socket.create_connection((server.host, server.port), wait.SECONDS) as client:
        client.sendall(hostile_tls.key_updates(client, n, ends=True))
        while client.recv(65536):
            pass
        assert run.closings(server)[0].get("tls_flood", 0) == closed


def test_a_record_that_nobody_encrypted(server, authority):
    with healthy_models(server, authority):
        seen = gang_of(server, ALL["tls_broken_record"], lambda gang: len(gang.times) >= 4)
    assert seen["closed"] >= 4


def test_handshakes_back_to_back(server, authority):
    with healthy_models(server, authority):
        assert hostile_tls.flood_of_handshakes((server.host, server.port), 0.5, 2)["made"] > 0


def test_the_end_without_close_notify_in_the_middle_of_an_answer(application, authority):
    """What waited for such clients is given back (the fixture sees that nothing is left)."""
    with healthy_clients(application, authority, "/echo", b"body", (200, b"body")):
        seen = gang_of(application, APPLICATION["tls_cut_answers"], lambda gang: gang.made >= 20)
    assert seen["made"] >= 20


@pytest.mark.parametrize("name", ["rapid_reset", "continuation", "ping", "hpack_bomb", "empty_data", "smuggling"])
def test_floods_by_tls(application, authority, name):
    kind = APPLICATION[name]
    closed = run.closings(application)[0].get(kind.reason, 0)
    with healthy_clients(application, authority, "/echo", b"body", (200, b"body")):
        seen = gang_of(application, kind, lambda gang: len(gang.times) >= max(4, len(kind.rows)))
    wait.until(lambda: run.closings(application)[0].get(kind.reason, 0) >= closed + seen["closed"], lambda: run.closings(application))
    assert not json.loads(run.page(application, "/counts", authority.cert))["smuggled"]
