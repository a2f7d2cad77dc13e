"""Workers that register: the management service over gRPC and JSON, over TCP and its unix socket; who may, and what
is refused with which words. What the workers then answer: tests of the simple protocol."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import threading
import time

import grpc
import numpy as np
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from support import paths, tool, wait
from support.process import procs
from support.protocol import oip, protobuf
from support.protocol.management import RPCS, SERVICE, Grpc, messages, post, unix_path
from support.protocol.simple import Echo, echo

pytestmark = [pytest.mark.core, pytest.mark.quick]

TOKEN = "a-Token.of_ours~+/="
CALL = {"x": np.arange(3, dtype=np.float32)}
INVALID, NOT_FOUND, EXISTS, DENIED, UNAUTHENTICATED = (
    grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAUTHENTICATED)


@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def server(serve_module, token_file):
    return serve_module(None, "--management", "127.0.0.1:0", "--management-token-file", token_file,
                        "--worker-heartbeat-timeout", "1h", "--ping-interval", "200ms")


@pytest.fixture(scope="module")
def tcp(server):
    return server.log.wait(r"management  (\S+)")[1]


@pytest.fixture(scope="module")
def unix(server):
    return unix_path(server)


@pytest.fixture
def worker(server):
    with Echo(server) as echo:
        yield echo


@pytest.fixture
def manager(unix):
    with Grpc(unix) as m:
        yield m


def fields_of(worker, model="m", **more):
    return {"model_name": model, "worker_address": worker.address, "worker_id": "w", **more}


def workers(server):
    return json.loads(tool.run(server, "workers", "--json").out)["workers"]


def leave(unix, model="m", version="", worker="w"):
    """Unregisters and waits until nobody knows the worker."""
    assert post(unix, "UnregisterModel", {"model_name": model, "model_version": version, "worker_id": worker})[0] == 200


# --- the three calls, on each way ---

@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_over_grpc(server, client, worker, unix, tcp, way):
    with Grpc(unix if way == "unix" else tcp, None if way == "unix" else TOKEN) as manager:
        answer = manager.call("RegisterModel", **fields_of(worker, worker_id="w.1", platform="by hand"))
        assert answer.success and answer.epoch > 0 and answer.heartbeat_interval_ms == 5000
        assert np.array_equal(client.infer("m", CALL)["x"], CALL["x"])
        assert manager.call("Heartbeat", worker_id="w.1").healthy
        assert manager.call("Heartbeat", worker_id="w.1", model_names=["m"]).healthy
        assert not manager.call("Heartbeat", worker_id="w.1", model_names=["m", "n"]).healthy
        assert not manager.call("Heartbeat", worker_id="w.2").healthy
        assert manager.refused("UnregisterModel", model_name="m", worker_id="w.1", epoch=answer.epoch + 1) \
            == (NOT_FOUND, f"worker 'w.1' has no registration {answer.epoch + 1} of model 'm' version '1'")
        assert manager.call("UnregisterModel", model_name="m", worker_id="w.1", epoch=answer.epoch).success
        assert not manager.call("Heartbeat", worker_id="w.1").healthy
        assert manager.refused("UnregisterModel", model_name="m", worker_id="w.1")[0] == NOT_FOUND
    wait.until(lambda: client.refused("m", CALL).code() == NOT_FOUND, "the model is still known")


@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_over_json(server, client, worker, unix, tcp, way):
    at, headers = (unix, {}) if way == "unix" else (tcp, {"authorization": f"Bearer {TOKEN}"})
    status, _, answer = post(at, "RegisterModel", {"modelName": "m", "workerAddress": worker.address, "workerId": "w",
                                                   "options": {"maxOngoingRequests": "2"}}, headers)
    assert status == 200, answer
    assert answer == {"success": True, "message": "registered", "epoch": answer["epoch"], "heartbeatIntervalMs": 5000}
    assert int(answer["epoch"]) > 0  # a string: it has 64 bits
    (found,) = workers(server)
    assert found["slots"] == 2
    assert np.array_equal(client.infer("m", CALL)["x"], CALL["x"])
    assert post(at, "Heartbeat", {"worker_id": "w", "model_names": ["m"]}, headers)[2] == {"healthy": True}
    assert post(at, "UnregisterModel", {"model_name": "m", "worker_id": "w", "epoch": answer["epoch"]}, headers)[2] == {
        "success": True, "message": "unregistered"}
    assert post(at, "Heartbeat", {"workerId": "w"}, headers)[2] == {"healthy": False}
    status, _, answer = post(at, "UnregisterModel", {"modelName": "m", "workerId": "w"}, headers)
    assert (status, answer) == (404, {"error": "worker 'w' has not registered model 'm' version '1'"})


def test_with_curl(server, worker, unix, tcp):
    body = json.dumps(fields_of(worker))
    for where in (["--unix-socket", unix, "http://localhost"],
                  ["-H", f"authorization: bearer {TOKEN}", "--http2-prior-knowledge", f"http://{tcp}"]):
        done = subprocess.run(["curl", "-sS", "-d", body, *where[:-1], f"{where[-1]}/{SERVICE}/RegisterModel"],
                              capture_output=True, text=True, timeout=60)
        assert json.loads(done.stdout)["success"], done
    leave(unix)


# --- who may ---

def test_token(tcp):
    wrong = {"missing": [], "is not 'Bearer": [("authorization", "Basic x")],
             "twice": [("authorization", f"Bearer {TOKEN}")] * 2}
    wrong |= {"is not 'Bearer TOKEN'": [("authorization", "Bearer")]}
    with Grpc(tcp) as manager:
        for text, metadata in wrong.items():
            code, details = manager.refused("Heartbeat", worker_id="w", metadata=metadata)
            assert code == UNAUTHENTICATED and text in details, (metadata, code, details)
        for bad in (TOKEN[:-1], TOKEN + "x", TOKEN.lower(), "x" * len(TOKEN)):
            assert manager.refused("Heartbeat", worker_id="w", metadata=[("authorization", f"Bearer {bad}")]) == (
                UNAUTHENTICATED, "wrong token")


def test_token_of_plain_http(tcp):
    for headers in ({}, {"authorization": "Bearer x"}):
        status, got, body = post(tcp, "Heartbeat", {"worker_id": "w"}, headers)
        assert (status, got["www-authenticate"]) == (401, "Bearer") and list(body) == ["error"]
    # also where there is nothing, and for what would be answered to clients
    assert post(tcp, None, b"", path="/nothing")[0] == 401
    assert post(tcp, None, b"", method="GET", path="/v2/health/live")[0] == 401
    status, _, body = post(tcp, "Heartbeat", {"worker_id": "w"}, {"authorization": f"Bearer {TOKEN}", "origin": "http://a"})
    assert status == 403 and "web pages" in body["error"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_another_user(server, unix):
    """The folders keep others out; the kernel's word counts even when they do not."""
    code = "import os, socket, sys; s = socket.socket(socket.AF_UNIX); s.connect('/proc/self/fd/3/management.sock');" \
           "s.sendall(b'POST /x HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n'); print(s.recv(100))"
    before = server.metrics().split('management_refused_total{reason="user"} ')[1].split()[0]
    folder = os.open(os.path.dirname(unix), os.O_RDONLY | os.O_DIRECTORY)
    os.chmod(unix, 0o666)
    os.chmod(os.path.dirname(unix), 0o711)
    try:
        done = subprocess.run(["/usr/bin/python3", "-c", code.replace("/fd/3/", f"/fd/{folder}/")], pass_fds=[folder], user=65534,
                              group=65534, extra_groups=[], capture_output=True, text=True, timeout=60)
    finally:
        os.chmod(os.path.dirname(unix), 0o700)
        os.chmod(unix, 0o600)
        os.close(folder)
    assert done.stdout == "b''\n" or "Error" in done.stderr, done
    after = server.metrics().split('management_refused_total{reason="user"} ')[1].split()[0]
    assert int(after) == int(before) + 1
    server.log.wait(r'management_refused reason="another user" uid=65534')


