"""`anyserve infer` and `anyserve bench` over HTTP/1.1: against our server and against servers that are not ours."""

import base64
import gzip
import json
import re
import socket

import numpy as np
import pytest

from support import wait
from support.protocol import oip
from support.tool import SLOW, VALUES, bench, infer_json, listening, outputs, run

BOTH = pytest.mark.parametrize("protocol", ["http", "http-binary"])
# Of the tools, too, what reads others' bytes runs against the sanitized build: a process for each call makes all of it long.
core = pytest.mark.core


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


@pytest.fixture
def tool(server):
    """tool("infer", "add", …) → the ended process; it talks to the file's server, over JSON if nothing is said."""
    return over(server, "http")


@pytest.fixture
def listener():
    with listening() as listen:
        yield listen


def over(server, protocol):
    return lambda command, *args, **kwargs: run(server, command, "--protocol", protocol, *args, **kwargs)


# --- our server ---

@BOTH
@pytest.mark.parametrize("datatype", [pytest.param(t, marks=core if t in ("BOOL", "FP32", "BYTES") else ()) for t in VALUES])
def test_every_datatype(server, protocol, datatype):
    """What gRPC answers, REST does."""
    args = ("echo", "--input", f"x:{datatype}:[2,2]={json.dumps(VALUES[datatype])}")
    want = outputs(infer_json(over(server, "grpc"), *args))
    assert outputs(infer_json(over(server, protocol), *args)) == want


@BOTH
def test_the_model_knows_datatypes_and_shapes(server, protocol):
    tool = over(server, protocol)
    answer = infer_json(tool, "add", "--input", "a=1,2,3", "--input", "b=[10, 20, 30]")
    assert outputs(answer)["sum"] == {"name": "sum", "datatype": "FP32", "shape": [3], "data": [11, 22, 33]}
    assert (answer["model_name"], answer["model_version"]) == ("add", "1")
    assert set(answer["timing_ms"]) == {"connect", "metadata", "call"}
    out = outputs(infer_json(tool, "split", "--input", "x=[[1,2],[3,4]]"))
    assert (out["left"]["data"], out["total"]["data"], out["total"]["shape"]) == ([1, 3], [10], [])


@core
@BOTH
def test_scalars_and_empty_tensors(server, protocol):
    out = outputs(infer_json(over(server, protocol), "echo", "--input", "s:INT8:[]=5", "--input", "e:FP32:[0,3]=",
                             "--input", "r:INT8=5", "--input", "n:INT8=[[],[]]"))
    assert [out[k]["shape"] for k in "sern"] == [[], [0, 3], [], [2, 0]]


@BOTH
def test_numbers_that_are_none(server, protocol):
    out = outputs(infer_json(over(server, protocol), "echo", "--input", "x:FP32=nan,inf,-inf"))
    assert out["x"]["data"] == ["NaN", "Infinity", "-Infinity"]


def test_bytes_that_are_no_text_travel_as_bytes_only(server):
    args = ("echo", "--input", r'y:BYTES=["\xff\x00","a"]')
    out = outputs(infer_json(over(server, "http-binary"), *args))
    assert [base64.b64decode(v) for v in out["y"]["data_base64"]] == [b"\xff\0", b"a"]
    assert "'y'" in over(server, "http")("infer", *args, code=2).err


def test_large_tensors(server, tmp_path):
    array = np.random.default_rng(1).integers(0, 256, 20_000_000, np.uint8)
    np.save(tmp_path / "big.npy", array)
    shown = over(server, "http-binary")("infer", "echo", "--input", f"x=@{tmp_path / 'big.npy'}").out
    assert shown.endswith("… (19999000 more values; --max-values all)\n")
    assert f"[{array[0]}, {array[1]}, " in shown


@core
@BOTH
def test_id_parameters_metadata_outputs(server, protocol):
    tool = over(server, protocol)
    answer = infer_json(tool, "facts", "--input", "x:INT8=1", "--id", "id 7", "--metadata", "X-Text=a b")
    assert answer["id"] == "id 7"
    assert {k: answer["parameters"][k] for k in ("id", "model", "version", "metadata.x-text")} == \
        {"id": "id 7", "model": "facts", "version": "1", "metadata.x-text": "a b"}
    answer = infer_json(tool, "parameters", "--input", "x:INT8=1", "--parameter", "i=-5", "--parameter", "d=1.5",
                        "--parameter", "b=true", "--parameter", "s=text", "--parameter", "t:string=5")
    assert answer["parameters"] == {"i": -5, "d": 1.5, "b": True, "s": "text", "t": "5"}
    out = outputs(infer_json(tool, "split", "--input", "x=1,2", "--output", "total", "--output", "left"))
    assert list(out) == ["total", "left"]
    assert infer_json(tool, "add", "--model-version", "1", "--input", "a=1", "--input", "b=2")["model_version"] == "1"


