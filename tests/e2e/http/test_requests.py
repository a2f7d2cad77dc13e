"""Requests to an application: what its handler sees, and what comes back, over both versions of HTTP."""

import contextlib
import hashlib
import re
import select
import threading

import numpy as np
import pytest

from support import wait
from support.protocol import http as clients
from support.protocol import raw

pytestmark = pytest.mark.core

BUFFER = 1000  # --ingress-buffer of the server


def test_the_handler_sees_the_request_as_it_was_sent(web, version):
    got = web.get("/web/info/a%20b?x=1&y=%2F", "PATCH", b"body", [("x-a", "1"), ("x-b", "é".encode("latin-1").decode("latin-1")), ("x-a", "2")],
                  version)  # fmt: skip
    assert got.status == 200, got.data
    seen = got.json()
    assert (seen["type"], seen["method"], seen["scheme"]) == ("http", "PATCH", "http")
    assert seen["raw_path"] == "/web/info/a%20b" and seen["query"] == "x=1&y=%2F" and seen["root_path"] == "/web"
    assert seen["http_version"] == {"h1": "1.1", "h2": "2"}[version]
    assert seen["client"][0] == "127.0.0.1" and seen["server"] == ["127.0.0.1", web.port]
    names = [k for k, _ in seen["headers"]]
    assert names[0] == "host" and [v for k, v in seen["headers"] if k == "x-a"] == ["1", "2"]
    assert ["content-length", "4"] in seen["headers"]
    assert not {"connection", "te", "transfer-encoding", "upgrade", "keep-alive"} & set(names)


def test_fields_of_the_connection_stay_here(web):
    with raw.Raw(web) as c:
        c.send(b"GET /web/info HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, X-Mine\r\nKeep-Alive: 5\r\nTE: trailers\r\nX-Mine: 1\r\n"
               b"X-Other: 2\r\nProxy-Connection: x\r\nTrailer: y\r\n\r\n")  # fmt: skip
        assert c.until(rb"\r\n\r\n.*}")
    names = re.findall(rb'\["([a-z-]+)", ', c.seen)
    assert b"x-other" in names and not {b"connection", b"keep-alive", b"te", b"x-mine", b"proxy-connection", b"trailer"} & set(names), names


def test_the_parts_of_a_cookie_are_joined(web):
    """RFC 9113 §8.2.3: a client of HTTP/2 may split the field."""
    fields = [("cookie", "a=1"), ("x-between", "y"), ("cookie", "b=2"), ("cookie", "c=3")]
    got = web.get("/web/info", headers=fields, version="h2").json()["headers"]
    assert [v for k, v in got if k == "cookie"] == ["a=1; b=2; c=3"] and ["x-between", "y"] in got
    got = web.get("/web/info", headers=fields[:2], version="h2").json()["headers"]
    assert [v for k, v in got if k == "cookie"] == ["a=1"]


def test_request_ids(web, version):
    got = web.get("/web/info", headers=[("x-request-id", "mine-1")], version=version)
    assert got.headers["x-request-id"] == "mine-1" and ["x-request-id", "mine-1"] in got.json()["headers"]
    got = web.get("/web/info", version=version)
    made = got.headers["x-request-id"]
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", made)
    assert ["x-request-id", made] in got.json()["headers"]
    assert web.get("/web/info", version=version).headers["x-request-id"] != made
    long = "x" * 257  # one that is too long is replaced
    assert web.get("/web/info", headers=[("x-request-id", long)], version=version).headers["x-request-id"] != long


@pytest.fixture
def traced(web):
    import http_app

    web.api.run(http_app.traced, name="traced", route_prefix="/traced")
    yield web
    web.api.delete("traced")


def test_calls_of_a_handler_belong_to_the_trace_of_its_request(traced, version):
    trace = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "a=b"}
    assert traced.get("/traced", headers=list(trace.items()), version=version).json() == [trace, trace]
    assert traced.get("/traced", version=version).json() == [{}, {}]


@pytest.mark.parametrize("n", [0, 1, BUFFER, BUFFER + 1, 65536, 65537, 300_000])
def test_bodies_of_every_size(web, version, n):
    body = bytes(i * 31 & 255 for i in range(n))
    got = web.get("/web/echo", "POST", body, version=version)
    assert got.status == 200 and got.data == body
    assert got.headers["content-length"] == str(n)