def test_only_at_its_door(server, client, unix):
    """Clients find nothing of it on their port, and workers nothing of the clients' here."""
    with Grpc(server.address) as wrong:
        for rpc in RPCS:
            assert wrong.refused(rpc)[0] == grpc.StatusCode.UNIMPLEMENTED
    assert post(server.address, "Heartbeat", {})[0] == 404
    call = grpc.insecure_channel(f"unix:{unix}", oip.UNLIMITED)
    with call:
        live = call.unary_unary("/inference.GRPCInferenceService/ServerLive", lambda m: m, lambda m: m)
        with pytest.raises(grpc.RpcError) as e:
            live(b"", timeout=oip.SECONDS)
        assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED
    assert post(unix, None, b"", method="GET", path="/v2")[0] == 404
    assert post(unix, None, b"", method="GET", path="/v2/health/live")[2] == {"live": True}
    status, headers, _ = post(unix, "Heartbeat", b"", method="GET")
    assert (status, headers["allow"]) == (405, "POST, OPTIONS")


def test_health_and_reflection(unix):
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
    with grpc.insecure_channel(f"unix:{unix}", oip.UNLIMITED) as channel:
        check = health_pb2_grpc.HealthStub(channel).Check
        assert check(health_pb2.HealthCheckRequest(service=SERVICE), timeout=oip.SECONDS).status == 1
        found = ProtoReflectionDescriptorDatabase(channel)
        assert SERVICE in found.get_services()
        assert "inference.GRPCInferenceService" not in found.get_services()
        assert found.FindFileContainingSymbol(f"{SERVICE}.RegisterModel").name == "worker_management.proto"


