"""A generator that fails: what came before arrives, then the error."""

from anyserve import serve


@serve.deployment
class Failing:
    def __call__(self, n):
        for i in range(n):
            yield i
        raise ValueError(f"after {n}")


@serve.deployment
class Reader:
    def __init__(self, source):
        self.source = source

    async def __call__(self, n):
        seen = []
        try:
            async for i in self.source.options(stream=True).remote(n):
                seen.append(i)
        except ValueError as e:
            seen.append(str(e).strip().splitlines()[-1])
        return seen


handle = serve.run(Reader.bind(Failing.bind()), name="failing", route_prefix=None)
print(handle.remote(2).result())
print(handle.remote(0).result())
source = serve.get_deployment_handle("Failing", "failing").options(stream=True)
seen = []
try:
    for i in source.remote(3):
        seen.append(i)
except ValueError as e:
    print(seen, str(e).strip().splitlines()[-1])
serve.shutdown()
