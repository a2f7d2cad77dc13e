"""Triton's extensions over plain HTTP, by tritonclient: the same as test_extensions.py shows over gRPC."""

import http.client
import json
import urllib.error
import urllib.request
import uuid

import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from support.protocol import oip
from test_extensions import ALLOWED, APP

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("extensions.py", *ALLOWED, source=APP)


@pytest.fixture
def client(server):
    with triton.InferenceServerClient(server.address) as client:
        yield client


def tensor(name, array, binary=True):
    t = triton.InferInput(name, list(array.shape), oip.datatype_of(array))
    t.set_data_from_numpy(array, binary_data=binary)
    return t


def infer(client, x=(1, 2, 3), model="echo", **kwargs):
    return client.infer(model, [tensor("x", np.array(x, np.int32))], **kwargs)


def refused(status, text, call, *args, **kwargs):
    with pytest.raises(InferenceServerException) as e:
        call(*args, **kwargs)
    assert e.value.status() in (str(status), None), e.value
    assert text in e.value.message(), e.value


def post(server, path, body=None):
    """(status, JSON) of a request as it is written."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{server.address}{path}", data=data, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=oip.SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)


def test_config(client):
    config = client.get_model_config("echo")
    assert config["name"] == "echo" and config["max_batch_size"] == 0 and config["backend"] == "anyserve"
    assert config["input"] == [{"name": "x", "data_type": "TYPE_INT32", "dims": [-1], "allow_ragged_batch": False,
                                "optional": False}]
    assert config["output"] == [{"name": "x", "data_type": "TYPE_INT32", "dims": [-1]}]
    assert config["model_transaction_policy"] == {"decoupled": False}
    refused(404, "unknown model", client.get_model_config, "nothing")


def test_statistics(client):
    before = client.get_inference_statistics("echo", "2")["model_stats"][0]
    for _ in range(4):
        infer(client)
    row = client.get_inference_statistics("echo", "2")["model_stats"][0]
    assert (row["name"], row["version"]) == ("echo", "2")
    assert row["inference_count"] - before["inference_count"] == 4
    assert set(row["inference_stats"]) == {"success", "fail", "queue", "compute_input", "compute_infer",
                                           "compute_output", "cache_hit", "cache_miss"}
    assert row["inference_stats"]["success"]["count"] - before["inference_stats"]["success"]["count"] == 4
    (batch,) = row["batch_stats"]
    assert batch["batch_size"] == 1 and batch["compute_infer"]["count"] == row["execution_count"]
    assert set(batch) == {"batch_size", "compute_input", "compute_infer", "compute_output"}
    assert len(client.get_inference_statistics()["model_stats"]) == 5


def test_repository(client, server):
    assert {"name": "echo", "version": "1", "state": "READY", "reason": ""} in client.get_model_repository_index()
    client.unload_model("echo")
    try:
        states = {m["version"]: (m["state"], m["reason"]) for m in client.get_model_repository_index()
                  if m["name"] == "echo"}
        assert states == {"1": ("UNAVAILABLE", "unloaded"), "2": ("UNAVAILABLE", "unloaded")}
        assert not client.is_model_ready("echo")
        refused(404, "unloaded", infer, client)
        status, ready = post(server, "/v2/repository/index", {"ready": True})
        assert status == 200 and {m["name"] for m in ready} == {"any", "fails", "pets"}
    finally:
        client.load_model("echo")
    assert np.array_equal(infer(client).as_numpy("x"), [1, 2, 3])
    refused(501, "parameter 'config'", client.load_model, "echo", config="{}")
    refused(404, "failed to load 'nothing'", client.load_model, "nothing")
    assert post(server, "/v2/repository/mine/models/echo/load", {}) == (200, {})


@pytest.mark.parametrize("path", [
    "/v2", "/v2/", "/v2/health/live", "/v2/health/ready", "/v2/models/echo", "/v2/models/echo/ready", "/v2/models/echo/config",
    "/v2/models/echo/stats", "/v2/models/stats", "/v2/models/nothing", "/v2/models/nothing/ready", "/v2/models/nothing/stats",
    "/v2/systemsharedmemory/status", "/v2/cudasharedmemory/status", "/v2/trace/setting", "/v2/models/echo/trace/setting",
    "/v2/logging", "/openapi.json", "/nothing"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_what_can_change_is_kept_by_no_cache(server, path, method):
    """Errors, too: a cache may keep a 404, and the model comes later."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=oip.SECONDS)
    connection.request(method, path)
    answer = connection.getresponse()
    assert (answer.status in (404, 501)) == ("nothing" in path)
    assert answer.getheader("Cache-Control") == "no-store"
    connection.close()


