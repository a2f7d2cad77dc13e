"""Tools that know no .proto file: grpcurl and ghz, by server reflection (v1, and v1alpha where that is not there)."""

import base64
import json
import struct

import pytest

SERVICE = "inference.GRPCInferenceService"
HEALTH = "grpc.health.v1.Health"
METHODS = ["ServerLive", "ServerReady", "ModelReady", "ServerMetadata", "ModelMetadata", "ModelInfer"]
RAW = base64.b64encode(struct.pack("<2f", 1, 2)).decode()


def curl(tools, server, *args, data=None):
    """What grpcurl prints; it must end well."""
    done = tools.run("grpcurl", "-plaintext", *(["-d", json.dumps(data)] if data is not None else []), server.address,
                     *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_list(server, tools):
    services = curl(tools, server, "list").split()
    assert SERVICE in services and HEALTH in services, services
    assert {"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"} <= set(services)


def test_list_methods(server, tools):
    methods = curl(tools, server, "list", SERVICE).split()
    assert {f"{SERVICE}.{name}" for name in METHODS} <= set(methods), methods


@pytest.mark.parametrize("symbol, text", [
    (SERVICE, "rpc ModelInfer ( .inference.ModelInferRequest ) returns ( .inference.ModelInferResponse );"),
    ("inference.ModelInferRequest", "repeated bytes raw_input_contents = 7;"),
    ("inference.InferParameter", "oneof parameter_choice"),
    (HEALTH, "rpc Watch"),
])
def test_describe(server, tools, symbol, text):
    assert text in curl(tools, server, "describe", symbol)


def test_describe_what_is_not_there(server, tools):
    done = tools.run("grpcurl", "-plaintext", server.address, "describe", "inference.Nothing")
    assert done.returncode != 0
    assert "inference.Nothing" in done.stderr, done.stderr


def test_call(server, tools):
    data = {"model_name": "add", "inputs": [{"name": n, "datatype": "FP32", "shape": [2]} for n in "ab"],
            "raw_input_contents": [RAW, RAW]}
    answer = json.loads(curl(tools, server, f"{SERVICE}/ModelInfer", data=data))
    assert base64.b64decode(answer["rawOutputContents"][0]) == struct.pack("<2f", 2, 4)


def test_health(server, tools):
    for data in ({}, {"service": "echo"}, {"service": SERVICE}):
        assert json.loads(curl(tools, server, f"{HEALTH}/Check", data=data)) == {"status": "SERVING"}


def test_a_method_that_is_not_there(server, tools):
    done = tools.run("grpcurl", "-plaintext", server.address, f"{SERVICE}/Nothing")
    assert done.returncode != 0
    assert "does not include a method named \"Nothing\"" in done.stderr, done.stderr


def test_ghz(server, tools):
    data = {"model_name": "echo", "inputs": [{"name": "x", "datatype": "FP32", "shape": [2]}],
            "raw_input_contents": [RAW]}
    done = tools.run("ghz", "--insecure", "--call", f"{SERVICE}.ModelInfer", "-d", json.dumps(data), "-n", 500, "-c",
                     10, "-O", "json", server.address)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["count"] >= 500
    assert report["statusCodeDistribution"] == {"OK": report["count"]}, report["errorDistribution"]
