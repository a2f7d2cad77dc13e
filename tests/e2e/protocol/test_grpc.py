"""gRPC beyond the plain call: compression, metadata, status details, health, reflection, streams, the end."""

import base64
import gzip
import json
import os
import signal
import sys
import zlib

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import proto_reflection_descriptor_database as reflection_database
from grpc_reflection.v1alpha import reflection_pb2

from support import paths, wait
from support.process import procs
from support.protocol import oip
from support.protocol.h2client import H2, messages_of, prefixed

pytestmark = [pytest.mark.core, pytest.mark.quick]
HEALTH = "grpc.health.v1.Health"
MIB = 1 << 20
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


@pytest.fixture
def http(server):
    with H2(server.host, server.port) as connection:
        yield connection


def echo_request(n, id=""):
    return oip.infer_request("echo", {"x": np.zeros(n, np.uint8)}, id=id).SerializeToString()


def outputs_of(message):
    return oip.Answer(oip.messages()["ModelInferResponse"].FromString(message)).outputs


PACK = {"gzip": gzip.compress, "deflate": zlib.compress}
UNPACK = {"gzip": gzip.decompress, "deflate": zlib.decompress}


def call_packed(http, encoding, body, accept="identity, deflate, gzip", pack=None, flag=1):
    extra = [("grpc-encoding", encoding)] + ([("grpc-accept-encoding", accept)] if accept is not None else [])
    return http.grpc(prefixed((pack or PACK[encoding])(body), compressed=flag), extra=extra)


# --- compression: what grpcio sends and takes ---

