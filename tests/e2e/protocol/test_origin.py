"""Web pages and the clients' port: what changes the server is not taken from pages of other sites, nor from pages that
came by a name that somebody else's DNS gave to this address (DNS rebinding)."""

import http.client
import json

import pytest

from support import wait
from support.protocol.h2client import H2

pytestmark = pytest.mark.core

OPTIONS = ("--allow-client-control", "--allow-client-shm")
LISTED = "https://ops.example:8443"
READS = ("infer", "modelGenerate", "repositoryIndex")  # how operations by POST that change nothing begin
MODEL = "echo"


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py", *OPTIONS)


@pytest.fixture(scope="module")
def listing(serve_module):
    return serve_module("echo.py", *OPTIONS, "--allow-origin", f"http://first.example,{LISTED}")


def ask(server, path, headers=(), method="POST", body=b""):
    """(status, error or None)"""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=wait.SECONDS)
    try:
        connection.putrequest(method, path, skip_host=any(name.lower() == "host" for name, _ in headers))
        for name, value in headers:
            connection.putheader(name, value)
        connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        said = json.loads(answer.read() or b"null")
        return answer.status, said.get("error") if isinstance(said, dict) else None
    finally:
        connection.close()


def changing(server):
    """Every path of the server's own description that changes something."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=wait.SECONDS)
    connection.request("GET", "/openapi.json")
    paths = json.loads(connection.getresponse().read())["paths"]
    connection.close()
    found = [path for path, methods in paths.items() for method, row in methods.items()
             if method not in ("get", "head") and not row["operationId"].startswith(READS)]
    return [path.replace("{model}", MODEL).replace("{name}", "r").replace("{version}", "1") for path in found]


def test_which_paths(server):
    """Nothing that changes is forgotten here, or in the table of paths."""
    paths = changing(server)
    for part in ("/load", "/unload", "/logging", "/trace/setting", "/register", "/unregister"):
        assert [p for p in paths if p.endswith(part)], part
    assert not [p for p in paths if "infer" in p or "generate" in p or p.endswith("index")]


FOREIGN = {
    "another site": [("Origin", "http://evil.example")],
    "no site": [("Origin", "null")],
    "another port": [("Origin", "http://127.0.0.1:1")],
    "two": [("Origin", "http://localhost"), ("Host", "localhost"), ("Origin", "http://evil.example")],
    "as a simple form": [("Origin", "http://evil.example"), ("Content-Type", "text/plain")],
    "without an origin": [("Sec-Fetch-Site", "cross-site")],
    "rebinding": [("Origin", "http://evil.example:8000"), ("Host", "evil.example:8000")],
    "rebinding without an origin": [("Host", "evil.example:8000")],
    "rebinding, a name that begins so": [("Host", "localhost.evil.example")],
}


@pytest.mark.parametrize("why", FOREIGN)
def test_foreign_pages(server, why):
    for path in changing(server):
        status, error = ask(server, path, FOREIGN[why], body=b"{}")
        assert status == 403 and "--allow-origin" in error, (path, status, error)
    assert ask(server, f"/v2/models/{MODEL}/ready", method="GET")[0] == 200


@pytest.mark.parametrize("origin", ["http://ops.example:8443", "https://ops.example", "http://first.example.evil.example",
                                    "http://first", "http://first.example,https://ops.example:8443", ","])
def test_origins_that_are_not_listed(listing, origin):
    status, error = ask(listing, "/v2/logging", [("Origin", origin)])
    assert status == 403 and "--allow-origin" in error


@pytest.mark.parametrize("headers", [
    [("Origin", LISTED)], [("Origin", LISTED), ("Host", "ops.example:8443"), ("Sec-Fetch-Site", "cross-site")],
    [("Origin", "HTTP://First.Example")], [("Host", "ops.example")], [("Host", "first.example:80")]])
def test_listed(listing, headers):
    for path in changing(listing):
        assert "--allow-origin" not in (ask(listing, path, headers, body=b"{}")[1] or ""), path


def own(server):
    host = f"{server.host}:{server.port}"
    return {
        "no browser": [],
        "no browser, a name of the machine": [("Host", f"localhost:{server.port}")],
        "same origin": [("Origin", f"http://{host}"), ("Host", host)],
        "same origin behind TLS": [("Origin", "https://localhost"), ("Host", "localhost"), ("Sec-Fetch-Site", "same-origin")],
        "typed by a person": [("Sec-Fetch-Site", "none")],
    }


@pytest.mark.parametrize("why", own(type("S", (), {"host": "", "port": 0})))
def test_own_pages(server, why):
    headers = own(server)[why]
    for path in changing(server):
        status, error = ask(server, path, headers, body=b"{}")
        assert "--allow-origin" not in (error or ""), (path, status, error)
    assert ask(server, f"/v2/repository/models/{MODEL}/unload", headers)[0] == 200
    assert ask(server, f"/v2/models/{MODEL}/ready", method="GET")[0] == 503
    assert ask(server, f"/v2/repository/models/{MODEL}/load", headers)[0] == 200


def test_reading_is_for_everybody(server):
    for path, method in (("/v2", "GET"), ("/v2/repository/index", "POST"), ("/v2/logging", "GET"),
                         ("/v2/systemsharedmemory/status", "GET"), ("/v2/trace/setting", "GET")):
        assert ask(server, path, FOREIGN["rebinding"], method=method)[0] == 200


def test_http2(server):
    path = f"/v2/repository/models/{MODEL}/load"
    with H2(server.host, server.port) as connection:
        answer = connection.request("POST", path, headers=[("origin", "http://evil.example")])
        assert answer.headers[":status"] == "403" and b"--allow-origin" in answer.data
        for headers in ([("origin", "http://localhost")], []):
            assert connection.request("POST", path, headers=headers).headers[":status"] == "200"


def test_http2_without_authority(server):
    """Such a request is no browser's, as one of HTTP/1.0 without Host; Host counts where :authority is left out."""
    path = f"/v2/repository/models/{MODEL}/load"
    with H2(server.host, server.port) as connection:
        def change(*headers):
            return connection.reply(connection.open(
                [(":method", "POST"), (":scheme", "http"), (":path", path), *headers], end=True)).headers[":status"]

        assert change() == change(("host", "localhost")) == "200"
        assert change(("host", "evil.example")) == change(("origin", "http://evil.example")) == "403"


