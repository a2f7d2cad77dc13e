"""Smuggling and floods against an application: what nobody sent is not executed, and its other clients are served.

The attacks are those of tests/attack; `make attack` measures how long other clients wait meanwhile.
"""

import json
import sys

import pytest
from support import paths, wait
from support.protocol import http as clients
from support.protocol.h2client import H2
from support.protocol.raw import HOST, Raw

sys.path.insert(0, str(paths.ROOT / "tests/attack"))

import attacks  # noqa: E402
import run  # noqa: E402
from smuggling import HTTP1, HTTP2, LIMITS, SMUGGLED, TE, to_application  # noqa: E402

pytestmark = pytest.mark.core

APPLICATION = paths.ROOT / "tests/attack" / attacks.Application.app
LARGE = b"%x\r\n%s\r\n" % (200_000, bytes(200_000))  # beyond --ingress-buffer: its handler has begun
ALL = attacks.attacks(attacks.Application())
FLOODS = ["rapid_reset", "made_you_reset_window", "made_you_reset_length", "continuation", "empty_data", "smuggling"]


@pytest.fixture(scope="module")
def server(serve_module):
    server = serve_module(APPLICATION, "--log-level", "warn", *LIMITS)
    server.wait_all_ready()
    return server


def ask(server, method, path, body=None):
    c = clients.Http1(server.host, server.port)
    try:
        return c.request(method, path, body).data
    finally:
        c.close()


def counts(server):
    return json.loads(ask(server, "GET", "/counts"))


@pytest.mark.parametrize("name", [n for n, row in HTTP1.items() if row[1] not in (None, "h2")])
def test_what_is_refused_smuggles_nothing(server, name):
    data, status, text = HTTP1[name]
    with Raw(server) as client:
        client.send(to_application(data))
        seen = client.rest()
        assert client.statuses() == [status], seen
        head, _, body = seen.partition(b"\r\n\r\n")
        assert b"\r\nconnection: close" in head and text in body.decode()
    now = counts(server)
    assert not now["smuggled"] and not now["cut"], now


@pytest.mark.parametrize("chunk", [b"3\r\nabcd\r\n", b"0x3\r\nabc\r\n", b"3\nabc\r\n", b"-3\r\nabc\r\n", b"0\r\nHost: x\r\n"])
def test_a_body_that_breaks_while_its_handler_reads(server, chunk):
    """The handler is told that its client has gone; it never takes a part for the whole."""
    before = counts(server)
    with Raw(server) as client:
        client.send(b"POST /echo HTTP/1.1\r\n" + HOST + TE + b"\r\n" + LARGE + chunk + b"\r\n0\r\n\r\n" + SMUGGLED)
        client.rest()
        assert b" 200 " not in client.seen, client.seen[:200]
    wait.until(lambda: not server.deployment("Echo")["ongoing"], server.status)
    now = counts(server)
    assert (now["whole"], now["smuggled"]) == (before["whole"], before["smuggled"])


@pytest.mark.parametrize("name", HTTP2)
def test_fields_of_http2(server, name):
    fields = [(k, "/smuggled" if (k, v) == (":path", "/v2/health/live") else v) for k, v in HTTP2[name]]
    with H2(server.host, server.port) as http:
        block = b"".join(attacks.literal(k.encode(), v.encode()) for k, v in fields)
        http.sock.sendall(attacks.frame(attacks.HEADERS, attacks.END_HEADERS | attacks.END_STREAM, 1, block))
        while b"\x00\x00\x04\x03" not in (seen := http.sock.recv(65536)):
            assert seen, "the connection was ended"
    assert not counts(server)["smuggled"]


@pytest.mark.parametrize("name", FLOODS)
def test_floods(server, name):
    closed = run.closings(server)[0].get(ALL[name].reason, 0)
    gang = attacks.Gang(ALL[name], (server.host, server.port), 2)
    answers = []
    seen = gang.run(wait.SECONDS, lambda gang: answers.append(ask(server, "POST", "/echo", b"x")) or len(gang.times) >= 4)
    assert seen["closed"] >= 4 and set(answers) == {b"x"}, seen
    wait.until(lambda: run.closings(server)[0].get(ALL[name].reason, 0) > closed, lambda: (seen, run.closings(server)))
    assert counts(server)["smuggled"] == 0
