"""The Open Inference Protocol over plain HTTP: resources, errors, bodies, headers; over both versions of HTTP."""

import gzip
import json
import os
import re
import signal
import threading
import zlib

import numpy as np
import pytest

from support import wait
from support.protocol import h2client, http as rest, oip, prometheus
from support.protocol.raw import HOST, Raw

MIB = 1 << 20
ERRORS = """
from anyserve import AnyServe, Error
app = AnyServe()

@app.model("raise")
def raises(request):
    code = request.parameters["code"]
    if code == "exception":
        raise ValueError("secret")
    raise Error(code, 'it says "no"')
"""
STATUSES = {"CANCELLED": 499, "UNKNOWN": 500, "INVALID_ARGUMENT": 400, "DEADLINE_EXCEEDED": 504, "NOT_FOUND": 404,
            "ALREADY_EXISTS": 409, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429, "FAILED_PRECONDITION": 400,
            "ABORTED": 409, "OUT_OF_RANGE": 400, "UNIMPLEMENTED": 501, "INTERNAL": 500, "UNAVAILABLE": 503,
            "DATA_LOSS": 500, "UNAUTHENTICATED": 401}
X = {"x": np.float32([1, 2])}


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py", "--max-http-body-bytes", 4 * MIB, "--max-inflated-bytes", MIB,
                        "--min-compress-bytes", 300)


@pytest.fixture(params=rest.CLIENTS)
def connect(serve, request):
    """connect(server) → a client, of each version of HTTP in turn."""
    clients = []

    def connect(server):
        clients.append(rest.CLIENTS[request.param](server.host, server.port))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def http(server, connect):
    return connect(server)


def infer(http, model="echo", inputs=X, headers=(), **fields):
    return http.request("POST", f"/v2/models/{model}/infer", rest.infer_json(inputs, **fields), headers)


# --- resources ---

def test_server(http):
    reply = http.request("GET", "/v2")
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    found = reply.json()
    assert found["name"] == "anyserve" and found["version"]
    assert found["extensions"] == list(found["extensions"])
    assert http.request("GET", "/v2/").json() == found


def test_health(http):
    assert http.request("GET", "/v2/health/live").json() == {"live": True}
    assert http.request("GET", "/v2/health/ready").json() == {"ready": True, "live": True}
    assert http.request("GET", "/v2/models/add/ready").json() == {"name": "add", "ready": True}
    assert http.request("GET", "/v2/models/add/versions/1/ready").json() == {"name": "add", "ready": True}


def test_model_metadata(http):
    found = http.request("GET", "/v2/models/split").json()
    assert found == {"name": "split", "versions": ["1"], "platform": "python",
                     "inputs": [{"name": "x", "datatype": "FP64", "shape": [-1, 2]}],
                     "outputs": [{"name": "left", "datatype": "FP64", "shape": [-1]},
                                 {"name": "right", "datatype": "FP64", "shape": [-1]},
                                 {"name": "total", "datatype": "FP64", "shape": []}]}
    assert http.request("GET", "/v2/models/split/versions/1").json() == found


def test_the_query_is_ignored(http):
    assert http.request("GET", "/v2/models/add/ready?x=/infer&y").status == 200
    assert http.request("POST", "/v2/models/add/infer?k=v", rest.infer_json({"a": X["x"], "b": X["x"]})).status == 200


NAMES = """
from anyserve import AnyServe
app = AnyServe()
for name, version in [("team/a", "1"), ("team/a", "2"), ("team/a/b", "1"), ("dot.dash-under_", "v1.0")]:
    app.model(name, version=version)(lambda request: request.inputs)
"""


