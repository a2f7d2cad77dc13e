"""Tensors of every datatype and shape over plain HTTP, as JSON and as binary data: what is sent comes back."""

import asyncio
import json
import os

import aiohttp
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio

from support.protocol import http as rest
from support.protocol import oip
from test_datatypes import ARRAYS, SHAPES

pytestmark = [pytest.mark.core, pytest.mark.quick]
TEXTS = oip.bytes_array([b"", b"plain", "grüße 世界 \U0001f600".encode(), b'"\\/\b\f\n\r\t\0\x1f\x7f', b"x" * 70_000, b" "],
                        (3, 2))
JSON_ARRAYS = {**ARRAYS, "BYTES": TEXTS}
every_datatype = pytest.mark.parametrize("datatype", ARRAYS)
INFER = "/v2/models/echo/infer"


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


@pytest.fixture(params=rest.CLIENTS)
def http(server, request):
    client = rest.CLIENTS[request.param](server.host, server.port)
    yield client
    client.close()


def assert_same(got, sent):
    assert (got.shape, got.dtype) == (sent.shape, sent.dtype)
    if sent.dtype.kind == "f" or sent.dtype == oip.bfloat16():  # JSON knows one NaN
        nan = np.isnan(sent.astype(np.float64))
        assert np.array_equal(np.isnan(got.astype(np.float64)), nan)
        got, sent = got[~nan], sent[~nan]
    assert oip.raw_of(got) == oip.raw_of(sent)


def by_json(http, inputs, **fields):
    reply = http.request("POST", INFER, rest.infer_json(inputs, **fields))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json"), reply.data[:500]
    return rest.outputs_of(reply)


def by_binary(http, inputs, **fields):
    headers, body = rest.infer_binary(inputs, **fields)
    reply = http.request("POST", INFER, body, headers)
    assert (reply.status, reply.headers["content-type"]) == (200, "application/octet-stream"), reply.data[:500]
    return rest.outputs_of(reply)


# --- one tensor ---

@every_datatype
def test_json(http, datatype):
    assert_same(by_json(http, {"x": JSON_ARRAYS[datatype]})["x"], JSON_ARRAYS[datatype])


@every_datatype
def test_binary(http, datatype):
    got = by_binary(http, {"x": ARRAYS[datatype]})["x"]
    assert oip.raw_of(got) == oip.raw_of(ARRAYS[datatype])
    assert got.shape == ARRAYS[datatype].shape


@every_datatype
def test_scalar(http, datatype):
    scalar = JSON_ARRAYS[datatype].ravel()[1:2].reshape(())
    assert_same(by_json(http, {"x": scalar})["x"], scalar)
    assert_same(by_binary(http, {"x": scalar})["x"], scalar)


@every_datatype
def test_flat_data_is_as_good_as_nested(http, datatype):
    x = JSON_ARRAYS[datatype]
    flat = rest.tensor("x", x, data=rest.json_of(x.ravel()))
    reply = http.request("POST", INFER, json.dumps({"inputs": [flat]}).encode())
    assert_same(rest.outputs_of(reply)["x"], x)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("datatype", ["INT64", "UINT8", "BYTES"])
def test_shape(http, datatype, shape):
    n = int(np.prod(shape))
    values = oip.bytes_array([b"%d" % i for i in range(n)]) if datatype == "BYTES" else \
        np.arange(n).astype(oip.DTYPES[datatype])
    x = values.reshape(shape)
    assert_same(by_json(http, {"x": x})["x"], x)
    assert_same(by_binary(http, {"x": x})["x"], x)


def test_data_before_its_datatype_and_shape(http):
    body = b'{"inputs":[{"data":[[1,2],[3,-4]],"shape":[2,2],"name":"x","datatype":"INT16"}]}'
    assert_same(rest.outputs_of(http.request("POST", INFER, body))["x"], np.array([[1, 2], [3, -4]], np.int16))


# --- which way an answer travels ---

def sizes(reply):
    length = int(reply.headers.get(rest.JSON_LENGTH, len(reply.data)))
    return {o["name"]: o.get("parameters", {}).get("binary_data_size") for o in
            json.loads(reply.data[:length])["outputs"]}


