"""A replica sees the refusal of the deployment that it calls; backpressure_config is part of the error."""

import asyncio

from anyserve import serve
from anyserve.serve.exceptions import BackPressureError


@serve.deployment(max_ongoing_requests=1, max_queued_requests=1,
                  backpressure_config={"status_code": 429, "retry_after_s": 1.5})
class Limited:
    def __init__(self):
        self.open = asyncio.Event()

    async def __call__(self):
        await self.open.wait()
        return "done"


@serve.deployment
class Caller:
    def __init__(self, limited):
        self.limited = limited

    async def __call__(self):
        waiting, refused = [], None
        while refused is None:
            response = self.limited.remote()
            task = asyncio.ensure_future(self.read(response))
            done, _ = await asyncio.wait([task], timeout=0.5)
            if done:
                refused = task.result()
            else:
                waiting.append((response, task))
        for response, task in waiting:
            response.cancel()
        await asyncio.gather(*(t for _, t in waiting), return_exceptions=True)
        return len(waiting), refused

    async def read(self, response):
        try:
            return await response
        except BackPressureError as e:
            return str(e), e.status_code, e.retry_after_s


print(serve.run(Caller.bind(Limited.bind()), name="limited", route_prefix=None).remote().result())
serve.shutdown()
