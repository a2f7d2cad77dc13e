"""A client that hangs up: its request is cancelled, and the call that this one has made."""

import asyncio
import os
import time

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Slow:
    def __init__(self):
        self.seen = []

    async def __call__(self):
        self.seen.append("began")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.seen.append("cancelled")
            raise

    async def get(self):
        return self.seen


@serve.deployment
class Front:
    def __init__(self, slow):
        self.slow = slow

    async def __call__(self, request):
        await self.slow.remote()


serve.run(Front.bind(Slow.bind()), name="app")
seen = serve.get_deployment_handle("Slow", "app").get


def until(count):
    for _ in range(400):
        if len(seen.remote().result()) >= count:
            break
        time.sleep(0.05)
    return seen.remote().result()


try:
    client.get("/", timeout=1.5)
except httpx.TimeoutException as e:
    print(type(e).__name__)
print(until(2))
serve.shutdown()
