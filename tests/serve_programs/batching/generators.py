"""A batched generator streams to each caller; StopIteration ends one of them."""

import asyncio

from anyserve import serve


@serve.deployment(max_ongoing_requests=20)
class Streams:
    @serve.batch(max_batch_size=3, batch_wait_timeout_s=60)
    async def count(self, limits):
        for i in range(max(limits)):
            yield [i if i < n else StopIteration for n in limits]

    async def __call__(self, n):
        async for i in self.count(n):
            yield i

    async def collect(self):
        async def read(n):
            return [i async for i in self.count(n)]

        return await asyncio.gather(read(1), read(3), read(2))


handle = serve.run(Streams.bind(), name="streams", route_prefix=None)
generators = [handle.options(stream=True).remote(n) for n in (2, 4, 3)]
print([list(g) for g in generators])
print(handle.collect.remote().result())
serve.shutdown()
