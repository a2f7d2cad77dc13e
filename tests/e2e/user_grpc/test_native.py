"""A deployment file with `grpc_servicer_functions`, and a dispatcher with several event loops."""

import ast
import threading

import grpc
import pytest
from greeter_names import ADD
from support import paths

pytestmark = pytest.mark.core
HERE = paths.E2E / "user_grpc"


@pytest.fixture(params=["1", "3"])
def server(serve, protos, request):
    import os

    file = f"""
applications:
  - {{name: greeter, import_path: "greeter_app:app", working_dir: {HERE}, grpc_servicer_functions: [{ADD}]}}
"""
    path = os.pathsep.join([str(paths.SDK), protos, str(HERE)])
    return serve("greeter.yaml", "--threads", request.param, verb="start", source=file, env={"PYTHONPATH": path})


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