def test_while_the_server_drains(serve, connect):
    """Workers are served until the end; who asks is told that the server is not ready."""
    from grpc_health.v1 import health_pb2, health_pb2_grpc
    begun, go = threading.Event(), threading.Event()

    def slow(q):
        begun.set()
        go.wait(wait.SECONDS)
        return echo(q)

    server = serve(None, "--goaway-grace", "20ms")
    unix = unix_path(server)
    with Echo(server, handle=slow) as worker, grpc.insecure_channel(f"unix:{unix}", oip.UNLIMITED) as channel:
        assert post(unix, "RegisterModel", fields_of(worker))[0] == 200
        health = health_pb2_grpc.HealthStub(channel)
        told = health.Watch(health_pb2.HealthCheckRequest(), timeout=oip.SECONDS)
        assert next(told).status == 1
        call = connect(server).begin("m", CALL)
        assert begun.wait(wait.SECONDS)
        server.log.wait("Ready")
        procs.kill(server.supervisor, signal.SIGTERM)
        assert next(told).status == 2
        assert post(unix, None, b"", method="GET", path="/v2/health/ready")[:3:2] == (503, {"ready": False, "live": True})
        for service, status in (("", 2), ("m", 2), (SERVICE, 1)):
            assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=oip.SECONDS).status == status
        assert post(unix, "Heartbeat", {"worker_id": "w"})[2] == {"healthy": True}
        told.cancel()
        go.set()
        assert np.array_equal(oip.Answer(call.result())["x"], CALL["x"])
    server.ended()


# --- what is refused, and with which words ---

