"""`anyserve infer` and `anyserve bench` against a real server: values, messages, exit codes, JSON, counts."""

import base64
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from support import paths, ports, wait
from support.protocol import oip
from support.tool import SLOW, VALUES, bench, infer_json, listening, outputs, run

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


@pytest.fixture
def tool(server):
    """tool("infer", "add", …) → the ended process; it talks to the file's server."""
    return lambda *args, **kwargs: run(server, *args, **kwargs)


# --- infer: values ---

@pytest.mark.parametrize("datatype", VALUES)
def test_every_datatype(tool, datatype):
    """Through --input, the server, and --json: exactly the same values; through the text for people as well."""
    text = json.dumps(VALUES[datatype])
    first = infer_json(tool, "echo", "--input", f"x:{datatype}={text}")
    x = outputs(first)["x"]
    assert (x["datatype"], x["shape"]) == (datatype, [4])
    code = {"BF16": "f4", "BYTES": object, **oip.DTYPES}[datatype]
    if datatype == "BF16":
        want = np.array(VALUES[datatype], oip.bfloat16())
        assert (np.array(x["data"], np.float32).astype(oip.bfloat16()) == want).all()
    else:
        assert np.array(x["data"], code).tolist() == np.array(VALUES[datatype], code).tolist()
    shown = tool("infer", "echo", "--input", f"x:{datatype}:[2,2]={text}").out
    assert f"x  {datatype} [2,2]\n" in shown
    again = infer_json(tool, "echo", "--input", f"x:{datatype}=" + shown.split("[2,2]\n")[1])
    assert outputs(again)["x"]["data"] == x["data"]
    assert outputs(again)["x"]["shape"] == [2, 2]


def test_odd_floats_and_bytes(tool):
    out = outputs(infer_json(tool, "echo", "--input", "x:FP32=nan,inf,-inf", "--input", r'y:BYTES=["\xff\x00","a"]'))
    assert out["x"]["data"] == ["NaN", "Infinity", "-Infinity"]
    assert [base64.b64decode(v) for v in out["y"]["data_base64"]] == [b"\xff\0", b"a"]


def test_the_model_knows_datatypes_and_shapes(tool):
    answer = infer_json(tool, "add", "--input", "a=1,2,3", "--input", "b=[10, 20, 30]")
    assert outputs(answer)["sum"] == {"name": "sum", "datatype": "FP32", "shape": [3], "data": [11, 22, 33]}
    assert set(answer["timing_ms"]) == {"connect", "metadata", "call"}
    out = outputs(infer_json(tool, "split", "--input", "x=[[1,2],[3,4]]"))
    assert (out["left"]["data"], out["total"]["data"], out["total"]["shape"]) == ([1, 3], [10], [])
    assert outputs(infer_json(tool, "split", "--input", "x=1,2,3,4,5,6"))["left"]["shape"] == [3]


def test_scalars_and_empty_tensors(tool):
    out = outputs(infer_json(tool, "echo", "--input", "s:INT8:[]=5", "--input", "e:FP32:[0,3]=", "--input",
                             "r:INT8=5", "--input", "n:INT8=[[],[]]"))
    assert [out[k]["shape"] for k in "sern"] == [[], [0, 3], [], [2, 0]]
    assert "e  FP32 [2,0]\n[[], []]\n" in tool("infer", "echo", "--input", "e:FP32=[[],[]]").out


@pytest.mark.parametrize("way", ["file", "stdin"])
def test_files(tool, tmp_path, way):
    """.npy, text and raw bytes, from a file and from standard input."""
    def at(name, content):
        if way == "stdin":
            return "-", content
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name), b""

    array = np.arange(6, dtype=np.float64).reshape(3, 2)
    np.save(tmp_path / "a.npy", array)
    npy = (tmp_path / "a.npy").read_bytes()
    for prefix, name, content in [("@", "x.npy", npy), ("@npy:", "x.bin", npy), ("@", "x.txt", b"0 1\n2 3\n4 5\n"),
                                  ("@text:", "x", b"[[0,1],[2,3],[4,5]]\n"), ("@raw:", "x.txt", array.tobytes())]:
        name, stdin = at(name, content)
        out = outputs(infer_json(tool, "split", "--input", f"x={prefix}{name}", stdin=stdin))
        assert (out["left"]["data"], out["right"]["data"]) == ([0, 2, 4], [1, 3, 5]), (prefix, name)
    name, stdin = at("p.txt", "grüße, Welt\n".encode())
    assert outputs(infer_json(tool, "echo", "--input", f"t:BYTES=@{name}", stdin=stdin))["t"]["data"] == ["grüße, Welt"]
    name, stdin = at("image.png", bytes(range(256)))
    out = outputs(infer_json(tool, "echo", "--input", f"t:BYTES=@raw:{name}", stdin=stdin))
    assert base64.b64decode(out["t"]["data_base64"][0]) == bytes(range(256))


