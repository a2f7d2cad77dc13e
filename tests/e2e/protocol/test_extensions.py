"""Triton's extensions over gRPC, by tritonclient: configuration, statistics, repository, shared memory, priorities,
classification, settings."""

import concurrent.futures
import json
import os
import uuid

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.utils.shared_memory as shm
from grpc_health.v1 import health_pb2
from tritonclient.utils import InferenceServerException

from support import wait
from support.protocol import oip
from support.protocol.raw import HOST, Raw

pytestmark = [pytest.mark.core, pytest.mark.quick]
ALLOWED = ("--allow-client-shm", "--allow-client-control")
MIB = 1 << 20
APP = '''
import numpy as np
from anyserve import AnyServe, Error, Tensor

app = AnyServe()


@app.model("echo", inputs={"x": Tensor("INT32", [-1])}, outputs={"x": Tensor("INT32", [-1])})
def echo(x):
    return {"x": x}


@app.model("echo:2", inputs={"x": Tensor("INT32", [-1])}, outputs={"x": Tensor("INT32", [-1])})
def echo2(x):
    return {"x": x}


@app.model("any")
def any_tensors(request):
    return request.inputs


@app.model("pets", inputs={"x": Tensor("FP32", [-1, 3])},
           outputs={"y": Tensor("FP32", [-1, 3], labels=["cat", "", "v\u00f6gel: gro\u00df"])})
def pets(x):
    return {"y": x}


@app.model("fails")
def fails(request):
    raise Error("not today")
'''


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("extensions.py", *ALLOWED, source=APP)


@pytest.fixture
def scenes(stage):
    yield stage
    stage.reset()


@pytest.fixture
def client(server):
    client = triton.InferenceServerClient(server.address)
    yield client
    client.close()


def tensor(name, array, datatype=None):
    t = triton.InferInput(name, list(array.shape), datatype or oip.datatype_of(array))
    t.set_data_from_numpy(array)
    return t


def infer(client, model="echo", x=(1, 2, 3), **kwargs):
    return client.infer(model, [tensor("x", np.array(x, np.int32))], **kwargs)


def refused(status, text, call, *args, **kwargs):
    with pytest.raises(InferenceServerException) as e:
        call(*args, **kwargs)
    assert e.value.status() == f"StatusCode.{status}", e.value
    assert text in e.value.message(), e.value


# --- configuration ---

def test_model_config(client):
    config = client.get_model_config("echo", as_json=True)["config"]
    assert config["name"] == "echo" and config["platform"] == "python" and config["backend"] == "anyserve"
    tensor = {"name": "x", "data_type": "TYPE_INT32", "dims": ["-1"]}
    assert [dict(t) for t in config["input"]] == [tensor]
    assert [dict(t) for t in config["output"]] == [tensor]
    assert "all" in config["version_policy"]
    config = client.get_model_config("any").config
    assert not config.input and not config.output and config.max_batch_size == 0
    assert not config.HasField("dynamic_batching") and not config.model_transaction_policy.decoupled


def test_config_and_statistics_of_batches(serve):
    source = """
import numpy as np
from anyserve import AnyServe, Batching, Tensor

app = AnyServe()


@app.model("rows", inputs={"x": Tensor("INT32", [3])}, outputs={"x": Tensor("INT32", [3])},
           batching=Batching(max_batch_size=8, max_wait_ms=2, preferred_sizes=[4]))
def rows(x):
    return {"x": x}
"""
    server = serve("rows.py", source=source)
    with triton.InferenceServerClient(server.address) as client:
        config = client.get_model_config("rows").config
        assert config.max_batch_size == 8 and list(config.input[0].dims) == list(config.output[0].dims) == [3]
        batching = config.dynamic_batching
        assert list(batching.preferred_batch_size) == [4] and batching.max_queue_delay_microseconds == 2000
        assert batching.priority_levels == 3 and batching.default_priority_level == 2
        assert list(client.get_model_metadata("rows").inputs[0].shape) == [-1, 3]
        client.infer("rows", [tensor("x", np.zeros((5, 3), np.int32))])
        row = stats_of(client, "rows")["1"]
        assert (row.inference_count, row.execution_count, row.inference_stats.success.count) == (5, 1, 1)
        for n in (5, 1, 8):
            client.infer("rows", [tensor("x", np.zeros((n, 3), np.int32))])
        row = stats_of(client, "rows")["1"]
        assert [(b.batch_size, b.compute_infer.count) for b in row.batch_stats] == [(1, 1), (5, 2), (8, 1)]
        assert (row.inference_count, row.execution_count) == (19, 4)
        for part in ("compute_input", "compute_infer", "compute_output"):  # each call had one request
            sums = [getattr(b, part) for b in row.batch_stats]
            assert sum(s.ns for s in sums) == getattr(row.inference_stats, part).ns
            assert [s.count for s in sums] == [1, 2, 1]