def test_names_with_slashes(serve, connect):
    http = connect(serve("names.py", source=NAMES))
    for path, name, version in [
            ("team/a", "team/a", "2"), ("team%2Fa", "team/a", "2"), ("team%2fa/versions/1", "team/a", "1"),
            ("t%65am/a/versions/%32", "team/a", "2"), ("team/a/b", "team/a/b", "1"),
            ("dot.dash-under_/versions/v1.0", "dot.dash-under_", "v1.0")]:
        reply = http.request("POST", f"/v2/models/{path}/infer", rest.infer_json(X))
        assert (reply.json()["model_name"], reply.json()["model_version"]) == (name, version)
        assert http.request("GET", f"/v2/models/{path}").json()["name"] == name
        assert http.request("GET", f"/v2/models/{path}/ready").status == 200
    for path in ["team", "team/a/", "/team/a", "team//a", "team/a/versions/3", "team%2Fa%2Finfer"]:
        assert http.request("GET", f"/v2/models/{path}/ready").status == 404


# --- methods and paths ---

@pytest.mark.parametrize("path", ["/v1", "/v2x", "/v2/models/echo/nope", "/v2/x%2Fy",
                                  "/v2%2Fhealth%2Flive", "/v2/models/echo/generate_nothing", "/v2/models/versions/1"])
def test_no_such_path(http, path):
    reply = http.request("GET", path)
    assert reply.status == 404
    assert reply.error


def test_methods(http):
    for path, allowed in {"/v2": "GET, HEAD, OPTIONS", "/v2/models/echo/infer": "POST, OPTIONS",
                          "/v2/models/echo": "GET, HEAD, OPTIONS"}.items():
        for method in ["GET", "POST", "PUT", "DELETE", "PATCH"]:
            if method not in allowed:
                reply = http.request(method, path, b"{}")
                assert (reply.status, reply.headers["allow"]) == (405, allowed)
                assert reply.error == "method not allowed"
        reply = http.request("OPTIONS", path)
        assert (reply.status, reply.headers["allow"], reply.data) == (204, allowed, b"")


def test_head_is_get_without_a_body(http):
    for path in ["/v2", "/v2/health/ready", "/v2/models/echo", "/v2/models/echo/ready", "/openapi.json", "/nope"]:
        get, head = http.request("GET", path), http.request("HEAD", path)
        assert (head.status, head.data) == (get.status, b"")
        assert head.headers["content-length"] == str(len(get.data)) == get.headers["content-length"]
        assert head.headers["content-type"] == get.headers["content-type"]


def test_a_body_that_nobody_wants(http):
    reply = http.request("GET", "/v2/health/live", b"x" * 100_000)
    assert reply.json() == {"live": True}
    assert http.request("GET", "/v2", b"x" * (4 * MIB + 1)).status == 413


# --- a request ---

def test_answer(http):
    reply = http.request("POST", "/v2/models/add/infer", rest.infer_json(
        {"a": np.float32([1, 2]), "b": np.float32([10, 20])}, id="7"))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    assert reply.headers["content-length"] == str(len(reply.data))
    assert rest.JSON_LENGTH not in reply.headers
    assert reply.json() == {"id": "7", "model_name": "add", "model_version": "1", "outputs": [
        {"name": "sum", "datatype": "FP32", "shape": [2], "data": [11.0, 22.0]}]}


def test_id(http):
    assert "id" not in infer(http).json() or infer(http).json()["id"] == ""
    for id in ["7", "ünïcode-世界 \"quoted\" \\ \n", "x" * 5000]:
        assert infer(http, id=id).json()["id"] == id


def test_parameters(http):
    sent = {"yes": True, "no": False, "int": -2**63, "big": 2**64 - 1, "float": 0.1, "text": "grüße 世界", "": "empty"}
    found = infer(http, "parameters", {}, parameters=sent).json()["parameters"]
    assert found == sent
    assert {k: type(v) for k, v in found.items()} == {k: type(v) for k, v in sent.items()}


def test_requested_outputs(http):
    sent = {"x": np.array([[1.0, 2.0], [3.0, 4.0]])}
    assert list(rest.outputs_of(infer(http, "split", sent))) == ["left", "right", "total"]
    some = rest.outputs_of(infer(http, "split", sent, outputs=[{"name": "total"}, {"name": "left"}]))
    assert list(some) == ["total", "left"]
    assert (some["total"], some["left"].tolist()) == (10.0, [1.0, 3.0])
    reply = infer(http, "split", sent, outputs=[{"name": "middle"}])
    assert (reply.status, "'middle'" in reply.error) == (400, True)


