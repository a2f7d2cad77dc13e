"""A deployment file with `grpc_servicer_functions`, and a dispatcher with several event loops."""

import ast
import gzip
import threading
import zlib

import grpc
import pytest
from greeter_names import ADD
from support import paths, wait
from support.protocol import prometheus
from support.protocol.h2client import H2, messages_of, prefixed

pytestmark = pytest.mark.core
HERE = paths.E2E / "user_grpc"


@pytest.fixture(params=["1", "3"])
def server(serve, protos, request, tmp_path):
    import os

    file = f"""
applications:
  - {{name: greeter, import_path: "greeter_app:app", working_dir: {HERE}, grpc_servicer_functions: [{ADD}]}}
"""
    path = os.pathsep.join([str(paths.SDK), protos, str(HERE)])
    return serve("greeter.yaml", "--threads", request.param, "--state-dir", tmp_path / "state", verb="start", source=file,
                 env={"PYTHONPATH": path})  # fmt: skip


def test_compression_that_a_method_sets(server):
    """Of short messages, too, where the client reads it; whatever --response-compression says."""
    import greeter_pb2 as pb

    unpack = {"gzip": gzip.decompress, "deflate": zlib.decompress, None: bytes}

    def ask(http, kind, accept):
        request = prefixed(pb.Name(name="compress", number=kind).SerializeToString())
        reply = http.grpc(request, "Hello", [("grpc-accept-encoding", accept)], service="userdefined.Greeter")
        ((flag, message),) = messages_of(reply.data)
        encoding = reply.headers.get("grpc-encoding")
        assert (reply.grpc_status, flag) == (0, encoding is not None), reply.grpc_message
        assert pb.Greeting.FromString(unpack[encoding](message)).text == "x" * 200
        return encoding

    with H2(server.host, server.port) as http:
        assert ask(http, grpc.Compression.Gzip, "identity,deflate,gzip") == "gzip"
        assert ask(http, grpc.Compression.Deflate, "identity,deflate,gzip") == "deflate"
        assert ask(http, grpc.Compression.Gzip, "identity,deflate") is None
        assert ask(http, grpc.Compression.NoCompression, "identity,deflate,gzip") is None


def test_metrics_name_the_methods(server):
    import greeter_pb2 as pb
    import greeter_pb2_grpc as stubs

    def counted():
        samples = prometheus.parse(server.metrics())
        return {(row["method"], row["code"]): (value, row.get("application"), row.get("deployment"))
                for row, value in ((dict(k[1]), v) for k, v in samples.items() if k[0] == "anyserve_requests_total")}  # fmt: skip

    with grpc.insecure_channel(server.address) as channel:
        stub = stubs.GreeterStub(channel)
        for _ in range(2):
            assert stub.Hello(pb.Name(name="you"), timeout=60).text == "hello you"
        with pytest.raises(grpc.RpcError):
            stub.Hello(pb.Name(name="code"), timeout=60)
        assert len(list(stub.Count(pb.Name(number=3), timeout=60))) == 3
        left = threading.Event()

        def names():
            yield pb.Name()
            left.wait(60)  # an end of the names would end the call

        call = stub.Chat(names(), timeout=60)
        assert next(call).text == "welcome"
        call.cancel()
        left.set()
        for path in ("/userdefined.Greeter/None", "/no.Service/Method", "/x/y"):
            with pytest.raises(grpc.RpcError):
                channel.unary_unary(path)(b"", timeout=60)
    of = ("greeter", "Greeter")
    want = {("userdefined.Greeter/Hello", "OK"): (2, *of), ("userdefined.Greeter/Hello", "DATA_LOSS"): (1, *of),
            ("userdefined.Greeter/Count", "OK"): (1, *of), ("userdefined.Greeter/Chat", "CANCELLED"): (1, *of),
            ("unknown", "UNIMPLEMENTED"): (3, None, None)}  # fmt: skip
    wait.until(lambda: counted() == want, counted)


@pytest.mark.parametrize("options, wants", [((), True), (("--no-grpc-reflection",), False)])
def test_reflection_is_an_option(serve, options, wants):
    server = serve("echo.py", *options)
    with grpc.insecure_channel(server.address) as channel:
        for version in ("v1", "v1alpha"):
            call = channel.stream_stream(f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo")
            try:
                (answer,) = call(iter([b"\x3a\x00"]), timeout=60)  # list_services: ""
                assert wants and b"inference.GRPCInferenceService" in answer
            except grpc.RpcError as e:
                assert not wants and e.code() == grpc.StatusCode.UNIMPLEMENTED


def test_calls_and_streams(server):
    import greeter_pb2 as pb
    import greeter_pb2_grpc as stubs

    def talk():
        with grpc.insecure_channel(server.address, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = stubs.GreeterStub(channel)
            assert stub.Hello(pb.Name(name="you"), timeout=60).text == "hello you"
            seen = ast.literal_eval(stub.Hello(pb.Name(name="context"), timeout=60).text)
            assert seen["application"] is None and seen["ids"][1] == "greeter"
            data = bytes(200_000)
            assert [m.data == data for m in stub.Count(pb.Name(number=20, data=data), timeout=60)] == [True] * 20
            assert stub.Total((pb.Name(number=i, data=data) for i in range(20)), timeout=60).number == sum(range(20))
            answers = list(stub.Chat((pb.Name(name=str(i), data=data) for i in range(20)), timeout=60))
            assert [a.text for a in answers] == ["welcome", *(f"hello {i}" for i in range(20)), "bye"]
            with pytest.raises(grpc.RpcError) as e:
                stub.Hello(pb.Name(name="sleep"), timeout=0.5)
            assert e.value.code().name == "DEADLINE_EXCEEDED"
            call = stub.Chat(iter([pb.Name()]), timeout=60)
            assert next(call).text == "welcome"
            call.cancel()
        done.append(True)

    done = []
    threads = [threading.Thread(target=talk) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(done) == 4