@pytest.mark.parametrize("fields, want", [
    ({}, {"x": None, "y": None}),
    ({"parameters": {"binary_data_output": True}}, {"x": 8, "y": 4}),
    ({"outputs": [{"name": "y"}]}, {"y": None}),
    ({"outputs": [{"name": "y", "parameters": {"binary_data": True}}, {"name": "x"}]}, {"y": 4, "x": None}),
    ({"outputs": [{"name": "y", "parameters": {"binary_data": False}}, {"name": "x"}],
      "parameters": {"binary_data_output": True}}, {"y": None, "x": 8}),
])
def test_binary_where_it_is_asked_for(http, fields, want):
    sent = {"x": np.float32([1, 2]), "y": np.int32([7])}
    reply = http.request("POST", INFER, rest.infer_json(sent, **fields))
    assert sizes(reply) == want
    assert (rest.JSON_LENGTH in reply.headers) == any(want.values())
    for name, got in rest.outputs_of(reply).items():
        assert_same(got, sent[name])


def test_json_and_binary_inputs_in_one_request(http):
    y = np.arange(3, dtype=np.int64)
    head = json.dumps({"inputs": [rest.tensor("x", np.float32([1]), data=[1]),
                                  rest.tensor("y", y, parameters={"binary_data_size": 24}),
                                  rest.tensor("z", np.uint8([5]), data=[5])]}).encode()
    reply = http.request("POST", INFER, head + y.tobytes(), [(rest.JSON_LENGTH, str(len(head)))])
    got = rest.outputs_of(reply)
    assert (got["x"].tolist(), got["y"].tolist(), got["z"].tolist()) == ([1], [0, 1, 2], [5])


def test_bytes_that_are_no_text_go_as_binary_only(http):
    x = oip.bytes_array([b"\xff"])
    headers, body = rest.infer_binary({"x": x})
    assert rest.outputs_of(http.request("POST", INFER, body, headers))["x"].tolist() == [b"\xff"]
    headers, body = rest.infer_binary({"x": x}, parameters={})
    reply = http.request("POST", INFER, body, headers)
    assert (reply.status, "'x'" in reply.error, "binary" in reply.error) == (400, True, True)


RAW = """
import numpy as np
from anyserve import AnyServe, Tensor
app = AnyServe()

def model(name, *inputs):
    app.model(name, inputs=dict(inputs))(lambda request: request.inputs)

model("floats", ("x", Tensor("FP32", [-1, 2])))
model("text", ("x", Tensor("BYTES", [1])))
model("two", ("x", Tensor("FP32", [1])), ("y", Tensor("FP32", [1])))
"""


def test_raw_binary_requests(serve):
    server = serve("raw.py", source=RAW)
    for kind in rest.CLIENTS.values():
        client = kind(server.host, server.port)

        def raw(model, body):
            return client.request("POST", f"/v2/models/{model}/infer", body, [(rest.JSON_LENGTH, "0")])

        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        assert_same(rest.outputs_of(raw("floats", x.tobytes()))["x"], x)
        assert rest.outputs_of(raw("text", b"any \xff bytes"))["x"].tolist() == [b"any \xff bytes"]
        for model, body in [("floats", b"1234"), ("two", b"12345678")]:
            reply = raw(model, body)
            assert (reply.status, bool(reply.error)) == (400, True)
        client.close()


# --- many and large ---

def test_many_inputs(http):
    sent = {f"{name}/{i}": array for i in range(3) for name, array in JSON_ARRAYS.items()}
    for send in (by_json, by_binary):
        got = send(http, sent)
        assert list(got) == list(sent)
        for name, array in sent.items():
            assert_same(got[name], array)


def test_more_outputs_than_one_write_takes(http):
    sent = {f"t{i}": np.full(9000, i, np.int32) for i in range(100)}
    for name, array in by_binary(http, sent).items():
        assert_same(array, sent[name])