def test_what_a_handler_sees_of_the_call(http):
    headers = [("x-user", "ada"), ("x-twice", "1"), ("x-raw-bin", "AP8K")]
    facts = infer(http, "facts", {}, headers, id="7").json()["parameters"]
    assert facts == {"id": "7", "model": "facts", "version": "1", "deadline": False, "cancelled": False,
                     "metadata.x-user": "ada", "metadata.x-twice": "1",
                     "metadata.x-raw-bin": b"AP8K".hex()}  # base64 is for gRPC, whose headers cannot hold bytes


HEADERS = """
import numpy as np
from anyserve import AnyServe, Response
app = AnyServe()

@app.model("headers")
def headers(request):
    return Response(np.zeros(0), parameters=dict(request.metadata))
"""


def test_headers_of_the_transport_stay_outside(serve, connect):
    http = connect(serve("headers.py", source=HEADERS))
    seen = infer(http, "headers", {}, [("authorization", "Bearer x"), ("accept", "*/*"), ("accept-encoding", "gzip"),
                                       ("grpc-timeout", "9S"), ("content-type", "application/json")]).json()
    assert seen["parameters"] == {"authorization": "Bearer x", "accept": "*/*"}


def test_deadline_header(http):
    assert infer(http, "facts", {}, [("grpc-timeout", "20S")]).json()["parameters"]["deadline"] is True
    reply = infer(http, headers=[("grpc-timeout", "0m")])
    assert (reply.status, reply.error) == (504, "the deadline has passed already")
    reply = infer(http, headers=[("grpc-timeout", "soon")])
    assert (reply.status, "'soon'" in reply.error) == (400, True)


# --- errors ---

@pytest.mark.parametrize("code", STATUSES)
def test_errors_of_handlers(errors_server, connect, code):
    reply = infer(connect(errors_server), "raise", {}, parameters={"code": code})
    assert (reply.status, reply.error) == (STATUSES[code], 'it says "no"')


def test_exceptions_of_handlers(errors_server, connect):
    reply = infer(connect(errors_server), "raise", {}, parameters={"code": "exception"})
    assert (reply.status, "ValueError: secret" in reply.error, "Traceback" in reply.error) == (500, True, False)


@pytest.fixture(scope="module")
def errors_server(serve_module):
    return serve_module("errors.py", source=ERRORS)


def body(**fields):
    return json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": [1, 2], **fields}]}).encode()


