"""ModelInfer echo, and a stream of numbers, on grpcio's own Python server: what a user would write without AnyServe.

    grpcio_server.py {sync,aio} STUBS [PORT]

STUBS is the folder with the code that grpcio-tools made of proto/open_inference.proto. The handler does
the least a handler can: no numpy, the raw bytes of the inputs go back as they are. The stream (aio) is that of
stream_model.py, message for message.
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

    async def ModelMetadata(self, request, context):
        message = pb.ModelMetadataResponse(name=request.name, versions=["1"])
        if request.name == "count":
            message.inputs.add(name="n", datatype="INT32", shape=[1])
            message.outputs.add(name="i", datatype="INT32", shape=[1])
        return message

    async def ModelStreamInfer(self, requests, context):
        async for request in requests:
            message = pb.ModelStreamInferResponse()
            response = message.infer_response
            response.model_name, response.model_version, response.id = request.model_name, "1", request.id
            response.parameters["triton_final_response"].bool_param = False
            response.outputs.add(name="i", datatype="INT32", shape=[1])
            response.raw_output_contents.append(b"")
            for i in range(int.from_bytes(request.raw_input_contents[0], "little")):
                response.raw_output_contents[0] = i.to_bytes(4, "little")
                yield message  # is serialized before the next one is asked for


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
