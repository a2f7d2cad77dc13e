"""Reflection and health know the services of the user; so does a dispatcher that was just started."""

import os
import signal
import time

import pytest
from support import calling, wait

pytestmark = pytest.mark.core
FIRST = (("application", "first"),)


def reflected(server):
    from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

    return ProtoReflectionDescriptorDatabase(server.channel)


def test_reflection_lists_the_services(grpc_server):
    services = list(reflected(grpc_server).get_services())
    assert services.count("userdefined.Greeter") == 1
    assert "inference.GRPCInferenceService" in services and "userdefined.Numbers" not in services


def test_a_client_that_knows_no_proto(grpc_server):
    """As grpcurl: the types come from the server."""
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    pool = DescriptorPool(reflected(grpc_server))
    method = pool.FindServiceByName("userdefined.Greeter").FindMethodByName("Hello")
    name, greeting = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
    call = grpc_server.channel.unary_unary("/userdefined.Greeter/Hello", name.SerializeToString, greeting.FromString)
    assert call(name(name="you"), metadata=FIRST, timeout=30).text == "hello you"
    assert pool.FindFileByName("greeter.proto").package == "userdefined"
    with pytest.raises(KeyError):
        pool.FindServiceByName("userdefined.Nothing")


def test_health(grpc_server):
    from grpc_health.v1 import health_pb2, health_pb2_grpc

    stub = health_pb2_grpc.HealthStub(grpc_server.channel)
    check = stub.Check(health_pb2.HealthCheckRequest(service="userdefined.Greeter"), timeout=30)
    assert check.status == health_pb2.HealthCheckResponse.SERVING
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        stub.Check(health_pb2.HealthCheckRequest(service="userdefined.Nothing"), timeout=30)
    assert e.value.code().name == "NOT_FOUND"


def dispatcher_pid():
    return calling.status()["server"]["pid"]


def test_a_dispatcher_that_was_just_started_knows_them(grpc_server):
    pid = dispatcher_pid()
    os.kill(pid, signal.SIGKILL)
    until = time.monotonic() + 60
    while True:  # the connection broke; what is asked meanwhile may fail so, and in no other way
        try:
            answer = grpc_server.greeter.Hello(grpc_server.pb.Name(name="again"), metadata=FIRST, timeout=30, wait_for_ready=True)
            break
        except grpc_server.grpc.RpcError as e:
            assert e.code().name == "UNAVAILABLE" and time.monotonic() < until
    assert answer.text == "hello again"
    wait.until(lambda: calling.dispatcher(), "a dispatcher")
    assert dispatcher_pid() != pid
    assert "userdefined.Greeter" in reflected(grpc_server).get_services()
