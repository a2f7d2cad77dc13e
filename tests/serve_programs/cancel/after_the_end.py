"""A cancel after the answer changes nothing; a timeout of result() does not cancel."""

import asyncio

from anyserve import serve


@serve.deployment
class Gate:
    def __init__(self):
        self.open = asyncio.Event()

    async def wait(self):
        await self.open.wait()
        return "through"

    async def release(self):
        self.open.set()
        return "open"


handle = serve.run(Gate.bind(), name="gate", route_prefix=None)
response = handle.wait.remote()
try:
    response.result(timeout_s=0.1)
except TimeoutError:
    print("TimeoutError", response.cancelled())
print(handle.release.remote().result())
print(response.result(timeout_s=30))
response.cancel()
print(response.cancelled(), handle.wait.remote().result(timeout_s=30))
serve.shutdown()