def test_statistics_of_requests_that_share_a_call(serve):
    """Four requests in a call of six items: one fails alone, and the call is one execution."""
    source = """
import numpy as np
from anyserve import AnyServe, Batching, Error, Tensor

app = AnyServe()


@app.model("rows", inputs={"x": Tensor("INT32", [])}, outputs={"x": Tensor("INT32", [])},
           batching=Batching(max_batch_size=6, max_wait_ms=20000, as_list=True))
def rows(x):
    return [Error("OUT_OF_RANGE", "not this one") if a[0] < 0 else {"x": a} for a in x]
"""
    server = serve("rows.py", source=source)
    with triton.InferenceServerClient(server.address) as client:
        futures = []
        for x in ([1], [-1], [2, 2], [3, 3]):
            future = concurrent.futures.Future()
            client.async_infer("rows", [tensor("x", np.array(x, np.int32))],
                               lambda result, error, f=future: f.set_result(error))
            futures.append(future)
        errors = [f.result(oip.SECONDS) for f in futures]
        assert [e is not None for e in errors] == [False, True, False, False]
        row = stats_of(client, "rows")["1"]
        assert (row.inference_count, row.execution_count) == (5, 1)
        assert (row.inference_stats.success.count, row.inference_stats.fail.count) == (3, 1)
        (batch,) = row.batch_stats
        assert (batch.batch_size, batch.compute_infer.count) == (6, 1)
        lines = server.metrics().splitlines()
        of = '{model="rows",version="1",application="default",deployment="rows"'
        assert f"anyserve_model_batch_size_sum{of}}} 6" in lines
        assert f'anyserve_model_batch_size_bucket{of},le="4"}} 0' in lines
        assert f'anyserve_model_batch_size_bucket{of},le="8"}} 1' in lines
        assert f"anyserve_model_queue_duration_seconds_count{of}}} 3" in lines


def test_config_of_what_is_not_there(client):
    refused("NOT_FOUND", "unknown model 'nothing'", client.get_model_config, "nothing")
    refused("NOT_FOUND", "'echo' has no version '7'", client.get_model_config, "echo", "7")


# --- statistics ---

def stats_of(client, model, version=""):
    return {s.version: s for s in client.get_inference_statistics(model, version).model_stats}


def test_statistics_count(client):
    before = stats_of(client, "echo")
    for _ in range(5):
        infer(client, model_version="2")
    after = stats_of(client, "echo")
    assert set(after) == {"1", "2"}
    was, now = before["2"], after["2"]
    assert now.inference_count - was.inference_count == now.execution_count - was.execution_count == 5
    assert now.last_inference > was.last_inference
    stats = now.inference_stats
    for part in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
        assert getattr(stats, part).count - getattr(was.inference_stats, part).count == 5, part
    assert stats.fail.count == was.inference_stats.fail.count
    assert stats.cache_hit.count == stats.cache_miss.count == 0
    parts = stats.queue.ns + stats.compute_input.ns + stats.compute_infer.ns + stats.compute_output.ns
    assert stats.success.ns == parts and stats.compute_infer.ns > 0 and stats.compute_output.ns > 0
    calls = now.execution_count - was.execution_count
    assert calls == 5 and [b.batch_size for b in now.batch_stats] == [1]
    assert now.batch_stats[0].compute_infer.count == now.execution_count
    assert after["1"] == before["1"]


def test_statistics_of_failures(client):
    before = stats_of(client, "fails")["1"].inference_stats
    for _ in range(3):
        refused("INTERNAL", "not today", infer, client, "fails")
    after = stats_of(client, "fails")["1"].inference_stats
    assert after.fail.count - before.fail.count == 3 and after.fail.ns > before.fail.ns
    assert after.success.count == before.success.count