def test_large_tensors(tool, tmp_path):
    array = np.random.default_rng(1).integers(0, 256, 20_000_000, np.uint8)
    np.save(tmp_path / "big.npy", array)
    shown = tool("infer", "echo", "--input", f"x=@{tmp_path / 'big.npy'}").out
    assert shown.endswith("… (19999000 more values; --max-values all)\n")
    assert f"[{array[0]}, {array[1]}, " in shown


def test_numpy_types(tool, tmp_path):
    for name, code in oip.DTYPES.items():
        np.save(tmp_path / "a.npy", np.array([0, 1], code))
        assert outputs(infer_json(tool, "echo", "--input", f"x=@{tmp_path / 'a.npy'}"))["x"]["datatype"] == name
    np.save(tmp_path / "a.npy", np.array([0, 1], ">i4"))
    assert "big-endian" in tool("infer", "echo", "--input", f"x=@{tmp_path / 'a.npy'}", code=2).err


# --- infer: the rest of the call ---

def test_id_parameters_metadata_outputs(tool):
    answer = infer_json(tool, "facts", "--input", "x:INT8=1", "--id", "id 7", "--metadata", "X-Text=a b", "--metadata",
                        "x-raw-bin=ü", "--timeout", "7s")
    assert answer["parameters"] == {"id": "id 7", "model": "facts", "version": "1", "deadline": True,
                                    "cancelled": False, "metadata.x-text": "a b",
                                    "metadata.x-raw-bin": "ü".encode().hex()}
    assert answer["id"] == "id 7"
    answer = infer_json(tool, "parameters", "--input", "x:INT8=1", "--parameter", "i=-5", "--parameter", "d=1.5",
                        "--parameter", "b=true", "--parameter", "s=text", "--parameter", "t:string=5")
    assert answer["parameters"] == {"i": -5, "d": 1.5, "b": True, "s": "text", "t": "5"}
    out = outputs(infer_json(tool, "split", "--input", "x=1,2", "--output", "total", "--output", "left"))
    assert list(out) == ["total", "left"]
    assert infer_json(tool, "add", "--model-version", "1", "--input", "a=1", "--input", "b=2")["model_version"] == "1"
    assert infer_json(tool, "facts", "--input", "x:INT8=1", "--timeout", "off")["parameters"]["deadline"] is False


def test_text_for_people(tool):
    shown = tool("infer", "add", "--input", "a=1,2", "--input", "b=3,4", "--id", "z").out
    assert re.fullmatch(r"model add:1, id z, [\d.]+ ms \(connect [\d.]+, metadata [\d.]+\)\n"
                        r"\nsum  FP32 \[2\]\n\[4, 6\]\n", shown)
    assert "… (7 more values" in tool("infer", "echo", "--input", "x:INT8=1 2 3 4 5 6 7 8 9", "--max-values", "2").out


def test_the_server_is_found(server, tool):
    args = ("infer", "echo", "--input", "x:INT8=1")
    for where in ([], ["--port", server.port], ["--url", server.address], ["--url", f"grpc://localhost:{server.port}"]):
        assert "INT8" in tool(*args, *where).out
    assert "INT8" in run(server, *args, "--url", server.address, runtime=False).out


# --- infer: streams ---

@pytest.fixture
def counting(serve):
    server = serve("streaming.py")
    return lambda *args, **kwargs: run(server, "infer", *args, "--stream", **kwargs)


