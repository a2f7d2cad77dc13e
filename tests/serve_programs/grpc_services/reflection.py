"""gRPCOptions.enable_reflection: reflection knows the user's service, or is an unknown method; the service answers in both cases."""

import os
import time

import grpc
import pantry

from anyserve import serve
from anyserve.serve.config import gRPCOptions

PORT = int(os.environ.get("GRPC_PORT", "9000"))
LIST_SERVICES = b"\x3a\x00"  # ServerReflectionRequest{list_services: ""}


@serve.deployment
class Prices:
    def Price(self, ask, grpc_context):
        grpc_context.set_compression(grpc.Compression.Gzip)
        return pantry.Answer(text=ask.name * 500, value=ask.count)


def reflect(channel):
    call = channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
    try:
        (answer,) = call(iter([LIST_SERVICES]), timeout=30)
    except grpc.RpcError as e:
        return e.code().name
    return b"shop.Pantry" in answer


for enabled in (False, True):
    options = gRPCOptions(port=PORT, grpc_servicer_functions=["pantry:add_PantryServicer_to_server"], enable_reflection=enabled)
    serve.start(grpc_options=options)
    serve.run(Prices.bind(), name="prices", route_prefix="/")
    with grpc.insecure_channel("127.0.0.1:%d" % PORT) as channel:
        price = pantry.PantryStub(channel).Price
        while True:  # routes reach the proxy a moment after a deploy
            try:
                answer = price(pantry.Ask(name="tea", count=3))
                break
            except grpc.RpcError as e:
                assert e.code() == grpc.StatusCode.NOT_FOUND, e
                time.sleep(0.05)
        print(enabled, reflect(channel), len(answer.text), answer.value)
    serve.shutdown()
