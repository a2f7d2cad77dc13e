"""Bodies in JSON that are too large for a turn of the loop: read and written beside it (edge/exchange/offload)."""

import json
import select

import numpy as np
import pytest

from support.protocol import http as rest
from support.protocol import oip
from support.protocol.raw import HOST, Raw

pytestmark = pytest.mark.core
PATH = "/v2/models/echo/infer"
N = 120_000  # elements: above a MiB of text, both ways
MANY = 2_000_000  # the text of some 20 MB


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


@pytest.fixture(params=rest.CLIENTS)
def http(server, request):
    client = rest.CLIENTS[request.param](server.host, server.port)
    yield client
    client.close()


def floats(n):
    return np.random.default_rng(1).random(n, np.float32)


def head_of(body, path=PATH, more=b""):
    return (f"POST {path} HTTP/1.1\r\n".encode() + HOST + more + f"Content-Length: {len(body)}\r\n\r\n".encode())


@pytest.fixture(scope="module")
def large():
    """A body of some 20 MB, the last of its elements no number."""
    text = ",".join(map(str, floats(MANY).tolist()))
    return f'{{"inputs":[{{"name":"x","datatype":"FP32","shape":[{MANY + 1}],"data":[{text},"no"]}}]}}'.encode()


# --- what goes in comes out ---

