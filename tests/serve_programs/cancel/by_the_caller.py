"""cancel() reaches the handler at its await; the response raises RequestCancelledError."""

import asyncio

from anyserve import serve
from anyserve.serve.exceptions import RequestCancelledError


@serve.deployment
class Slow:
    def __init__(self):
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    async def __call__(self):
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def wait_for(self, what):
        await getattr(self, what).wait()
        return what


handle = serve.run(Slow.bind(), name="cancel", route_prefix=None)
response = handle.remote()
print(handle.wait_for.remote("started").result(timeout_s=30))
response.cancel()
try:
    response.result(timeout_s=30)
except RequestCancelledError as e:
    print("RequestCancelledError", response.cancelled(), str(e) == f"Request {response.request_id} was cancelled.")
print(handle.wait_for.remote("cancelled").result(timeout_s=30))
serve.shutdown()