@pytest.mark.parametrize("size", [2**10 - 1, 2**13, 2**16 - 1, 2**16, 2**16 + 1, 2**20, 2**20 + 63])
def test_sizes_around_the_ways_of_transport(http, size):
    x = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    assert_same(by_binary(http, {"x": x})["x"], x)
    f = np.random.default_rng(size).random(size // 16)
    assert_same(by_json(http, {"x": f})["x"], f)


def test_16_mib_both_ways(http):
    x = np.random.default_rng(1).integers(0, 256, 16 << 20, np.uint8)
    assert_same(by_binary(http, {"x": x})["x"], x)


# --- clients ---

def triton_input(kind, name, datatype, array, binary):
    x = kind.InferInput(name, list(array.shape), datatype)
    x.set_data_from_numpy(array.astype(np.float32) if datatype == "BF16" else array, binary_data=binary)
    return x


def check_triton(result, sent, datatype):
    got = result.as_numpy("x")
    if datatype == "BF16":
        sent = sent.astype(np.float32)
    if got.dtype == object and got.size and isinstance(got.ravel()[0], str):  # of JSON
        got = np.vectorize(str.encode, otypes=[object])(got)
    assert got.shape == sent.shape
    assert oip.raw_of(got) == oip.raw_of(sent)


@every_datatype
def test_tritonclient(server, datatype):
    with triton.InferenceServerClient(server.address) as client:
        x = triton_input(triton, "x", datatype, ARRAYS[datatype], True)
        check_triton(client.infer("echo", [x]), ARRAYS[datatype], datatype)
        some = [triton.InferRequestedOutput("x", binary_data=True)]
        check_triton(client.infer("echo", [x], outputs=some, model_version="1", request_id="7"), ARRAYS[datatype],
                     datatype)


@pytest.mark.parametrize("datatype", [d for d in ARRAYS if d not in ("FP16", "BF16", "FP32", "FP64")])
def test_tritonclient_in_json(server, datatype):
    sent = JSON_ARRAYS[datatype]
    with triton.InferenceServerClient(server.address) as client:
        result = client.infer("echo", [triton_input(triton, "x", datatype, sent, False)],
                              outputs=[triton.InferRequestedOutput("x", binary_data=False)])
        check_triton(result, sent, datatype)


def test_tritonclient_floats_in_json(server):
    sent = np.float32([0.1, -0.0, 3.4e38, 1e-45])
    with triton.InferenceServerClient(server.address) as client:
        result = client.infer("echo", [triton_input(triton, "x", "FP32", sent, False)],
                              outputs=[triton.InferRequestedOutput("x", binary_data=False)])
        assert result.as_numpy("x").tobytes() == sent.tobytes()


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_tritonclient_compressed(server, coding):
    sent = np.zeros(10_000, np.float32)
    with triton.InferenceServerClient(server.address) as client:
        result = client.infer("echo", [triton_input(triton, "x", "FP32", sent, True)],
                              request_compression_algorithm=coding, response_compression_algorithm=coding)
        assert result.get_response() and np.array_equal(result.as_numpy("x"), sent)


def test_tritonclient_knows_the_server(server):
    with triton.InferenceServerClient(server.address) as client:
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("echo") and client.is_model_ready("echo", "1")
        assert not client.is_model_ready("nope")
        assert client.get_server_metadata()["name"] == "anyserve"
        assert client.get_model_metadata("add", "1")["inputs"][0] == {"name": "a", "datatype": "FP32", "shape": [-1]}
        with pytest.raises(triton.InferenceServerException, match="unknown model 'nope'") as error:
            client.infer("nope", [])
        assert error.value.status() == "404"


def test_tritonclient_many_at_once(server):
    with triton.InferenceServerClient(server.address, concurrency=8) as client:
        calls = [client.async_infer("echo", [triton_input(triton, "x", "INT64", np.array([i]), True)])
                 for i in range(200)]
        assert [c.get_result().as_numpy("x").tolist() for c in calls] == [[i] for i in range(200)]


async def test_tritonclient_aio(server):
    async with triton_aio.InferenceServerClient(server.address) as client:
        assert await client.is_server_ready()
        results = await asyncio.gather(*(client.infer("echo", [triton_input(triton_aio, "x", name, array, True)])
                                         for name, array in ARRAYS.items()))
    for (name, array), result in zip(ARRAYS.items(), results):
        check_triton(result, array, name)


async def test_aiohttp(server):
    url = f"http://{server.address}{INFER}"
    async with aiohttp.ClientSession() as session:
        async def one(i):
            body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [i]}]}
            async with session.post(url, json=body) as reply:
                return (await reply.json())["outputs"][0]["data"]

        assert await asyncio.gather(*map(one, range(100))) == [[i] for i in range(100)]

        async def pieces():  # no length is known: chunked
            for piece in (b'{"inputs":[{"name":"x","data', b'type":"BYTES","shape":[1],', b'"data":["' + b"y" * 300_000,
                          b'"]}]}'):
                yield piece

        async with session.post(url, data=pieces()) as reply:
            assert (await reply.json())["outputs"][0]["data"] == ["y" * 300_000]


def test_a_body_of_unknown_length(server):
    """Over HTTP/2, where a length is never needed: it grows as it comes."""
    from support.protocol import h2client
    for n in (1, 2047, 2049, 300_000, 5 << 20):
        body = rest.infer_json({"x": oip.bytes_array([os.urandom(n // 2).hex().encode()])})
        with h2client.H2(server.host, server.port) as conn:
            reply = conn.request("POST", INFER, (), body)
        assert json.loads(reply.data)["outputs"][0]["data"] == json.loads(body)["inputs"][0]["data"]