def test_last_inference_is_on_the_wall_clock(client):
    import time
    earliest = int(time.time() * 1000) - 1
    infer(client, "any")
    latest = int(time.time() * 1000) + 1
    assert earliest <= stats_of(client, "any")["1"].last_inference <= latest


def test_statistics_of_all(client):
    found = {(s.name, s.version) for s in client.get_inference_statistics().model_stats}
    assert found == {("echo", "1"), ("echo", "2"), ("any", "1"), ("fails", "1"), ("pets", "1")}
    assert set(stats_of(client, "echo", "2")) == {"2"}
    refused("NOT_FOUND", "unknown model", client.get_inference_statistics, "nothing")


def test_statistics_from_another_loop(serve):
    """Clients of every loop are told the same numbers, which one loop keeps."""
    server = serve("extensions.py", "--threads", "3", source=APP)
    for _ in range(12):  # the kernel gives each connection to some loop
        with oip.Client(server.address) as client:
            n = client.call("ModelStatistics", oip.message("ModelStatisticsRequest", name="echo", version="1"))
            client.infer("echo", {"x": np.zeros(1, np.int32)}, version="1")
            m = client.call("ModelStatistics", oip.message("ModelStatisticsRequest", name="echo", version="1"))
            assert m.model_stats[0].inference_count - n.model_stats[0].inference_count == 1
    assert m.model_stats[0].inference_count == 12


# --- what is offered ---

def test_extensions_with_everything(client):
    assert set(client.get_server_metadata().extensions) == {
        "binary_tensor_data", "classification", "model_configuration", "parameters", "schedule_policy", "statistics", "model_repository",
        "logging", "system_shared_memory"}


def test_extensions_without_permissions(serve):
    server = serve("words.py", source=APP.replace("echo:2", "echo:beta"))
    with triton.InferenceServerClient(server.address) as client:
        assert set(client.get_server_metadata().extensions) == {
            "binary_tensor_data", "classification", "model_configuration", "parameters", "schedule_policy"}
        assert not client.get_system_shared_memory_status().regions
        client.unregister_system_shared_memory()
        refused("PERMISSION_DENIED", "--allow-client-shm", client.register_system_shared_memory, "r", "/r", 8)
        refused("PERMISSION_DENIED", "--allow-client-control", client.unload_model, "echo")
        refused("PERMISSION_DENIED", "--allow-client-control", client.update_log_settings, {"log_info": False})
        assert client.get_log_settings().settings["log_info"].bool_param
        lent = triton.InferInput("x", [2], "INT32")
        lent.set_shared_memory("r", 8)
        refused("PERMISSION_DENIED", "--allow-client-shm", client.infer, "echo", [lent])


# --- repository ---

def index_of(client):
    return {(m.name, m.version): (m.state, m.reason) for m in client.get_model_repository_index().models}


def test_unload_and_load(client, server):
    with oip.Client(server.address) as other:
        assert index_of(client)["echo", "1"] == ("READY", "")
        client.unload_model("echo")
        try:
            states = index_of(client)
            assert states["echo", "1"] == states["echo", "2"] == ("UNAVAILABLE", "unloaded")
            assert states["any", "1"] == ("READY", "")
            assert not client.is_model_ready("echo") and not client.is_model_ready("echo", "2")
            assert client.is_server_ready()
            refused("NOT_FOUND", "unloaded", infer, client)
            refused("NOT_FOUND", "unloaded", infer, client, model_version="1")
            refused("NOT_FOUND", "unloaded", client.get_model_metadata, "echo")
            refused("NOT_FOUND", "unloaded", client.get_model_config, "echo")
            assert ("echo", "1") not in {(s.name, s.version) for s in client.get_inference_statistics().model_stats}
            ready = other.call("RepositoryIndex", oip.message("RepositoryIndexRequest", ready=True)).models
            assert {m.name for m in ready} == {"any", "fails", "pets"}
        finally:
            client.load_model("echo")
    assert index_of(client)["echo", "1"] == ("READY", "")
    assert client.is_model_ready("echo")
    assert np.array_equal(infer(client).as_numpy("x"), [1, 2, 3])
    client.load_model("echo")  # again


