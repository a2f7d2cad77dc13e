"""Tensors of every datatype and shape through a real server, by three clients: what is sent comes back, bit for bit."""

import asyncio
import subprocess
import sys

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio

from support import paths
from support.protocol import oip

pytestmark = pytest.mark.core


def integers(code):
    info = np.iinfo(code)
    return np.array([[info.min, 0, 1], [info.max, 7, info.max // 2]], code)


def floats(code):
    info = np.finfo(code)
    return np.array([0.0, -0.0, 1.5, info.max, info.tiny, np.inf, -np.inf, np.nan], code)


TEXTS = [b"", b"plain", "grüße 世界 \U0001f600".encode(), bytes(range(256)), b"\0", b"x" * 70_000]
ARRAYS = {
    "BOOL": np.array([[True, False], [False, True]]),
    **{name: integers(code) for name, code in oip.DTYPES.items() if code[0] in "iu"},
    **{name: floats(code) for name, code in oip.DTYPES.items() if code[0] == "f"},
    "BF16": np.array([0.0, -1.5, 3.0e38, np.inf], oip.bfloat16()),
    "BYTES": oip.bytes_array(TEXTS, (3, 2)),
}
SHAPES = [(), (0,), (1,), (3, 0, 2), (0, 0), (2, 3, 4), (1,) * 16]
every_datatype = pytest.mark.parametrize("datatype", ARRAYS)


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


def assert_same(got, sent):
    assert (got.shape, got.dtype) == (sent.shape, sent.dtype)
    assert oip.raw_of(got) == oip.raw_of(sent)


# --- one tensor ---

@every_datatype
def test_grpcio(client, datatype):
    answer = client.infer("echo", {"x": ARRAYS[datatype]})
    assert [o.datatype for o in answer.message.outputs] == [datatype]
    assert_same(answer["x"], ARRAYS[datatype])


@every_datatype
def test_scalar(client, datatype):
    scalar = ARRAYS[datatype].ravel()[1:2].reshape(())
    assert_same(client.infer("echo", {"x": scalar})["x"], scalar)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("datatype", ["INT64", "UINT8", "BYTES"])
def test_shape(client, datatype, shape):
    n = int(np.prod(shape))
    values = oip.bytes_array([b"%d" % i for i in range(n)]) if datatype == "BYTES" else \
        np.arange(n).astype(oip.DTYPES[datatype])
    assert_same(client.infer("echo", {"x": values.reshape(shape)})["x"], values.reshape(shape))


def triton_input(name, datatype, array):
    x = triton.InferInput(name, list(array.shape), datatype)
    x.set_data_from_numpy(array.astype(np.float32) if datatype == "BF16" else array)
    return x


def check_triton(result, datatype):
    got, sent = result.as_numpy("x"), ARRAYS[datatype]
    if datatype == "BF16":  # it hands out float32
        sent = sent.astype(np.float32)
    assert got.shape == sent.shape
    assert oip.raw_of(got) == oip.raw_of(sent)


@every_datatype
def test_tritonclient(server, datatype):
    with triton.InferenceServerClient(server.address) as client:
        check_triton(client.infer("echo", [triton_input("x", datatype, ARRAYS[datatype])]), datatype)


async def test_tritonclient_aio(server):
    async with triton_aio.InferenceServerClient(server.address) as client:
        results = await asyncio.gather(*(client.infer("echo", [triton_input("x", name, array)])
                                         for name, array in ARRAYS.items()))
    for name, result in zip(ARRAYS, results):
        check_triton(result, name)


def test_generated_stubs(server, tmp_path):
    """What grpcio-tools makes of our .proto file, as a user would run it."""
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{paths.PROTO.parent}", f"--python_out={tmp_path}",
                    f"--grpc_python_out={tmp_path}", paths.PROTO.name], check=True)
    script = tmp_path / "user.py"
    script.write_text("""
import sys, grpc
import open_inference_pb2 as pb, open_inference_pb2_grpc as rpc
stub = rpc.GRPCInferenceServiceStub(grpc.insecure_channel(sys.argv[1]))
assert stub.ServerLive(pb.ServerLiveRequest()).live
assert stub.ServerReady(pb.ServerReadyRequest()).ready
assert stub.ServerMetadata(pb.ServerMetadataRequest()).name == "anyserve"
assert stub.ModelReady(pb.ModelReadyRequest(name="add")).ready
assert [t.name for t in stub.ModelMetadata(pb.ModelMetadataRequest(name="add")).inputs] == ["a", "b"]
q = pb.ModelInferRequest(model_name="add", id="7")
for name in "ab":
    x = q.inputs.add(name=name, datatype="FP32", shape=[2])
    x.contents.fp32_contents.extend([1.5, 2.5])
r = stub.ModelInfer(q)
assert (r.id, r.model_name, r.model_version) == ("7", "add", "1"), r
assert r.raw_output_contents[0] == bytes.fromhex("000040400000a040"), r
""")
    subprocess.run([sys.executable, script, server.address], cwd=tmp_path, check=True, timeout=60)


# --- typed contents ---

TYPED = {
    "BOOL": ("bool_contents", [True, False, True]),
    "INT8": ("int_contents", [-128, 0, 127]),
    "INT16": ("int_contents", [-32768, 0, 32767]),
    "INT32": ("int_contents", [-2**31, 0, 2**31 - 1]),
    "INT64": ("int64_contents", [-2**63, 0, 2**63 - 1]),
    "UINT8": ("uint_contents", [0, 1, 255]),
    "UINT16": ("uint_contents", [0, 1, 65535]),
    "UINT32": ("uint_contents", [0, 1, 2**32 - 1]),
    "UINT64": ("uint64_contents", [0, 1, 2**64 - 1]),
    "FP32": ("fp32_contents", [-1.5, 0.0, float("inf")]),
    "FP64": ("fp64_contents", [-1.5, 1e-300, float("inf")]),
    "BYTES": ("bytes_contents", [b"", b"a\0b", "ü".encode()]),
}


@pytest.mark.parametrize("datatype", TYPED)
def test_typed_contents(client, datatype):
    field, values = TYPED[datatype]
    q = oip.message("ModelInferRequest", model_name="echo")
    x = q.inputs.add(name="x", datatype=datatype, shape=[3])
    getattr(x.contents, field).extend(values)
    got = oip.Answer(client.call("ModelInfer", q))["x"]
    assert oip.datatype_of(got) == datatype
    assert got.tolist() == values


def test_typed_contents_of_an_empty_tensor(client):
    q = oip.message("ModelInferRequest", model_name="echo")
    q.inputs.add(name="x", datatype="FP32", shape=[0, 4])
    assert oip.Answer(client.call("ModelInfer", q))["x"].shape == (0, 4)


# --- many tensors ---

def test_many_inputs(client):
    sent = {f"{name}/{i}": array for i in range(3) for name, array in ARRAYS.items()}
    got = client.infer("echo", sent).outputs
    assert list(got) == list(sent)
    for name, array in sent.items():
        assert_same(got[name], array)


def test_more_outputs_than_one_write_takes(client):
    sent = {f"t{i}": np.full(9000, i, np.int32) for i in range(100)}
    got = client.infer("echo", sent).outputs
    assert list(got) == list(sent)
    for name, array in sent.items():
        assert_same(got[name], array)


def test_no_inputs(client):
    assert client.infer("echo", {}).outputs == {}


def test_requested_outputs(client):
    sent = {"x": np.array([[1.0, 2.0], [3.0, 4.0]])}
    assert list(client.infer("split", sent).outputs) == ["left", "right", "total"]
    some = client.infer("split", sent, outputs=["total", "left"]).outputs
    assert list(some) == ["total", "left"]
    assert (some["total"], some["left"].tolist()) == (10.0, [1.0, 3.0])
    error = client.refused("split", sent, outputs=["left", "middle"])
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "'middle'" in error.details()


# --- beside the tensors ---

def test_parameters_of_every_type(client):
    q = oip.infer_request("parameters", {}, parameters={
        "bool": True, "no": False, "int": -2**63, "float": 0.1, "text": "grüße 世界", "empty": ""})
    q.parameters["big"].uint64_param = 2**64 - 1
    answer = oip.Answer(client.call("ModelInfer", q))
    assert answer.parameters == oip.parameters_of(q.parameters)
    assert answer.message.parameters["big"].WhichOneof("parameter_choice") == "uint64_param"
    assert sorted(answer["types"].tolist()) == sorted([b"bool", b"bool", b"int", b"float", b"str", b"str", b"int"])


@pytest.mark.parametrize("id", ["", "7", "ünïcode-世界", "x" * 5000])
def test_request_id(client, id):
    answer = client.infer("facts", {}, id=id)
    assert answer.message.id == answer.parameters["id"] == id


def test_what_a_handler_sees_of_the_call(client):
    metadata = [("x-user", "ada"), ("x-raw-bin", bytes([0, 255, 10])), ("user-agent", "hidden")]
    facts = client.infer("facts", {}, metadata=metadata).parameters
    assert facts == {"id": "", "model": "facts", "version": "1", "deadline": True, "cancelled": False,
                     "metadata.x-user": "ada", "metadata.x-raw-bin": "00ff0a"}
    assert client.infer("facts", {}, timeout=None).parameters["deadline"] is False


# --- large, and many ---

@pytest.mark.parametrize("size", [2**10 - 1, 2**16 - 1, 2**16, 2**16 + 1, 2**20, 2**20 + 63])
def test_sizes_around_the_ways_of_transport(client, size):
    sent = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    assert_same(client.infer("echo", {"x": sent})["x"], sent)


def test_32_mib_both_ways(client):
    sent = [np.random.default_rng(i).integers(0, 256, 32 << 20, np.uint8) for i in range(3)]
    calls = [client.begin("echo", {"x": array, "i": np.array([i])}) for i, array in enumerate(sent)]
    for i, call in enumerate(calls):
        got = oip.Answer(call.result()).outputs
        assert got["i"] == i
        assert_same(got["x"], sent[i])


def test_32_mib_of_many_bytes_elements(client):
    sent = oip.bytes_array([b"%07d" % i * (1 + i % 40) for i in range(250_000)])
    got = client.infer("echo", {"x": sent})["x"]
    assert got.tolist() == sent.tolist()


def test_32_mib_by_tritonclient(server):
    sent = np.random.default_rng(5).random((4 << 20,))
    with triton.InferenceServerClient(server.address) as client:
        got = client.infer("echo", [triton_input("x", "FP64", sent)]).as_numpy("x")
    assert np.array_equal(got, sent)


def test_many_small_concurrent_requests(client):
    for round in range(10):
        calls = [client.begin("echo", {"x": np.array([round, i])}, id=f"{round}/{i}") for i in range(200)]
        for i, call in enumerate(calls):
            answer = oip.Answer(call.result())
            assert answer.message.id == f"{round}/{i}"
            assert answer["x"].tolist() == [round, i]
