"""serve.batch collects calls; each caller gets its own answer; an exception object is a value."""

import asyncio

from anyserve import serve


@serve.deployment(max_ongoing_requests=20)
class Batched:
    def __init__(self):
        self.sizes = []

    @serve.batch(max_batch_size=4, batch_wait_timeout_s=60)
    async def double(self, values):
        self.sizes.append(len(values))
        return [2 * v for v in values]

    async def __call__(self, x):
        return await self.double(x)

    @serve.batch(max_batch_size=2, batch_wait_timeout_s=60)
    async def mixed(self, values):
        return [ValueError("as a value") if v < 0 else v for v in values]

    async def kinds(self):
        return [type(v).__name__ for v in await asyncio.gather(self.mixed(-1), self.mixed(1))]

    def seen(self):
        return self.sizes


handle = serve.run(Batched.bind(), name="batched", route_prefix=None)
responses = [handle.remote(i) for i in range(8)]
print([r.result() for r in responses])
print(handle.seen.remote().result())
print(handle.kinds.remote().result())
serve.shutdown()
