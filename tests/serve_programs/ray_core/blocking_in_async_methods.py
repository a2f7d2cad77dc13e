"""ray.get and ray.wait in async methods, of deployments and of actors: they block the event loop, and end."""

import asyncio

import ray
from ray import serve

ray.init(ignore_reinit_error=True)


@ray.remote
def double(n):
    return 2 * n


@ray.remote
def fails():
    raise KeyError("nothing there")


@ray.remote
class Shelf:
    def __init__(self):
        self.things = []

    def put(self, thing):
        self.things.append(thing)
        return len(self.things)

    def all(self):
        return self.things

    def each(self):
        for thing in self.things:
            yield thing

    async def never(self):
        await asyncio.Event().wait()


@ray.remote
class Clerk:
    async def carry(self, shelf, thing):
        return ray.get(shelf.put.remote(thing))


@serve.deployment
class Price:
    def __call__(self, n):
        return n + 100


@serve.deployment
class Shop:
    def __init__(self, price, shelf):
        self.price, self.shelf = price, shelf

    async def values(self):
        refs = [self.shelf.put.remote(thing) for thing in ("a", "b")]
        return ray.get(double.remote(4)), ray.get(refs), ray.get(double.remote(double.remote(1))), ray.get(ray.put("here"))

    async def as_arguments(self):
        ref = double.remote(5)
        return await self.price.remote(ref), ray.get(ref), await ref

    async def waits(self):
        ready, rest = ray.wait([self.shelf.never.remote(), double.remote(7)], timeout=30)
        try:
            ray.get(rest[0], timeout=0.2)
        except ray.exceptions.GetTimeoutError:
            return len(ready), len(rest), ray.get(ready[0])

    async def streams(self):
        return [ray.get(ref) for ref in self.shelf.each.options(num_returns="streaming").remote()]

    async def errors(self):
        try:
            ray.get(fails.remote())
        except KeyError as e:
            return type(e).__name__, str(e).strip().splitlines()[-1]

    async def by_an_actor(self):
        clerk = Clerk.remote()
        return ray.get(clerk.carry.remote(self.shelf, "c")), ray.get(self.shelf.all.remote())


shelf = Shelf.remote()
handle = serve.run(Shop.bind(Price.bind(), shelf), name="shop", route_prefix=None)
for method in "values", "as_arguments", "waits", "streams", "errors", "by_an_actor":
    print(method, getattr(handle, method).remote().result(timeout_s=60))
serve.shutdown()
ray.shutdown()
