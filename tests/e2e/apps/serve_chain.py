"""Deployments that call each other; what they do is written where it is asked for (tests/e2e/serve)."""

import asyncio
import os
import threading

import numpy as np

from anyserve import serve


@serve.deployment(max_ongoing_requests=64)
class Back:
    def __init__(self):
        self.log = []

    async def __call__(self, x=None):
        return x

    def sync(self, x):
        return x

    async def look(self, array):
        return array.dtype.str, array.shape, array.flags.writeable, float(array[-1])

    async def ones(self, n):
        return np.ones(n, "u1")

    async def fail(self, text):
        raise ValueError(text)

    async def count(self, n):
        for i in range(n):
            yield i

    def count_sync(self, n):
        for i in range(n):
            yield i

    async def forever(self, key):
        self.log.append("begun " + key)
        try:
            await asyncio.Event().wait()
        finally:
            self.log.append("ended " + key)

    async def stream_forever(self, key):
        self.log.append("begun " + key)
        try:
            i = 0
            while True:
                yield i
                i += 1
                await asyncio.sleep(0)
        finally:
            self.log.append("ended " + key)

    async def get_log(self):
        return self.log

    async def pid(self):
        return os.getpid()


@serve.deployment(max_ongoing_requests=64)
class Front:
    def __init__(self, back, model=None):
        self.back = back

    async def __call__(self, x=None):
        return await self.back.remote(x)

    def sync(self, x):
        return self.back.sync.remote(x).result()

    async def method(self, name, *args):
        return await getattr(self.back, name).remote(*args)

    async def in_thread(self, x):
        return await asyncio.to_thread(lambda: self.back.remote(x).result())

    async def pass_on(self, n):
        return await self.back.look.remote(self.back.ones.remote(n))

    async def gather(self, n):
        return await asyncio.gather(*[self.back.remote(i) for i in range(n)])

    async def items(self, n, name="count"):
        return [i async for i in getattr(self.back, name).options(stream=True).remote(n)]

    async def relay(self, n):
        async for i in self.back.count.options(stream=True).remote(n):
            yield i

    def relay_sync(self, n):
        yield from self.back.count.options(stream=True).remote(n)

    async def cancel_child(self, key):
        response = self.back.forever.remote(key)
        while "begun " + key not in await self.back.get_log.remote():
            pass
        response.cancel()
        try:
            await response
        except serve.exceptions.RequestCancelledError as e:
            return str(e)

    async def leave_stream(self, key):
        async for _ in self.back.stream_forever.options(stream=True).remote(key):
            break

    async def background(self, n):
        for i in range(n):
            self.back.remote(i)

    async def sync_on_loop(self):
        try:
            self.back.remote(1).result()
        except RuntimeError as e:
            return str(e)


@serve.deployment
def negate(x: np.ndarray) -> np.ndarray:
    return -x


@serve.deployment
class Early:
    """Calls in its __init__, and in a thread of its own."""

    async def __init__(self, back):
        self.early = await back.remote("early")
        self.back = back
        self.from_thread = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        self.from_thread = self.back.remote("thread").result(timeout_s=30)

    async def __call__(self):
        while self.from_thread is None:
            await asyncio.sleep(0.01)
        return self.early, self.from_thread


back = Back.bind()
chain = Front.bind(back)
chain_and_model = Front.bind(back, negate.bind())  # with a model, /v2 is not the application's
early = Early.bind(Back.bind())
