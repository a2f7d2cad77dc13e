"""API keys and gRPC services of applications: who may call which, and what is listed."""

import os
import subprocess

import grpc
import pytest
from greeter_names import ADD
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from support import paths, wait

FILE = f"""
applications:
  - {{name: first, import_path: "greeter_app:app", route_prefix: null, grpc_servicer_functions: [{ADD}]}}
  - {{name: second, import_path: "greeter_app:other", route_prefix: null, grpc_servicer_functions: [{ADD}]}}
"""


@pytest.fixture(scope="module")
def server(serve_module, protos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    keys = {}
    for name, options in ("all", ()), ("second", ("--applications", "second")), ("none", ("--applications", "-")):
        command = [paths.BINARY, "keys", "add", name, "--file", folder / "keys", *options]
        keys[name] = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    file = folder / "applications.yaml"
    file.write_text(FILE)
    here = os.path.dirname(os.path.abspath(__file__))
    server = serve_module(file, "--api-keys", folder / "keys", "--state-dir", folder / "state", verb="start",
                          env={"PYTHONPATH": os.pathsep.join([str(paths.SDK), protos, here])})  # fmt: skip
    return server, keys


@pytest.fixture
def keyed(server):
    with grpc.insecure_channel(server[0].address) as channel:
        yield lambda name: Caller(channel, server[1].get(name))


class Caller:
    def __init__(self, channel, key):
        self.channel, self.metadata = channel, [("authorization", f"Bearer {key}")] if key else []

    def hello(self, application, method="Hello"):
        import greeter_pb2 as pb
        import greeter_pb2_grpc as stubs

        call = getattr(stubs.GreeterStub(self.channel), method)
        metadata = [*self.metadata, *([("application", application)] if application else [])]
        try:
            answer = call(pb.Name(name="x"), metadata=metadata, timeout=wait.SECONDS)
            return answer.text if method == "Hello" else [a.text for a in answer]
        except grpc.RpcError as e:
            return e.code()

    def applications(self):
        call = self.channel.unary_unary("/ray.serve.RayServeAPIService/ListApplications", bytes, bytes)
        return call(b"", metadata=self.metadata, timeout=wait.SECONDS)

    def services(self):
        ask = reflection_pb2.ServerReflectionRequest(list_services="")
        stub = reflection_pb2_grpc.ServerReflectionStub(self.channel)
        (answer,) = stub.ServerReflectionInfo(iter([ask]), metadata=self.metadata, timeout=wait.SECONDS)
        return {s.name for s in answer.list_services_response.service}


DENIED = grpc.StatusCode.PERMISSION_DENIED


@pytest.mark.parametrize("name, first, second, none", [
    (None, *[grpc.StatusCode.UNAUTHENTICATED] * 3), ("all", "hello x", "other x", grpc.StatusCode.NOT_FOUND),
    ("second", DENIED, "other x", DENIED), ("none", DENIED, DENIED, DENIED)])  # fmt: skip
def test_who_may_call_what(keyed, name, first, second, none):
    caller = keyed(name)
    wait.until(lambda: keyed("all").hello("first") == "hello x", lambda: keyed("all").hello("first"))
    assert [caller.hello(a) for a in ("first", "second", "none")] == [first, second, none]


def test_streams(keyed):
    assert keyed("second").hello("first", "Count") == DENIED
    assert keyed(None).hello("first", "Count") == grpc.StatusCode.UNAUTHENTICATED
    assert isinstance(keyed("all").hello("first", "Count"), list)


def test_an_unknown_method_is_hidden(keyed):
    def code(name):
        caller = keyed(name)
        with pytest.raises(grpc.RpcError) as e:
            caller.channel.unary_unary("/none.None/None", bytes, bytes)(b"", metadata=caller.metadata, timeout=wait.SECONDS)
        return e.value.code()

    assert code("second") == DENIED
    assert code("all") == grpc.StatusCode.UNIMPLEMENTED


def test_lists(keyed):
    assert keyed("all").applications() == b"\n\x05first\n\x06second"
    assert keyed("second").applications() == b"\n\x06second"
    assert keyed("none").applications() == b""
    assert "userdefined.Greeter" in keyed("second").services()
    assert "userdefined.Greeter" not in keyed("none").services()
    assert "inference.GRPCInferenceService" in keyed("none").services()
