"""API keys and gRPC services of applications: who may call which, and what is listed."""

import os
import subprocess

import grpc
import pytest
from greeter_names import ADD, ADD_NUMBERS
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from support import paths, wait
from support.protocol.h2client import H2, prefixed
from support.protocol.raw import Raw

FILE = f"""
applications:
  - {{name: first, import_path: "greeter_app:app", route_prefix: null, grpc_servicer_functions: [{ADD}]}}
  - {{name: second, import_path: "greeter_app:other", route_prefix: null, grpc_servicer_functions: [{ADD}]}}
  - {{name: numbers, import_path: "greeter_app:numbers", route_prefix: null, grpc_servicer_functions: [{ADD_NUMBERS}]}}
"""


@pytest.fixture(scope="module")
def server(serve_module, protos, tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    keys = {}
    rights = {"all": (), "second": ("--applications", "second"), "none": ("--applications", "-"),
              "nothing": ("--applications", "-", "--models", "-")}  # fmt: skip
    for name, options in rights.items():
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

    def check(self, service):
        """The status of a service, or the code of the error."""
        try:
            request = health_pb2.HealthCheckRequest(service=service)
            return health_pb2_grpc.HealthStub(self.channel).Check(request, metadata=self.metadata, timeout=wait.SECONDS).status
        except grpc.RpcError as e:
            return e.code()

    def watch(self, service):
        """The first status, or the code of the error."""
        call = health_pb2_grpc.HealthStub(self.channel).Watch(health_pb2.HealthCheckRequest(service=service),
                                                              metadata=self.metadata, timeout=wait.SECONDS)  # fmt: skip
        try:
            return next(call).status
        except grpc.RpcError as e:
            return e.code()
        finally:
            call.cancel()

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
    assert keyed("all").applications() == b"\n\x05first\n\x06second\n\x07numbers"
    assert keyed("second").applications() == b"\n\x06second"
    assert keyed("none").applications() == b""
    assert "userdefined.Greeter" in keyed("second").services()
    assert "userdefined.Greeter" not in keyed("none").services()
    assert "inference.GRPCInferenceService" in keyed("none").services()


def test_health_tells_of_no_other_application(keyed):
    serving, unknown = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
    greeter = "userdefined.Greeter"
    wait.until(lambda: keyed("all").check(greeter) == serving, lambda: keyed("all").check(greeter))
    assert keyed("second").check(greeter) == keyed("second").watch(greeter) == serving
    # these may ask about every model, and so get to know that there is none of this name
    for caller, service in (keyed("none"), greeter), (keyed("second"), "userdefined.Numbers"), (keyed("second"), "none.None"):
        assert caller.check(service) == grpc.StatusCode.NOT_FOUND
        assert caller.watch(service) == unknown
    assert keyed("nothing").check(greeter) == keyed("nothing").watch(greeter) == DENIED
    assert keyed("nothing").check("none.None") == DENIED


GOOD = prefixed(b"")
FAULTS = [{"te": None}, {"extra": [("grpc-encoding", "br")]}, {"extra": [("grpc-timeout", "soon")]}, {"extra": [("grpc-timeout", "0n")]},
          {"body": b""}, {"body": GOOD[:3]}, {"body": GOOD * 2}, {"body": b"\x07" + GOOD[1:]}, {"body": prefixed(b"\xff")}, {}]  # fmt: skip
SECRET = ["userdefined.Greeter/Hello", "userdefined.Greeter/Count", "userdefined.Numbers/Next", "none.None/None"]


@pytest.mark.parametrize("name, application", [("none", None), ("none", "first"), ("none", "second"), ("none", "none"),
                                               ("second", "first"), ("second", "numbers"), ("second", None)])  # fmt: skip
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_methods_of_others_look_unknown(server, name, application, fault):
    key = [("x-api-key", server[1][name]), *([("application", application)] if application else [])]
    with H2(server[0].host, server[0].port) as h2:
        for path in SECRET:
            service, method = path.split("/")
            stream = h2.open_grpc(method, [*key, *fault.get("extra", ())], service=service, te=fault.get("te", "trailers"))
            h2.send(stream, fault.get("body", GOOD), end=True)
            reply = h2.reply(stream)
            assert (reply.grpc_status, reply.grpc_message, reply.data) == (
                7, "this API key may not be used for that: ask for a key that may", b""), path  # fmt: skip


def test_a_method_that_only_others_have_is_unknown(server):
    with H2(server[0].host, server[0].port) as h2:
        key = [("x-api-key", server[1]["second"]), ("application", "second")]
        replies = [h2.grpc(GOOD, method, key, service=service)
                   for service, method in (("userdefined.Numbers", "Next"), ("none.None", "None"))]  # fmt: skip
        assert [r.grpc_status for r in replies] == [7, 7] and replies[0].grpc_message == replies[1].grpc_message
        assert h2.grpc(GOOD, "Hello", key, service="userdefined.Greeter").grpc_status == 0


def test_a_call_without_http2_tells_nothing(server):
    def statuses(name):
        with Raw(server[0]) as raw:
            for path in SECRET:
                raw.send(f"POST /{path} HTTP/1.1\r\nHost: h\r\nx-api-key: {server[1][name]}\r\ncontent-type: application/grpc\r\n"
                         "content-length: 0\r\n\r\n".encode())  # fmt: skip
            raw.until(rb"(HTTP/1.1 .*){4}\{.*\}")
            return raw.statuses()

    assert statuses("none") == statuses("second") == [403] * 4
    assert statuses("all") == [505] * 4
