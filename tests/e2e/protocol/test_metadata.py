"""What a server says of itself: liveness, metadata, versions; over gRPC and over plain HTTP/2."""

import json
import socket
import subprocess

import grpc
import pytest
import tritonclient.grpc as triton
from google.protobuf.unknown_fields import UnknownFieldSet

from support.protocol import oip
from support.protocol.h2client import H2, prefixed

pytestmark = [pytest.mark.core, pytest.mark.quick]


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("many_versions.py")


@pytest.fixture
def http(server):
    with H2(server.host, server.port) as connection:
        yield connection


# --- gRPC ---

def test_live_and_ready(client):
    assert client.call("ServerLive").live is True
    assert client.call("ServerReady").ready is True


def test_server_metadata(client):
    m = client.call("ServerMetadata")
    assert m.name == "anyserve"
    assert m.version and m.version[0].isdigit()


@pytest.mark.parametrize("name, version", [("one", ""), ("one", "1"), ("numbers", "2"), ("group/sub.model-x_y", "")])
def test_model_ready(client, name, version):
    assert client.call("ModelReady", oip.message("ModelReadyRequest", name=name, version=version)).ready is True


def metadata(client, name, version=""):
    return client.call("ModelMetadata", oip.message("ModelMetadataRequest", name=name, version=version))


def table(tensors):
    return [(t.name, t.datatype, list(t.shape)) for t in tensors]


def test_declared_signature(client):
    m = metadata(client, "signed")
    assert (m.name, list(m.versions)) == ("signed", ["v2"])
    assert m.platform
    assert table(m.inputs) == [("image", "UINT8", [-1, 28, 28]), ("label", "BYTES", [])]
    assert table(m.outputs) == [("scores", "FP32", [-1, 10])]
    assert not len(UnknownFieldSet(m))  # field 6: clients disagree about its type


def test_inferred_signature(client):
    m = metadata(client, "annotated")
    assert table(m.inputs) == [("x", "FP32", [-1, 4])]
    assert table(m.outputs) == [("output0", "INT64", [-1])]


def test_versions_are_listed_in_order(client):
    assert list(metadata(client, "numbers").versions) == ["1", "2", "10"]
    assert list(metadata(client, "words", "v2").versions) == ["a", "v2", "v10"]


@pytest.mark.parametrize("model, version", [("numbers", "10"), ("words", "v10"), ("mixed", "3"), ("one", "1"),
                                            ("group/sub.model-x_y", "2024-01")])
def test_default_version(client, model, version):
    answer = client.infer(model, {})
    assert answer.message.model_version == answer.parameters["version"] == version


@pytest.mark.parametrize("version", ["1", "2", "10"])
def test_asked_version(client, version):
    answer = client.infer("numbers", {}, version=version)
    assert answer.message.model_version == answer.parameters["version"] == version


UNKNOWN = [("nope", "", "'nope'"), ("numbers", "3", "'3'"), ("numbers", "02", "'02'")]


@pytest.mark.parametrize("name, version, text", UNKNOWN)
def test_unknown(client, name, version, text):
    error = client.refused("ModelMetadata", oip.message("ModelMetadataRequest", name=name, version=version),
                           send=client.call)
    assert error.code() == grpc.StatusCode.NOT_FOUND
    assert text in error.details()


@pytest.mark.parametrize("name, version", [*((name, version) for name, version, _ in UNKNOWN), ("", "")])
def test_unknown_is_not_ready(client, name, version):
    """As Triton's server says it; over plain HTTP it is 404."""
    assert client.call("ModelReady", oip.message("ModelReadyRequest", name=name, version=version)).ready is False


def test_tritonclient(server):
    with triton.InferenceServerClient(server.address) as client:
        assert client.is_server_live() and client.is_server_ready()
        assert client.is_model_ready("numbers") and client.is_model_ready("numbers", "2")
        assert client.get_server_metadata().name == "anyserve"
        assert client.get_model_metadata("signed").inputs[0].shape == [-1, 28, 28]
        assert client.get_model_metadata("numbers", "2", as_json=True)["versions"] == ["1", "2", "10"]


@pytest.mark.parametrize("method", ["ModelStream", "ModelInfers", "modelinfer", "ModelInfer/", ""])
def test_unknown_method(client, method):
    error = client.refused(b"", method=method, send=client.raw)
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED
    assert method in error.details()