@pytest.mark.parametrize("array", [
    floats(N).reshape(-1, 100), np.arange(N * 4, dtype=np.int16), np.arange(N) % 3 == 0,
    oip.bytes_array([b"\xc3\xa9\"\\" * 9, b"x" * 31] * (N // 8), (N // 4,))], ids=["FP32", "INT16", "BOOL", "BYTES"])
def test_both_ways(http, array):
    reply = http.request("POST", PATH, rest.infer_json({"x": array, "small": np.int32([1, 2])}))
    assert reply.status == 200, reply.data[:300]
    got = rest.outputs_of(reply)
    assert np.array_equal(got["x"], array)
    assert got["small"].tolist() == [1, 2]


def test_binary_in_and_json_out(http):
    x = floats(N)
    headers, body = rest.infer_binary({"x": x, "y": x}, parameters={}, outputs=[
        {"name": "y", "parameters": {"binary_data": True}}, {"name": "x", "parameters": {"binary_data": False}}])
    reply = http.request("POST", PATH, body, headers)
    got = rest.outputs_of(reply)
    assert list(got) == ["y", "x"]
    assert np.array_equal(got["x"], x) and np.array_equal(got["y"], x)


def test_more_binary_outputs_than_pieces(http):
    """They are copied behind the text."""
    inputs = {"x": floats(N), **{f"y{i}": np.int64([i]) for i in range(64)}}
    reply = http.request("POST", PATH, rest.infer_json(inputs, outputs=[
        {"name": k, "parameters": {"binary_data": k != "x"}} for k in inputs]))
    got = rest.outputs_of(reply)
    assert all(np.array_equal(got[k], v) for k, v in inputs.items())


def test_generate(http):
    x = floats(N)
    reply = http.request("POST", "/v2/models/add/generate", json.dumps({"a": x.tolist(), "b": x.tolist()}).encode())
    assert reply.status == 200, reply.data[:300]
    assert np.array_equal(np.float32(reply.json()["sum"]), x + x)


def test_events(http):
    x = floats(N)
    reply = http.request("POST", "/v2/models/add/generate_stream",
                         json.dumps({"a": x.tolist(), "b": x.tolist()}).encode())
    assert reply.status == 200, reply.data[:300]
    assert np.array_equal(np.float32(json.loads(reply.data.removeprefix(b"data: "))["sum"]), x + x)


def test_raw_text(serve):
    server = serve("text.py", source="""
from anyserve import AnyServe, Tensor
app = AnyServe()
@app.model("size", inputs={"t": Tensor("BYTES", [1])}, outputs={"n": Tensor("INT64", [1])})
def size(t):
    import numpy as np
    return np.int64([len(t[0])])
""")
    client = rest.Http1(server.host, server.port)
    reply = client.request("POST", "/v2/models/size/infer", b"x" * 1_000_000, [(rest.JSON_LENGTH, "0")])
    assert rest.outputs_of(reply)["n"].tolist() == [1_000_000]
    client.close()


# --- what is wrong is told, and the connection goes on ---

@pytest.mark.parametrize("mend, text", [
    (lambda b: b, f"data[{MANY}] is a string, FP32 takes numbers"),
    (lambda b: b.replace(b',"no"]', b"]"), f"{MANY} elements in data, shape [{MANY + 1}] needs {MANY + 1}"),
    (lambda b: b.replace(b',"no"]', b",1]") + b"]", "something follows the end"),
    (lambda b: b.replace(b'"FP32"', b'"FP33"'), "unknown datatype 'FP33'")], ids=["kind", "count", "end", "datatype"])
def test_faults(http, large, mend, text):
    reply = http.request("POST", PATH, mend(large))
    assert reply.status == 400
    assert text in reply.error
    assert http.request("GET", "/v2/health/live").status == 200


def test_no_text(http):
    """The worker's BYTES are no UTF-8: found while the large answer is written."""
    x = oip.bytes_array([b"x" * 40] * N + [b"\xff"], (N + 1,))
    headers, body = rest.infer_binary({"x": x}, parameters={"binary_data_output": False})
    reply = http.request("POST", PATH, body, headers)
    assert reply.status == 400
    assert "not UTF-8" in reply.error


# --- others ---

def is_readable(sock):
    return bool(select.select([sock], [], [], 0)[0])


def test_others_are_answered_while_a_large_body_is_read(server, large):
    other = rest.Http1(server.host, server.port)
    with Raw(server) as raw:
        raw.sock.sendall(head_of(large) + large[:-1])
        # a turn of the loop reads of every socket: after so many of them, the last byte is all that is missing
        for _ in range(300):
            assert other.request("GET", "/v2/health/live").status == 200
        assert not is_readable(raw.sock)
        raw.sock.sendall(large[-1:])
        answered = 0
        while not is_readable(raw.sock):
            assert other.request("GET", "/v2/health/live").status == 200
            answered += 1
        assert raw.until(b"FP32 takes numbers")
    other.close()
    assert answered >= 10  # one, if the loop itself had read it; some hundred as it is


# --- those who do not wait ---

def leave_after_the_last_byte(server, large, n):
    for i in range(n):
        with Raw(server) as raw:
            raw.sock.sendall(head_of(large) + large)
            if i % 2:  # it is being read by now, or waits for its turn
                with Raw(server) as other:
                    other.sock.sendall(head_of(b"{}") + b"{}")
                    assert other.until(b"inputs is missing")


def test_a_client_leaves_while_its_body_is_read(server, large):
    leave_after_the_last_byte(server, large, 6)
    server.settle()


def test_many_leave_at_once(server, large):
    raws = [Raw(server) for _ in range(4)]
    for raw in raws:
        raw.sock.sendall(head_of(large) + large)
    for raw in raws:
        raw.sock.close()
    server.settle()


def test_a_stream_is_reset_while_its_body_is_read(server, large):
    client = rest.Http2(server.host, server.port)
    for _ in range(3):
        stream = client.conn.open([(":method", "POST"), (":path", PATH), (":scheme", "http"), (":authority", "h"),
                                   ("content-length", str(len(large)))])
        client.conn.send(stream, large, end=True)
        client.conn.conn.reset_stream(stream)
        client.conn.flush()
    assert client.request("GET", "/v2/health/live").status == 200
    client.close()
    server.settle()


def test_the_deadline_passes_while_a_body_is_read(http, large):
    good = large.replace(b',"no"]', b",1]")
    reply = http.request("POST", PATH, good, [("grpc-timeout", "1m")])
    assert reply.status == 504, reply.data[:300]


def test_a_client_leaves_while_its_answer_is_written(server):
    x = floats(MANY)
    headers, body = rest.infer_binary({"x": x}, parameters={"binary_data_output": False})
    more = b"".join(f"{k}: {v}\r\n".encode() for k, v in headers)
    for _ in range(4):
        with Raw(server) as raw:
            raw.sock.sendall(head_of(body, more=more) + body)
            with Raw(server) as other:  # behind the request in the model's queue
                small = rest.infer_json({"x": np.int32([1])})
                other.sock.sendall(head_of(small) + small)
                assert other.until(b'"data":\\[1\\]')
    server.settle()


def test_the_server_ends_while_a_body_is_read(serve, large):
    server = serve("echo.py", "--drain-timeout", "0s")
    with Raw(server) as raw:
        raw.sock.sendall(head_of(large) + large)
        server.stop()