def test_answers_to_post_need_no_such_word(server):
    """No cache keeps one that does not say that it may."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=oip.SECONDS)
    connection.request("POST", "/v2/repository/index", b"{}")
    answer = connection.getresponse()
    assert answer.status == 200 and answer.getheader("Cache-Control") is None
    connection.close()


@pytest.mark.parametrize("path, body", [
    ("/v2/repository/index", b"{"), ("/v2/repository/index", b"[]"), ("/v2/repository/index", {"ready": 1}),
    ("/v2/repository/models/echo/load", {"parameters": 7}),
    ("/v2/repository/models/echo/unload", {"parameters": {"unload_dependents": "yes"}}),
    ("/v2/systemsharedmemory/region/r/register", {"key": 7}),
    ("/v2/systemsharedmemory/region/r/register", {"key": "/k", "byte_size": -1}),
    ("/v2/logging", {"log_info": {}}), ("/v2/logging", {"log_info": 1.5}), ("/v2/trace/setting", b"null"),
])
def test_bodies_that_are_none(server, path, body):
    status, answer = post(server, path, body)
    assert status == 400 and set(answer) == {"error"}, answer


@pytest.mark.parametrize("path, body", [
    ("/v2/repository/index", {"ready": None}),
    ("/v2/repository/models/echo/load", {"parameters": None}),
    ("/v2/repository/models/echo/load", {"parameters": {"config": None, "file:1/model.py": None}}),
    ("/v2/repository/models/echo/unload", {"parameters": {"unload_dependents": None}}),
    ("/v2/repository/models/echo/load", {}),
    ("/v2/logging", {"log_file": None, "log_info": None, "log_verbose_level": None}),
    ("/v2/trace/setting", {"trace_level": None, "trace_rate": None}),
    ("/v2/models/echo/infer", {"id": None, "parameters": None, "outputs": None, "inputs": [
        {"name": "x", "datatype": "INT32", "shape": [1], "parameters": {"content_type": None, "headers": None}, "data": [1]}]}),
])
def test_null_is_taken_as_absent(server, path, body):
    """As Jackson and pydantic write a field that is not set."""
    status, answer = post(server, path, body)
    assert status == 200, answer


def test_null_in_a_registration(server, region):
    where, _ = region(64)
    post(server, f"/v2/systemsharedmemory/region/{where}/unregister")
    register = f"/v2/systemsharedmemory/region/{where}/register"
    assert post(server, register, {"key": f"/{where}", "offset": None, "byte_size": 64}) == (200, {})
    status, answer = post(server, register, {"key": None, "byte_size": 64})
    assert status == 400 and "key" in answer["error"]


def test_settings(client):
    assert client.get_trace_settings()["trace_level"] == ["OFF"]
    refused(501, "'trace_level' cannot be changed", client.update_trace_settings, settings={"trace_level": "TENSORS"})
    refused(404, "unknown model", client.get_trace_settings, "nothing")
    assert client.get_log_settings()["log_verbose_level"] == 0
    assert client.update_log_settings({"log_verbose_level": 1})["log_verbose_level"] == 1
    assert client.update_log_settings({"log_verbose_level": 0})["log_info"] is True
    refused(501, "'log_file' cannot be changed", client.update_log_settings, {"log_file": "/tmp/x"})


@pytest.mark.parametrize("binary", [True, False])
def test_classification(client, binary):
    x = np.array([[0.5, 2, -1], [3, 1, 2]], np.float32)
    answer = client.infer("any", [tensor("x", x)],
                          outputs=[triton.InferRequestedOutput("x", binary_data=binary, class_count=2)])
    texts = [[t if isinstance(t, bytes) else t.encode() for t in row] for row in answer.as_numpy("x")]
    assert texts == [[b"2:1", b"0.5:0"], [b"3:0", b"2:2"]]  # of JSON, tritonclient makes str


@pytest.mark.parametrize("binary", [True, False])
def test_labels(client, binary):
    x = np.array([[0.25, 0.5, 1]], np.float32)
    answer = client.infer("pets", [tensor("x", x)],
                          outputs=[triton.InferRequestedOutput("y", binary_data=binary, class_count=3)])
    texts = [t if isinstance(t, str) else t.decode() for t in answer.as_numpy("y")[0]]
    assert texts == ["1:2:v\u00f6gel: gro\u00df", "0.5:1", "0.25:0:cat"]
    assert client.get_model_config("pets")["parameters"] == {
        "y.labels": {"string_value": "cat\n\nv\u00f6gel: gro\u00df\n"}}


def test_classes_beside_a_large_tensor(client):
    x, y = np.arange(300_000, dtype=np.float32), np.arange(5, dtype=np.int32)
    answer = client.infer("any", [tensor("x", x), tensor("y", y)],
                          outputs=[triton.InferRequestedOutput("y", class_count=1), triton.InferRequestedOutput("x")])
    assert answer.as_numpy("y").tolist() == [b"4:4"] and np.array_equal(answer.as_numpy("x"), x)


@pytest.mark.parametrize("priority", [0, 1, 3])
def test_priority_and_timeout(client, priority):
    assert np.array_equal(infer(client, priority=priority, timeout=10_000_000).as_numpy("x"), [1, 2, 3])


def test_reserved_parameters(server):
    body = {"inputs": [{"name": "x", "datatype": "INT32", "shape": [1], "data": [1]}], "parameters": {"timeout": "x"}}
    status, answer = post(server, "/v2/models/echo/infer", body)
    assert status == 400 and "'timeout' must be an integer" in answer["error"]


@pytest.fixture
def region(client):
    made = []

    def make(size):
        name = f"as_{uuid.uuid4().hex}"
        handle = shm.create_shared_memory_region(name, f"/{name}", size)
        made.append((name, handle))
        client.register_system_shared_memory(name, f"/{name}", size)
        return name, handle

    yield make
    for name, handle in made:
        client.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(handle)


@pytest.mark.parametrize("n", [10, 100_000])
@pytest.mark.parametrize("binary", [True, False])
def test_shared_memory(client, region, n, binary):
    x, y = np.arange(n, dtype=np.int32), np.arange(3, dtype=np.int64)
    where, handle = region(2 * x.nbytes)
    shm.set_shared_memory_region(handle, [x])
    lent = triton.InferInput("x", [n], "INT32")
    lent.set_shared_memory(where, x.nbytes)
    wanted = triton.InferRequestedOutput("x")
    wanted.set_shared_memory(where, x.nbytes, offset=x.nbytes)
    answer = client.infer("any", [lent, tensor("y", y, binary)],
                          outputs=[wanted, triton.InferRequestedOutput("y", binary_data=binary)])
    assert answer.get_output("x") == {"name": "x", "datatype": "INT32", "shape": [n]}  # as Triton has it
    # Triton's client in C++ takes any output with parameters for one with binary data
    assert all("binary_data_size" in o["parameters"] for o in answer.get_response()["outputs"] if "parameters" in o)
    assert np.array_equal(shm.get_contents_as_numpy(handle, np.int32, [n], offset=x.nbytes), x)
    assert np.array_equal(answer.as_numpy("y"), y)
    assert [(r["name"], r["byte_size"]) for r in client.get_system_shared_memory_status()] == [(where, 2 * x.nbytes)]


def test_ranges_that_are_refused(client, region, server):
    where, _ = region(32)
    lent = triton.InferInput("x", [8], "INT32")
    lent.set_shared_memory(where, 32, offset=1)
    refused(400, "input 'x': 32 bytes from byte 1 on are not within", client.infer, "echo", [lent])
    refused(409, "registered already", client.register_system_shared_memory, where, f"/{where}", 8)
    x = {"name": "x", "datatype": "INT32", "shape": [1], "data": [1],
         "parameters": {"shared_memory_region": where, "shared_memory_byte_size": 4}}
    status, answer = post(server, "/v2/models/echo/infer", {"inputs": [x]})
    assert status == 400 and "input 'x': data and shared_memory_region must not be mixed" in answer["error"]
    del x["data"], x["parameters"]["shared_memory_byte_size"]
    status, answer = post(server, "/v2/models/echo/infer", {"inputs": [x]})
    assert status == 400 and "without shared_memory_byte_size" in answer["error"]


def test_cuda(client):
    assert client.get_cuda_shared_memory_status() == []
    client.unregister_cuda_shared_memory()
    refused(501, "CUDA", client.register_cuda_shared_memory, "r", b"aGFuZGxl", 0, 8)