@pytest.mark.parametrize("n", [0, 1, 32767, 32768, 65536, 65537, 3_000_000])
def test_what_a_handler_returns_has_its_length(web, version, n):
    for method, sent in (("GET", n), ("HEAD", 0)):
        got = web.get(f"/plain?what=large&n={n}", method, version=version)
        assert (got.status, len(got.data)) == (200, sent)
        # over HTTP/2 a small answer is one frame behind its head
        assert got.headers.get("content-length") in ([str(n)] if n >= 32768 or version == "h1" else [str(n), None])


def test_a_body_in_chunks(web):
    body = b"0123456789" * 5000
    with contextlib.closing(web.begin("POST", "/web/echo", [("transfer-encoding", "chunked")])) as c:
        for at in range(0, len(body), 777):
            part = body[at:at + 777]
            c.send(b"%x\r\n%s\r\n" % (len(part), part))
        c.send(b"0\r\n\r\n")
        assert c.getresponse().read() == body


@pytest.mark.parametrize("length", ["sized", "chunked"])
def test_up_to_the_buffer_a_body_is_collected_before_the_handler_begins(web, length):
    def upload(name, n):
        fields = [("content-length", str(n + 1))] if length == "sized" else [("transfer-encoding", "chunked")]
        c = web.begin("POST", f"/web/count?name={name}", fields)
        c.send(b"x" * n if length == "sized" else b"%x\r\n%s\r\n" % (n, b"x" * n))
        return c

    collected, streamed = upload(f"{length}-whole", BUFFER - 1), upload(f"{length}-over", BUFFER if length == "sized" else BUFFER + 1)
    web.wait_logged(f"{length}-over began")  # its buffer is full, and there is more
    assert f"{length}-whole began" not in web.logged()
    for c, n in ((collected, BUFFER), (streamed, BUFFER + 1)):
        c.send(b"x" if length == "sized" else b"1\r\nx\r\n0\r\n\r\n")
        got = c.getresponse()
        assert got.status == 200, got.read()
        text = got.read()
        assert (b'"n": %d,' % (n if length == "sized" or n == BUFFER else n + 1)) in text, text
        c.close()