BAD = [
    ({"model_name": ""}, INVALID, "model_name: ''"),
    ({"model_name": "a b"}, INVALID, "model_name: 'a b'"),
    ({"model_name": "a/../b"}, INVALID, "model_name"),
    ({"model_name": "a\0b"}, INVALID, "model_name"),
    ({"model_name": "m" * 129}, INVALID, "model_name"),
    ({"model_version": "1/2"}, INVALID, "model_version: '1/2'"),
    ({"model_version": "1" * 65}, INVALID, "model_version"),
    ({"worker_id": ""}, INVALID, "worker_id: ''"),
    ({"worker_id": "w/1"}, INVALID, "worker_id: 'w/1'"),
    ({"worker_id": "w" * 129}, INVALID, "worker_id"),
    ({"worker_address": ""}, INVALID, "worker_address: ''"),
    ({"worker_address": "/tmp/x"}, INVALID, "worker_address: '/tmp/x' is not unix:///PATH"),
    ({"worker_address": "tcp://127.0.0.1:1"}, INVALID, "worker_address"),
    ({"worker_address": "unix://relative"}, INVALID, "worker_address"),
    ({"worker_address": "unix:///"}, INVALID, "worker_address"),
    ({"worker_address": "unix:///tmp/x\0y"}, INVALID, "worker_address"),
    ({"worker_address": "unix:///etc/passwd"}, DENIED, "/etc/passwd"),
    ({"platform": "p" * 129}, INVALID, "platform: longer than 128"),
    ({"options": {"max_ongoing_requests": 65536}}, INVALID, "options.max_ongoing_requests: 65536 is above 65535"),
    ({"options": {"max_queued_requests": -2}}, INVALID, "options.max_queued_requests: -2"),
    ({"options": {"max_queued_requests": 10_000_001}}, INVALID, "options.max_queued_requests: 10000001"),
    ({"signature": {"inputs": [{"name": "", "datatype": "FP32"}]}}, INVALID, "signature.inputs[0].name: missing"),
    ({"signature": {"inputs": [{"name": "x", "datatype": "FLOAT"}]}}, INVALID, "signature.inputs[0].datatype: 'FLOAT'"),
    ({"signature": {"outputs": [{"name": "x", "datatype": "FP32", "shape": [1, -2]}]}}, INVALID,
     "signature.outputs[0].shape[1]: -2 is below -1"),
    ({"signature": {"outputs": [{"name": "x", "datatype": "FP32", "shape": [1] * 33}]}}, INVALID,
     "signature.outputs[0].shape: more than 32"),
    ({"signature": {"inputs": [{"name": "x", "datatype": "FP32", "labels": ["a"]}]}}, INVALID,
     "signature.inputs[0].labels: only outputs have them"),
    ({"signature": {"outputs": [{"name": "x", "datatype": "BYTES", "labels": ["a"]}]}}, INVALID,
     "signature.outputs[0].labels: BYTES has no classes"),
    ({"signature": {"outputs": [{"name": "x", "datatype": "FP32", "labels": ["a", "b\nc"]}]}}, INVALID,
     "signature.outputs[0].labels[1]: not a line of text"),
    ({"signature": {"inputs": [{"name": "x", "datatype": "FP32"}] * 2}}, INVALID, "'x' is given twice"),
    ({"signature": {"inputs": [{"name": f"x{i}", "datatype": "FP32"} for i in range(4097)]}}, INVALID,
     "signature.inputs: more than 4096"),
]


@pytest.mark.parametrize("change, code, text", BAD, ids=lambda v: str(v)[:40] if isinstance(v, dict) else "")
def test_bad_registration(server, worker, manager, unix, change, code, text):
    fields = fields_of(worker, **change)
    got = manager.refused("RegisterModel", **fields)
    assert got[0] == code and text in got[1], got
    status, _, body = post(unix, "RegisterModel", fields)
    assert status == {INVALID: 400, DENIED: 403}[code] and body == {"error": got[1]}
    assert workers(server) == []


def test_places_of_sockets(server, worker, manager, tmp_path):
    """Below the folder, no link, no other file, somebody listens."""
    folder = os.path.dirname(worker.path)
    outside, link, inner = str(tmp_path / "s"), os.path.join(folder, "link"), os.path.join(folder, "dir")
    os.symlink(worker.path, link)
    os.symlink(str(tmp_path), inner)
    listener, dead = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
    listener.bind(outside)
    listener.listen()
    dead.bind(os.path.join(folder, "dead"))
    dead.close()
    with open(os.path.join(folder, "file"), "w"):
        pass
    try:
        for path, codes in ((outside, (DENIED,)), (f"{folder}/../../s", (INVALID,)), (link, (DENIED,)),
                            (f"{inner}/s", (DENIED,)), (f"{folder}/../workers/w.sock", (INVALID,)),
                            (f"{folder}/file", (DENIED, INVALID)), (f"{folder}/dead", (grpc.StatusCode.UNAVAILABLE,)),
                            (f"{folder}/none", (grpc.StatusCode.UNAVAILABLE,)), (folder, (DENIED, INVALID))):
            code, text = manager.refused("RegisterModel", **fields_of(worker, worker_address=f"unix://{path}"))
            assert code in codes and "worker_address" in text, (path, code, text)
    finally:
        listener.close()
        for name in ("link", "dir", "file", "dead"):
            os.unlink(os.path.join(folder, name))
    assert workers(server) == []