BAD = {
    "empty": (b"", "JSON"),
    "no_json": (b"{]", "JSON"),
    "no_object": (b"[1]", "object"),
    "behind_the_end": (body() + b"x", "JSON"),
    "no_inputs": (b"{}", "inputs"),
    "inputs_are_no_array": (b'{"inputs": {}}', "inputs"),
    "no_name": (b'{"inputs":[{"datatype":"FP32","shape":[1],"data":[1]}]}', "name"),
    "no_datatype": (b'{"inputs":[{"name":"x","shape":[1],"data":[1]}]}', "'x'.*datatype"),
    "no_shape": (b'{"inputs":[{"name":"x","datatype":"FP32","data":[1]}]}', "'x'.*shape"),
    "no_data": (b'{"inputs":[{"name":"x","datatype":"FP32","shape":[1]}]}', "'x'.*data"),
    "wrong_datatype": (body(datatype="fp32"), "'x'.*fp32"),
    "negative_size": (body(shape=[-2]), "'x'.*shape"),
    "too_few": (body(shape=[3]), "'x'.*2.*3"),
    "too_many": (body(shape=[1]), "'x'.*2.*1"),
    "text_for_numbers": (body(data=["1", "2"]), "'x'.*data"),
    "out_of_range": (body(datatype="INT8", data=[1, 128]), r"'x'.*data\[1\].*128.*INT8"),
    "fraction_for_integer": (body(datatype="INT32", data=[1, 1.5]), "'x'.*data"),
    "float_too_large": (body(data=[1, 1e39]), "'x'.*data"),
    "overflow": (body(shape=[2**62, 2**62]), "'x'.*shape"),
    "uneven": (body(shape=[2, 2], data=[[1, 2], [3]]), "'x'.*data"),
    "too_deep": (b'{"inputs":' + b"[" * 200 + b"]" * 200 + b"}", ""),
    "not_utf8": (body().replace(b'"x"', b'"\xff"'), ""),
    "twice": (b'{"inputs":[],"inputs":[]}', "inputs"),
    "shared_memory": (body(parameters={"shared_memory_region": "r"}), "'x'.*shared"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(http, case):
    sent, pattern = BAD[case]
    reply = http.request("POST", "/v2/models/echo/infer", sent)
    assert reply.status == 400, reply
    assert re.search(pattern, reply.error), reply.error
    assert infer(http).status == 200  # the connection goes on


def test_signature(http):
    x = np.float32([1, 2])
    for inputs, name in [({"a": x}, "'b'"), ({"a": x, "b": x, "c": x}, "'c'"), ({"a": x, "b": np.int32([1])}, "'b'"),
                         ({"a": x, "b": np.float32([[1]])}, "'b'")]:
        reply = infer(http, "add", inputs)
        assert (reply.status, name in reply.error) == (400, True), reply


def test_unknown_model(http):
    for path in ["nope", "echo/versions/7"]:
        for method, verb, sent in [("GET", "", None), ("GET", "/ready", None), ("POST", "/infer", body())]:
            reply = http.request(method, f"/v2/models/{path}{verb}", sent)
            assert (reply.status, repr(path.split("/")[-1]) in reply.error) == (404, True), reply
    reply = http.request("GET", "/v2/models/%zz")
    assert (reply.status, "'%zz'" in reply.error) == (400, True)


# --- the binary tensor data extension: bad ones; good ones are in test_rest_infer.py ---

@pytest.mark.parametrize("value", ["x", "-1", "1.5", "99999999999999999999999", "9999", ""])
def test_bad_json_length(http, value):
    reply = http.request("POST", "/v2/models/echo/infer", body(), [(rest.JSON_LENGTH, value)])
    assert (reply.status, "Inference-Header-Content-Length" in reply.error) == (400, True)


@pytest.mark.parametrize("size", [0, 7, 9, 2**63, -1, "8", None])
def test_binary_sizes_that_do_not_add_up(http, size):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2],
                                   "parameters": {"binary_data_size": size}}]}).encode()
    reply = http.request("POST", "/v2/models/echo/infer", head + b"12345678", [(rest.JSON_LENGTH, str(len(head)))])
    assert reply.status == 400
    assert "x" in reply.error


# --- bodies ---

def test_largest_body(http):
    """At the limit of 4 MiB, and one byte over it."""
    sent = body()
    at_limit = sent + b" " * (4 * MIB - len(sent))
    assert http.request("POST", "/v2/models/echo/infer", at_limit).status == 200


def test_too_large_a_body(server, connect):
    http = connect(server)
    reply = http.request("POST", "/v2/models/echo/infer", b" " * (4 * MIB + 1))
    assert reply.status == 413
    assert f"--max-http-body-bytes {4 * MIB}" in reply.error


@pytest.mark.parametrize("more", [0, 1])
def test_largest_body_of_unknown_length(server, more):
    """In chunks, or in DATA without a content-length: the same limit."""
    sent = body() + b" " * (4 * MIB + more - len(body()))
    path = "/v2/models/echo/infer"
    with Raw(server) as client:
        client.send(b"POST %s HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
                    % (path.encode(), HOST, len(sent), sent))
        assert client.until(rb"\r\n\r\n.*}$")
        assert client.statuses() == [413 if more else 200]
    with h2client.H2(server.host, server.port) as http:
        reply = http.request("POST", path, body=sent)
        assert reply.headers[":status"] == ("413" if more else "200")
    for text in (client.seen, reply.data):
        assert (f"--max-http-body-bytes {4 * MIB}".encode() in text) == bool(more)