@BOTH
@pytest.mark.parametrize("args, code, words", [
    (["add", "--input", "a=1"], 2, ["input 'b' FP32 [-1] is missing"]),
    (["add", "--input", "a=1", "--input", "c=1"], 2, ["no input 'c'", "a FP32 [-1]"]),
    (["echo", "--input", "x:INT8=1", "--metadata", "Content-Length=1"], 2, ["Content-Length"]),
    (["nope", "--input", "x:INT8=1"], 105, ["NOT_FOUND: HTTP 404: ", "'nope'"]),
    (["nope"], 105, ["NOT_FOUND: HTTP 404: ", "'nope'"]),
    (["no pe/x?#", "--input", "x:INT8=1"], 105, ["NOT_FOUND: HTTP 404: "]),
    (["add", "--input", "a=1", "--input", "b:INT8=1"], 103, ["INVALID_ARGUMENT: HTTP 400: ", "'b'"]),
    (["add", "--model-version", "9", "--input", "a=1", "--input", "b=1"], 105, ["NOT_FOUND: HTTP 404: "]),
    (["split", "--input", "x=1,2", "--output", "nope"], 103, ["INVALID_ARGUMENT: HTTP 400: ", "'nope'"]),
])
def test_errors(server, protocol, args, code, words):
    done = over(server, protocol)("infer", *args, code=code)
    assert done.out == ""
    for word in words:
        assert word in done.err, done.err


@core
@BOTH
def test_exactly_so_many_calls(server, protocol):
    before = server.counts()["completed"]
    result = bench(over(server, protocol), "add", "--requests", 300, "--warmup", "off", "--connections", 3)
    assert (result["due"], result["ok"], result["protocol"]) == (300, 300, protocol)
    assert (result["connections"], result["streams"], result["reopened_connections"]) == (3, 1, 0)
    wait.until(lambda: server.counts()["completed"] == before + 301, lambda: str(server.counts()))


def test_an_open_loop(tool):
    result = bench(tool, "add", "--rate", 200, "--duration", "400ms", "--warmup", "100ms",
                   "--connections", 64)  # a machine that stands still for 0.3 s leaves none unsent
    assert (result["due"], result["ok"]) == (80, 80)


def test_errors_by_status(serve):
    tool = over(serve("slow.py", source=SLOW), "http")
    result = bench(tool, "sometimes", "--requests", 95, "--warmup", "off", code=1)
    assert result["errors"] == {"INVALID_ARGUMENT": {"count": 9, "message": "HTTP 400: every tenth"}}


def test_a_comparison_between_protocols(server, tmp_path):
    path = tmp_path / "before.json"
    args = ["add", "--requests", 100, "--warmup", "off"]
    path.write_text(over(server, "grpc")("bench", *args, "--json").out)
    result = bench(over(server, "http-binary"), *args, "--compare", path)
    assert result["compared"]["per_second"]["before"] == pytest.approx(json.loads(path.read_text())["per_second"])


def test_one_call_at_a_time(tool):
    assert "--streams: HTTP/1.1 allows one call" in tool("bench", "add", "--streams", 2, code=2).err
    assert bench(tool, "add", "--streams", 1, "--requests", 5, "--warmup", "off")["ok"] == 5


# --- streams: generate_stream ---

STREAMS = """
import numpy as np
from anyserve import AnyServe, Error, Tensor
app = AnyServe()

@app.model("table", inputs={"n": Tensor("INT32", [1]), "x": Tensor("FP32", [-1, -1]), "s": Tensor("BYTES", [-1])},
           outputs={"x": Tensor("FP32", [-1, -1]), "s": Tensor("BYTES", [-1])})
def table(n, x, s):
    for i in range(int(n[0])):
        yield x * i, s

@app.model("open", inputs={"n": Tensor("INT32", [1])})
def open_(n, request):
    for i in range(int(n[0])):
        yield {"whole": np.array([i], np.int8), "part": np.array([[.5, i]]), "yes": np.array([True, False]),
               "word": np.array([b"w"], object), "error": np.array([b"none"], object)}

@app.model("failing", inputs={"n": Tensor("INT32", [1])}, outputs={"n": Tensor("INT32", [1])})
def failing(n):
    if n[0] == 0:
        raise Error("FAILED_PRECONDITION", "before one")
    yield n
    raise Error("FAILED_PRECONDITION", "after one")

@app.model("told", inputs={"n": Tensor("INT32", [1])})
def told(n, request):
    yield np.array([repr(sorted(request.parameters.items())).encode()], object)
"""


