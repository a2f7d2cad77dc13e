"""A cancelled parent's children are cancelled, two hops down."""

import asyncio

from anyserve import serve
from anyserve.serve.exceptions import RequestCancelledError


@serve.deployment
class Leaf:
    def __init__(self):
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    async def __call__(self):
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    async def wait_for(self, what):
        await getattr(self, what).wait()
        return what


@serve.deployment
class Middle:
    def __init__(self, *leaves):
        self.leaves = leaves

    async def __call__(self):
        return await asyncio.gather(*(leaf.remote() for leaf in self.leaves))


@serve.deployment
class Top:
    def __init__(self, middle):
        self.middle = middle

    async def __call__(self):
        return await self.middle.remote()


app = Top.bind(Middle.bind(*(Leaf.options(name=n).bind() for n in ("left", "right"))))
handle = serve.run(app, name="tree", route_prefix=None)
leaves = [serve.get_deployment_handle(n, "tree") for n in ("left", "right")]
response = handle.remote()
print([leaf.wait_for.remote("started").result(timeout_s=30) for leaf in leaves])
response.cancel()
try:
    response.result(timeout_s=30)
except RequestCancelledError:
    print("RequestCancelledError")
print([leaf.wait_for.remote("cancelled").result(timeout_s=30) for leaf in leaves])
serve.shutdown()