@pytest.mark.parametrize("more", [0, 1])
def test_largest_inflated_body(http, more):
    sent = body() + b" " * (MIB + more - len(body()))
    reply = http.request("POST", "/v2/models/echo/infer", gzip.compress(sent), [("content-encoding", "gzip")])
    assert reply.status == (413 if more else 200)


@pytest.mark.parametrize("length, coding", [(299, None), (300, "gzip")])
def test_smallest_answer_that_is_compressed(http, length, coding):
    def ask(id):
        sent = rest.infer_json({"x": np.zeros(1, np.uint8)}, id=id)
        return http.request("POST", "/v2/models/echo/infer", gzip.compress(sent),
                            [("content-encoding", "gzip"), ("accept-encoding", "gzip")])
    short = ask("i")
    reply = ask("i" * (length - len(short.data) + 1))
    assert len(short.data) < 250 and reply.headers.get("content-encoding") == coding
    assert len(gzip.decompress(reply.data) if coding else reply.data) == length


def compressed(coding, data):
    return gzip.compress(data) if "gzip" in coding else zlib.compress(data)


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate"])
def test_compressed_request(http, coding):
    x = np.zeros(5000, np.float32)
    sent = compressed(coding, rest.infer_json({"x": x}))
    reply = http.request("POST", "/v2/models/echo/infer", sent, [("content-encoding", coding)])
    assert "content-encoding" not in reply.headers
    assert np.array_equal(rest.outputs_of(reply)["x"], x)


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_compressed_both_ways(http, coding):
    x = np.zeros(5000, np.float32)
    headers, sent = rest.infer_binary({"x": x, "y": np.float32([1])})
    reply = http.request("POST", "/v2/models/echo/infer", compressed(coding, sent),
                         [*headers, ("content-encoding", coding), ("accept-encoding", f"br, {coding};q=0.5")])
    assert (reply.headers["content-encoding"], reply.headers["vary"]) == (coding, "accept-encoding")
    assert reply.headers["content-length"] == str(len(reply.data))
    reply.data = gzip.decompress(reply.data) if coding == "gzip" else zlib.decompress(reply.data)
    assert np.array_equal(rest.outputs_of(reply)["x"], x)


@pytest.mark.parametrize("accept", ["", "identity", "br", "gzip;q=0", "gzip; q=0.00, deflate"])
def test_who_does_not_want_gzip_gets_none(http, accept):
    reply = http.request("POST", "/v2/models/echo/infer", gzip.compress(rest.infer_json({"x": np.zeros(5000)})),
                         [("content-encoding", "gzip"), ("accept-encoding", accept)])
    assert (reply.status, reply.headers.get("content-encoding")) == (200, None)


def test_always_compressed(serve, connect):
    http = connect(serve("echo.py", "--response-compression", "always", "--min-compress-bytes", "100"))
    for accept, coding in [("gzip", "gzip"), ("deflate", "deflate"), ("*", "gzip"), ("gzip;q=0, *", "deflate")]:
        reply = http.request("GET", "/openapi.json", headers=[("accept-encoding", accept)])
        assert reply.headers["content-encoding"] == coding
        data = gzip.decompress(reply.data) if coding == "gzip" else zlib.decompress(reply.data)
        assert json.loads(data)["openapi"] == "3.1.0"
    assert "content-encoding" not in http.request("GET", "/v2/health/live", headers=[("accept-encoding", "gzip")]).headers


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "nonsense"])
def test_unknown_coding(http, coding):
    reply = http.request("POST", "/v2/models/echo/infer", b"x", [("content-encoding", coding)])
    assert (reply.status, reply.headers["accept-encoding"]) == (415, "gzip, deflate")
    assert repr(coding) in reply.error


def test_spoiled_compression(http):
    good = gzip.compress(body())
    for sent in [b"", b"x", good[:-1], good + b"x", good[:-8] + bytes(8)]:
        reply = http.request("POST", "/v2/models/echo/infer", sent, [("content-encoding", "gzip")])
        assert (reply.status, "gzip" in reply.error) == (400, True)


