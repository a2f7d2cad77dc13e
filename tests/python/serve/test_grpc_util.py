"""What a handler of a gRPC service gets, how its end is written, and which services a program has."""

import asyncio
import sys
import types

import pytest

from anyserve.serve import grpc_util
from anyserve.serve._grpc import services
from anyserve.serve.grpc_util import RayServegRPCContext, gRPCInputStream


def context(*lines):
    return RayServegRPCContext._of_block("\n".join(["/a.B/C", "ipv4:1.2.3.4:5", *lines]), "id")


def test_a_context_is_read():
    c = context("request_id", "r", "application", "a", "x-bin", "AP8", "x", "", "x", "2")
    assert c.invocation_metadata() == [("request_id", "r"), ("application", "a"), ("x-bin", b"\x00\xff"), ("x", ""), ("x", "2")]
    assert (c.request_id(), c.application(), c.multiplexed_model_id(), c.peer()) == ("r", "a", None, "ipv4:1.2.3.4:5")
    assert context().invocation_metadata() == [] and context().request_id() is None


@pytest.mark.parametrize("value", ["A", "é", "=A="])
def test_what_is_no_base64_arrives_as_it_came(value):
    assert context("x-bin", value).invocation_metadata() == [("x-bin", value.encode())]


def test_trailing_metadata_keeps_the_request_id():
    c = context()
    c.set_trailing_metadata([("a", "1")])
    c.set_trailing_metadata([("b", "2")])
    assert c.trailing_metadata() == [("request_id", "id"), ("b", "2")]


@pytest.mark.parametrize("text, encoded", [
    ("", ""), ("plain text", "plain text"), ("100%", "100%25"), ("a\nb", "a%0Ab"), ("ü", "%C3%BC"), (" x ", "%20x%20"),
    ("\ud800", "%3F"), ("x" * 4096, "x" * 4096), ("x" * 4097, "x" * 4096), ("x" * 4094 + "\n", "x" * 4094),
    ("x" * 4093 + "\n", "x" * 4093 + "%0A"),
])  # fmt: skip
def test_details_are_encoded(text, encoded):
    assert grpc_util.encode_details(text) == encoded


def test_a_status_is_lines():
    assert grpc_util.encode_status(0, "", []) == b"0\n"
    block = grpc_util.encode_status(5, "no", [("a", "1"), ("b-bin", b"\x00\xff"), ("c", b"x")])
    assert block == b"5\nno\na\n1\nb-bin\nAP8\nc\nx"
    assert grpc_util.encode_status(0, "", [("a", "1")] * 60).count(b"a") == 60
    with pytest.raises(ValueError, match="at most 60 entries, not 61"):
        grpc_util.encode_status(0, "", [("a", "1")] * 61)


def test_the_compression_is_behind_the_metadata():
    assert grpc_util.encode_status(0, "", [("a", "1")], "gzip") == b"0\n\na\n1\ngrpc-encoding\ngzip"
    context = grpc_util.RayServegRPCContext([], "ipv4:127.0.0.1:1", "id")
    assert context._compression is None
    for number, name in enumerate(["identity", "deflate", "gzip"]):  # the numbers of grpc.Compression
        context.set_compression(number)
        assert context._compression == name
    for wrong in (3, -1, "gzip", None, True):
        with pytest.raises(ValueError, match="is no grpc.Compression"):
            context.set_compression(wrong)


@pytest.mark.parametrize("key, value", [("A", "1"), ("", "1"), ("grpc-status", "1"), ("a b", "1"), ("a", "\n"), ("a", "ü"), ("a", 1),
                                        ("a-bin", "text"), (1, "1"), ("a", b"\xff")])  # fmt: skip
def test_metadata_that_cannot_be_sent(key, value):
    with pytest.raises(ValueError):
        grpc_util.encode_status(0, "", [(key, value)])


def test_statuses():
    class Code:
        value = (9, "failed precondition")

    assert [grpc_util.status_number(c) for c in (0, 16, Code)] == [0, 16, 9]
    for bad in (17, -1, "5", None):
        with pytest.raises(ValueError):
            grpc_util.status_number(bad)


def test_an_input_stream():
    async def numbers():
        for i in range(3):
            yield i

    async def run():
        s = gRPCInputStream(numbers())
        assert not s.is_exhausted and not s.is_cancelled()
        assert [i async for i in s] == [0, 1, 2] and s.is_exhausted
        assert [i async for i in s] == []
        s = gRPCInputStream(numbers())
        assert await s.__anext__() == 0
        s.cancel()
        assert s.is_cancelled() and [i async for i in s] == []

    asyncio.run(run())


# --- services ---


class Handler:
    request_streaming, response_streaming, request_deserializer = False, True, staticmethod(bytes.decode)


class Generic:
    _method_handlers = {"/a.B/D": Handler(), "/a.B/C": Handler()}


@pytest.fixture
def module():
    made = types.ModuleType("grpc_services_of_a_test")
    made.add = lambda servicer, server: (servicer.Anything, server.add_generic_rpc_handlers((Generic(),)))
    made.add_registered = lambda servicer, server: server.add_registered_method_handlers("x.Y", {"Z": Handler()})
    made.add_bad = lambda servicer, server: server.add_registered_method_handlers("x y", {"Z": Handler()})
    made.number = 1
    sys.modules[made.__name__] = made
    yield made.__name__
    del sys.modules[made.__name__]


def test_methods_are_collected_in_order(module):
    found = services.collect([module + ".add", module + ":add_registered"])
    assert list(found) == ["/a.B/C", "/a.B/D", "/x.Y/Z"]
    method = found["/a.B/C"]
    assert (method.takes_inputs, method.gives_parts, method.parse(b"x")) == (False, True, "x")


@pytest.mark.parametrize("name, error, text", [
    ("add_bad", ValueError, "is no path of a gRPC method"), ("number", ValueError, "is not a callable function"),
    ("missing", ValueError, "is not a callable function"),
])  # fmt: skip
def test_functions_that_are_none(module, name, error, text):
    with pytest.raises(error, match=text):
        services.collect(["%s.%s" % (module, name)])
    with pytest.raises(ModuleNotFoundError, match="can't be imported! Please make sure there are no typo"):
        services.collect(["no_such_module_at_all.add"])


def test_descriptors_have_what_a_file_imports():
    from google.protobuf import descriptor_pb2, descriptor_pool

    base = descriptor_pb2.FileDescriptorProto(name="t_base.proto", package="t_grpc")
    base.message_type.add(name="M")
    file = descriptor_pb2.FileDescriptorProto(name="t_service.proto", package="t_grpc", dependency=["t_base.proto"])
    file.service.add(name="S").method.add(name="R", input_type=".t_grpc.M", output_type=".t_grpc.M")
    for f in (base, file):
        descriptor_pool.Default().AddSerializedFile(f.SerializeToString())
    found = descriptor_pb2.FileDescriptorSet.FromString(services.descriptors_of(["/t_grpc.S/R", "/unknown.S/R"]))
    assert [f.name for f in found.file] == ["t_service.proto", "t_base.proto"]