def test_health_follows(client, server):
    with grpc.insecure_channel(server.address) as channel:
        watch = channel.unary_stream("/grpc.health.v1.Health/Watch",
                                     request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                                     response_deserializer=health_pb2.HealthCheckResponse.FromString)
        states = watch(health_pb2.HealthCheckRequest(service="any"), timeout=oip.SECONDS)
        assert next(states).status == 1
        client.unload_model("any")
        assert next(states).status == 2
        client.load_model("any")
        assert next(states).status == 1
        states.cancel()


def test_what_is_in_flight_ends_well(serve, scenes):
    server = serve("staged.py", *ALLOWED, env={"ANYSERVE_TEST_STAGE": scenes.path})
    with oip.Client(server.address) as client, triton.InferenceServerClient(server.address) as control:
        running = client.begin("staged", {}, id="one")
        handler = scenes.started(1)[0]
        control.unload_model("staged")
        refused("NOT_FOUND", "unloaded", control.infer, "staged", [tensor("x", np.zeros(1, np.int32))])
        handler.go("done")
        running.result()


def test_overrides_are_refused(client):
    refused("UNIMPLEMENTED", "parameter 'config'", client.load_model, "echo", config="{}")
    refused("UNIMPLEMENTED", "is not supported", client.load_model, "echo", config="{}", files={"file:1/model": b"x"})
    refused("NOT_FOUND", "failed to load 'nothing'", client.load_model, "nothing")
    refused("NOT_FOUND", "failed to unload 'nothing'", client.unload_model, "nothing")
    client.unload_model("any", unload_dependents=True)
    client.load_model("any")


# --- schedule policy and parameters ---

@pytest.mark.parametrize("priority", [0, 1, 2, 3, 2**63])
def test_priority_and_timeout_are_taken(client, priority):
    assert np.array_equal(infer(client, priority=priority, timeout=10_000_000).as_numpy("x"), [1, 2, 3])


def test_handlers_do_not_see_them(serve):
    with triton.InferenceServerClient(serve("echo.py").address) as client:
        answer = client.infer("parameters", [tensor("x", np.zeros(1, np.int32))], priority=1, timeout=10_000_000,
                              parameters={"mine": 7}).get_response()
    assert oip.parameters_of(answer.parameters) == {"mine": 7}


def test_timeout_ends_a_request(serve, scenes):
    server = serve("staged.py", env={"ANYSERVE_TEST_STAGE": scenes.path})
    with triton.InferenceServerClient(server.address) as client:
        refused("DEADLINE_EXCEEDED", "deadline", client.infer, "staged", [tensor("x", np.zeros(1, np.int32))],
                request_id="late", timeout=50_000)
        scenes.started(1)[0].go()


def test_the_urgent_goes_first(serve, scenes):
    """One worker that is busy, a request of each priority waits: they run in order of priority."""
    server = serve("staged.py", "--max-prefetch", "0", env={"ANYSERVE_TEST_STAGE": scenes.path})
    with oip.Client(server.address) as client:
        calls = [client.begin("staged", {}, id="first")]
        scenes.started(1)
        for waiting, priority in enumerate((3, 2, 0, 1), 1):
            calls.append(client.begin("staged", {}, id=f"p{priority}", parameters={"priority": priority}))
            wait.until(lambda: server.deployment()["queued"] == waiting, "the request waits")
        for n in range(len(calls)):
            scenes.started(n + 1)[n].go()
        for call in calls:
            call.result()
    assert scenes.tags() == ["first", "p1", "p2", "p0", "p3"]


@pytest.mark.parametrize("name, value, text", [
    ("priority", "high", "'priority' must be an integer"),
    ("priority", -1, "'priority' must be an integer"),
    ("timeout", 1.5, "'timeout' must be an integer"),
    ("headers", "x", "'headers' is reserved"),
    ("triton_something", True, "'triton_something' is reserved"),
])
def test_reserved_parameters(server, name, value, text):
    with oip.Client(server.address) as client:
        error = client.refused("any", {}, parameters={name: value})
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT and text in error.details()


# --- classification ---

def classes(client, array, k, name="x", datatype=None):
    asked = triton.InferRequestedOutput(name, class_count=k)
    return client.infer("any", [tensor("x", array, datatype)], outputs=[asked]).as_numpy(name)