def test_decompression_bomb(http):
    bomb = gzip.compress(bytes(MIB + 1))
    assert len(bomb) < 2000
    reply = http.request("POST", "/v2/models/echo/infer", bomb, [("content-encoding", "gzip")])
    assert reply.status == 413
    assert f"--max-inflated-bytes {MIB}" in reply.error


# --- too much, too slow, too late ---

def test_no_room_for_a_body(serve, connect):
    server = serve("echo.py", "--max-inflight-bytes", MIB)
    http = connect(server)
    reply = http.request("POST", "/v2/models/echo/infer", body() + b" " * MIB)
    assert (reply.status, "--max-inflight-bytes" in reply.error) == (413, True)
    assert infer(connect(server)).status == 200


def test_queue_full(serve, stage, connect):
    server = serve("queue_of_4.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    with oip.Client(server.address) as client:
        calls = [client.begin("staged", {}, id=str(i)) for i in range(5)]
        stage.started(1)
        wait.until(lambda: server.deployment("queue_of_4")["queued"] == 4, server.status)
        reply = infer(connect(server), "staged", {})
        assert reply.status == 503 and reply.headers["retry-after"] in ("1", "2")
        assert "'staged' is full" in reply.error
        for i in range(5):
            stage.started(i + 1)[i].go()
        assert [call.result().model_name for call in calls] == ["staged"] * 5
    stage.reset()


def test_a_worker_dies(serve, stage, connect):
    """The request may have run, and the client must know."""
    server = serve("staged.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    http, replies = connect(server), []
    thread = threading.Thread(target=lambda: replies.append(infer(http, "staged", {}, id="1")))
    thread.start()
    os.kill(stage.started(1)[0].pid, signal.SIGKILL)
    thread.join(wait.SECONDS)
    (reply,) = replies
    assert (reply.status, reply.headers["anyserve-may-have-executed"]) == (503, "1")
    assert "retry-after" not in reply.headers
    assert "may have been executed" in reply.error
    stage.reset()
    server.wait_all_ready()


def test_a_deadline_passes(serve, stage, connect):
    server = serve("staged.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    reply = infer(connect(server), "staged", {}, [("grpc-timeout", "1S")], id="1")
    assert (reply.status, reply.error) == (504, "deadline exceeded")
    stage.started(1)
    stage.reset()


def test_slow_body(serve):
    server = serve("echo.py", "--body-timeout", "1s")
    with h2client.H2(server.host, server.port) as conn:
        stream = conn.open([(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/echo/infer"),
                            (":authority", "x"), ("content-length", "100")])
        conn.send(stream, b"{")
        reply = conn.reply(stream)
    assert reply.headers[":status"] == "408"
    assert "--body-timeout" in json.loads(reply.data)["error"]


def test_an_answer_waits_for_a_small_body_but_not_for_ever(serve):
    server = serve("echo.py", "--body-timeout", "1s")
    head = [(":method", "POST"), (":scheme", "http"), (":path", "/nope"), (":authority", "x")]
    with h2client.H2(server.host, server.port) as conn:
        whole = conn.open([*head, ("content-length", "65536")])
        conn.send(whole, b"x" * 65535)
        stalled = conn.open([*head, ("content-length", "100")])
        large = conn.open([*head, ("content-length", "65537")])
        assert conn.reply(large).headers[":status"] == "404"  # at once
        assert not conn.replies[whole].headers
        conn.send(whole, b"x", end=True)
        assert conn.reply(whole).headers[":status"] == "404"
        assert conn.reply(stalled).headers[":status"] == "404"  # after --body-timeout


# --- what is counted ---

def test_metrics(server, http):
    def count(resource, status):
        return prometheus.total(prometheus.parse(server.metrics()), "anyserve_http_requests_total",
                                resource=resource, status=str(status))

    before = [count("infer", 200), count("infer", 404), count("none", 404)]
    infer(http)
    infer(http, "nope")
    http.request("GET", "/nope")
    wait.until(lambda: [count("infer", 200), count("infer", 404), count("none", 404)] == [n + 1 for n in before],
               lambda: server.metrics())
