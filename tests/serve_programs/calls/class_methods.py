"""Methods of a class: sync, async, with defaults, static and class methods; attributes of the handle are methods."""

from anyserve import serve


@serve.deployment(name="calculator")
class Calculator:
    factor = 10

    def __init__(self, start, step=1):
        self.value = start
        self.step = step

    def __call__(self, x):
        return x * self.factor

    def add(self, n=None):
        self.value += self.step if n is None else n
        return self.value

    async def get(self):
        return self.value

    @staticmethod
    def double(x):
        return 2 * x

    @classmethod
    def times(cls, x):
        return cls.factor * x


handle = serve.run(Calculator.bind(5, step=2), name="calc", route_prefix=None)
print(handle.remote(7).result())
print(handle.add.remote().result(), handle.add.remote(10).result(), handle.get.remote().result())
print(handle.options(method_name="double").remote(21).result())
print(handle.double.remote(4).result(), handle.times.remote(3).result())
print(handle.add.options(method_name="get").remote().result())
serve.shutdown()