def test_classification(client):
    assert classes(client, np.array([0.1, 0.7, -3, 0.2], np.float32), 2).tolist() == [b"0.7:1", b"0.2:3"]
    two = classes(client, np.array([[1, 9, 5], [7, 7, -1]], np.int64), 3)
    assert two.tolist() == [[b"9:1", b"5:2", b"1:0"], [b"7:0", b"7:1", b"-1:2"]]
    assert classes(client, np.arange(4, dtype=np.uint8), 100).tolist() == [b"3:3", b"2:2", b"1:1", b"0:0"]
    assert classes(client, np.zeros((0, 3), np.float32), 2).shape == (0, 0)


def test_labels(client):
    x = np.array([[0.25, 0.5, 1], [3, 2, 1]], np.float32)
    asked = triton.InferRequestedOutput("y", class_count=3)
    texts = client.infer("pets", [tensor("x", x)], outputs=[asked]).as_numpy("y")
    bird = "v\u00f6gel: gro\u00df".encode()
    assert texts.tolist() == [[b"1:2:" + bird, b"0.5:1", b"0.25:0:cat"], [b"3:0:cat", b"2:1", b"1:2:" + bird]]
    config = client.get_model_config("pets").config
    assert {k: v.string_value for k, v in config.parameters.items()} == {"y.labels": "cat\n\nv\u00f6gel: gro\u00df\n"}
    assert not config.output[0].label_filename
    assert not client.get_model_config("echo").config.parameters


def test_classification_of_a_large_output(client):
    x = np.random.default_rng(5).permutation(300_000).astype(np.float32).reshape(3, -1)
    got = classes(client, x, 5)
    best = np.argsort(-x, axis=1)[:, :5]
    assert [[int(t.split(b":")[1]) for t in row] for row in got] == best.tolist()


def test_classes_beside_a_tensor(client):
    x, y = np.arange(100_000, dtype=np.float32), np.arange(5, dtype=np.int32)
    answer = client.infer("any", [tensor("x", x), tensor("y", y)],
                          outputs=[triton.InferRequestedOutput("y", class_count=1), triton.InferRequestedOutput("x")])
    assert answer.as_numpy("y").tolist() == [b"4:4"] and np.array_equal(answer.as_numpy("x"), x)


def test_no_classes(client):
    refused("INVALID_ARGUMENT", "output 'x': there are no classes in BYTES", classes, client,
            np.array([b"a"], object), 1)
    refused("INVALID_ARGUMENT", "output 'x': classification asks for more than", classes, client,
            np.zeros(2_000_000, np.uint8), 2_000_000)


# --- shared memory ---

@pytest.fixture
def region(client):
    """region(bytes) → (name, handle), registered; gone after the test."""
    made = []

    def make(size, register=True):
        name = f"as_{uuid.uuid4().hex}"
        handle = shm.create_shared_memory_region(name, f"/{name}", size)
        made.append((name, handle))
        if register:
            client.register_system_shared_memory(name, f"/{name}", size)
        return name, handle

    yield make
    for name, handle in made:
        client.unregister_system_shared_memory(name)
        shm.destroy_shared_memory_region(handle)


def lent(name, array, where, offset=0):
    t = triton.InferInput(name, list(array.shape), oip.datatype_of(array))
    t.set_shared_memory(where, array.nbytes, offset=offset)
    return t


def wanted(name, where, size, offset=0):
    o = triton.InferRequestedOutput(name)
    o.set_shared_memory(where, size, offset=offset)
    return o


@pytest.mark.parametrize("n", [1, 1000, 100_000, 3_000_000])
def test_tensors_in_shared_memory(client, region, n):
    x = np.arange(n, dtype=np.int32)
    into, handle_in = region(x.nbytes + 64)
    out, handle_out = region(x.nbytes + 8)
    shm.set_shared_memory_region(handle_in, [x], offset=64)
    answer = client.infer("echo", [lent("x", x, into, 64)], outputs=[wanted("x", out, x.nbytes, 8)])
    assert np.array_equal(shm.get_contents_as_numpy(handle_out, np.int32, [n], offset=8), x)
    output = answer.get_output("x")
    assert list(output.shape) == [n] and output.datatype == "INT32"
    assert oip.parameters_of(output.parameters) == {
        "shared_memory_region": out, "shared_memory_offset": 8, "shared_memory_byte_size": x.nbytes}
    assert list(answer.get_response().raw_output_contents) == [b""]