@pytest.mark.parametrize("n", [0, 10, 5000, 300_000, 3_000_000])
@pytest.mark.parametrize("algorithm", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_grpcio_compresses(client, algorithm, n):
    x = np.arange(n, dtype=np.int32)
    answer = oip.Answer(client.call("ModelInfer", oip.infer_request("echo", {"x": x}), compression=algorithm))
    assert np.array_equal(answer["x"], x)


def test_grpcio_compresses_small_calls(client):
    for algorithm in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        assert client.call("ServerLive", compression=algorithm).live
        assert client.call("ModelReady", oip.message("ModelReadyRequest", name="echo"), compression=algorithm).ready


def test_many_compressed_calls_at_once(client):
    """Also those that take many turns: none is lost or mixed up."""
    sizes = [10, 3000, 100_000, 2_000_000] * 6
    calls = [client.method("ModelInfer").future(oip.infer_request("echo", {"x": np.full(n, i % 251, np.uint8)}),
                                                timeout=oip.SECONDS, compression=grpc.Compression.Gzip)
             for i, n in enumerate(sizes)]
    for i, (n, call) in enumerate(zip(sizes, calls)):
        assert np.array_equal(oip.Answer(call.result())["x"], np.full(n, i % 251, np.uint8))


# --- compression: the answer ---

@pytest.mark.parametrize("encoding", PACK)
def test_answers_to_compressed_requests_are_compressed(http, encoding):
    reply = call_packed(http, encoding, echo_request(5000))
    ((flag, message),) = messages_of(reply.data)
    assert (reply.grpc_status, flag, reply.headers["grpc-encoding"]) == (0, 1, encoding)
    assert reply.headers["grpc-accept-encoding"] == "identity,deflate,gzip"
    assert len(message) < 200
    assert outputs_of(UNPACK[encoding](message))["x"].size == 5000


def assert_plain(reply):
    ((flag, message),) = messages_of(reply.data)
    assert (reply.grpc_status, flag, reply.headers.get("grpc-encoding")) == (0, 0, None)
    return message


def test_answers_that_are_not_compressed(http):
    assert_plain(call_packed(http, "gzip", echo_request(5000), accept=None))  # what was not listed is not used
    assert_plain(call_packed(http, "gzip", echo_request(5000), accept="identity,deflate"))
    assert_plain(call_packed(http, "gzip", echo_request(10)))  # small
    noise = oip.infer_request("echo", {"x": np.frombuffer(os.urandom(5000), np.uint8)}).SerializeToString()
    assert_plain(call_packed(http, "gzip", noise))  # it would not get smaller
    plain = [("grpc-accept-encoding", "gzip")]
    assert_plain(http.grpc(prefixed(echo_request(5000)), extra=plain))  # the request was not
    assert_plain(http.grpc(prefixed(echo_request(5000)), extra=[("grpc-encoding", "gzip"), *plain]))


def test_response_compression_always(serve, connect):
    server = serve("echo.py", "--response-compression", "always", "--min-compress-bytes", "1000")
    with H2(server.host, server.port) as http:
        reply = http.grpc(prefixed(echo_request(5000)), extra=[("grpc-accept-encoding", "identity, deflate")])
        ((flag, message),) = messages_of(reply.data)
        assert (flag, reply.headers["grpc-encoding"]) == (1, "deflate")
        overhead = len(zlib.decompress(message)) - 5000
        both = [("grpc-accept-encoding", "deflate,gzip")]
        assert http.grpc(prefixed(echo_request(5000)), extra=both).headers["grpc-encoding"] == "gzip"
        # the bound, and one byte below it (the length's own length is the same)
        assert http.grpc(prefixed(echo_request(1000 - overhead)), extra=both).headers.get("grpc-encoding") == "gzip"
        assert_plain(http.grpc(prefixed(echo_request(999 - overhead)), extra=both))
        assert_plain(http.grpc(prefixed(echo_request(5000))))
    x = np.arange(100_000)
    assert np.array_equal(connect(server).infer("echo", {"x": x})["x"], x)


def test_response_compression_off(serve):
    server = serve("echo.py", "--response-compression", "off")
    with H2(server.host, server.port) as http:
        assert_plain(call_packed(http, "gzip", echo_request(5000)))


# --- compression: what is wrong ---

def test_unknown_encoding(http):
    reply = http.grpc(prefixed(echo_request(1)), extra=[("grpc-encoding", "snappy")])
    assert (reply.grpc_status, "'snappy'" in reply.grpc_message) == (12, True)
    assert reply.all["grpc-accept-encoding"] == "identity,deflate,gzip"


def test_identity_is_no_encoding(http):
    extra = [("grpc-encoding", "identity")]
    assert http.grpc(prefixed(echo_request(1)), extra=extra).grpc_status == 0
    reply = http.grpc(prefixed(echo_request(1), compressed=1), extra=extra)
    assert (reply.grpc_status, "grpc-encoding" in reply.grpc_message) == (13, True)


@pytest.mark.parametrize("encoding", PACK)
@pytest.mark.parametrize("pack", [lambda b: b, lambda b: b"", lambda b: gzip.compress(b)[:-1],
                                  lambda b: zlib.compress(b) + b"!", lambda b: gzip.compress(b) * 2,
                                  lambda b: gzip.compress(b)[:-8] + b"12345678"],
                         ids=["plain", "empty", "cut", "byte_too_many", "two_members", "checksum"])
def test_what_cannot_be_inflated(http, encoding, pack):
    reply = call_packed(http, encoding, echo_request(100), pack=pack)
    assert (reply.grpc_status, f"valid {encoding}" in reply.grpc_message) == (13, True)
    assert http.grpc(prefixed(echo_request(1))).grpc_status == 0


def test_compressed_message_in_single_bytes(http):
    body = prefixed(gzip.compress(echo_request(100)), compressed=1)
    stream = http.open_grpc(extra=[("grpc-encoding", "gzip")])
    for i in range(len(body)):
        http.send(stream, body[i:i + 1], end=i == len(body) - 1)
    assert http.reply(stream).grpc_status == 0


@pytest.fixture(scope="module")
def tight(serve_module):
    return serve_module("echo.py", "--max-inflated-bytes", MIB, "--max-inflight-bytes", 4 * MIB, "--connection-share", 100)


def padded(n):
    """An echo of exactly n bytes."""
    body = echo_request(n - 200)
    rest = n - len(body) - 3
    assert 0 < rest < 16384
    return body + b"\x9a\x06" + bytes([rest]) + bytes(rest) if rest < 128 else \
        body + b"\x9a\x06" + bytes([rest - 1 & 127 | 128, rest - 1 >> 7]) + bytes(rest - 1)


def test_inflated_limit(tight):
    with H2(tight.host, tight.port) as http:
        assert len(padded(MIB)) == MIB
        assert call_packed(http, "gzip", padded(MIB)).grpc_status == 0
        reply = call_packed(http, "gzip", padded(MIB + 1))
        assert (reply.grpc_status, f"--max-inflated-bytes {MIB}" in reply.grpc_message) == (8, True)


def peak(pid):
    return procs.status(pid, "VmHWM")


@pytest.mark.parametrize("encoding", PACK)
def test_bombs(tight, encoding):
    """A gigabyte in a megabyte: refused at the limit, its memory bounded, others served meanwhile."""
    deflate = zlib.compressobj(9, wbits=31 if encoding == "gzip" else 15)
    # after a full flush what follows leans on nothing before it: the second block may come again and again
    first, block = (deflate.compress(bytes(16 * MIB)) + deflate.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    bomb = first + block * 63
    before = peak(tight.dispatcher)
    with H2(tight.host, tight.port) as http, oip.Client(tight.address) as other:
        streams = [http.open_grpc(extra=[("grpc-encoding", encoding)]) for _ in range(3)]
        for stream in streams:
            http.send(stream, prefixed(bomb, compressed=1), end=True)
        assert other.infer("echo", {"x": np.ones(3)})["x"].size == 3
        for stream in streams:
            reply = http.reply(stream)
            assert reply.grpc_status == 8
            assert "--max-inflated-bytes" in reply.grpc_message or "--max-inflight-bytes" in reply.grpc_message
    if not procs.is_sanitized(tight.dispatcher):
        assert peak(tight.dispatcher) - before < 16 << 10  # KiB


def test_inflated_bytes_are_of_the_budget(tight):
    """Uploads hold all but one MiB: an inflated message of a MiB has no room beside what it came from."""
    with H2(tight.host, tight.port) as holder, H2(tight.host, tight.port) as http:
        holder.send(holder.open_grpc(), prefixed(bytes(3 * MIB - 1), length=3 * MIB))
        wait.until(lambda: tight.status()["server"]["inflight_bytes"] == 3 * MIB, lambda: tight.status()["server"])
        reply = call_packed(http, "gzip", padded(MIB))
        assert (reply.grpc_status, "--max-inflight-bytes" in reply.grpc_message) == (8, True)
        assert call_packed(http, "gzip", echo_request(10_000)).grpc_status == 0


def test_client_that_leaves_while_its_message_is_inflated(server):
    bomb = gzip.compress(bytes(60 * MIB))
    for _ in range(3):
        with H2(server.host, server.port) as http:
            stream = http.open_grpc(extra=[("grpc-encoding", "gzip")])
            http.send(stream, prefixed(bomb, compressed=1), end=True)
            http.conn.reset_stream(stream)
            http.flush()
            assert http.grpc(prefixed(echo_request(1))).grpc_status == 0
            http.send(http.open_grpc(extra=[("grpc-encoding", "gzip")]), prefixed(bomb, compressed=1), end=True)


# --- metadata ---

def facts(http, extra):
    reply = http.grpc(prefixed(oip.infer_request("facts", {}).SerializeToString()), extra=extra)
    assert reply.grpc_status == 0, reply
    ((_, message),) = messages_of(reply.data)
    found = oip.Answer(oip.messages()["ModelInferResponse"].FromString(message)).parameters
    return {k.removeprefix("metadata."): v for k, v in found.items() if k.startswith("metadata.")}


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\xff", b"abc", bytes(range(256))])
def test_binary_metadata_with_and_without_padding(http, value):
    text = base64.b64encode(value).decode()
    assert facts(http, [("x-a-bin", text), ("x-b-bin", text.rstrip("="))]) == \
        {"x-a-bin": value.hex(), "x-b-bin": value.hex()}


def test_joined_values(http):
    """Several values of a key: text is joined, of bytes the last one counts, joined by a proxy or not."""
    assert facts(http, [("x-a", "1"), ("x-a", "2"), ("x-b-bin", "AA"), ("x-b-bin", "AQ=="), ("x-c-bin", "AA==,AQ, Ag")]) \
        == {"x-a": "1, 2", "x-b-bin": "01", "x-c-bin": "02"}


def test_metadata_of_grpcio(client):
    metadata = [("x-user", "ada"), ("x-raw-bin", bytes(range(256))), ("x-raw-bin", b"last")]
    found = client.infer("facts", {}, metadata=metadata).parameters
    assert (found["metadata.x-user"], found["metadata.x-raw-bin"]) == ("ada", b"last".hex())


def test_too_much_metadata(server, client, http):
    """--max-header-bytes and --max-headers: gRPC's status for gRPC calls, 431 for others."""
    for metadata in ([("x-long", "v" * 17_000)], [(f"x-{i}", "v") for i in range(110)]):
        error = client.refused("echo", {}, metadata=metadata)
        assert (error.code(), "--max-header" in error.details()) == (grpc.StatusCode.RESOURCE_EXHAUSTED, True)
        assert http.request("GET", "/v2", metadata).headers[":status"] == "431"
    assert http.request("GET", "/v2").headers[":status"] == "200"


def test_too_many_entries_for_a_handler(http):
    """A header of many values is many entries; 128 are handed over, less the user agent."""
    def send(n):
        return http.grpc(prefixed(echo_request(1)), extra=[("x-bin", ",".join(["AA"] * n))])
    assert send(128).grpc_status == 0
    reply = send(129)
    assert (reply.grpc_status, "128 entries" in reply.grpc_message) == (8, True)


def test_te_is_needed(http):
    stream = http.open_grpc("ServerLive", te=None)
    http.send(stream, prefixed(b""), end=True)
    reply = http.reply(stream)
    assert (reply.grpc_status, "te: trailers" in reply.grpc_message) == (13, True)


# --- status details ---

def details_of(error, kind):
    status = status_pb2.Status.FromString(oip.trailers_of(error)["grpc-status-details-bin"])
    assert (status.code, status.message) == (error.code().value[0], error.details())
    (packed,) = status.details
    found = kind()
    assert packed.Unpack(found)
    return found


def test_details_name_the_field(client):
    error = client.refused("add", {"a": np.zeros(2, np.float64), "b": np.zeros(2, np.float32)})
    (violation,) = details_of(error, error_details_pb2.BadRequest).field_violations
    assert (violation.field, violation.description) == ("inputs.a", error.details())


def test_no_details_where_there_is_nothing_to_say(client):
    assert "grpc-status-details-bin" not in oip.trailers_of(client.refused("nope", {}))


def test_details_of_a_full_queue(serve, stage, connect):
    stage.reset()
    server = serve("staged.py", "--max-queued-requests", "1", env={"ANYSERVE_TEST_STAGE": stage.path})
    client = connect(server)
    calls = [client.begin("staged", {})]
    stage.started(1)
    calls.append(client.begin("staged", {}))
    wait.until(lambda: server.deployment()["queued"] + server.deployment()["prefetched"] == 1, "one to wait")
    error = client.refused("staged", {})
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    delay = details_of(error, error_details_pb2.RetryInfo).retry_delay
    assert delay.ToMilliseconds() == int(oip.trailers_of(error)["grpc-retry-pushback-ms"]) > 0
    for i, call in enumerate(calls):
        stage.started(i + 1)[i].go()
        call.result()


# --- health ---

class Health:
    def __init__(self, client):
        self.stub = health_pb2_grpc.HealthStub(client.channel)

    def check(self, service=""):
        return self.stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=oip.SECONDS).status

    def watch(self, service=""):
        return self.stub.Watch(health_pb2.HealthCheckRequest(service=service), timeout=oip.SECONDS)

    def list(self):
        found = self.stub.List(health_pb2.HealthListRequest(), timeout=oip.SECONDS)
        return {k: v.status for k, v in found.statuses.items()}


@pytest.fixture
def health(client):
    return Health(client)


@pytest.mark.parametrize("service", ["", oip.SERVICE, "echo", "echo:1", "add"])
def test_check(health, service):
    assert health.check(service) == SERVING


@pytest.mark.parametrize("service", ["nope", "echo:2", "echo:", ":1", "ECHO", HEALTH, "x" * 1000])
def test_check_unknown(health, service):
    with pytest.raises(grpc.RpcError) as e:
        health.check(service)
    assert e.value.code() == grpc.StatusCode.NOT_FOUND
    assert service[:100] in e.value.details()


def test_list(health):
    models = ["echo", "parameters", "facts", "add", "split"]
    assert health.list() == dict.fromkeys(["", oip.SERVICE, *models, *(f"{m}:1" for m in models)], SERVING)


def test_watch_unknown(health):
    watch = health.watch("nope")
    assert next(watch).status == SERVICE_UNKNOWN
    watch.cancel()


@pytest.mark.parametrize("threads", [1, 3])
def test_watch_sees_changes(serve, connect, threads):
    """A worker goes and comes again; every watcher on every loop hears of it."""
    server = serve("echo.py", "--threads", str(threads), "--restart-backoff", "500ms", "--restart-healthy-after", "1h")
    clients = [Health(connect(server)) for _ in range(4)]
    services = ["", oip.SERVICE, "echo", "add:1"]
    watches = [h.watch(s) for h in clients for s in services]
    gone = clients[0].watch("nope")
    assert [next(w).status for w in watches] == [SERVING] * 16
    assert next(gone).status == SERVICE_UNKNOWN
    server.expect_error("echo-0")
    procs.kill(server.worker(), signal.SIGKILL)
    assert [next(w).status for w in watches] == [NOT_SERVING] * 16
    assert [next(w).status for w in watches] == [SERVING] * 16
    for watch in (*watches, gone):
        watch.cancel()


def slow_start(tmp_path, **application):
    """A deployment file, and the file that keeps its model from starting."""
    (tmp_path / "slow_start.py").write_text(SLOW_START)
    hold = tmp_path / "hold"
    hold.touch()
    path = tmp_path / "anyserve.yaml"
    path.write_text(json.dumps({"applications": [{
        **application, "working_dir": str(tmp_path), "env": {"HOLD": str(hold), "PYTHONPATH": str(paths.SDK)},
        "deployments": [{"name": "slow_start"}]}]}))
    return path, hold


def begin(serve, path):
    """The address of a server of which no worker is there yet."""
    server = serve(path, "--state-dir", path.parent / "state", verb="start", wait_ready=False)
    port = server.log.wait(r"address +(\S+):(\d+)")
    server.log.wait("event=controller_ready")
    # the one that has answered while the code was loaded is gone
    wait.until(lambda: sum(" dispatcher " in procs.command(p) for p in server.family()) == 1, server.log.text)
    return server, f"{port[1]}:{port[2]}"


def test_watch_of_a_model_that_comes(serve, connect, tmp_path):
    """SERVICE_UNKNOWN until a worker has registered it: a command is not asked what it declares."""
    path, hold = slow_start(tmp_path, command=[sys.executable, "-m", "anyserve.worker", "slow_start.py"])
    server, address = begin(serve, path)
    client = connect(address)
    watch, whole = Health(client).watch("late"), Health(client).watch("")
    assert (next(watch).status, next(whole).status) == (SERVICE_UNKNOWN, NOT_SERVING)
    with pytest.raises(grpc.RpcError) as e:
        Health(client).check("late")
    assert e.value.code() == grpc.StatusCode.UNAVAILABLE  # it may be among those that are coming
    hold.unlink()
    server.wait_ready()
    # it is known a moment before it can be called
    assert [next(watch).status, next(watch).status] == [NOT_SERVING, SERVING]
    assert next(whole).status == SERVING
    watch.cancel()
    whole.cancel()


def test_watch_of_a_model_that_is_declared(serve, connect, tmp_path):
    """NOT_SERVING until its worker serves: the code has said that there is such a model."""
    path, hold = slow_start(tmp_path, import_path="slow_start:app")
    server, address = begin(serve, path)
    client = connect(address)
    watch = Health(client).watch("late")
    first = next(watch).status
    if first == SERVICE_UNKNOWN:  # the controller has not been heard yet
        first = next(watch).status
    assert first == NOT_SERVING
    assert Health(client).check("late") == NOT_SERVING
    hold.unlink()
    server.wait_ready()
    assert next(watch).status == SERVING
    watch.cancel()


SLOW_START = """
import os, time
from anyserve import AnyServe
app = AnyServe()

@app.model("late")
class Late:
    def __init__(self):
        while os.path.exists(os.environ["HOLD"]):
            time.sleep(0.005)
    def __call__(self, request):
        return request.inputs
"""


def test_watch_is_one_question(http):
    for body, text in ((prefixed(b"") * 2, "more than one"), (b"", "got none"), (prefixed(b"\xff"), "malformed"),
                       (prefixed(b"x" * 65537), "65536"), (b"\7", "flag"), (prefixed(b"abc")[:-1], "inside a message")):
        stream = http.open_grpc("Watch", service=HEALTH)
        http.send(stream, body, end=True)
        reply = http.reply(stream)
        assert reply.grpc_status not in (None, 0) and text in reply.grpc_message, reply


def test_deadline_of_a_stream(http):
    """Also for a client without a clock of its own; the server looks once a second."""
    stream = http.open_grpc("Watch", service=HEALTH, extra=[("grpc-timeout", "500m")])
    http.send(stream, prefixed(b""))
    reply = http.reply(stream)
    assert (messages_of(reply.data), reply.trailers["grpc-status"]) == ([(0, b"\x08\x01")], "4")


def test_watch_counts_as_a_request(serve, connect):
    """An idle connection is closed, a watching one is not."""
    server = serve("echo.py", "--idle-timeout", "300ms")
    watch = Health(connect(server)).watch()
    assert next(watch).status == SERVING
    with H2(server.host, server.port) as idle:
        idle.request("GET", "/v2")
        while idle.read():
            pass
    assert watch.is_active()
    watch.cancel()


# --- reflection ---

NAMES = {oip.SERVICE, HEALTH, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}


def test_reflection_database(client):
    db = reflection_database.ProtoReflectionDescriptorDatabase(client.channel)
    assert set(db.get_services()) == NAMES
    from google.protobuf.descriptor_pool import DescriptorPool
    pool = DescriptorPool(db)
    service = pool.FindServiceByName(oip.SERVICE)
    assert {m.name for m in service.methods} >= {"ModelInfer", "ServerLive", "ModelMetadata"}
    assert pool.FindMessageTypeByName("inference.ModelInferRequest").fields_by_name["raw_input_contents"].number == 7
    assert pool.FindServiceByName(HEALTH).methods_by_name["Watch"].server_streaming
    assert list(db.FindAllExtensionNumbers("inference.ModelInferRequest")) == []
    with pytest.raises(KeyError):
        db.FindFileContainingSymbol("no.Such")
    with pytest.raises(KeyError):
        db.FindFileByName("no.proto")


def question(**fields):
    return reflection_pb2.ServerReflectionRequest(**fields)


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_is_a_conversation(client, version):
    """One answer per question, in order, while both sides stay open."""
    info = client.channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                                        lambda m: m.SerializeToString(),
                                        reflection_pb2.ServerReflectionResponse.FromString)
    questions = [question(list_services=""), question(file_by_filename="open_inference.proto"),
                 question(file_containing_symbol="no.Such"),
                 question(file_containing_extension={"containing_type": "no.Such", "extension_number": 7}),
                 question(host="h", file_containing_symbol=HEALTH)]
    import queue
    to_send = queue.Queue()
    call = info(iter(to_send.get, None), timeout=oip.SECONDS)
    for asked in questions:
        to_send.put(asked)
        answer = next(call)
        assert answer.original_request == asked and answer.valid_host == asked.host
    assert answer.WhichOneof("message_response") == "file_descriptor_response"
    to_send.put(None)
    assert list(call) == []
    assert call.code() == grpc.StatusCode.OK


