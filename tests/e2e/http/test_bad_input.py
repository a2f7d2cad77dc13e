"""What clients and handlers do wrong: the error that RFC 9110 or ASGI says, a line in the log with the id of the request, and
nobody else is harmed."""

import contextlib
import http.client
import itertools
import select
import socket

import pytest
from http_site import site
from support import wait
from support.protocol import http as clients
from support.protocol import raw
from support.protocol.websocket import CLOSE, TEXT, Raw, frame

pytestmark = pytest.mark.core

CUT = (http.client.IncompleteRead, ConnectionError, AssertionError, KeyError)
ids = ("bad-%d" % n for n in itertools.count())
ENOUGH = 256 << 20  # bytes: a server that takes so many takes all


@pytest.fixture(scope="module")
def site_of():
    """Applications on a server that waits a second for slow clients."""
    import sys

    from support import paths

    sys.path[:0] = [str(p) for p in (paths.APPS / "asgi", paths.SDK) if str(p) not in sys.path]
    with site("--ingress-buffer=1000", "--body-timeout=1", "--send-timeout=1") as s:
        import http_app
        import ws_app

        s.api.run(http_app.web, name="web", route_prefix="/web")
        s.api.run(http_app.plain, name="plain", route_prefix="/plain")
        s.api.run(ws_app.sockets, name="ws", route_prefix="/ws")
        yield s


@pytest.fixture
def web(site_of):
    """In a test one request beside others is open all the time, and the replica stays the same."""
    pid = site_of.get("/web/info").json()["pid"]
    with contextlib.closing(site_of.begin("GET", "/web/hold?name=beside")) as beside:
        yield site_of
        assert site_of.get("/web/info").json()["pid"] == pid
        site_of.get("/web/release")
        assert beside.getresponse().status == 200
    site_of.get("/web/again")


def line_of(web, event, request_id):
    return next((line for line in web.log.splitlines() if f"event={event} " in line and request_id in line), "")


def wait_line(web, event, request_id, *said):
    line = wait.until(lambda: line_of(web, event, request_id), lambda: f"{event} {request_id} in\n{web.log}")
    for text in said:
        assert text in line, line


def until_logged(web, event, ask, *said):
    """The dispatcher writes at most one such line a second: asks until one is about its request."""
    def is_logged():
        request_id = next(ids)
        ask(request_id)
        return wait.until(lambda: line_of(web, event, request_id) or web.get("/web/info").status == 200, "it serves") \
            and line_of(web, event, request_id)  # fmt: skip
    line = wait.until(is_logged, lambda: f"{event} in\n{web.log}")
    for text in said:
        assert text in line, line


def fault(web, path, version, request_id=None):
    request_id = request_id or next(ids)
    got = web.get(path, headers=[("x-request-id", request_id)], version=version)
    assert (got.status, got.data, got.headers["x-request-id"]) == (500, b"Internal Server Error", request_id)
    return request_id


# --- applications ---

@pytest.mark.parametrize("what, said", [
    ("silent", "ASGI callable returned without starting response."),
    ("only_start", "ASGI callable returned without completing response."),
    ("body_first", "Expected ASGI message 'http.response.start', but got 'http.response.body'."),
    ("starts_twice", "Expected ASGI message 'http.response.body', but got 'http.response.start'."),
    ("text_body", "a bytes-like object is required, not 'str'"),
    ("text_header", "a header is a pair of bytes, name and value"),
    ("text_message", "send takes a dict, not <class 'str'>"),
    ("no_type", "KeyError: 'type'"),
    ("no_status", "KeyError: 'status'"),
    ("returns", "ASGI callable should return None, but returned 'a value'."),
    ("fail", "ValueError: on purpose"),
])  # fmt: skip
def test_applications_that_do_not_keep_to_asgi(web, version, what, said):
    wait_line(web, "handler_raised", fault(web, "/web/" + what, version), said)