def test_a_stream(counting):
    """Every response, in order; none at all; errors in the middle of it and of the stream itself."""
    lines = [json.loads(line) for line in counting("sync", "--input", "n:INT32=[3]", "--id", "q", "--json").out.splitlines()]
    assert [(a["model_name"], a["id"], a["outputs"][0]["data"]) for a in lines] == [("sync", "q", [i]) for i in range(3)]
    times = [a["after_ms"] for a in lines]
    assert times == sorted(times) and times[0] > 0
    shown = counting("class", "--input", "n:INT32=[2]").out
    assert re.search(r"\Aresponse 1 after [\d.]+ ms, model class:1\nparameters: .*square=0.*\n\n\w+  INT32 \[1\]\n\[0\]\n"
                     r"\nresponse 2 after .*\n.*square=1[^§]*\n\n2 responses, [\d.]+ ms \(connect [\d.]+", shown)
    assert re.match(r"0 responses, [\d.]+ ms", counting("sync", "--input", "n:INT32=[0]").out)
    assert counting("sync", "--input", "n:INT32=[0]", "--json").out == ""
    end = counting("sync", "--input", "n:INT32=[0]", "--parameter", "triton_enable_empty_final_response=true", "--json")
    assert json.loads(end.out)["parameters"] == {"triton_final_response": True}


ENDLESS = """
import numpy as np
from anyserve import AnyServe
app = AnyServe()

@app.model("endless")
def endless(request):
    while True:
        yield np.zeros(1, np.uint8)
"""


def test_streams_that_fail(serve, counting):
    done = counting("nope", "--input", "n:INT32=[1]", "--json", code=1)
    assert "'nope'" in json.loads(done.out.splitlines()[0])["error"]
    assert "response 1 is an error: " in json.loads(done.out.splitlines()[1])["error"]["message"]
    assert "'nope'" in counting("nope", "--input", "n:INT32=[1]", code=1).err
    assert "DEADLINE" in run(serve("endless.py", source=ENDLESS), "infer", "endless", "--input", "x:INT32=1", "--stream",
                             "--timeout", "300ms", code=104).err


def test_several_requests_on_a_stream(counting):
    """An input that is given again begins the next request; the others stay."""
    args = [a for n in (1, 5, 10) for a in ("--input", f"n:INT32=[{n}]")]
    lines = [json.loads(line) for line in counting("running_sum", *args, "--id", "chat", "--json").out.splitlines()]
    assert [(a["id"], a["outputs"][0]["data"]) for a in lines] == [("chat-1", [n]) for n in (1, 6, 16)]
    lines = [json.loads(line) for line in counting("sync", *args[:4], "--json").out.splitlines()]
    assert sorted(a["id"] for a in lines) == ["1"] + ["2"] * 5
    assert "3 responses" in counting("running_sum", *args).out


ADDING = """
import numpy as np
from anyserve import AnyServe, Tensor
app = AnyServe()

@app.model("add", inputs={"a": Tensor("INT32", [1]), "b": Tensor("INT32", [1])}, outputs={"sum": Tensor("INT32", [1])})
def add(a, b):
    yield a + b
"""


def test_inputs_that_stay(serve):
    server = serve("adding.py", source=ADDING)
    args = ["infer", "add", "--stream", "--input", "a=1", "--input", "b=10", "--input", "b=20", "--input", "a=2", "--input",
            "a=3"]
    lines = [json.loads(line) for line in run(server, *args, "--json").out.splitlines()]
    assert {a["id"]: a["outputs"][0]["data"] for a in lines} == {"1": [11], "2": [22], "3": [23]}
    assert "input 'b' INT32 [1] is missing" in run(server, "infer", "add", "--stream", "--input", "a=1", code=2).err
    assert "'a' is given twice (allowed with --stream" in run(server, "infer", "add", "--input", "a=1", "--input", "a=2", code=2).err


# --- infer: errors ---

