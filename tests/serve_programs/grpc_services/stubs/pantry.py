"""The service `shop.Pantry`: messages and what protoc's plugin for gRPC would have written, made when it is imported."""

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

TEXT, INT, ITEM = 9, 5, 11
METHODS = {"Price": (False, False), "Names": (False, True), "Total": (True, False), "Shout": (True, True)}  # streams in, out


def _describe():
    file = descriptor_pb2.FileDescriptorProto(name="pantry.proto", package="shop", syntax="proto3")
    for name, fields in {"Ask": (("name", TEXT), ("count", INT)), "Answer": (("text", TEXT), ("value", INT))}.items():
        message = file.message_type.add(name=name)
        for number, (field, kind) in enumerate(fields, 1):
            message.field.add(name=field, number=number, type=kind, label=1)
    service = file.service.add(name="Pantry")
    for name, (many_in, many_out) in METHODS.items():
        service.method.add(name=name, input_type=".shop.Ask", output_type=".shop.Answer", client_streaming=many_in,
                           server_streaming=many_out)  # fmt: skip
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return (message_factory.GetMessageClass(pool.FindMessageTypeByName("shop." + n)) for n in ("Ask", "Answer"))


Ask, Answer = _describe()
KINDS = {(False, False): "unary_unary", (False, True): "unary_stream", (True, False): "stream_unary", (True, True): "stream_stream"}


class PantryStub:
    def __init__(self, channel):
        for name, kind in METHODS.items():
            make = getattr(channel, KINDS[kind])
            setattr(self, name, make("/shop.Pantry/" + name, request_serializer=Ask.SerializeToString, response_deserializer=Answer.FromString))


def add_PantryServicer_to_server(servicer, server):
    handlers = {name: getattr(grpc, KINDS[kind] + "_rpc_method_handler")(
        getattr(servicer, name), request_deserializer=Ask.FromString, response_serializer=Answer.SerializeToString)
        for name, kind in METHODS.items()}  # fmt: skip
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Pantry", handlers),))
    server.add_registered_method_handlers("shop.Pantry", handlers)
