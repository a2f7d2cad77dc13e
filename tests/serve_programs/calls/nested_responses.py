"""A response is an argument of another call, positional and keyword; one response feeds several calls."""

from anyserve import serve


@serve.deployment
class Adder:
    def __init__(self, n):
        self.n = n

    async def __call__(self, x, y=0):
        return x + y + self.n


@serve.deployment
def join(a, b, *, label):
    return f"{label}: {a} and {b}"


@serve.deployment
class Root:
    def __init__(self, one, two, joiner):
        self.one, self.two, self.joiner = one, two, joiner

    async def __call__(self, x):
        first = self.one.remote(x)
        second = self.two.remote(first)
        third = self.two.remote(first, y=second)
        return await self.joiner.remote(second, third, label=self.one.remote(0))


app = Root.bind(Adder.options(name="one").bind(1), Adder.options(name="two").bind(2), join.bind())
handle = serve.run(app, name="nested", route_prefix=None)
print(handle.remote(10).result())

one = serve.get_deployment_handle("one", "nested")
two = serve.get_deployment_handle("two", "nested")
value = one.remote(100)
print(two.remote(value).result(), two.remote(1, y=value).result(), value.result())
serve.shutdown()
