"""Generators of a replica, read by the driver: sync and async generators, empty ones, an early stop."""

from anyserve import serve


@serve.deployment
class Streams:
    def count(self, n):
        for i in range(n):
            yield i

    async def acount(self, n):
        for i in range(n):
            yield {"i": i}


handle = serve.run(Streams.bind(), name="streams", route_prefix=None)
print(list(handle.options(stream=True).count.remote(5)))
print(list(handle.acount.options(stream=True).remote(3)))
print(list(handle.options(stream=True, method_name="count").remote(0)))
generator = handle.options(stream=True).count.remote(1000)
first = [next(generator) for _ in range(3)]
generator.cancel()
print(first)
print(list(handle.options(stream=True).count.remote(2)))
serve.shutdown()
