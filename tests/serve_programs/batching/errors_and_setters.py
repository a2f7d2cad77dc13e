"""A batch that raises fails all; a wrong length fails all; the setters change the size."""

import asyncio

from anyserve import serve


@serve.deployment(max_ongoing_requests=20)
class Batched:
    @serve.batch(max_batch_size=2, batch_wait_timeout_s=60)
    async def run(self, values):
        if "raise" in values:
            raise RuntimeError("whole batch")
        return values[:1] if "short" in values else values

    async def both(self, a, b):
        out = await asyncio.gather(self.run(a), self.run(b), return_exceptions=True)
        return [v if isinstance(v, str) else f"{type(v).__name__}: {v}" for v in out]

    async def three(self):
        self.run.set_max_batch_size(3)
        return await asyncio.gather(self.run("x"), self.run("y"), self.run("z"))

    async def one(self):
        self.run.set_batch_wait_timeout_s(0.01)
        return await self.run("alone")


handle = serve.run(Batched.bind(), name="batched", route_prefix=None)
print(handle.both.remote("a", "b").result())
print(handle.both.remote("a", "raise").result())
print(handle.both.remote("short", "b").result())
print(handle.three.remote().result())
print(handle.one.remote().result())
serve.shutdown()
