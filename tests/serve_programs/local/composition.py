"""Local testing mode: the graph in this process, without a server."""

import asyncio

from anyserve import serve


@serve.deployment
class Inner:
    def __init__(self, n):
        self.n = n

    async def __call__(self, x):
        return x + self.n

    def sync(self, x):
        return x - self.n


@serve.deployment
class Outer:
    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, x):
        return await self.inner.sync.remote(self.inner.remote(x))

    async def stream(self, n):
        for i in range(n):
            yield i


handle = serve.run(Outer.bind(Inner.bind(5)), _local_testing_mode=True)
print(handle.remote(10).result())
print(list(handle.options(stream=True).stream.remote(3)))


async def main():
    return await handle.remote(1), [i async for i in handle.options(stream=True).stream.remote(2)]


print(asyncio.run(main()))
