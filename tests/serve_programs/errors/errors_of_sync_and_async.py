"""Errors of sync and async methods, with a cause, and of the constructor."""

from anyserve import serve


@serve.deployment
class Raises:
    def sync(self):
        try:
            1 / 0
        except ZeroDivisionError as e:
            raise RuntimeError("outer") from e

    async def asynchronous(self, n):
        raise IndexError(n)


@serve.deployment
class Broken:
    def __init__(self):
        raise OSError("no weights")


handle = serve.run(Raises.bind(), name="raises", route_prefix=None)
try:
    handle.sync.remote().result()
except RuntimeError as e:
    print(str(e).strip().splitlines()[-1])
try:
    handle.asynchronous.remote(3).result()
except IndexError as e:
    print(str(e).strip().splitlines()[-1])
try:
    serve.run(Broken.bind(), name="broken", route_prefix=None)
except RuntimeError as e:
    print(str(e).splitlines()[0].startswith("Deploying application broken failed"))
print(serve.status().applications["broken"].status)
print("no weights" in serve.status().applications["broken"].deployments["Broken"].message)
serve.shutdown()