@pytest.mark.parametrize("args, code, words", [
    (["add", "--input", "a=1,2,x", "--input", "b=1"], 2, ["input 'a'", "value 3 at position 5", "'x'"]),
    (["add", "--input", "a=[[1],2]", "--input", "b=1"], 2, ["input 'a'", "position 6"]),
    (["add", "--input", "a=1"], 2, ["input 'b' FP32 [-1] is missing"]),
    (["add", "--input", "a=1", "--input", "c=1"], 2, ["no input 'c'", "a FP32 [-1]"]),
    (["add", "--input", "a=1", "--input", "a=1"], 2, ["'a' is given twice"]),
    (["add", "--input", "a"], 2, ["NAME=VALUE"]),
    (["add", "--input", "a=[[1]]", "--input", "b=1"], 2, ["shape [1,1]", "expects [-1]"]),
    (["echo", "--input", "x=1"], 2, ["input 'x'", "NAME:DTYPE=VALUE"]),
    (["echo", "--input", "x:INT8=200"], 2, ["'200'", "-128 … 127"]),
    (["echo", "--input", "x:FP99=1"], 2, ["FP99", "BF16"]),
    (["echo", "--input", "x:INT8=@/no/such/file"], 66, ["/no/such/file"]),
    (["echo", "--input", "x:INT8=1", "--parameter", "p"], 2, ["--parameter 'p'"]),
    (["echo", "--input", "x:INT8=1", "--parameter", "p:int64=x"], 2, ["--parameter 'p:int64=x'"]),
    (["echo", "--input", "x:INT8=1", "--metadata", "grpc-x=1"], 2, ["grpc-x"]),
    (["echo", "--input", "x:INT8=1", "--metadata", "k=ü"], 2, ["ASCII"]),
    (["echo", "--input", "x:INT8=1", "--url", "a:b"], 2, ["--url 'a:b'"]),
    (["echo", "--input", "x:INT8=1", "--timeout", "nonsense"], 2, ["--timeout=nonsense"]),
    (["nope", "--input", "x:INT8=1"], 105, ["NOT_FOUND", "'nope'"]),
    (["nope"], 105, ["NOT_FOUND", "'nope'"]),
    (["add", "--input", "a=1", "--input", "b:INT8=1"], 103, ["INVALID_ARGUMENT", "'b'"]),
    (["add", "--model-version", "9", "--input", "a=1", "--input", "b=1"], 105, ["NOT_FOUND"]),
    (["split", "--input", "x=1,2", "--output", "nope"], 103, ["INVALID_ARGUMENT", "'nope'"]),
    ([], 2, ["an argument is missing"]),
])
def test_errors(tool, args, code, words):
    done = tool("infer", *args, code=code)
    assert done.out == ""
    for word in words:
        assert word in done.err, done.err


def test_errors_as_json(tool):
    for args, code, name in [(["nope"], 105, "NOT_FOUND"), (["add"], 2, "USAGE"),
                             (["echo", "--input", "x:INT8=@/no"], 66, "FILE")]:
        done = tool("infer", *args, "--json", code=code)
        error = json.loads(done.out)["error"]
        assert (error["code"], error["exit_code"], done.err) == (name, code, "")


def test_nobody_is_there(server, tmp_path):
    args = ("infer", "m", "--input", "x:INT8=1", "--runtime-dir", tmp_path)
    port = ports.free()
    done = run(server, *args, "--port", port, runtime=False, code=114)
    assert f"localhost:{port}" in done.err and "No server runs in" in done.err
    done = run(server, "infer", "m", "--input", "x:INT8=1", "--port", port, code=114)
    assert f"--port: {server.port}" in done.err
    assert "refused" in run(server, *args, "--url", f"127.0.0.1:{port}", runtime=False, code=114).err
    assert run(server, *args, "--url", "no.such.host.invalid:1", runtime=False, code=114).err


@pytest.fixture
def listener():
    with listening() as listen:
        yield listen


def test_servers_that_misbehave(server, listener):
    def silent(c):
        while c.recv(65536):
            pass

    def http1(c):
        c.recv(65536)
        c.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

    def gone(c):
        c.recv(65536)

    for handle, timeout, code, words in [(silent, "100ms", 104, "no answer within 0.1 s"),
                                         (http1, "30s", 114, "does not speak HTTP/2"),
                                         (gone, "30s", 114, "the server closed the connection")]:
        call = ["m", "--input", "x:INT8=1", "--timeout", timeout]
        url = f"127.0.0.1:{listener(handle)}"
        for command in ("infer", "bench"):
            assert words in run(server, command, *call, "--url", url, code=code, runtime=False).err


# --- bench ---

def completed(server):
    return server.counts()["completed"]


@pytest.mark.parametrize("shape", [[], ["--connections", 3, "--streams", 5]])
def test_exactly_so_many_calls(server, tool, shape):
    before = completed(server)
    result = bench(tool, "add", "--requests", 500, "--warmup", "off", *shape)
    assert (result["mode"], result["due"], result["ok"]) == ("closed", 500, 500)
    wait.until(lambda: completed(server) == before + 501, lambda: f"{completed(server)}, {before} before")


