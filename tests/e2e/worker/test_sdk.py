"""The Python SDK over the wire: signatures, the request object, results, classes, threads, async."""

import re
import subprocess
import sys

import grpc
import numpy as np
import pytest

from support import paths
from support.protocol import oip

X = np.array([1.0, 2.0, 4.0], np.float32)


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("sdk.py")


# --- inputs ---

def test_inputs_bind_by_name(client):
    for model in ("by_name", "keyword_only"):
        for inputs in ({"a": X, "b": X / 2}, {"b": X / 2, "a": X}):
            assert client.infer(model, inputs)["output0"].tolist() == [0.5, 1, 2]


def test_request_and_keywords(client):
    answer = client.infer("everything", {"y": X, "x": X, "z": X})
    assert answer["x"].tolist() == [2, 4, 8]
    assert answer["names"].tolist() == [b"y", b"z"]
    assert answer["all"].tolist() == [b"y", b"x", b"z"]
    assert client.infer("everything", {"x": X, "scale": np.float32(3)})["x"].tolist() == [3, 6, 12]


def test_defaults(client):
    assert client.infer("loose_defaults", {"a": X})["output0"].tolist() == [11, 12, 14]
    assert client.infer("loose_defaults", {"a": X, "b": X})["output0"].tolist() == [2, 4, 8]


def test_undeclared_inputs_are_checked_in_the_worker(client):
    for inputs, text in (({"b": X}, "missing input 'a'"), ({"a": X, "c": X}, "unexpected input 'c'")):
        error = client.refused("loose_defaults", inputs)
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert text in error.details() and "'loose_defaults'" in error.details()


@pytest.mark.parametrize("inputs, text", [
    ({}, "'x'"), ({"x": X}, "'x'.*shape"), ({"x": X.reshape(1, 3)}, "'x'.*shape"),
    ({"x": np.zeros((2, 4))}, "'x'.*FP"), ({"x": np.zeros((2, 4), np.float32), "more": X}, "'more'")])
def test_inferred_signature_is_checked_before_python(server, client, inputs, text):
    before = server.counts("sdk")["dispatched"]
    error = client.refused("inferred", inputs)
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert re.search(text, error.details()), error.details()
    assert server.counts("sdk")["dispatched"] == before


def test_inferred_signature(client):
    answer = client.infer("inferred", {"x": np.ones((3, 4), np.float32)})
    assert answer["output0"].tolist() == [4, 4, 4]
    assert (answer["output1"], answer["output1"].shape) == (3, ())


@pytest.mark.parametrize("size", [1, 100, 9000, 70_000, 3_000_000])
def test_inputs_are_views(client, size):
    answer = client.infer("views", {"x": np.arange(size, dtype=np.int32)})
    assert answer.parameters == {"writable": False, "aligned": True, "owns": False, "contiguous": True}


def test_inputs_stay_valid(client):
    for i in range(1, 40):
        got = client.infer("keeps", {"x": np.full((1, 20_000 if i % 5 == 0 else 10), i)})["output0"]
        assert got.tolist() == list(range(1, i + 1))


def test_bf16(client):
    x = np.array([1.5, -2.0], oip.bfloat16())
    answer = client.infer("bf16", {"x": x})
    assert answer.parameters == {"dtype": "bfloat16"}
    assert answer["output0"].tobytes() == x.tobytes()


# --- outputs ---

EXPECTED = {
    "array": {"output0": ("INT32", [2], [1, 2])},
    "dict": {"p": ("FP64", [1], [0]), "q": ("INT8", [2], [1, 1])},
    "tuple": {"output0": ("FP64", [1], [0]), "output1": ("INT8", [2], [1, 1])},
    "list": {"output0": ("FP64", [2], [1.5, 2.5])},
    "scalar": {"output0": ("INT64", [], 7)},
    "float": {"output0": ("FP64", [], 0.5)},
    "bool": {"output0": ("BOOL", [], True)},
    "str": {"output0": ("BYTES", [], "grüße".encode())},
    "bytes": {"output0": ("BYTES", [], b"\0\xff")},
    "list_of_str": {"output0": ("BYTES", [2], [b"a", "ü".encode()])},
    "unicode_array": {"output0": ("BYTES", [2], [b"a", "üü".encode()])},
    "bytes_array": {"output0": ("BYTES", [2], [b"a", b"bb"])},
    "fortran": {"output0": ("INT64", [2, 3], [[0, 1, 2], [3, 4, 5]])},
    "strided": {"output0": ("INT64", [4], [9, 6, 3, 0])},
    "big_endian": {"output0": ("INT32", [3], [0, 1, 2])},
    "float16": {"output0": ("FP16", [1], [1.5])},
    "zero_d": {"output0": ("FP64", [], 3.5)},
    "empty": {"output0": ("FP64", [0, 3], [])},
    "no_outputs": {},
    "response": {"y": ("FP64", [1], [1])},
    "response_array": {"output0": ("FP64", [1], [1])},
    "broadcast": {"output0": ("FP32", [2, 3], [[2, 2, 2], [2, 2, 2]])},
    "masked_large": {"output0": ("INT32", [100_000], list(range(0, 200_000, 2)))},
}


