"""A function is a deployment: positional and keyword arguments, defaults, several return types."""

from anyserve import serve


@serve.deployment
def describe(*args, sep="-", **rest):
    return {"text": sep.join(str(a) for a in args), "rest": sorted(rest.items())}


handle = serve.run(describe.bind(), name="text", route_prefix=None)
print(handle.remote(1, 2, 3).result())
print(handle.remote("a", "b", sep="/").result())
print(handle.remote(x=1, y=[1, 2]).result())
print(handle.remote().result())
print(handle.app_name, handle.deployment_name)
serve.shutdown()