def shared_request(where, n):
    """ModelInfer of n INT32 in a region, as plain HTTP."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "INT32", "shape": [n], "parameters": {
        "shared_memory_region": where, "shared_memory_byte_size": 4 * n}}], "outputs": [{"name": "none"}]}).encode()
    return (b"POST /v2/models/echo/infer HTTP/1.1\r\n" + HOST + f"Content-Length: {len(body)}\r\n\r\n".encode() + body)


def test_a_client_leaves_while_its_tensors_are_copied(server, region):
    """What is left of it is seen when the server is at rest."""
    n = 12_000_000
    where, _ = region(4 * n)
    for i in range(4):
        with Raw(server) as leaves, Raw(server) as other:
            leaves.sock.sendall(shared_request(where, n))
            if i % 2:
                other.sock.sendall(b"GET /v2/health/live HTTP/1.1\r\n" + HOST + b"\r\n")
                assert other.until(b"true")


def test_a_large_region_that_became_smaller(server, region):
    n = 1_000_000
    where, _ = region(4 * n)
    os.truncate(f"/dev/shm/{where}", 8)
    with Raw(server) as raw:
        raw.sock.sendall(shared_request(where, n))
        assert raw.until(b"input 'x': shared memory region '.*' has become smaller")


@pytest.mark.parametrize("n", [3, 50_000, 400_000])
def test_some_in_shared_memory(client, region, n):
    """Raw contents go to those that are not there."""
    a, b, c = (np.arange(n, dtype=np.int64) * k for k in (1, 2, 3))
    where, handle = region(b.nbytes)
    shm.set_shared_memory_region(handle, [b])
    answer = client.infer("any", [tensor("a", a), lent("b", b, where), tensor("c", c)])
    for name, array in (("a", a), ("b", b), ("c", c)):
        assert np.array_equal(answer.as_numpy(name), array), name
    # the first of the outputs goes out, the second into the region
    answer = client.infer("any", [tensor("a", a), lent("b", b, where)],
                          outputs=[triton.InferRequestedOutput("b"), wanted("a", where, a.nbytes)])
    assert np.array_equal(answer.as_numpy("b"), b)
    assert np.array_equal(shm.get_contents_as_numpy(handle, np.int64, [n]), a)


def test_texts_in_shared_memory(client, region):
    texts = np.array([b"one", b"", "drei".encode()], object)
    raw = oip.pack_bytes(texts)
    where, handle = region(len(raw))
    shm.set_shared_memory_region(handle, [np.frombuffer(raw, np.uint8)])
    t = triton.InferInput("x", [3], "BYTES")
    t.set_shared_memory(where, len(raw))
    assert client.infer("any", [t]).as_numpy("x").tolist() == texts.tolist()
    t = triton.InferInput("x", [4], "BYTES")
    t.set_shared_memory(where, len(raw))
    refused("INVALID_ARGUMENT", "input 'x': 19 bytes of shared memory are not its BYTES", client.infer, "any", [t])


def test_status_and_unregister(client, region):
    one, _ = region(100)
    two, _ = region(200)
    status = client.get_system_shared_memory_status().regions
    assert {(r.name, r.key, r.offset, r.byte_size) for r in status.values()} == {
        (one, f"/{one}", 0, 100), (two, f"/{two}", 0, 200)}
    assert list(client.get_system_shared_memory_status(two).regions) == [two]
    client.unregister_system_shared_memory(one)
    client.unregister_system_shared_memory(one)
    assert list(client.get_system_shared_memory_status().regions) == [two]
    refused("NOT_FOUND", one, client.get_system_shared_memory_status, one)
    client.unregister_system_shared_memory()
    assert not client.get_system_shared_memory_status().regions


def test_registrations_that_are_refused(client, region):
    name, _ = region(100)
    register = client.register_system_shared_memory
    refused("ALREADY_EXISTS", f"'{name}' is registered already", register, name, f"/{name}", 100)
    refused("NOT_FOUND", "cannot open 'as_nothing'", register, "r", "/as_nothing", 8)
    refused("INVALID_ARGUMENT", "101 bytes from byte 0 on are not within", register, "r", f"/{name}", 101)
    refused("INVALID_ARGUMENT", "are not within", register, "r", f"/{name}", 100, offset=1)
    refused("INVALID_ARGUMENT", "are not within", register, "r", f"/{name}", 2, offset=2**64 - 1)
    refused("INVALID_ARGUMENT", "are not within", register, "r", f"/{name}", 2**64 - 1, offset=2)
    refused("INVALID_ARGUMENT", "has no bytes", register, "r", f"/{name}", 0)
    refused("INVALID_ARGUMENT", "1 to 255 bytes", register, "", f"/{name}", 8)
    for key in ("", "/", "..", "/../etc/passwd", "a/b", "x" * 300):
        refused("INVALID_ARGUMENT", "is not the name of an object", register, "r", key, 8)
    assert list(client.get_system_shared_memory_status().regions) == [name]


def test_ranges_that_are_refused(client, region):
    x = np.arange(8, dtype=np.int32)
    where, handle = region(32)
    refused("INVALID_ARGUMENT", f"input 'x': 32 bytes from byte 1 on are not within shared memory region '{where}'",
            client.infer, "echo", [lent("x", x, where, 1)])
    refused("INVALID_ARGUMENT", "input 'x': there is no shared memory region 'nothing'", client.infer, "echo",
            [lent("x", x, "nothing")])
    refused("INVALID_ARGUMENT", "are not within", client.infer, "echo", [lent("x", x, where, 2**63 - 1)])
    t = triton.InferInput("x", [9], "INT32")
    t.set_shared_memory(where, 32)
    refused("INVALID_ARGUMENT", "input 'x': 32 bytes of shared memory, shape [9] of INT32 needs 36", client.infer,
            "echo", [t])
    refused("INVALID_ARGUMENT", "output 'x': 33 bytes from byte 0", client.infer, "echo", [tensor("x", x)],
            outputs=[wanted("x", where, 33)])
    refused("INVALID_ARGUMENT", "output 'x': its 32 bytes do not fit into the 31", client.infer, "echo",
            [tensor("x", x)], outputs=[wanted("x", where, 31)])
    assert np.array_equal(infer(client).as_numpy("x"), [1, 2, 3])


def test_a_region_that_shrinks(client, region):
    """Nobody dies of it: reading and writing say so."""
    x = np.arange(5000, dtype=np.int32)
    where, handle = region(x.nbytes)
    os.truncate(f"/dev/shm/{where}", 100)
    refused("INVALID_ARGUMENT", f"shared memory region '{where}' has become smaller", client.infer, "echo",
            [lent("x", x, where)])
    refused("INVALID_ARGUMENT", f"shared memory region '{where}' has become smaller", client.infer, "echo",
            [tensor("x", x)], outputs=[wanted("x", where, x.nbytes)])
    assert os.path.getsize(f"/dev/shm/{where}") == 100
    os.truncate(f"/dev/shm/{where}", x.nbytes)
    assert not client.infer("echo", [lent("x", x, where)]).as_numpy("x")[100:].any()


def test_unregistered_while_in_use(serve, scenes):
    """The answer's region is gone when it comes: an error, and nothing else."""
    server = serve("staged.py", *ALLOWED, env={"ANYSERVE_TEST_STAGE": scenes.path})
    name = f"as_{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region(name, f"/{name}", 64)
    try:
        with triton.InferenceServerClient(server.address) as client:
            client.register_system_shared_memory(name, f"/{name}", 64)
            results = []
            client.async_infer("staged", [lent("x", np.zeros(4, np.int32), name)],
                               callback=lambda result, error: results.append(error), request_id="late",
                               outputs=[wanted("word", name, 64)])
            handler = scenes.started(1)[0]
            client.unregister_system_shared_memory(name)
            handler.go()
            wait.until(lambda: results, "the answer")
    finally:
        shm.destroy_shared_memory_region(handle)
    assert f"there is no shared memory region '{name}'" in str(results[0])