def test_unknown_service(client):
    call = client.channel.unary_unary("/no.such.Service/Check", None, None)
    error = client.refused(b"", send=call, timeout=oip.SECONDS)
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED


# --- plain HTTP/2 ---

BODIES = {
    "/v2": {"name", "version", "extensions"},
    "/v2/": {"name", "version", "extensions"},
    "/v2/health/live": {"live"},
    "/v2/health/ready": {"live", "ready"},
    "/v2/health/ready?query=is&ignored": {"live", "ready"},
}


@pytest.mark.parametrize("path", BODIES)
def test_curl(server, path):
    run = subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-w", "\n%{http_code} %{content_type}",
                          f"http://{server.address}{path}"], capture_output=True, text=True, timeout=30, check=True)
    body, _, code = run.stdout.rpartition("\n")
    assert code == "200 application/json"
    assert set(json.loads(body)) == BODIES[path]


def test_values(http):
    assert json.loads(http.request("GET", "/v2/health/live").data) == {"live": True}
    assert json.loads(http.request("GET", "/v2/health/ready").data) == {"ready": True, "live": True}
    assert json.loads(http.request("GET", "/v2").data)["name"] == "anyserve"


def test_head(http):
    for path in BODIES:
        reply = http.request("HEAD", path)
        assert (reply.headers[":status"], reply.data, reply.ended) == ("200", b"", True)


@pytest.mark.parametrize("path", ["/v1", "/v2/health", "/v2/health/lives", "/v2/models", "/v2/models/one/nope", "/" + "x" * 5000])
def test_no_such_path(http, path):
    reply = http.request("GET", path)
    assert reply.headers[":status"] == "404"
    assert "error" in json.loads(reply.data)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_wrong_verb(http, method):
    reply = http.request(method, "/v2/health/live", body=b"x")
    assert (reply.headers[":status"], reply.headers["allow"]) == ("405", "GET, HEAD, OPTIONS")
    assert "error" in json.loads(reply.data)


OPTIONS = {"*": "GET, HEAD, POST, OPTIONS", "/v2": "GET, HEAD, OPTIONS", f"/{oip.SERVICE}/ModelInfer": "POST, OPTIONS"}


@pytest.mark.parametrize("path", OPTIONS)
def test_options(http, path):
    reply = http.request("OPTIONS", path)
    assert (reply.headers[":status"], reply.headers["allow"], reply.data) == ("204", OPTIONS[path], b"")
    assert "content-type" not in reply.headers


def test_head_tells_the_length(http):
    body = http.request("GET", "/v2").data
    assert http.request("HEAD", "/v2").headers["content-length"] == str(len(body))
    reply = http.request("HEAD", "/nope")
    assert (reply.headers[":status"], reply.data) == ("404", b"")


@pytest.mark.parametrize("content_type", ["application/json", "application/grpcx", "text/plain", ""])
def test_wrong_content_type_on_a_grpc_path(http, content_type):
    reply = http.grpc(prefixed(b""), content_type=content_type)
    assert reply.headers[":status"] == "415"


@pytest.mark.parametrize("content_type", ["application/grpc", "application/grpc+proto", "application/grpc;x=y"])
def test_content_types_of_grpc(http, content_type):
    reply = http.grpc(prefixed(b""), method="ServerLive", content_type=content_type)
    assert (reply.headers[":status"], reply.grpc_status, reply.data) == ("200", 0, prefixed(b"\x08\x01"))
    assert reply.headers["content-type"] == "application/grpc"


def test_grpc_is_post(http):
    for headers in ([("content-type", "application/grpc")], []):
        reply = http.request("GET", f"/{oip.SERVICE}/ServerLive", headers)
        assert (reply.headers[":status"], reply.headers["allow"]) == ("405", "POST, OPTIONS")


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                                  b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nrubbish" * 9, b"\0" * 100])
def test_other_protocols_are_hung_up_on(server, data):
    with socket.create_connection((server.host, server.port), 30) as s:
        s.sendall(data)
        s.settimeout(30)
        try:
            while s.recv(65536):
                pass
        except ConnectionResetError:
            pass


def test_silence_is_no_harm(server, client):
    with socket.create_connection((server.host, server.port)):
        assert client.call("ServerLive").live
