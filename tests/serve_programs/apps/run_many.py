"""Several applications at once, which call each other by name; deployments of the same name."""

from anyserve import serve


@serve.deployment(name="model")
class A:
    def __call__(self, x):
        return f"a({x})"


@serve.deployment(name="model")
class B:
    async def __call__(self, x):
        inner = await serve.get_app_handle("first").remote(x)
        return f"b({inner})"


first, second = serve.run_many(
    [serve.RunTarget(A.bind(), name="first", route_prefix=None), serve.RunTarget(B.bind(), name="second", route_prefix=None)]
)
print(first.remote(1).result(), second.remote(2).result())
status = serve.status()
print(sorted((name, str(app.status.value), sorted(app.deployments)) for name, app in status.applications.items()))
serve.delete("first")
print(sorted(serve.status().applications))
serve.shutdown()
