"""kserve_clients.py ADDRESS: asks the model `add` by the KServe SDK's REST and gRPC clients."""

import asyncio
import sys

import numpy as np
from kserve import InferInput, InferRequest
from kserve.inference_client import InferenceGRPCClient, InferenceRESTClient, RESTConfig


def request(binary):
    found = []
    for name, values in ("a", [1, 2]), ("b", [10, 20]):
        array = np.array(values, np.float32)
        tensor = InferInput(name, list(array.shape), "FP32")
        tensor.set_data_from_numpy(array, binary_data=binary)
        found.append(tensor)
    return InferRequest(model_name="add", infer_inputs=found)


async def rest(address):
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    base = f"http://{address}"
    assert await client.is_server_ready(base) and await client.is_model_ready(base, "add")
    for binary in False, True:
        answer = await client.infer(base, request(binary), model_name="add")
        np.testing.assert_array_equal(answer.outputs[0].as_numpy(), [11, 22])
    print("rest ok")


async def grpc(address):
    async with InferenceGRPCClient(address) as client:
        assert await client.is_server_ready() and await client.is_model_ready("add")
        answer = await client.infer(request(True))
        np.testing.assert_array_equal(answer.outputs[0].as_numpy(), [11, 22])
    print("grpc ok")


asyncio.run(rest(sys.argv[1]))
asyncio.run(grpc(sys.argv[1]))