@pytest.fixture(scope="module")
def streams(serve_module):
    server = serve_module("streams.py", source=STREAMS)
    return lambda command, *args, **kwargs: run(server, command, "--stream", "--protocol", "http", *args, **kwargs)


def responses(done):
    return [json.loads(line) for line in done.out.splitlines()]


def test_a_stream(streams):
    """What the server's events leave out is known from the metadata."""
    args = ["table", "--input", "n=3", "--input", "x=[[1,2,3],[4,5,nan]]", "--input", 's=["a","\u00fc"]', "--id", "i"]
    lines = responses(streams("infer", *args, "--json"))
    assert [(a["model_name"], a["model_version"], a["id"]) for a in lines] == [("table", "1", "i")] * 3
    assert [o["datatype"] for o in lines[2]["outputs"]] == ["FP32", "BYTES"]
    assert outputs(lines[2])["x"]["data"] == [2, 4, 6, 8, 10, "NaN"]
    assert outputs(lines[2])["s"] == {"name": "s", "datatype": "BYTES", "shape": [2], "data": ["a", "\u00fc"]}
    assert re.search(r"\n3 responses, [\d.]+ ms \(connect ", streams("infer", *args).out)
    assert streams("infer", *args[:1], "--input", "n=0", *args[3:], "--json").out == ""


def test_outputs_that_are_not_declared(streams):
    line = responses(streams("infer", "open", "--input", "n=2", "--json"))[1]
    assert {k: (o["datatype"], o["shape"], o["data"]) for k, o in outputs(line).items()} == {
        "whole": ("INT64", [], [1]), "part": ("FP64", [2], [0.5, 1]), "yes": ("BOOL", [2], [True, False]),
        "word": ("BYTES", [], ["w"]), "error": ("BYTES", [], ["none"])}


def test_parameters_of_a_stream(streams):
    done = streams("infer", "told", "--input", "n=1", "--parameter", "i=-5", "--parameter", "d=1.5",
                   "--parameter", "b=true", "--parameter", "s=text", "--json")
    assert outputs(responses(done)[0])["output0"]["data"] == ["[('b', True), ('d', 1.5), ('i', -5), ('s', 'text')]"]


@pytest.mark.parametrize("args, words", [
    (["--input", "n:INT8=1"], "input 'n': generate needs the declared datatype INT32, not INT8"),
    (["--input", "n:INT32:[1,1]=1"], "input 'n': generate needs the declared shape [1], not [1,1]"),
    (["--input", "n=1", "--input", "m:INT8=1"], "input 'm': generate needs a declared input"),
    (["--input", "n=1", "--output", "n"], "--output: generate_stream returns all outputs"),
    (["--input", "n=1", "--input", "n=2"], "--input gives 2 requests, but generate_stream takes one"),
    (["--input", "n=1", "--protocol", "http-binary"], "generate_stream, which is JSON: use --protocol http"),
    ([], "input 'n' INT32 [1] is missing"),
])
def test_what_generate_stream_cannot_carry(streams, args, words):
    assert words in streams("infer", "failing", *args, code=2).err


def test_bytes_that_are_no_text_do_not_stream(streams):
    done = streams("infer", "table", "--input", "n=1", "--input", "x=[[1]]", "--input", r's=["\xff"]', code=2)
    assert "input 's': BYTES that are not UTF-8 cannot be sent as JSON" in done.err


def test_streams_that_fail(streams):
    assert "HTTP 400: before one" in streams("infer", "failing", "--input", "n=0", code=103).err
    done = streams("infer", "failing", "--input", "n=1", "--json", code=1)
    lines = responses(done)
    assert [a.get("error") for a in lines[:2]] == [None, "after one"]
    assert lines[2]["error"]["message"] == "response 2 is an error: after one"
    assert "HTTP 404: " in streams("infer", "nope", "--input", "n=1", code=105).err


