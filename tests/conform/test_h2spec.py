"""HTTP/2 by h2spec: every case (generic, http2, hpack), strict ones included, also with sliced bytes.

One case of h2spec assumes that SETTINGS_MAX_FRAME_SIZE is 16,384: it sends a HEADERS frame of about 20,000 bytes. Ours
is 262,144, so it is run by itself, with headers that really are too large for one frame.

Another one sends what is no HTTP/2 preface, and then reads frames. The port speaks HTTP/1.1 too: it answers 400 before it
closes the connection, which h2spec takes for a frame that is cut short.
"""

import json
import re
import socket

import pytest

import conftest
from slicer import Slicer
from support import wait

CASES = 146  # of v2.2.1, strict
ASSUMES_16K = "http2/4.2/3"
NO_PREFACE = "http2/3.5/2"
OTHERS = ["generic", "hpack", "http2/3.5/1", "http2/4.1", "http2/4.2/1", "http2/4.2/2", "http2/4.3", "http2/5", "http2/6",
          "http2/7", "http2/8"]
# Answers GET and POST, and not before a request is whole: what a case sends behind its HEADERS finds the stream open.
TARGET = "/v2/logging"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, GOAWAY, WINDOW_UPDATE = 4, 7, 8
PROTOCOL_ERROR = 1
TLS = ["--tls", "--insecure"]
TOO_LARGE = 80000  # × 5 headers, of which the compression leaves seven eighths
LINE = re.compile(r"^(\d+) tests, (\d+) passed, (\d+) skipped, (\d+) failed$", re.M)


def h2spec(tools, port, *args):
    """How many cases were run; all have passed."""
    done = tools.run("h2spec", "--strict", "--host", "127.0.0.1", "--port", port, "--path", TARGET,
                     "--timeout", 10, *args, seconds=600)
    found = LINE.search(done.stdout)
    assert found, f"h2spec has not come to its end:\n{done.stdout[-3000:]}{done.stderr}"
    tests, passed, skipped, failed = map(int, found.groups())
    assert not skipped and not failed and passed == tests, done.stdout[done.stdout.find("\nFailures:"):]
    return tests


def check_all(tools, port):
    assert h2spec(tools, port, *OTHERS) == CASES - 2


def check_too_large(tools, port):
    assert h2spec(tools, port, ASSUMES_16K, "--max-header-length", TOO_LARGE) == 1


def test_the_case_that_is_answered_in_http1(server, tools):
    done = tools.run("h2spec", "--strict", "--host", "127.0.0.1", "--port", server.port, "--timeout", 10, NO_PREFACE)
    assert "1 tests, 0 passed, 0 skipped, 1 failed" in done.stdout and "unexpected EOF" in done.stdout, done.stdout
    # the bytes of that case: one whole answer, and then the end of the connection
    head, _, body = told(server.port, [b"INVALID CONNECTION PREFACE\r\n\r\n"]).partition(b"\r\n\r\n")
    status, *fields = head.split(b"\r\n")
    assert status == b"HTTP/1.1 400 Bad Request" and b"connection: close" in fields, head
    assert b"content-length: %d" % len(body) in fields and list(json.loads(body)) == ["error"], head + body


def told(port, pieces):
    """Everything that a client is told until the connection ends, without a reset."""
    with socket.create_connection(("127.0.0.1", port), wait.SECONDS) as s:
        for piece in pieces:
            s.sendall(piece)
        return b"".join(iter(lambda: s.recv(4096), b""))


@pytest.mark.parametrize("is_sliced", [False, True])
@pytest.mark.parametrize("at", range(len(PREFACE)))
def test_a_preface_with_one_wrong_byte(server, at, is_sliced):
    """Never taken for HTTP/2; up to the fourth byte for a bad request, and behind it for a broken preface."""
    wrong = PREFACE[:at] + b"\x01" + PREFACE[at + 1:] + b"\0\0\0\4\0\0\0\0\0"
    answer = told(server.port, [wrong[i:i + 1] for i in range(len(wrong))] if is_sliced else [wrong])
    if at < 4:
        assert answer.startswith(b"HTTP/1.1 400 ") and b"\0" not in answer, answer
        return
    frames = []
    while answer:
        n = int.from_bytes(answer[:3], "big")
        frames.append((answer[3], answer[9:9 + n]))
        answer = answer[9 + n:]
    # our greeting at most, no acknowledgement, and the reason
    assert {kind for kind, _ in frames} <= {SETTINGS, WINDOW_UPDATE, GOAWAY} and all(p for _, p in frames), frames
    for kind, payload in frames:
        assert kind != GOAWAY or int.from_bytes(payload[4:8], "big") == PROTOCOL_ERROR, frames


def test_cases_are_counted(tools):
    """OTHERS and the two cases are all that there are."""
    done = tools.run("h2spec", "--strict", "--dryrun")
    assert len(re.findall(r"^ +\d+: ", done.stdout, re.M)) == CASES, done.stdout


def test_every_case(server, tools):
    check_all(tools, server.port)


def test_the_case_that_assumes_a_frame_size(server, tools):
    check_too_large(tools, server.port)


@pytest.mark.parametrize("server", [conftest.TLS], indirect=True)
def test_every_case_by_tls(server, tools):
    """Also the one that is no preface: ALPN has chosen HTTP/2."""
    assert h2spec(tools, server.port, *OTHERS, NO_PREFACE, *TLS) == CASES - 1
    assert h2spec(tools, server.port, ASSUMES_16K, "--max-header-length", TOO_LARGE, *TLS) == 1


def reads(server):
    return sum(map(int, re.findall(r'^anyserve_syscalls_total\{kind="read".*\} (\d+)$', server.metrics(), re.M)))


def passed_on(server, tools, n):
    """(bytes, reads) of the server while h2spec talks to it through slices of n bytes. What comes when the server has
    ended a connection does not count: edge/conn/linger reads that in large pieces, however it was sent."""
    before = reads(server)
    with Slicer((server.host, server.port), n) as slicer:
        check_all(tools, slicer.port)
    return slicer.heard, reads(server) - before


def is_sliced(heard, read):
    """The kernel joins what the server has not read yet; t_h2 and t_h2_hostile cut between any two bytes for certain."""
    return read > heard / 16


def test_every_case_byte_by_byte(server, tools):
    heard, read = passed_on(server, tools, 1)
    assert is_sliced(heard, read), f"{heard} bytes came in {read} reads: they were not sliced"


def test_what_is_not_sliced_does_not_pass_for_it(server, tools):
    heard, read = passed_on(server, tools, 65536)
    assert not is_sliced(heard, 8 * read), f"{heard} bytes came in {read} reads"


@pytest.mark.long
def test_the_case_that_assumes_a_frame_size_byte_by_byte(server, tools):
    with Slicer((server.host, server.port)) as slicer:
        check_too_large(tools, slicer.port)