def test_refusals_do_not_fill_the_log(server, worker, manager):
    """At most a line a second, and every one of them counts those that had none."""
    since, made, started = len(server.log.lines), 0, time.monotonic()
    fields = fields_of(worker, worker_address="unix:///etc/passwd")

    def counted():
        lines = [m for m in (re.search(r"event=registration_refused worker=w model=m:1 err=EDENIED reason=.* skipped=(\d+)$", line)
                             for line in server.log.lines[since:]) if m]
        return len(lines), sum(1 + int(m[1]) for m in lines)

    def refuse():
        nonlocal made
        assert manager.refused("RegisterModel", **fields)[0] == DENIED
        made += 1
        return counted()

    wait.until(lambda: refuse()[0] == 1, "nothing is logged")
    for _ in range(50):
        refuse()
    wait.until(lambda: refuse()[0] >= 2, "nothing more is logged")
    lines, told = counted()
    assert lines <= 1 + time.monotonic() - started
    # the first line may count what was refused before this test; the last of ours may have no line yet
    assert told >= made - 1 >= 50


def test_labels(server, client, worker, manager, unix):
    """What the classes are called, for clients that ask for a classification."""
    labels = ["cat", "", "vögel: groß"]
    signature = {"outputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3], "labels": labels}]}
    manager.call("RegisterModel", **fields_of(worker, signature=signature))
    q = oip.infer_request("m", {"x": np.array([[0.25, 0.5, 1]], np.float32)}, outputs=["x"])
    oip.set_parameter(q.outputs[0].parameters, "classification", 3)
    answer = oip.Answer(client.call("ModelInfer", q))
    assert answer["x"].tolist() == [["1:2:vögel: groß".encode(), b"0.5:1", b"0.25:0:cat"]]
    # they are part of what all workers of a model say
    other = {"outputs": [{**signature["outputs"][0], "labels": labels[:2]}]}
    code, text = manager.refused("RegisterModel", **fields_of(worker, worker_id="w2", signature=other))
    assert code == EXISTS and "outputs" in text
    assert post(unix, "RegisterModel", fields_of(worker, worker_id="w2", signature=signature))[0] == 200
    leave(unix)
    leave(unix, worker="w2")


def test_other_replicas(server, worker, manager, unix):
    """What contradicts the others is refused; they stay."""
    signature = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1]}]}
    manager.call("RegisterModel", **fields_of(worker, signature=signature))
    other = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2]}]}
    for change in ({"signature": other}, {"signature": {}}, {"options": {"idempotent": True}, "signature": signature}):
        code, text = manager.refused("RegisterModel", **fields_of(worker, worker_id="w2", **change))
        assert code in (INVALID, EXISTS) and text, (change, code, text)
    manager.call("RegisterModel", **fields_of(worker, worker_id="w2", signature=signature))
    assert sorted(w["worker"] for w in workers(server)) == ["w", "w2"]
    leave(unix)
    leave(unix, worker="w2")


def test_version_of_another_deployment(serve, worker, tmp_path):
    server = serve("echo.py")
    with Echo(server) as echo, Grpc(unix_path(server)) as manager:
        code, text = manager.refused("RegisterModel", **fields_of(echo, "echo"))
        assert code == EXISTS and "echo" in text, (code, text)
        manager.call("RegisterModel", **fields_of(echo, "echo", model_version="2"))
        manager.call("UnregisterModel", model_name="echo", model_version="2", worker_id="w")


def random_field(rng, depth=0):
    """Of any wire type, with a number that no message of ours has."""
    number = rng.choice([15, 16, 17, 1000, (1 << 29) - 1])
    kind = rng.choice([protobuf.VARINT, protobuf.I64, protobuf.LEN, protobuf.I32, protobuf.GROUP])
    if kind == protobuf.GROUP:
        inner = b"".join(random_field(rng, depth + 1) for _ in range(rng.randrange(3))) if depth < 5 else b""
        return protobuf.group(number, inner)
    if kind == protobuf.LEN:
        return protobuf.field(number, rng.randbytes(rng.randrange(20)))
    if kind == protobuf.VARINT:
        return protobuf.field(number, rng.getrandbits(64))
    return protobuf.tag(number, kind) + rng.randbytes(8 if kind == protobuf.I64 else 4)


