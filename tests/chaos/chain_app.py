"""A chain of three deployments that may all be repeated: what the scenario `chain` serves."""

import asyncio

import numpy as np
from anyserve import serve

NAP = 0.010  # seconds


@serve.deployment(num_replicas=2, max_ongoing_requests=100, idempotent=True)
class Leaf:
    async def __call__(self, n):
        await asyncio.sleep(NAP)
        return n


@serve.deployment(num_replicas=2, max_ongoing_requests=100, idempotent=True)
class Middle:
    def __init__(self, leaf):
        self.leaf = leaf

    async def __call__(self, n):
        return await self.leaf.remote(n)


@serve.deployment(name="nap", num_replicas=2, max_ongoing_requests=100, idempotent=True)
class Front:
    def __init__(self, middle):
        self.middle = middle

    async def __call__(self, id: np.ndarray, pad: np.ndarray):
        return {"id": np.array([await self.middle.remote(int(id[0]))])}


app = Front.bind(Middle.bind(Leaf.bind()))
