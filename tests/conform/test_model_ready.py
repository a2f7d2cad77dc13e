"""Is this model ready? Asked by tritonclient over gRPC and HTTP, sync and asyncio: True or False, and no exception.

Triton 2.51.0 (the server in the PyPI package nvidia-pytriton 0.7.0), asked by the same clients: gRPC says ready: false of
a model, or a version, that it does not know, and of the empty name; plain HTTP says 400, which these clients call False.
"""

import asyncio

import pytest
import tritonclient.grpc as grpc
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as http
import tritonclient.http.aio as http_aio

ASKED = [(("echo",), True), (("echo", "1"), True), (("nope",), False), (("nope", "1"), False), (("echo", "7"), False),
         (("echo", "no-number"), False), (("",), False)]


@pytest.mark.parametrize("module", [grpc, http], ids=["grpc", "http"])
def test_sync(server, module):
    with module.InferenceServerClient(server.address) as client:
        assert [(args, client.is_model_ready(*args)) for args, _ in ASKED] == ASKED


@pytest.mark.parametrize("module", [grpc_aio, http_aio], ids=["grpc", "http"])
def test_asyncio(server, module):
    async def run():
        client = module.InferenceServerClient(server.address)
        try:
            return [(args, await client.is_model_ready(*args)) for args, _ in ASKED]
        finally:
            await client.close()

    assert asyncio.run(run()) == ASKED