def test_a_closed_loop(tool):
    result = bench(tool, "add", "--duration", "300ms", "--warmup", "50ms", "--streams", 4, "--any-size", 10)
    assert result["ok"] > 0 and result["unsent"] == 0 and 0.29 < result["seconds"] < 0.31
    assert (result["connections"], result["streams"], result["rate"]) == (1, 4, 0)
    assert result["request_bytes"] > 80


@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_an_open_loop(tool, arrivals):
    result = bench(tool, "add", "--rate", 500, "--arrivals", arrivals, "--duration", "400ms", "--warmup", "100ms")
    assert result["mode"] == arrivals
    assert result["due"] == 200 if arrivals == "constant" else 120 < result["due"] < 290


def test_a_stall_shows_in_open_loop_latencies(serve, tmp_path):
    """100 calls/s, one of which takes 0.4 s: some forty more were due meanwhile and must have waited."""
    server = serve("slow.py", source=SLOW)
    result = bench(lambda *a, **k: run(server, *a, **k), "pauses", "--rate", 100, "--duration", "2s", "--warmup", "off")
    assert result["due"] == 200 and result["ok"] == 200
    waited = sum(n for low, n in result["histogram_us"] if low > 50_000)
    assert 25 <= waited
    assert result["latency_us"]["p99"] > 300_000


def test_an_overload_counts_what_was_not_sent(tool):
    result = bench(tool, "add", "--rate", 1_000_000, "--duration", "200ms", "--warmup", "off", "--streams", 2, code=1)
    assert result["due"] == 200_000 and result["unsent"] > 0
    assert result["latency_us"]["max"] > 100_000


def test_an_open_loop_may_poll(tool):
    result = bench(tool, "add", "--rate", 200, "--poll", "--duration", "400ms", "--warmup", "100ms")
    assert result["due"] == 80 and result["sent"] >= 80
    assert 0 < result["late_us"]["p50"] <= result["late_us"]["p99"] <= result["late_us"]["max"]


@pytest.mark.parametrize("protocol", ["grpc", "http", "http-binary"])
def test_answers_that_differ(serve, protocol):
    source = """
from anyserve import AnyServe, Tensor
app = AnyServe()

@app.model("tenth", inputs={"x": Tensor("INT32", [-1])}, outputs={"y": Tensor("INT32", [-1])})
def tenth(x):
    tenth.n += 1
    return x + tenth.n // 10

tenth.n = 0
"""
    server = serve("tenth.py", source=source)
    args = ["tenth", "--same-answers", "--warmup", "off", "--protocol", protocol, "--requests"]
    assert bench(lambda *a, **k: run(server, *a, **k), *args, 8)["ok"] == 8
    result = bench(lambda *a, **k: run(server, *a, **k), *args, 12, code=1)  # the calls 10 to 22
    assert result["errors"] == {"DATA_LOSS": {"count": 3, "message": "the answer is not that of the first call"}}


def test_errors_by_status(serve):
    server = serve("slow.py", source=SLOW)
    tool = lambda *a, **k: run(server, *a, **k)  # noqa: E731
    result = bench(tool, "sometimes", "--requests", 95, "--warmup", "off", code=1)
    assert result["errors"] == {"FAILED_PRECONDITION": {"count": 9, "message": "every tenth"}}
    shown = tool("bench", "sometimes", "--requests", 100, "--warmup", "off", code=1).out
    assert re.search(r"FAILED_PRECONDITION +10  every tenth", shown)


def test_the_first_call_is_told_once(tool):
    assert "NOT_FOUND" in tool("bench", "nope", "--input", "x:INT8=1", code=105).err
    assert "no input 'c'" in tool("bench", "add", "--input", "c=1", code=2).err
    assert "declares no inputs" in tool("bench", "echo", code=2).err
    assert "--arrivals needs --rate" in tool("bench", "add", "--arrivals", "poisson", code=2).err
    assert "--poll needs --rate" in tool("bench", "add", "--poll", code=2).err
    assert "cannot be used together" in tool("bench", "add", "--same-answers", "--stream", code=2).err
    done = tool("bench", "add", "--requests", 1, "--duration", "1s", "--json", code=2)
    assert "cannot be used together" in json.loads(done.out)["error"]["message"]