@pytest.mark.parametrize("events, code, words", [
    (b"data: {\n\n", 1, "response 1 cannot be parsed: not JSON"),
    (b'data: {"model_name":"m","sum":[1]}\n\ndata: {"x', 113, "the last event was cut short"),
    (b'data: {"error":"odd"}\r\n\r\n', 1, "response 1 is an error: odd"),
])
def test_events_that_are_no_good(server, listener, events, code, words):
    def make(headers, body):
        return reply(events, "200 OK", "Content-Type: text/event-stream")

    url = f"127.0.0.1:{listener(serving(make))}"
    done = run(server, "infer", "add", "--protocol", "http", "--stream", "--url", url, "--input", "a=1",
               code=code, runtime=False)
    assert words in done.err, done.err
    done = run(server, "infer", "add", "--protocol", "http", "--stream", "--input", "a=1", "--url",
               f"127.0.0.1:{listener(serving(lambda h, b: reply({})))}", code=102, runtime=False)
    assert "text/event-stream" in done.err


def test_a_load_of_streams(streams):
    args = ["open", "--input", "n=20", "--warmup", "off"]
    result = bench(streams, *args, "--requests", 50, "--connections", 2)
    assert (result["stream"], result["protocol"], result["ok"], result["responses"]) == (True, "http", 50, 1000)
    assert 0 < result["first_response_us"]["p50"] <= result["latency_us"]["p50"]
    result = bench(streams, *args, "--rate", 200, "--duration", "300ms", "--connections", 20)
    assert result["ok"] == 60 and result["responses"] > 0


# --- servers that are not ours ---

ADD = {"name": "add", "versions": ["1"], "platform": "other", "extra": [1, {}],
       "inputs": [{"name": "a", "datatype": "FP32", "shape": [-1]}],
       "outputs": [{"name": "sum", "datatype": "FP32", "shape": [-1]}]}


