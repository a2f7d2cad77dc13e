"""ModelInfer echo on grpcio's own Python server: what a user would write without AnyServe.

    grpcio_server.py {sync,aio} STUBS [PORT]

STUBS is the folder with the code that grpcio-tools made of proto/open_inference.proto. The handler does
the least a handler can: no numpy, the raw bytes of the inputs go back as they are.
"""

import asyncio
import os
import signal
import sys
from concurrent import futures

import grpc

mode, stubs = sys.argv[1:3]
address = f"127.0.0.1:{sys.argv[3] if len(sys.argv) > 3 else 0}"
sys.path.insert(0, stubs)
import open_inference_pb2 as pb  # noqa: E402
import open_inference_pb2_grpc as rpc  # noqa: E402

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]


def answer(request):
    response = pb.ModelInferResponse(model_name=request.model_name, model_version="1", id=request.id)
    for tensor in request.inputs:
        response.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
    response.raw_output_contents.extend(request.raw_input_contents)
    return response


class Sync(rpc.GRPCInferenceServiceServicer):
    def ModelInfer(self, request, context):
        return answer(request)


class Aio(rpc.GRPCInferenceServiceServicer):
    async def ModelInfer(self, request, context):
        return answer(request)


async def serve_aio():
    server = grpc.aio.server(options=OPTIONS)
    rpc.add_GRPCInferenceServiceServicer_to_server(Aio(), server)
    print("port", server.add_insecure_port(address), flush=True)
    await server.start()
    await server.wait_for_termination()


def serve_sync():
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=8), options=OPTIONS)
    rpc.add_GRPCInferenceServiceServicer_to_server(Sync(), server)
    print("port", server.add_insecure_port(address), flush=True)
    server.start()
    server.wait_for_termination()


signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
if mode == "aio":
    asyncio.run(serve_aio())
else:
    serve_sync()