def sprinkled(rng, fields):
    """The fields in their order, with unknown ones between them."""
    return b"".join(b"".join(random_field(rng) for _ in range(rng.randrange(3))) + f for f in [*fields, b""])


@pytest.mark.parametrize("seed", range(20))
def test_a_newer_worker(server, client, worker, manager, seed):
    """Fields of later versions, of every type and at every level, are skipped, as protobuf's own parser skips them."""
    rng, f = random.Random(seed), protobuf.field
    tensor = sprinkled(rng, [f(1, "x"), f(2, "FP32"), f(3, protobuf.varint(-1))])
    request = sprinkled(rng, [f(1, "newer"), f(3, worker.address), f(4, "w"),
                              f(6, sprinkled(rng, [f(1, tensor), f(2, tensor)])), f(7, sprinkled(rng, [f(1, 3)]))])
    known = messages()["RegisterModelRequest"].FromString(request)
    assert known.model_name == "newer" and known.signature.inputs[0].shape == [-1] and known.options.max_ongoing_requests == 3
    assert manager.send("RegisterModel", request).success
    (found,) = workers(server)
    assert found["slots"] == 3
    assert np.array_equal(client.infer("newer", CALL)["x"], CALL["x"])
    assert manager.send("Heartbeat", sprinkled(rng, [f(1, "w"), f(2, "newer")])).healthy
    assert manager.send("UnregisterModel", sprinkled(rng, [f(1, "newer"), f(3, "w")])).success


def test_a_newer_worker_over_json(unix, worker):
    fields = fields_of(worker, "newer", sinceVersion=7, options={"warmth": [1, {"x": None}], "max_ongoing_requests": 2})
    status, _, answer = post(unix, "RegisterModel", fields)
    assert status == 200 and answer["message"] == "registered; ignored: no field 'sinceVersion' is known here"
    assert post(unix, "Heartbeat", {"worker_id": "w", "load": 0.5})[2] == {"healthy": True}
    status, _, answer = post(unix, "UnregisterModel", {"model_name": "newer", "worker_id": "w", "why": "tired"})
    assert (status, answer["message"]) == (200, "unregistered; ignored: no field 'why' is known here")


@pytest.mark.parametrize("rpc", RPCS)
@pytest.mark.parametrize("data", [b"\x7b", b"\x7c", b"\x7b\x84\1", b"\x7b\x7a\5abcd\x7c", b"\x7e", b"\x7d\1\2\3"])
def test_malformed_unknown_fields(manager, rpc, data):
    with pytest.raises(DecodeError):
        messages()[f"{rpc}Request"].FromString(data)
    assert manager.refused(rpc, data) == (INVALID, f"malformed {rpc}Request")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"worker_id":1}', b'{"worker_id":"w","worker_id":"w"}',
                                  b'{"worker_id":"w"} x', b'\xff\xfe', b'{"worker_id":"\xff"}'])
def test_bodies_that_are_none(unix, body):
    status, _, answer = post(unix, "Heartbeat", body)
    assert status == 400 and answer["error"], answer


def test_messages_that_are_none(manager):
    for data in (b"\x0a\x05w", b"\xff" * 20, b"\x0a\x01\xff", protobuf.field(1, 7)):
        code, text = manager.refused("Heartbeat", data)
        assert code == INVALID and text


def test_limit_of_a_message(server, manager, unix):
    """--max-management-bytes, at its value and one beyond."""
    limit = 256 << 10
    body = protobuf.field(1, "w")
    body += protobuf.field(2, "m" * (limit - len(body) - 4))
    assert len(body) == limit
    assert not manager.send("Heartbeat", body).healthy
    code, text = manager.refused("Heartbeat", body + b"\0")
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "over --max-management-bytes 262144" in text
    text = b'{"worker_id":"w"' + b" " * (limit - 17) + b"}"
    assert post(unix, "Heartbeat", text)[0] == 200
    status, _, answer = post(unix, "Heartbeat", text + b" ")
    assert status == 413 and "over --max-management-bytes 262144" in answer["error"]


