"""Errors of requests to an application: of its handler, of its replicas, of the server, and of clients."""

import contextlib
import http.client
import re
import zlib

import pytest

from support import wait
from support.protocol import http as clients
from support.protocol import raw

pytestmark = pytest.mark.core

# what a client says of an answer that does not end; over HTTP/2 the stream may be reset before its head has left
CUT = (http.client.IncompleteRead, ConnectionError, AssertionError, KeyError)


@pytest.mark.parametrize("query, what", [
    ("n0=bad%0Aname&v0=x", "not a token"),
    ("n0=&v0=x", "not a token"),
    ("n0=x&v0=a%0D%0Ainjected:%201", "control character"),
    ("n0=x&v0=a%00b", "control character"),
    ("n0=content-length&v0=1x&body=1", "content-length is no number"),
    ("n0=content-length&v0=1&n1=content-length&v1=2&body=1", "two values of content-length"),
    ("status=99", None),
    ("status=199", "within 200 and 599"),
    ("status=700", "within 200 and 599"),
    ("n0=content-length&v0=5&body=1", "less body"),
    ("n0=content-length&v0=1&body=12345", "more body"),
])  # fmt: skip
def test_a_head_that_may_not_be_sent(web, version, query, what):
    request_id = "bad-%d" % zlib.crc32((query + version).encode())
    got = web.get(f"/web/head?{query}", headers=[("x-request-id", request_id)], version=version)
    assert got.status == 500 and b"Internal Server Error" in got.data and got.headers["x-request-id"] == request_id
    assert "injected" not in got.headers and web.get("/web/info", version=version).status == 200
    if what:  # the others are refused in the replica
        wait.until(lambda: "bad_answer" in web.log, lambda: web.log)


@pytest.mark.parametrize("declared, sent", [(1000, 999), (1000, 1001)])
def test_an_answer_that_has_begun_and_breaks_its_word_is_cut(web, version, declared, sent):
    with pytest.raises(CUT):
        got = web.get(f"/web/sized?declared={declared}&sent={sent}", version=version)
        assert len(got.data) == declared, "cut"
    assert web.get("/web/info").status == 200


def test_a_handler_that_does_not_answer(web, version):
    got = web.get("/web/silent", version=version)
    assert got.status == 500 and got.headers["x-request-id"]


def test_a_handler_that_raises(web, version):
    before = web.get("/web/info").json()["pid"]
    got = web.get("/web/fail", version=version)
    assert got.status == 500 and got.data == b"Internal Server Error"
    assert web.get("/web/info").json()["pid"] == before  # the replica lives


def test_a_deployment_that_takes_no_http(web, version):
    got = web.get("/deaf/x", version=version)
    assert got.status == 500
    assert got.data.startswith(b"Deployment(name='Deaf', app='deaf') takes no HTTP requests"), got.data


# --- routes ---

def test_the_table_of_routes(web, version):
    got = web.get("/-/routes", version=version)
    assert got.json() == {"/web": "web", "/web/pair": "pair", "/narrow": "narrow", "/deaf": "deaf", "/chain": "chain",
                          "/plain": "plain"}
    got = web.get("/-/healthz", version=version)
    assert (got.status, got.data) == (200, b"success")


@pytest.mark.parametrize("path", ["/nowhere", "/webb", "/we", "/Web/info", "/-/web"])
def test_a_path_of_nobody(web, version, path):
    got = web.get(path, "POST", b"x", version=version)
    assert got.status == 404 and got.headers["x-request-id"]
    if not path.startswith("/-"):
        assert got.data == b"Path '%s' not found. Ping http://.../-/routes for available routes." % path.encode()


def test_the_longest_prefix_has_the_request(web, version):
    assert web.get("/web/pair/info", version=version).json()["root_path"] == "/web/pair"
    assert web.get("/web/pairs/info", version=version).json()["root_path"] == "/web"
    assert web.get("/we%62/info", version=version).json()["root_path"] == "/web"


def test_a_route_that_goes_while_a_request_is_open(web):
    import http_app

    web.api.run(http_app.web, name="short", route_prefix="/short")
    with contextlib.closing(web.begin("GET", "/short/hold?name=open")) as c:
        web.wait_logged("open began", "/short")
        web.api.delete("short", _blocking=False)
        wait.until(lambda: web.get("/short/info").status == 404, "the route is gone")
        assert "/short" not in web.get("/-/routes").json()
        c.close()