@pytest.mark.parametrize("what, said", [
    ("half", "ASGI callable returned without completing response."), ("fail_behind", "ValueError: behind the head")])  # fmt: skip
def test_faults_behind_the_head_cut_the_answer(web, version, what, said):
    request_id = next(ids)
    with pytest.raises(CUT):
        got = web.get("/web/" + what, headers=[("x-request-id", request_id)], version=version)
        assert got.data != b"half", "cut"
    wait_line(web, "handler_raised", request_id, said)


def test_a_body_behind_the_end_is_not_sent(web, version):
    request_id = next(ids)
    got = web.get("/web/after_end", headers=[("x-request-id", request_id)], version=version)
    assert (got.status, got.data) == (200, b"whole")
    wait_line(web, "handler_raised", request_id, "sent, after response already completed.")


@pytest.mark.parametrize("query, why", [
    ("n0=bad%0Aname&v0=x", "a name of its fields is not a token"),
    ("n0=x&v0=a%0D%0Ainjected:%201", "a value of its fields has a control character"),
    ("n0=content-length&v0=5&body=1", "it has less body than its content-length"),
    ("n0=content-length&v0=1&body=12345", "it has more body than its content-length"),
])  # fmt: skip
def test_heads_that_may_not_be_sent(web, version, query, why):
    until_logged(web, "bad_answer", lambda i: fault(web, "/web/head?" + query, version, i), why, "path=/web/head")


@pytest.mark.parametrize("what", ["object", "lock", "inside", "key", "cycle", "bytes"])
def test_values_that_cannot_be_serialised(web, version, what):
    wait_line(web, "handler_raised", fault(web, "/plain?what=" + what, version), "deployment=Plain")
    assert web.get("/plain").data == b"fine"


def test_an_item_that_cannot_be_serialised_cuts_the_answer(web, version):
    request_id = next(ids)
    with pytest.raises(CUT):
        got = web.get("/plain?what=items", headers=[("x-request-id", request_id)], version=version)
        assert got.data != b"one", "cut"
    wait_line(web, "handler_raised", request_id)


def test_a_route_that_goes_while_requests_are_open(web, version, tmp_path):
    """Those that have begun end as they would have, also the upload of which a part is still to come."""
    import http_app

    file, path = tmp_path / "go", f"/gone/until?file={tmp_path / 'go'}&name="
    web.api.run(http_app.web, name="gone", route_prefix="/gone")
    with contextlib.closing(web.begin("GET", path + "whole")) as whole, \
            contextlib.closing(web.begin("POST", path + "upload", [("content-length", "6000")])) as upload:
        upload.send(b"x" * 5000)
        for name in ("whole", "upload"):
            web.wait_logged(name + " began", "/gone")
        web.api.delete("gone", _blocking=False)
        got = web.get(path + "late", version=version)
        assert got.status == 404 and got.headers["x-request-id"]
        upload.send(b"x" * 1000)
        file.touch()
        assert [c.getresponse().read() for c in (whole, upload)] == [b"0", b"6000"]
    wait.until(lambda: "gone" not in web.api.status().applications, "the replica has ended")


# --- clients ---

def endless(c, piece, limit=ENOUGH):
    """Sends until nothing more is taken within a second, or the connection ends; how much."""
    sent = 0
    c.sock.setblocking(False)
    with contextlib.suppress(ConnectionError):
        while sent < limit and select.select([], [c.sock], [], 1)[1]:
            with contextlib.suppress(BlockingIOError):
                sent += c.sock.send(piece)
    c.sock.setblocking(True)
    return sent


CHUNK = b"10000\r\n" + b"x" * 65536 + b"\r\n"


def test_a_body_that_never_ends_and_is_read(web):
    """It goes on as long as its client does, and the replica and the server keep nothing of it."""
    with contextlib.closing(web.begin("POST", "/web/count?name=endless", [("transfer-encoding", "chunked")])) as c:
        for _ in range(500):
            c.send(CHUNK)
        assert web.get("/web/info").status == 200
    web.wait_logged("endless lost its client")


