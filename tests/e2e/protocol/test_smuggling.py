"""Messages that two readers could read in two ways, or that nobody should read: refused, and nothing else harmed.

Behind a refusal the connection ends, and what the client sent behind it is never taken for a request. The cases are in
tests/attack/smuggling.py.
"""

import sys

import pytest

from support import paths
from support.protocol.h2client import H2
from support.protocol.raw import Raw

sys.path.insert(0, str(paths.ROOT / "tests/attack"))

from smuggling import HTTP1, HTTP2, LIMITS, NEXT  # noqa: E402

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py", *LIMITS)


@pytest.mark.parametrize("name", HTTP1)
def test_http1(server, name):
    data, status, text = HTTP1[name]
    with Raw(server) as client:
        client.send(data)
        seen = client.rest()
        if status == "h2":  # the first bytes were HTTP/2's, and it is told so in its words
            assert b"HTTP/1.1" not in seen
        elif status is None:
            assert client.statuses() == [200]
        else:
            assert client.statuses() == [status], seen
            head, _, body = seen.partition(b"\r\n\r\n")
            assert b"\r\nconnection: close" in head and body.startswith(b'{"error":"') and body.endswith(b'"}')
            assert text in body.decode()
    with Raw(server) as other:
        other.send(NEXT)
        assert other.until(rb'\{"live":true\}$')


# --- HTTP/2: what a front could make HTTP/1.1 of ---

@pytest.mark.parametrize("name", HTTP2)
def test_http2(server, name):
    """The stream is reset, or refused with a 4xx; the connection and the others go on."""
    with H2(server.host, server.port) as http:
        # a literal without indexing, by hand: the library would not send them
        block = b"".join(bytes([0]) + _string(k) + _string(v) for k, v in HTTP2[name])
        http.conn.get_next_available_stream_id()
        http.sock.sendall(len(block).to_bytes(3, "big") + b"\x01\x05" + (1).to_bytes(4, "big") + block)
        while b"\x00\x00\x04\x03" not in (seen := http.sock.recv(65536)):
            assert seen, "the connection was ended"
            assert b"live" not in seen
    with H2(server.host, server.port) as http:
        assert http.request("GET", "/v2/health/live").data == b'{"live":true}'


def _string(text):
    data = text.encode()
    assert len(data) < 127
    return bytes([len(data)]) + data


def test_the_tables_are_as_large_as_they_should_be():
    assert len(HTTP1) + len(HTTP2) >= 80