def test_an_application_moves_to_another_prefix(web):
    import http_app

    web.api.run(http_app.web, name="moving", route_prefix="/one")
    assert web.get("/one/info").status == 200
    web.api.run(http_app.web, name="moving", route_prefix="/two")
    assert web.get("/two/info").json()["root_path"] == "/two" and web.get("/one/info").status == 404
    web.api.delete("moving")
    assert web.get("/two/info").status == 404


def test_the_paths_of_the_server_and_an_application_at_the_root(web):
    import http_app

    assert web.get("/openapi.json").json()["openapi"]
    web.api.run(http_app.web, name="root", route_prefix="/")
    assert web.get("/openapi.json").json()["root_path"] == ""
    assert web.get("/v2/openapi.json").json()["root_path"] == ""  # there are no models
    assert web.get("/v2/health/live").status == 200 and "live" in web.get("/v2/health/live").json()
    assert web.get("/-/healthz").data == b"success" and web.get("/web/info").json()["root_path"] == "/web"
    assert web.get("/").json()["path"] == "/"
    web.api.delete("root")
    assert web.get("/openapi.json").json()["openapi"]


# --- replicas ---

@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_a_replica_that_dies_is_replaced_for_idempotent_methods(web, tmp_path, version, method):
    got = web.get(f"/web/pair/die?file={tmp_path / 'died'}", method, b"body" if method == "PUT" else None, version=version)
    assert got.status == 200 and (method == "HEAD" or got.json()["second"])


@pytest.mark.parametrize("method", ["POST", "PATCH"])
def test_a_request_that_may_have_run_is_not_run_again(web, tmp_path, version, method):
    got = web.get(f"/web/pair/die?file={tmp_path / 'died'}", method, b"x", version=version)
    assert got.status == 500


@pytest.mark.parametrize("deployment, method, status", [
    ("Dying", "GET", 200), ("Dying", "PUT", 200),  # the call may run again, since the request may
    ("Dying", "POST", 500),
    ("Once", "GET", 500),  # it says idempotent=False
])  # fmt: skip
def test_a_call_of_an_idempotent_request_runs_again(web, tmp_path, deployment, method, status):
    got = web.get(f"/chain/call_dying?deployment={deployment}&file={tmp_path / 'died'}", method, b"x" if method != "GET" else None)
    assert got.status == status, got.data


@pytest.mark.parametrize("kind", ["sized", "chunked"])
def test_a_replica_that_dies_behind_the_head(web, tmp_path, version, kind):
    with pytest.raises(CUT):
        got = web.get(f"/web/pair/die?behind={kind}&file={tmp_path / 'died'}", version=version)
        assert got.data != b"part", "cut"
    assert web.get("/web/info", version=version).status == 200


# --- too much ---

def test_more_than_the_queue_takes_is_refused(web, version):
    web.get("/narrow/again")
    waiting = [web.begin("GET", "/narrow/hold?name=first")]
    wait.until(lambda: web.get("/web/info").status == 200, "")
    # one executes and one waits; how many of the next ones are too many is known from their answers
    refused = None
    while not refused:
        waiting.append(web.begin("GET", "/narrow/hold?name=next"))
        got = web.get("/narrow/info", "OPTIONS", version=version) if len(waiting) > 2 else None
        refused = got if got is not None and got.status == 503 else None
        assert len(waiting) < 10
    assert int(refused.headers["retry-after"]) >= 1
    assert re.match(rb"Request dropped due to backpressure \(num_queued_requests=1, max_queued_requests=1\)\.", refused.data)
    for c in waiting:
        c.close()
    wait.until(lambda: web.get("/narrow/info").status == 200, "the slot is free again")


def test_ten_megabytes_of_header_fields(web, version):
    with contextlib.closing(web.begin("GET", "/web/hold?name=beside")) as beside:
        web.wait_logged("beside began")
        if version == "h1":
            with raw.Raw(web) as c:
                c.send(b"GET /web/info HTTP/1.1\r\nHost: h\r\n" + b"".join(b"x-%d: %s\r\n" % (i, b"y" * 1000) for i in range(10_000)) + b"\r\n")
                assert c.until(rb"^HTTP/1.1 431 ")
        else:
            with contextlib.suppress(ConnectionError, AssertionError, KeyError):
                got = web.get("/web/info", headers=[(f"x-{i}", "y" * 1000) for i in range(10_000)], version="h2")
                assert got.status == 431
        assert web.get("/web/info").status == 200
        web.get("/web/release")
        assert beside.getresponse().status == 200  # it was not disturbed
    web.get("/web/again")