def open_reflection(http, **kwargs):
    return http.open_grpc("ServerReflectionInfo", service="grpc.reflection.v1.ServerReflection", **kwargs)


def test_several_messages_in_a_frame_and_one_over_many(http):
    body = b"".join(prefixed(question(list_services=str(i)).SerializeToString()) for i in range(1000))
    for step in (len(body), 7):
        stream = open_reflection(http)
        for at in range(0, len(body), step):
            http.send(stream, body[at:at + step], end=at + step >= len(body))
        reply = http.reply(stream)
        assert reply.grpc_status == 0
        answers = [reflection_pb2.ServerReflectionResponse.FromString(m) for _, m in messages_of(reply.data)]
        assert [a.original_request.list_services for a in answers] == [str(i) for i in range(1000)]


def test_compressed_messages_on_a_stream(http):
    """Each message says by its flag whether it is compressed; order is kept, also behind a slow one."""
    stream = open_reflection(http, extra=[("grpc-encoding", "gzip")])
    questions = [question(list_services="x" * (60_000 if i % 3 else 1) + str(i)) for i in range(40)]
    body = b"".join(prefixed(gzip.compress(q.SerializeToString()), 1) if i % 2 else prefixed(q.SerializeToString())
                    for i, q in enumerate(questions))
    http.send(stream, body, end=True)
    reply = http.reply(stream)
    assert reply.grpc_status == 0
    answers = [reflection_pb2.ServerReflectionResponse.FromString(m) for _, m in messages_of(reply.data)]
    assert [a.original_request for a in answers] == questions