def test_limit_of_connections(serve):
    """--max-management-connections; clients do not count, and workers do not keep clients out."""
    server = serve(None, "--max-management-connections", "2", "--max-connections", "2")
    held = []
    try:
        for _ in range(2):
            held.append(socket.create_connection((server.host, server.port)))
            held[-1].sendall(b"PRI")
        for _ in range(2):
            held.append(socket.socket(socket.AF_UNIX))
            held[-1].connect(unix_path(server))
            held[-1].sendall(b"PRI")
        wait.until(lambda: server.status()["server"]["connections"] == 4, "not all are in")
        third = socket.socket(socket.AF_UNIX)
        third.settimeout(wait.SECONDS)
        third.connect(unix_path(server))
        try:
            assert third.recv(1) == b""
        except ConnectionResetError:
            pass
        third.close()
        held.pop().close()
        wait.until(lambda: server.status()["server"]["connections"] == 3, "the place is not free")
        assert post(unix_path(server), "Heartbeat", {"worker_id": "w"})[2] == {"healthy": False}
    finally:
        for s in held:
            s.close()


# --- the same as protobuf's own ---

def random_offer(rng, worker, i):
    def side(kind):
        return [{"name": f"{kind}{k}é", "datatype": rng.choice(["BOOL", "FP32", "INT64", "BYTES", "BF16"]),
                 "shape": [rng.choice([-1, 0, 1, 2**40]) for _ in range(rng.randrange(4))]} for k in range(rng.randrange(4))]
    q = messages()["RegisterModelRequest"](model_name=f"r{i}", worker_address=worker.address, worker_id="w")
    if rng.random() < 0.5:
        q.model_version = str(rng.randrange(100))
    if rng.random() < 0.8:
        json_format.ParseDict({"inputs": side("i"), "outputs": side("o")}, q.signature)
    if rng.random() < 0.8:
        q.options.max_ongoing_requests = rng.randrange(5)
        q.options.idempotent = rng.random() < 0.5
    return q


def test_as_protobuf_says_it(server, client, worker, manager, unix):
    """Random offers as protobuf and in both spellings of JSON: the server understands what protobuf's library meant."""
    rng = random.Random(7)
    for i in range(60):
        q = random_offer(rng, worker, i)
        way = i % 3
        if way == 0:
            manager.send("RegisterModel", q)
        else:
            text = json_format.MessageToJson(q, preserving_proto_field_name=way == 1)
            status, _, body = post(unix, "RegisterModel", text.encode())
            assert status == 200, body
        version = q.model_version or "1"
        got = client.call("ModelMetadata", oip.message("ModelMetadataRequest", name=q.model_name, version=version))
        for mine, theirs in ((q.signature.inputs, got.inputs), (q.signature.outputs, got.outputs)):
            assert [(t.name, t.datatype) for t in mine] == [(t.name, t.datatype) for t in theirs]
            for a, b in zip(mine, theirs):
                assert list(b.shape) == list(a.shape) or not a.shape
        (found,) = workers(server)
        assert found["slots"] == (q.options.max_ongoing_requests or 1)
        assert found["deployment"] == f"{q.model_name}:{version}"
        manager.call("UnregisterModel", model_name=q.model_name, model_version=version, worker_id="w")


# --- the list ---

def test_list_of_workers(serve):
    server = serve("echo.py", "--workers", "2")
    with Echo(server) as echo:
        epoch = int(post(unix_path(server), "RegisterModel", fields_of(echo, worker_id="w-1"))[2]["epoch"])
        found = workers(server)
        assert [w["kind"] for w in found] == ["native", "native", "simple"]
        native, simple = found[0], found[2]
        assert native["deployment"] == "echo" and native["pid"] == server.workers()[native["worker"]]
        assert native["heartbeat_age_seconds"] is None and native["address"] == ""
        assert (simple["worker"], simple["deployment"], simple["state"]) == ("w-1", "m:1", "ready")
        assert (simple["slots"], simple["ongoing"], simple["epoch"]) == (1, 0, epoch)
        assert 0 <= simple["heartbeat_age_seconds"] < wait.SECONDS and simple["pid"] == os.getpid()
        assert echo.path in simple["address"]
        text = tool.run(server, "workers").out
        assert text.splitlines()[0].split()[:3] == ["WORKER", "KIND", "DEPLOYMENT"]
        assert len(text.splitlines()) == 4 and "w-1" in text and echo.path in text
        leave(unix_path(server), worker="w-1")