@pytest.mark.parametrize("n", [2, 3])
def test_limits_of_regions(serve, n):
    """--max-shm-regions and --max-shm-bytes, at the limit and one beyond."""
    server = serve("extensions.py", *ALLOWED, "--max-shm-regions", "2", "--max-shm-bytes", "1000", source=APP)
    name = f"as_{uuid.uuid4().hex}"
    handle = shm.create_shared_memory_region(name, f"/{name}", 1001)
    try:
        with triton.InferenceServerClient(server.address) as client:
            if n == 2:
                client.register_system_shared_memory("a", f"/{name}", 400)
                refused("RESOURCE_EXHAUSTED", "--max-shm-bytes", client.register_system_shared_memory, "b", f"/{name}",
                        601)
                client.register_system_shared_memory("b", f"/{name}", 600)
            else:
                client.register_system_shared_memory("a", f"/{name}", 1)
                client.register_system_shared_memory("b", f"/{name}", 1)
                refused("RESOURCE_EXHAUSTED", "--max-shm-regions", client.register_system_shared_memory, "c",
                        f"/{name}", 1)
            client.unregister_system_shared_memory()
    finally:
        shm.destroy_shared_memory_region(handle)


def test_cuda(client):
    assert not client.get_cuda_shared_memory_status().regions
    client.unregister_cuda_shared_memory()
    client.unregister_cuda_shared_memory("any")
    refused("UNIMPLEMENTED", "CUDA", client.register_cuda_shared_memory, "r", b"aGFuZGxl", 0, 8)


