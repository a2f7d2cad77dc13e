"""Responses are awaited in several event loops, one after another and at once; result() on a loop is refused."""

import asyncio
import threading

from anyserve import serve


@serve.deployment(max_ongoing_requests=50)
class Double:
    async def __call__(self, x):
        return 2 * x

    async def stream(self, n):
        for i in range(n):
            yield i


handle = serve.run(Double.bind(), name="double", route_prefix=None)


async def gather(n):
    values = await asyncio.gather(*(handle.remote(i) for i in range(n)))
    items = [i async for i in handle.options(stream=True).stream.remote(3)]
    return sum(values), items


print(asyncio.run(gather(5)))
print(asyncio.run(gather(6)))
found = {}
threads = [threading.Thread(target=lambda k=k: found.update({k: asyncio.run(gather(k))})) for k in range(4)]
for t in threads:
    t.start()
for t in threads:
    t.join()
print(sorted(found.items()))


async def blocking():
    try:
        handle.remote(1).result()
    except RuntimeError:
        return "RuntimeError"


print(asyncio.run(blocking()))
serve.shutdown()