def test_no_preflight(server):
    """gRPC needs no look at Origin: application/grpc is sent by a page only after a preflight, which nobody answers with
    leave, and gRPC-Web is not spoken."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=wait.SECONDS)
    connection.request("OPTIONS", "/inference.GRPCInferenceService/RepositoryModelUnload", headers={
        "Origin": "http://evil.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type"})
    answer = connection.getresponse()
    answer.read()
    assert not [name for name, _ in answer.getheaders() if name.lower().startswith("access-control")]
    connection.close()
    for kind in ("application/grpc-web", "application/grpc-web+proto", "application/grpc-web-text", "text/plain"):
        status, _ = ask(server, "/inference.GRPCInferenceService/RepositoryModelUnload", [("Content-Type", kind)])
        assert status == 415, kind


def test_not_only_loopback(serve):
    """A server that others reach by names of their own takes them from clients, and pages only as above."""
    server = serve("echo.py", *OPTIONS, "--host", "0.0.0.0")
    path = f"/v2/repository/models/{MODEL}/load"
    assert ask(server, path, [("Host", "models.example:8000")])[0] == 200
    assert ask(server, path, [("Host", "evil.example"), ("Origin", "http://evil.example")])[0] == 403


@pytest.mark.parametrize("origin", ["ops.example", "https://", "https://a/", "https://a b", "*", "null", "https://a,,https://b",
                                    "ftp://a"])
def test_origins_that_are_none(serve, origin):
    server = serve("echo.py", "--allow-origin", origin, wait_ready=False)
    server.log.wait("--allow-origin.* is not like https://host")
    server.wait_exit(2)