@pytest.mark.parametrize("name", EXPECTED)
def test_output(client, name):
    answer = client.infer(f"out_{name}", {})
    got = {o.name: (o.datatype, list(o.shape), answer[o.name].tolist()) for o in answer.message.outputs}
    assert got == EXPECTED[name]


def test_response_parameters(client):
    answer = client.infer("out_response", {})
    assert answer.parameters == {"s": "ü", "i": -1, "f": 0.5, "b": False, "u": 2**63}


@pytest.mark.parametrize("model", ["declared_tuple", "declared_dict"])
def test_declared_outputs(client, model):
    answer = client.infer(model, {})
    assert list(answer.outputs) == ["first", "second"]
    assert (answer["first"].tolist(), answer["second"].tolist()) == ([0, 0], [5])


# --- errors ---

@pytest.mark.parametrize("code", [c for c in grpc.StatusCode if c is not grpc.StatusCode.OK], ids=lambda c: c.name)
def test_error_codes(client, code):
    error = client.refused("refuses", {}, parameters={"code": code.name, "message": f"für {code.name}"})
    assert (error.code(), error.details()) == (code, f"für {code.name}")


@pytest.mark.parametrize("code", ["OK", "nonsense", "not_found"])
def test_error_with_a_wrong_code(client, code):
    error = client.refused("refuses", {}, parameters={"code": code, "message": ""})
    assert error.code() == grpc.StatusCode.INTERNAL
    assert repr(code) in error.details()


# --- classes, functions, threads ---

def test_class_is_made_once(client):
    calls = [client.infer("counter", {}, version="v2") for _ in range(3)]
    assert [int(c["calls"][0]) for c in calls] == [1, 2, 3]
    assert {int(c["made"][0]) for c in calls} == {1}


def test_functions_and_instances(client):
    assert client.infer("function", {"x": X})["output0"].tolist() == X.tolist()
    assert client.infer("instance", {"x": X})["output0"].tolist() == (X + 1).tolist()


def test_sync_handlers_run_in_the_main_thread(client):
    assert client.infer("where", {}).parameters["main"] is True


def test_deadline(client):
    left = client.infer("clock", {}, timeout=7)["output0"][0]
    assert 1 < left <= 7.5  # gRPC rounds up what it sends
    assert client.infer("clock", {}, timeout=None)["output0"][0] == -1


# --- async ---

def test_async_has_a_task_and_its_own_context(client):
    for _ in range(3):
        assert client.infer("task", {})["output0"].tolist() == [0, 42, 1]


def test_eager(client):
    assert client.infer("eager", {"x": np.array([1])})["output0"] == 2
    assert client.infer("eager", {"x": np.array([6])})["output0"] == 7


def test_sync_and_threaded_beside_async(client):
    assert client.infer("sync_in_loop", {"x": np.array([1])})["output0"] == 3
    assert client.infer("threaded_in_loop", {}).parameters["main"] is False
    assert client.infer("async_class", {"x": np.array([2])})["output0"] == 6


def test_async_handlers_wait_together(client):
    calls = [client.begin("meets", {}, parameters={"n": 100}) for _ in range(100)]
    assert {int(oip.Answer(c.result())["output0"][0]) for c in calls} == {100}


# --- the package itself ---

def test_types_of_a_user_file():
    """py.typed is there, and editors see signatures and docstrings."""
    code = """
import inspect, anyserve, pathlib
assert (pathlib.Path(anyserve.__file__).parent / "py.typed").exists()
for thing in (anyserve.AnyServe, anyserve.AnyServe.model, anyserve.Tensor, anyserve.Response, anyserve.Error):
    assert inspect.getdoc(thing), thing
assert "max_ongoing_requests" in inspect.signature(anyserve.model).parameters
"""
    subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": str(paths.SDK)}, check=True)