def test_a_body_that_never_ends_and_is_not_read(web):
    """The answer comes before; the connection ends, and what is still sent is not taken."""
    with raw.Raw(web) as c:
        c.send(b"POST /web/unread HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNK)
        assert c.until(rb"^HTTP/1.1 200 .*true")
        assert endless(c, CHUNK) < ENOUGH


def test_a_body_whose_client_stands_still(web):
    """Before the handler begins and behind that."""
    def ask(sent):
        def ask(request_id):
            with contextlib.closing(web.begin("POST", "/web/count?name=still", [("content-length", "6000"), ("x-request-id", request_id)])) as c:
                c.send(b"x" * sent)
                got = c.getresponse()
                assert got.status == 408 and got.headers["x-request-id"] == request_id
        return ask
    for sent in (500, 5000):
        until_logged(web, "request_stalled", ask(sent), "part=request")
    web.wait_logged("still lost its client")


@pytest.mark.parametrize("chunk", [b"zz\r\n", b"5;\x01\r\n", b"-1\r\nx", b"ffffffffffffffffff\r\n", b"1\r\nxy\r\n"])
@pytest.mark.parametrize("first", [b"", CHUNK])
def test_a_chunk_that_is_none(web, chunk, first):
    """RFC 9112, 7.1: the message is malformed. Its handler learns that its client has gone."""
    with raw.Raw(web) as c:
        c.send(b"POST /web/count?name=chunk HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n" + first)
        if first:
            web.wait_logged("chunk began")
        c.send(chunk)
        assert c.rest().startswith(b"HTTP/1.1 400 "), c.seen
    if first:
        web.wait_logged("chunk lost its client")


def test_a_client_that_reads_nothing_of_a_stream(web, version):
    """It is let go, and the handler is told."""
    def ask(request_id):
        name = "deaf-" + request_id
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.settimeout(wait.SECONDS)
        s.connect((web.host, web.port))
        with s:
            if version == "h1":
                s.sendall(b"GET /web/stream?name=%s HTTP/1.1\r\nHost: h\r\nx-request-id: %s\r\n\r\n" % (name.encode(), request_id.encode()))
            else:
                h2 = clients.Http2(web.host, web.port)
                s.close()
                stream = h2.conn.conn.get_next_available_stream_id()
                h2.conn.conn.send_headers(stream, [(":method", "GET"), (":path", "/web/stream?name=" + name), (":scheme", "http"),
                                                   (":authority", "h"), ("x-request-id", request_id)], end_stream=True)  # fmt: skip
                h2.conn.flush()
            web.wait_logged(name + " lost its client")
            if version == "h2":
                h2.close()
    until_logged(web, "request_stalled", ask, "part=answer")


def test_a_thousand_half_open_uploads(web):
    """They hold no slot, and the server lets them go."""
    uploads = [web.begin("POST", "/plain", [("content-length", "900")]) for _ in range(1000)]  # it has 100 slots
    for c in uploads:
        c.send(b"x")
    assert web.get("/plain").data == b"fine"
    for c in uploads:
        assert c.getresponse().status == 408
        c.close()


@pytest.mark.parametrize("bad, code", [
    ([frame(TEXT, b"x", mask=None)], 1002), ([frame(TEXT, b"\xff")], 1007), ([b"\x82\xff\x7f" + b"\xff" * 7 + b"maskx"], 1009)])  # fmt: skip
def test_frames_against_the_rules_are_logged(web, bad, code):
    """What each of them ends with: test_websocket_bad_input. wslay has read a head when the first byte of its payload is there."""
    def ask(request_id):
        with Raw(web, "/ws/echo", ["X-Request-ID: " + request_id]) as c:
            for data in bad:
                c.send(data)
            opcode, payload = c.read_frame()
            assert (opcode, int.from_bytes(payload[:2], "big")) == (CLOSE, code)
    until_logged(web, "websocket_fault", ask, f"code={code}")