def test_wrong_messages_on_a_stream(http):
    good = prefixed(question(list_services="").SerializeToString())
    for body, status in ((b"\7", 13), (prefixed(b"\xff"), 3), (prefixed(b"x" * 65537), 8), (prefixed(b"abc")[:-1], 13),
                         (prefixed(b"", 1), 13), (prefixed(gzip.compress(bytes(65537)), 1), 8)):
        stream = open_reflection(http, extra=[("grpc-encoding", "gzip")] if status == 8 else ())
        http.send(stream, good + body, end=True)
        reply = http.reply(stream)
        assert reply.trailers["grpc-status"] == str(status), reply
        assert len(messages_of(reply.data)) <= 1
    assert http.grpc(prefixed(b""), method="ServerLive").grpc_status == 0


def test_slow_reader(server, connect):
    """A client that asks and does not read: the server stops reading it, and goes on when it reads."""
    asked = prefixed(question(file_containing_symbol="no.such.Symbol").SerializeToString())
    client, before = connect(server), peak(server.dispatcher)
    with H2(server.host, server.port) as http:
        http.request("GET", "/v2")  # its windows are known
        http.is_reading = False
        stream = open_reflection(http)
        n = 8000  # a client that reads nothing is owed some 300 KB at most
        for _ in range(n):
            http.conn.send_data(stream, asked)
        http.flush()
        assert client.call("ServerLive").live
        wait.until(lambda: server.status()["server"]["inflight_bytes"] > n // 4 * len(asked), "questions to wait unread")
        if not procs.is_sanitized(server.dispatcher):
            assert peak(server.dispatcher) - before < 8 << 10  # KiB
        http.resume()
        http.send(stream, b"", end=True)
        reply = http.reply(stream)
        assert reply.grpc_status == 0
        assert len(messages_of(reply.data)) == n


def test_streams_that_are_left(server):
    """By reset or by the end of the connection, in every state: nothing stays (checked after the test)."""
    asked = prefixed(question(file_containing_symbol=oip.SERVICE).SerializeToString())
    for body in (b"", b"\0\0", asked, asked * 500, asked + asked[:-1]):
        for how in ("reset", "close"):
            with H2(server.host, server.port) as http:
                http.is_reading = False
                watch = http.open_grpc("Watch", service=HEALTH)
                http.send(watch, prefixed(b""))
                stream = open_reflection(http)
                http.send(stream, body)
                if how == "reset":
                    http.conn.reset_stream(stream)
                    http.conn.reset_stream(watch)
                    http.flush()
                    assert http.grpc(prefixed(b""), method="ServerLive").grpc_status == 0


# --- the end ---

def test_drain_ends_streams(serve, connect):
    """Watchers hear that it is over and are let go, so that they do not hold up the end."""
    server = serve("echo.py", "--goaway-grace", "200ms", "--drain-timeout", "1h")
    watch = Health(connect(server)).watch()
    assert next(watch).status == SERVING
    with H2(server.host, server.port) as http:
        stream = open_reflection(http)
        http.send(stream, prefixed(question(list_services="").SerializeToString()))
        while not http.replies[stream].data:  # else the server may be ending before it has read the question
            assert http.read()
        procs.kill(server.supervisor, signal.SIGTERM)
        assert next(watch).status == NOT_SERVING
        with pytest.raises(grpc.RpcError):
            next(watch)
        assert watch.code() == grpc.StatusCode.UNAVAILABLE
        reply = http.reply(stream)
        assert reply.trailers["grpc-status"] == "14"
        assert len(messages_of(reply.data)) == 1
    server.ended()


def test_streams_behind_the_last_goaway_are_not_processed(serve, stage):
    """Between the two GOAWAYs calls are served; behind the second one a client may safely try elsewhere."""
    stage.reset()
    server = serve("staged.py", "--goaway-grace", "300ms", env={"ANYSERVE_TEST_STAGE": stage.path})
    with H2(server.host, server.port) as http:
        held = http.open_grpc()
        http.send(held, prefixed(oip.infer_request("staged", {}).SerializeToString()), end=True)
        (scene,) = stage.started(1)
        procs.kill(server.supervisor, signal.SIGTERM)
        while not http.goaways:
            http.read()
        assert http.goaways == [2**31 - 1]
        between = http.grpc(prefixed(b""), method="ServerLive")
        assert between.grpc_status == 0
        while len(http.goaways) < 2:
            http.read()
        assert http.goaways[1] >= held
        late = http.open_grpc("ServerLive")
        http.send(late, prefixed(b""), end=True)
        assert late > http.goaways[1]
        scene.go()
        assert http.reply(held).grpc_status == 0
        while http.read():
            pass
        reply = http.replies[late]
        assert reply.headers == {} and reply.reset in (None, 7), reply  # REFUSED_STREAM, or passed over
    server.ended()
