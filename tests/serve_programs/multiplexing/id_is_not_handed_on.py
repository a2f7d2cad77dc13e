"""The id of a call is seen by its handler only, and has to be handed on."""

from anyserve import serve


@serve.deployment
class Inner:
    def __call__(self):
        return serve.get_multiplexed_model_id()


@serve.deployment
class Outer:
    def __init__(self, inner):
        self.inner = inner

    async def __call__(self):
        mine = serve.get_multiplexed_model_id()
        theirs = await self.inner.remote()
        handed = await self.inner.options(multiplexed_model_id=mine).remote()
        return [mine, theirs, handed]


handle = serve.run(Outer.bind(Inner.bind()), name="ids", route_prefix=None)
print(handle.options(multiplexed_model_id="m1").remote().result())
print(handle.remote().result())
serve.shutdown()