def test_compare(tool, tmp_path):
    path = tmp_path / "before.json"
    args = ["add", "--requests", 200, "--warmup", "off"]
    path.write_text(tool("bench", *args, "--json").out)
    result = bench(tool, *args, "--compare", path)
    before = json.loads(path.read_text())
    assert result["compared"]["per_second"]["before"] == pytest.approx(before["per_second"])
    for row in result["compared"].values():
        assert row["verdict"] in ("better", "worse", "same")
    row = result["compared"]["latency_us.p50"]
    assert row["ratio"] == pytest.approx(row["now"] / row["before"], abs=1e-3)
    slow = {**before, "per_second": before["per_second"] / 1000,
            "latency_us": {k: v * 1000 for k, v in before["latency_us"].items()}}
    path.write_text(json.dumps(slow))
    shown = tool("bench", *args, "--compare", path).out
    assert shown.count("better") == 7 and "worse" not in shown
    path.write_text("{}")
    assert "not a result" in tool("bench", *args, "--compare", path, code=2).err
    path.write_text("{")
    assert "cannot be parsed: not JSON at byte" in tool("bench", *args, "--compare", path, code=2).err
    assert "No such file" in tool("bench", *args, "--compare", tmp_path / "none", code=66).err


def test_a_server_without_metadata(server):
    """Only a request that the command line describes as a whole can be sent to it."""
    class Echo(grpc.GenericRpcHandler):
        def service(self, details):
            is_infer = details.method == "/inference.GRPCInferenceService/ModelInfer"
            return grpc.unary_unary_rpc_method_handler(lambda request, _: request) if is_infer else None

    echo = grpc.server(ThreadPoolExecutor(1), [Echo()])
    url = f"127.0.0.1:{echo.add_insecure_port('127.0.0.1:0')}"
    echo.start()
    try:
        args = ["--url", url, "--requests", 20, "--warmup", "off", "--same-answers"]
        tool = lambda *a, **k: run(server, *a, runtime=False, **k)  # noqa: E731
        assert bench(tool, "m", "--input", "x:FP32:[3]=1,2,3", *args)["ok"] == 20
        for inputs in ([], ["--input", "x=1"]):
            assert "UNIMPLEMENTED" in tool("bench", "m", *inputs, *args, code=112).err
    finally:
        echo.stop(None)


# --- bench: streams ---

def bench_stream(server, *args, code=0):
    return bench(lambda *a, **k: run(server, *a, "--stream", **k), *args, code=code)


def test_a_load_of_streams(serve, tmp_path):
    server = serve("streaming.py")
    result = bench_stream(server, "sync", "--input", "n:INT32=[20]", "--requests", 50, "--warmup", "off", "--connections", 2)
    assert (result["stream"], result["ok"], result["responses"]) == (True, 50, 1000)
    assert result["responses_per_second"] == pytest.approx(20 * result["per_second"], rel=1e-3)
    for name in ("first_response_us", "between_responses_us"):
        times = [result[name][k] for k in ("min", "p50", "p90", "p99", "p999", "max")]
        assert times[1:] == sorted(times[1:]) and times[0] <= times[-1]
    # the first response and the 19 distances make no more than the whole
    parts = result["first_response_us"]["mean"] + 19 * result["between_responses_us"]["mean"]
    assert 0 < result["first_response_us"]["mean"] and parts <= result["latency_us"]["mean"] + 1
    path = tmp_path / "before.json"
    path.write_text(json.dumps({**result, "responses_per_second": 1}))
    args = ["sync", "--input", "n:INT32=[20]", "--requests", 50, "--warmup", "off", "--compare", path]
    assert bench_stream(server, *args)["compared"]["responses_per_second"]["verdict"] == "better"
    shown = run(server, "bench", *args, "--stream").out
    assert re.search(r"\n  responses  [\d.]+/s\n  first +mean [\d.]+ p50 .*\n  between +mean ", shown)
    assert re.search(r"responses/s +1 +[\d.e+]+ +[\d.e+]+  better\n", shown)
    # another load's result beside it has the rows that both have
    unary = bench(lambda *a, **k: run(server, *a, **k), "double", "--input", "n:INT32=[1]", "--requests", 5, "--warmup",
                  "off", "--compare", path)
    assert unary["stream"] is False and "responses_per_second" not in {**unary, **unary["compared"]}