def test_list_of_nobody(server):
    assert "(none)" in tool.run(server, "workers").out


def test_metrics(server, worker, manager, unix, tcp):
    manager.call("RegisterModel", **fields_of(worker))
    post(tcp, "Heartbeat", {})
    leave(unix)
    text = server.metrics()
    for line in ('anyserve_requests_total{method="RegisterModel",code="OK"} ',
                 'anyserve_http_requests_total{resource="management",status="200"} ',
                 'anyserve_management_refused_total{reason="token"} ', "anyserve_simple_connections_opened_total ",
                 'anyserve_simple_connections_closed_total{reason="left"} '):
        assert line in text and not text.split(line)[1].startswith("0\n"), line


# --- starting ---

def refuses(*options, code):
    done = subprocess.run([str(a) for a in (paths.BINARY, "run", "--port", "0", "--status-port", "off", *options)],
                          capture_output=True, text=True, timeout=60, cwd="/tmp")
    assert done.returncode == code, done
    return done.stderr


def test_options_that_belong_together(tmp_path, token_file):
    run = ["--runtime-dir", tmp_path / "run"]
    assert "needs --management-token-file" in refuses(*run, "--management", "127.0.0.1:0", code=2)
    assert "is for --management" in refuses(*run, "--management-token-file", token_file, code=2)
    for address in ("9000", "::1:9000", "127.0.0.1:65536", "127.0.0.1:x"):
        assert f"--management '{address}' is not ADDRESS:PORT" in refuses(
            *run, "--management", address, "--management-token-file", token_file, code=2)


def test_heartbeats_off(serve):
    server = serve(None, "--worker-heartbeat", "off", "--worker-heartbeat-timeout", "200ms", "--ping-interval", "100ms")
    with Echo(server) as echo:
        assert post(unix_path(server), "RegisterModel", fields_of(echo))[2]["heartbeatIntervalMs"] == 0
        before = workers(server)[0]["heartbeat_age_seconds"]
        wait.until(lambda: workers(server)[0]["heartbeat_age_seconds"] > before + 0.5, "time stands still")
        assert workers(server)[0]["state"] == "ready"
        leave(unix_path(server))


@pytest.mark.parametrize("text, mode, words", [(None, 0, "No such file"), ("", 0o600, "is empty"), ("\n", 0o600, "is empty"),
                                               ("a\nb", 0o600, "one line"), ("secret", 0o644, "chmod 600"),
                                               ("secret", 0o640, "chmod 600")])
def test_bad_token_file(tmp_path, text, mode, words):
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    out = refuses("--runtime-dir", tmp_path / "run", "--management", "127.0.0.1:0", "--management-token-file", path, code=78)
    assert words in out and str(path) in out


def test_busy_address(tcp, token_file, tmp_path):
    out = refuses("--runtime-dir", tmp_path / "run", "--management", tcp, "--management-token-file", token_file, code=75)
    assert "is taken by the server on port " in out and "--management ADDRESS:N" in out


def test_after_a_restart_of_the_dispatcher(serve, token_file):
    """The listeners stay; workers learn from their heartbeat that they are to register again."""
    server = serve(None, "--management", "127.0.0.1:0", "--management-token-file", token_file)
    tcp, unix = server.log.wait(r"management  (\S+)")[1], unix_path(server)
    with Echo(server) as echo:
        post(unix, "RegisterModel", fields_of(echo))
        before = server.dispatcher
        os.kill(before, 9)
        for at, headers in ((unix, {}), (tcp, {"authorization": f"Bearer {TOKEN}"})):
            assert post(at, "Heartbeat", {"worker_id": "w"}, headers)[2] == {"healthy": False}
        assert server.dispatcher != before
        assert post(unix, "RegisterModel", fields_of(echo))[0] == 200
        leave(unix)
