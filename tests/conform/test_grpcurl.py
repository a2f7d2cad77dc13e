"""grpcurl, which makes its calls out of our .proto file, in clear text and by TLS."""

import base64
import json
import struct

import pytest

import conftest
from support import paths

SERVICE = "inference.GRPCInferenceService"
NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED, DEADLINE_EXCEEDED = 5, 3, 12, 4


pytestmark = pytest.mark.parametrize("server", [1, pytest.param(4, marks=pytest.mark.long), conftest.TLS], indirect=True)


def security(server):
    """Options of grpcurl."""
    return ["-cacert", server.ca] if server.ca else ["-plaintext"]


def curl(tools, server, method, request=None, *args):
    """The CompletedProcess of one call."""
    data = ["-d", json.dumps(request)] if request is not None else []
    return tools.run("grpcurl", *security(server), "-import-path", paths.PROTO.parent, "-proto", paths.PROTO.name, *args,
                     *data, server.address, f"{SERVICE}/{method}")


def call(tools, server, method, request=None, *args):
    """The answer as JSON."""
    done = curl(tools, server, method, request, *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def check_fails(done, code, name, text):
    assert done.returncode == 64 + code, done.stdout + done.stderr  # grpcurl's way to tell a status
    assert f"Code: {name}" in done.stderr and text in done.stderr, done.stderr


def floats(*values):
    return base64.b64encode(struct.pack(f"<{len(values)}f", *values)).decode()


def add_request(**extra):
    return {"modelName": "add", "inputs": [{"name": n, "datatype": "FP32", "shape": [2]} for n in "ab"], **extra}


def test_health(server, tools):
    assert call(tools, server, "ServerLive") == {"live": True}
    assert call(tools, server, "ServerReady") == {"ready": True}
    assert call(tools, server, "ModelReady", {"name": "add"}) == {"ready": True}


def test_metadata(server, tools):
    assert call(tools, server, "ServerMetadata")["name"] == "anyserve"
    found = call(tools, server, "ModelMetadata", {"name": "add"})
    assert found["name"] == "add"
    assert found["outputs"] == [{"name": "sum", "datatype": "FP32", "shape": ["-1"]}]


def test_infer_raw(server, tools):
    answer = call(tools, server, "ModelInfer", add_request(rawInputContents=[floats(1, 2), floats(10, 20)], id="seven"))
    assert answer["id"] == "seven"
    assert answer["rawOutputContents"] == [floats(11, 22)]


def test_infer_typed(server, tools):
    request = add_request()
    for tensor, values in zip(request["inputs"], ([1, 2], [10, 20])):
        tensor["contents"] = {"fp32Contents": values}
    assert call(tools, server, "ModelInfer", request)["rawOutputContents"] == [floats(11, 22)]


def test_metadata_of_a_call(server, tools):
    request = {"modelName": "facts", "inputs": [{"name": "x", "datatype": "FP32", "shape": [1]}],
               "rawInputContents": [floats(0)]}
    answer = call(tools, server, "ModelInfer", request, "-H", "x-text: word", "-H",
                  "x-bytes-bin: " + base64.b64encode(b"\0\xff").decode())
    assert answer["parameters"]["metadata.x-text"] == {"stringParam": "word"}
    assert answer["parameters"]["metadata.x-bytes-bin"] == {"stringParam": "00ff"}


def test_errors(server, tools):
    check_fails(curl(tools, server, "ModelInfer", {"modelName": "no%such"}), NOT_FOUND, "NotFound",
                "unknown model 'no%such'")
    check_fails(curl(tools, server, "ModelInfer", add_request(rawInputContents=[floats(1, 2)])), INVALID_ARGUMENT,
                "InvalidArgument", "raw_input_contents")


@pytest.fixture(scope="module")
def other_proto(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proto")
    (folder / "other.proto").write_text('syntax = "proto3"; package other; message M {}\n'
                                        'service S { rpc Call(M) returns (M); }\n')
    return folder


def test_a_service_that_is_not_there(server, tools, other_proto):
    done = tools.run("grpcurl", *security(server), "-import-path", other_proto, "-proto", "other.proto", server.address,
                     "other.S/Call")
    check_fails(done, UNIMPLEMENTED, "Unimplemented", "/other.S/Call")