def test_streams_of_no_response_and_of_one(serve):
    server = serve("streaming.py")
    for n, responses in ((0, 0), (1, 10)):
        result = bench_stream(server, "sync", "--input", f"n:INT32=[{n}]", "--requests", 10, "--warmup", "off")
        assert (result["ok"], result["responses"], result["between_responses_us"]["max"]) == (10, responses, 0)


TENTH = """
import numpy as np
from anyserve import AnyServe, Error, Tensor
app = AnyServe()
calls = 0

@app.model("tenth", inputs={"x": Tensor("INT32", [1])}, outputs={"y": Tensor("INT32", [1])})
def tenth(x):
    global calls
    calls += 1
    yield x
    if calls > 1 and calls % 10 == 0:
        raise Error("FAILED_PRECONDITION", "every tenth")
"""


@pytest.mark.parametrize("protocol, status", [("grpc", "FAILED_PRECONDITION"), ("http", "UNKNOWN")])
def test_streams_that_fail_by_status(serve, protocol, status):
    """Over http an error behind the first response has a text, but no status."""
    server = serve("tenth.py", source=TENTH)
    result = bench_stream(server, "tenth", "--input", "x=1", "--requests", 100, "--warmup", "off", "--protocol", protocol,
                          code=1)
    assert result["errors"] == {status: {"count": 10, "message": "every tenth"}}
    assert (result["ok"], result["responses"]) == (90, 100)


def test_a_first_stream_that_fails(serve):
    server = serve("streaming.py")
    assert "FAILED_PRECONDITION: after one" in run(server, "bench", "failing", "--stream", "--input", "n:INT32=[1]",
                                                   code=109).err
    assert "unknown model 'nope'" in run(server, "bench", "nope", "--stream", "--input", "n:INT32=[1]", code=105).err


def test_histogram_in_text(tool):
    shown = tool("bench", "add", "--requests", 50, "--warmup", "off", "--histogram").out
    assert re.search(r"< +[\d.]+ +\d+ +#+\n", shown)


def test_progress_on_a_terminal_only(server, tool):
    args = [paths.BINARY, "bench", "add", "--duration", "1500ms", "--warmup", "off", "--runtime-dir", server.runtime]
    mine, theirs = pty.openpty()
    with subprocess.Popen([str(a) for a in args], stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        out = process.stdout.read().decode()
        assert process.wait(30) == 0
    assert "answers/s  p50" in os.read(mine, 65536).decode()
    os.close(mine)
    assert "\x1b" not in out
    assert tool("bench", "add", "--duration", "1100ms", "--warmup", "off").err == ""


def test_interrupted(server):
    args = [paths.BINARY, "bench", "add", "--duration", "1h", "--json", "--warmup", "off", "--runtime-dir",
            server.runtime]
    before = completed(server)
    with subprocess.Popen([str(a) for a in args], stdout=subprocess.PIPE) as process:
        wait.until(lambda: completed(server) > before + 100, "no load came")
        process.send_signal(signal.SIGINT)
        result = json.loads(process.stdout.read())
        assert process.wait(30) == 0
    assert result["interrupted"] is True and result["ok"] > 0


def test_a_server_that_dies(serve):
    server = serve("echo.py")
    args = [paths.BINARY, "bench", "add", "--duration", "1h", "--json", "--warmup", "off", "--runtime-dir",
            server.runtime]
    with subprocess.Popen([str(a) for a in args], stdout=subprocess.PIPE) as process:
        wait.until(lambda: completed(server) > 100, "no load came")
        server.kill()
        server.exit_code = -9
        result = json.loads(process.stdout.read())
        assert process.wait(30) == 1
    assert result["lost_connections"] == 1 and result["ok"] > 0
    assert set(result["errors"]) <= {"UNAVAILABLE"}


# --- help ---

@pytest.mark.parametrize("command", ["infer", "bench"])
def test_help(tool, command):
    shown = tool(command, "--help", runtime=False).out
    assert f"usage: anyserve {command} [options] MODEL" in shown
    assert "--input NAME=VALUE" in shown and "--timeout TIME" in shown
    assert len(shown.splitlines()) <= 40
    assert "--workers" not in tool(command, "--help-all", runtime=False).out
    assert "did you mean --input" in tool(command, "m", "--inptu", "x", code=2).err