# --- settings ---

def test_trace_settings(client):
    settings = {k: list(v.value) for k, v in client.get_trace_settings().settings.items()}
    assert settings["trace_level"] == ["OFF"] and "trace_rate" in settings
    client.update_trace_settings(settings={"trace_level": ["OFF"], "trace_rate": None})
    refused("UNIMPLEMENTED", "'trace_level' cannot be changed", client.update_trace_settings,
            settings={"trace_level": ["TIMESTAMPS"]})
    refused("NOT_FOUND", "unknown model", client.get_trace_settings, "nothing")


def test_log_settings(client, server):
    settings = client.get_log_settings().settings
    assert settings["log_info"].bool_param and settings["log_error"].bool_param
    assert settings["log_verbose_level"].uint32_param == 0
    try:
        assert client.update_log_settings({"log_verbose_level": 1}).settings["log_verbose_level"].uint32_param == 1
        server.log.wait("event=log_level level=debug")
        assert client.update_log_settings({"log_verbose_level": 0}).settings["log_info"].bool_param
        quiet = client.update_log_settings({"log_info": False}).settings
        assert not quiet["log_info"].bool_param and quiet["log_warning"].bool_param
        refused("INVALID_ARGUMENT", "log_error cannot be switched off", client.update_log_settings,
                {"log_error": False})
        refused("INVALID_ARGUMENT", "log_warning cannot be off", client.update_log_settings,
                {"log_warning": False, "log_info": True})
        refused("UNIMPLEMENTED", "'log_file' cannot be changed", client.update_log_settings, {"log_file": "/tmp/x"})
        refused("INVALID_ARGUMENT", "unknown log setting", client.update_log_settings, {"log_colour": True})
        with oip.Client(server.address) as other:
            request = oip.message("LogSettingsRequest")
            request.settings["log_info"].uint32_param = 1
            error = other.refused("LogSettings", request, send=other.call)
            assert "'log_info' must be true or false" in error.details()
    finally:
        client.update_log_settings({"log_info": True})


# --- the messages are Triton's ---

def fields_of(descriptor):
    return {(f.number, f.name, f.type, f.is_repeated) for f in descriptor.fields}


def test_our_messages_are_a_part_of_theirs():
    """Every field of ours has the number, name and type that tritonclient's messages have."""
    from tritonclient.grpc import model_config_pb2, service_pb2
    theirs = {**service_pb2.DESCRIPTOR.message_types_by_name, **model_config_pb2.DESCRIPTOR.message_types_by_name}
    ours = oip.messages()
    checked = 0
    for name, cls in ours.items():
        path = name.split(".")
        other = theirs.get(path[0])
        for part in path[1:]:
            other = other and other.nested_types_by_name.get(part)
        if other is None:
            continue
        assert fields_of(cls.DESCRIPTOR) <= fields_of(other), name
        checked += 1
    assert checked > 50