def test_large_bodies_both_ways(web, version):
    body = bytes(range(256)) * ((40 if version == "h1" else 4) << 12)  # 40 MiB; the client of HTTP/2 is slow
    got = web.get("/web/count", "PUT", body, version=version)
    assert got.json() == {"n": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    n = len(body) >> 16
    got = web.get(f"/web/stream?n={n}", version=version)
    chunk = bytes(i * 7 & 255 for i in range(256)) * 256
    assert len(got.data) == n << 16 and hashlib.sha256(got.data).digest() == hashlib.sha256(chunk * n).digest()


def test_an_answer_to_a_body_that_nobody_reads(web, version):
    assert web.get("/web/unread", "POST", b"x" * 50_000, version=version).json() == {"unread": True}


@pytest.mark.parametrize("path, length", [("/web/head?body=12345", "5"), ("/web/sized?declared=1000&sent=1000", "1000")])
def test_head_has_the_fields_of_get(web, version, path, length):
    got = web.get(path, "HEAD", version=version)
    assert got.status == 200 and got.data == b"" and got.headers["content-length"] == length
    assert web.get(path, version=version).headers.get("content-length", length) == length


@pytest.mark.parametrize("status", [204, 304])
def test_statuses_without_a_body(web, version, status):
    with contextlib.closing(clients.CLIENTS[version](web.host, web.port)) as c:
        got = c.request("GET", f"/web/head?status={status}&body=xyz")
        assert got.status == status and got.data == b""
        assert c.request("GET", "/web/info").status == 200  # the connection goes on


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"])
def test_any_method(web, version, method):
    got = web.get("/web/info", method, version=version)
    assert got.status == 200 and (method == "HEAD" or got.json()["method"] == method)


def test_fields_of_the_answer(web, version):
    got = web.get("/web/head?n0=X-Mine&v0=a&n1=connection&v1=close&n2=transfer-encoding&v2=chunked&n3=date&v3=then&n4=date&v4=later"
                  "&n5=server&v5=me&n6=keep-alive&v6=1&body=b", version=version)  # fmt: skip
    assert got.status == 200 and got.data == b"b"
    assert got.headers["x-mine"] == "a" and got.headers["date"] == "then" and got.headers["server"] == "me"
    assert "keep-alive" not in got.headers and (version == "h1" or "connection" not in got.headers)
    got = web.get("/web/info", version=version)
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", got.headers["date"]) and got.headers["server"] == "anyserve"


def test_a_request_of_http_1_0(web):
    with raw.Raw(web) as c:
        c.send(b"GET /web/stream?n=3&size=256 HTTP/1.0\r\n\r\n")
        head, _, body = c.rest().partition(b"\r\n\r\n")
    assert b"chunked" not in head and len(body) == 768


def test_requests_behind_each_other_on_one_connection(web, version):
    with contextlib.closing(clients.CLIENTS[version](web.host, web.port)) as c:
        for i in range(5):
            assert c.request("POST", "/web/echo", b"%d" % i).data == b"%d" % i


# --- what waits for whom ---

def test_a_client_that_reads_nothing_stops_the_handler(web):
    with contextlib.closing(web.begin("GET", "/web/stream?name=unread-stream")):
        def sent():
            return web.wait_logged("unread-stream")[0]["sent"]

        wait.until(lambda: sent() > 0, "the first bytes")
        before = -1
        while sent() != before:  # until it stands still
            before = sent()
            assert before < 32 << 20, "the handler is not stopped"
            assert web.get("/web/info").status == 200  # others are served meanwhile
    assert web.get("/web/info").status == 200


def test_a_handler_that_reads_nothing_stops_the_client(web):
    with contextlib.closing(web.begin("POST", "/web/hold?name=deaf", [("content-length", str(1 << 30))])) as c:
        c.send(b"x" * 65536)
        web.wait_logged("deaf began")
        c.sock.setblocking(False)
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while select.select([], [c.sock], [], 1)[1]:
                sent += c.sock.send(b"x" * 65536)
                assert sent < 64 << 20, "everything is taken"
        assert web.get("/web/info").status == 200
        web.get("/web/release")
    web.get("/web/again")


def test_a_client_that_goes_cancels_its_request(web, version):
    name = f"gone-{version}"
    if version == "h1":
        c = web.begin("GET", f"/web/hold?name={name}")
        web.wait_logged(f"{name} began")
        c.close()
    else:
        c = clients.Http2(web.host, web.port)
        stream = c.conn.conn.get_next_available_stream_id()
        c.conn.conn.send_headers(stream, [(":method", "GET"), (":path", f"/web/hold?name={name}"), (":scheme", "http"), (":authority", "h")],
                                 end_stream=True)  # fmt: skip
        c.conn.flush()
        web.wait_logged(f"{name} began")
        c.conn.conn.reset_stream(stream)
        c.conn.flush()
    web.wait_logged(f"{name} lost its client")


def test_a_client_that_goes_in_the_middle_of_its_upload(web):
    c = web.begin("POST", "/web/count?name=torn", [("content-length", "100000")])
    c.send(b"x" * 5000)
    web.wait_logged("torn began")
    c.close()
    web.wait_logged("torn lost its client")


def test_clients_at_once(web, version):
    def ask(i):
        for k in range(20):
            body = b"%d-%d" % (i, k) * 400
            assert web.get("/web/echo", "POST", body, version=version).data == body

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    failed = []
    threading.excepthook, before = (lambda a: failed.append(a)), threading.excepthook
    try:
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        threading.excepthook = before
    assert not failed, failed


def test_a_model_beside_the_application(web):
    """The dispatcher uses the memory of a request again for the next one, which may be of another kind."""
    @web.api.deployment
    def double(x: np.ndarray) -> np.ndarray:
        return 2 * x

    web.api.run(double.bind(), name="numbers", route_prefix=None)
    body = b'{"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [4]}]}'
    with contextlib.closing(clients.Http1(web.host, web.port)) as c:
        for _ in range(3):
            assert c.request("POST", "/web/echo", b"x", []).status == 200
            got = c.request("POST", "/v2/models/numbers.double/infer", body, [])
            assert got.status == 200 and got.json()["outputs"][0]["data"] == [8.0], got.data
            assert c.request("GET", "/v2/models/none", None, []).status == 404
    web.api.delete("numbers")
