"""A FastAPI application in a deployment, with httpx and with plain sockets: what a client and what a route see."""

import hashlib
import os
import shutil
import socket
import sys
import tempfile

import httpx
import pytest
from support import paths, ports, wait

BIG = 100_000_000  # bytes
ROOM = 60_000_000  # that a replica may grow by, while it handles as much


@pytest.fixture(scope="module")
def site():
    """The base address of the application, at /site, and `serve`."""
    folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
    port = ports.free()
    given = {"ANYSERVE_PORT": str(port), "ANYSERVE_RUNTIME_DIR": os.path.join(folder, "run"),
             "ANYSERVE_STATE_DIR": os.path.join(folder, "state"), "PYTHONPATH": os.pathsep.join([str(paths.SDK), str(paths.APPS / "asgi")])}  # fmt: skip
    before = {name: os.environ.get(name) for name in given}
    os.environ.update(given)
    for path in (paths.APPS / "asgi", paths.SDK):
        if str(path) not in sys.path:
            sys.path.insert(0, str(path))
    from anyserve import serve

    import http_asgi

    serve.run(http_asgi.app, name="site", route_prefix="/site")
    serve.run(http_asgi.half, name="half", route_prefix="/half")
    yield "http://127.0.0.1:%d/site" % port, serve
    serve.shutdown()
    for name, value in before.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=[False, True], ids=["http1", "http2"])
def client(site, request):
    with httpx.Client(base_url=site[0], http1=not request.param, http2=request.param, timeout=60) as client:
        yield client


def log(client):
    return client.get("/log").json()


def test_dependencies_and_models(client):
    assert client.get("/page", params={"skip": 3, "limit": 2}).json() == [3, 4]
    assert client.get("/page", params={"limit": 101}).status_code == 422
    assert client.get("/agent", headers={"user-agent": "me"}).json() == "me"
    made = client.post("/items", json={"name": "tea", "price": 2})
    assert (made.status_code, made.json()) == (201, {"name": "tea", "price": 2.0})
    assert client.post("/items", json={"name": "tea", "price": -1}).json()["detail"][0]["loc"] == ["body", "price"]
    taken = client.post("/items", json={"name": "none", "price": 2})
    assert (taken.status_code, taken.json(), taken.headers["x-why"]) == (409, {"detail": "no such name"}, "taken")


def test_methods_and_calls(client, site):
    for method in ("GET", "PUT", "PATCH", "DELETE", "OPTIONS"):
        assert client.request(method, "/any").json() == method
    head = client.head("/any")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "6")
    assert client.request("POST", "/any").status_code == 405
    assert client.get("/double/21").json() == 42
    assert site[1].get_app_handle("site").by_handle.remote(3).result() == (3, True)


def test_state_root_path_and_request_id(client, site):
    answer = client.get("/state", headers={"x-request-id": "chosen"})
    began, pid, base, request_id = answer.json()
    assert (began, base, request_id) == (pid, site[0] + "/", "chosen")
    assert answer.headers["x-request-id"] == "chosen"
    made = client.get("/state")
    assert made.json()[3] == made.headers["x-request-id"] != "chosen"
    assert client.get("/openapi.json").json()["servers"] == [{"url": "/site"}]


def test_middleware_lets_in_whom_it_knows(client):
    assert client.get("/private/name").status_code == 401
    assert client.get("/private/name", headers={"x-key": "let me in"}).json() == "inside"
    assert client.get("/log").headers["x-seen"] == "GET"


def test_large_body_in_bounded_memory(client):
    before = client.post("/digest", content=b"x").json()["peak"]
    piece = os.urandom(1 << 20)
    n = BIG // len(piece)
    digest = hashlib.sha256(piece * n).hexdigest()
    for more in ({}, {"content-length": str(n * len(piece))}):
        answer = client.post("/digest", content=(piece for _ in range(n)), headers=more).json()
        assert (answer["n"], answer["sha256"]) == (n * len(piece), digest)
        assert answer["peak"] - before < ROOM


def test_large_answer_in_bounded_memory(client):
    before = client.post("/digest", content=b"x").json()["peak"]
    with client.stream("GET", "/zeros/%d" % BIG) as answer:
        assert sum(map(len, answer.iter_bytes())) == BIG
    assert client.post("/digest", content=b"x").json()["peak"] - before < ROOM


def test_streams_in_both_directions_at_once(site):
    """The answer begins before the body has ended."""
    address = site[0].split("/")[2].split(":")
    with socket.create_connection((address[0], int(address[1])), 30) as s:
        s.sendall(b"POST /site/upper HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n" + b"11000\r\n" + b"a" * 0x11000 + b"\r\n")
        got = b""
        while got.count(b"A") < 0x11000:
            piece = s.recv(1 << 16)
            assert piece
            got += piece
        s.sendall(b"3\r\nend\r\n0\r\n\r\n")
        while not got.endswith(b"\r\n0\r\n\r\n"):
            piece = s.recv(1 << 16)
            assert piece
            got += piece
    assert got.startswith(b"HTTP/1.1 200 ") and b"END" in got


def test_slow_reader_stops_the_route_and_nobody_else(client, site):
    address = site[0].split("/")[2].split(":")
    with socket.create_connection((address[0], int(address[1])), 30) as s:
        s.sendall(b"GET /site/zeros/%d HTTP/1.1\r\nhost: x\r\n\r\n" % BIG)
        assert s.recv(100).startswith(b"HTTP/1.1 200 ")
        assert client.get("/any").json() == "GET"
        left = BIG
        while left > 0:
            piece = s.recv(1 << 20)
            assert piece
            left -= len(piece)


def test_upload(client):
    small, large = b"small", os.urandom(3_000_000)
    answer = client.post("/files", files=[("files", ("a", small)), ("files", ("b", large))]).json()
    assert answer == {"a": hashlib.sha256(small).hexdigest(), "b": hashlib.sha256(large).hexdigest()}


def test_events_end_with_their_client(client, site, request):
    ended = log(client).count("events ended")
    http2 = "http2" in request.node.name  # httpx resets no stream: it ends with its connection
    with httpx.Client(base_url=site[0], http1=not http2, http2=http2) as other, other.stream("GET", "/events") as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(5)] == ["data: 0", "", "data: 1", "", "data: 2"]
    wait.until(lambda: log(client).count("events ended") == ended + 1, "the generator ends")


def test_client_that_goes_away_cancels_its_route(client, site):
    before = log(client).count("forever began")
    address = site[0].split("/")[2].split(":")
    with socket.create_connection((address[0], int(address[1])), 30) as s:
        s.sendall(b"GET /site/forever HTTP/1.1\r\nhost: x\r\n\r\n")
        wait.until(lambda: log(client).count("forever began") == before + 1, "the route has begun")
    wait.until(lambda: log(client).count("forever cancelled") == before + 1, "it is cancelled")


def test_background_task(client):
    n = log(client).count("later ran")
    assert client.get("/later").json() == "now"
    wait.until(lambda: log(client).count("later ran") == n + 1, "it runs")


def test_errors(client, site):
    failed = client.get("/fails")
    assert (failed.status_code, failed.text) == (500, "Internal Server Error")
    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)), client.stream("GET", site[0].replace("/site", "/half")) as answer:
        assert answer.status_code == 200
        answer.read()
    assert client.get("/nowhere").json() == {"detail": "Not Found"}
    assert client.get("/any").status_code == 200
