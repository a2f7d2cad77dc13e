"""tritonclient and grpcio (sync and asyncio) whose bytes come one by one, both ways.

What these clients can do at full speed is tested in tests/e2e.
"""

import asyncio

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio

from slicer import Slicer
from support.protocol import oip

ARRAY = np.arange(600, dtype=np.float32).reshape(20, 30)  # 2,400 bytes


@pytest.fixture
def slicer(server):
    with Slicer((server.host, server.port)) as slicer:
        yield slicer


def triton_input(module, array):
    x = module.InferInput("x", list(array.shape), "FP32")
    x.set_data_from_numpy(array)
    return x


def test_tritonclient(slicer):
    with triton.InferenceServerClient(slicer.address) as client:
        assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("echo")
        assert client.get_model_metadata("add").inputs[0].datatype == "FP32"
        np.testing.assert_array_equal(client.infer("echo", [triton_input(triton, ARRAY)]).as_numpy("x"), ARRAY)
        with pytest.raises(triton.InferenceServerException, match="unknown model 'nope'"):
            client.infer("nope", [triton_input(triton, ARRAY)])


def test_tritonclient_callbacks(slicer):
    """async_infer: 50 calls at once on one connection."""
    import queue
    answers = queue.Queue()
    with triton.InferenceServerClient(slicer.address) as client:
        for i in range(50):
            client.async_infer("echo", [triton_input(triton, ARRAY + i)], request_id=str(i),
                               callback=lambda result, error: answers.put((result, error)))
        for _ in range(50):
            result, error = answers.get(timeout=60)
            assert error is None
            np.testing.assert_array_equal(result.as_numpy("x"), ARRAY + int(result.get_response().id))


def test_tritonclient_aio(slicer):
    async def run():
        async with triton_aio.InferenceServerClient(slicer.address) as client:
            results = await asyncio.gather(*(client.infer("echo", [triton_input(triton, ARRAY + i)])
                                             for i in range(20)))
            for i, result in enumerate(results):
                np.testing.assert_array_equal(result.as_numpy("x"), ARRAY + i)
    asyncio.run(run())


def call(channel, request):
    method = channel.unary_unary(f"/{oip.SERVICE}/ModelInfer", request_serializer=lambda m: m.SerializeToString(),
                                 response_deserializer=oip.messages()["ModelInferResponse"].FromString)
    return method(request, timeout=60)


def test_grpcio(slicer):
    with grpc.insecure_channel(slicer.address, oip.UNLIMITED) as channel:
        answer = call(channel, oip.infer_request("echo", {"x": ARRAY}))
        assert answer.raw_output_contents[0] == ARRAY.tobytes()
        with pytest.raises(grpc.RpcError) as e:
            call(channel, oip.infer_request("nope", {"x": ARRAY}))
        assert e.value.code() is grpc.StatusCode.NOT_FOUND


def test_grpcio_aio(slicer):
    async def run():
        async with grpc.aio.insecure_channel(slicer.address, oip.UNLIMITED) as channel:
            answers = await asyncio.gather(*(call(channel, oip.infer_request("echo", {"x": ARRAY + i}))
                                             for i in range(20)))
            for i, answer in enumerate(answers):
                assert answer.raw_output_contents[0] == (ARRAY + i).tobytes()
    asyncio.run(run())