def read_request(c):
    """(request line, headers, body) of the next request; None at the end of the connection."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = c.recv(65536)
        if not piece:
            return None
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode().split("\r\n")
    headers = {k.lower(): v.strip() for k, v in (line.split(":", 1) for line in lines[1:])}
    while len(body) < int(headers.get("content-length", 0)):
        body += c.recv(65536)
    return lines[0], headers, body


def reply(body, status="200 OK", *headers):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return "\r\n".join(["HTTP/1.1 " + status, f"Content-Length: {len(body)}", *headers, "", ""]).encode() + body


def serving(make):
    """A handler for `listener`: make(headers, body) → the bytes of the answer to …/infer."""
    def handle(c):
        while (request := read_request(c)):
            line, headers, body = request
            c.sendall(reply(ADD) if line.startswith("GET ") else make(headers, body))
    return handle


def doubled(headers, body):
    """An answer as other servers write it: nested data, whole floats, members that nobody asked for; in chunks."""
    message = json.loads(body)
    (tensor,) = message["inputs"]
    answer = {"model_name": "add", "outputs": [{"name": "sum", "datatype": "FP32", "shape": [1, len(tensor["data"])],
                                                "data": [[2 * v for v in tensor["data"]]], "parameters": None}],
              "id": message.get("id", ""), "model_version": None, "raw": {"x": [None]}}
    text = json.dumps(answer, indent=1).encode()
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (text[:7], text[7:]))
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\nX-Trailer: a\r\n\r\n"


@core
def test_another_server(server, listener):
    url = f"127.0.0.1:{listener(serving(doubled))}"
    shown = run(server, "infer", "add", "--protocol", "http", "--url", url, "--input", "a=1,2.5", "--id", "i",
                runtime=False).out
    assert re.fullmatch(r"model add, id i, [\d.]+ ms \(connect [\d.]+, metadata [\d.]+\)\n"
                        r"\nsum  FP32 \[1,2\]\n\[\[2, 5\]\]\n", shown)


def test_the_request_as_it_travels(server, listener):
    seen = []

    def make(headers, body):
        seen.append((headers, body))
        return reply({"model_name": "add", "outputs": []})

    url = f"127.0.0.1:{listener(serving(make))}"
    common = ["add", "--url", url, "--input", "a:FP32=1.5,2", "--metadata", "X-Key=v", "--output", "sum"]
    run(server, "infer", *common, "--protocol", "http", runtime=False)
    run(server, "infer", *common, "--protocol", "http-binary", runtime=False)
    (headers, body), (binary_headers, binary) = seen
    assert headers["host"] == url and headers["x-key"] == "v" and headers["content-type"] == "application/json"
    assert headers["user-agent"].startswith("anyserve/") and "inference-header-content-length" not in headers
    message = json.loads(body)
    assert message["inputs"] == [{"name": "a", "datatype": "FP32", "shape": [2], "data": [1.5, 2]}]
    assert [o["name"] for o in message["outputs"]] == ["sum"]
    at = int(binary_headers["inference-header-content-length"])
    message = json.loads(binary[:at])
    assert message["inputs"][0]["parameters"] == {"binary_data_size": 8} and "data" not in message["inputs"][0]
    assert binary[at:] == np.array([1.5, 2], np.float32).tobytes()
    assert message["outputs"] == [{"name": "sum", "parameters": {"binary_data": True}}]


@core
def test_connections_that_end_behind_each_answer(server, listener):
    def handle(c):
        line, _, body = read_request(c)
        c.sendall(reply(ADD, "200 OK") if line.startswith("GET ") else
                  reply({"model_name": "add", "outputs": []}, "200 OK", "Connection: close"))
        if line.startswith("GET ") and (request := read_request(c)):
            c.sendall(reply({"model_name": "add", "outputs": []}, "200 OK", "Connection: close"))

    url = f"127.0.0.1:{listener(handle)}"
    args = ["add", "--protocol", "http", "--url", url, "--requests", 50, "--warmup", "off"]
    result = bench(lambda *a, **k: run(server, *a, runtime=False, **k), *args)
    assert (result["ok"], result["lost_connections"]) == (50, 0)
    assert result["reopened_connections"] >= 49
    shown = run(server, "bench", *args, runtime=False).out
    assert re.search(r"Connections ended \d+ times and were opened again: the server closes", shown)


@core
@pytest.mark.parametrize("make, code, words", [
    (lambda h, b: reply(b"<html>bad gateway</html>", "502 Bad Gateway"), 114, "UNAVAILABLE: HTTP 502: <html>bad"),
    (lambda h, b: reply({"error": "busy"}, "429 Too Many"), 108, "RESOURCE_EXHAUSTED: HTTP 429: busy"),
    (lambda h, b: reply({"detail": "x"}, "422 No"), 103, 'INVALID_ARGUMENT: HTTP 422: {"detail": "x"}'),
    (lambda h, b: reply(gzip.compress(b"{}"), "200 OK", "Content-Encoding: gzip"), 113, "compressed"),
    (lambda h, b: reply({}, "200 OK", "Inference-Header-Content-Length: 9"), 113, "larger than its body"),
    (lambda h, b: reply(b"[]"), 1, "the response cannot be parsed"),
    (lambda h, b: reply(b"{"), 1, "the response cannot be parsed"),
    (lambda h, b: reply({"outputs": [{"name": "x", "datatype": "FP32", "shape": [3], "data": [1]}]}), 1, "'x'"),
    (lambda h, b: reply({"outputs": [{"name": "x", "datatype": "FP32", "shape": [2],
                                      "parameters": {"binary_data_size": 8}}]}), 1, "the response cannot be parsed"),
    (lambda h, b: b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", 104, "no answer within"),
    (lambda h, b: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 114, "more than one length"),
    (lambda h, b: b"HTTP/1.1 200 OK\r\nx: y\n\r\n{}", 114, "CR LF"),
    (lambda h, b: b"SSH-2.0-x\r\n", 114, "is not HTTP/1.1"),
    (lambda h, b: b"\x00" * 100_000, 114, "line of the answer is too long"),
])
def test_answers_that_are_no_good(server, listener, make, code, words):
    url = f"127.0.0.1:{listener(serving(make))}"
    done = run(server, "infer", "add", "--protocol", "http", "--input", "a:FP32=1", "--url", url, "--timeout", "300ms",
               code=code, runtime=False)
    assert words in done.err, done.err


@core
def test_servers_that_misbehave(server, listener):
    def silent(c):
        while c.recv(65536):
            pass

    def http2(c):
        c.recv(65536)
        c.sendall(b"\0\0\0\4\0\0\0\0\0")
        c.shutdown(socket.SHUT_WR)

    def gone(c):
        c.recv(65536)

    call = ["m", "--protocol", "http", "--input", "x:INT8=1", "--timeout", "100ms"]
    for handle, code, words in [(silent, 104, "no answer within 0.1 s"), (gone, 114, "the server closed"),
                                (http2, 114, "the server closed")]:
        url = f"127.0.0.1:{listener(handle)}"
        for command in ("infer", "bench"):
            assert words in run(server, command, *call, "--url", url, code=code, runtime=False).err
