"""Bound deployments in lists and dicts arrive as handles; one bound node used twice is one deployment."""

from anyserve import serve


@serve.deployment
class Model:
    def __init__(self, name):
        self.name = name
        self.count = 0

    def __call__(self, x):
        self.count += 1
        return f"{self.name}({x})#{self.count}"


@serve.deployment
class Router:
    def __init__(self, by_name, listed, again):
        self.by_name, self.listed, self.again = by_name, listed, again

    async def __call__(self, name, x):
        return await self.by_name[name].remote(x)

    async def all(self, x):
        return [await h.remote(x) for h in self.listed]

    def names(self):
        return [h.deployment_name for h in self.listed] + [self.again.deployment_name]


cat, dog = Model.options(name="cat").bind("cat"), Model.options(name="dog").bind("dog")
other = Model.bind("x"), Model.bind("y")
app = Router.bind({"cat": cat, "dog": dog}, [cat, dog, *other], cat)
handle = serve.run(app, name="zoo", route_prefix=None)
print(handle.remote("dog", 1).result())
print(handle.remote("cat", 2).result())
print(handle.all.remote(3).result())
print(handle.names.remote().result())
print(sorted(serve.status().applications["zoo"].deployments))
serve.shutdown()
