"""A response inside a list is refused; inside a replica, responses are gathered and passed on as values."""

import asyncio

from anyserve import serve


@serve.deployment
def square(x):
    return x * x


@serve.deployment
def total(values):
    return sum(values)


@serve.deployment
class Root:
    def __init__(self, square, total):
        self.square, self.total = square, total

    async def __call__(self, n):
        values = await asyncio.gather(*[self.square.remote(i) for i in range(n)])
        return await self.total.remote(list(values))

    async def refused(self):
        try:
            return await self.total.remote([self.square.remote(2)])
        except Exception as e:
            return type(e).__name__


handle = serve.run(Root.bind(square.bind(), total.bind()), name="containers", route_prefix=None)
print(handle.remote(6).result())
print(handle.refused.remote().result())
serve.shutdown()
