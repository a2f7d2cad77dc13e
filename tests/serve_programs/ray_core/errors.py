"""Errors that go through tasks, actors and deployments keep their class, and RayTaskError."""

import ray
from ray import serve
from ray.exceptions import RayActorError, RayError, RayTaskError, TaskCancelledError
from ray.serve.exceptions import RayServeException


class Refused(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


@serve.deployment
class Gate:
    async def __call__(self, code):
        raise Refused(code)


@ray.remote
def through(handle, code):
    return handle.remote(code).result()


@ray.remote
class Middle:
    def ask(self, handle, code):
        return ray.get(through.remote(handle, code))


handle = serve.run(Gate.bind(), name="gate", route_prefix=None)
for call in (lambda: handle.remote(1).result(), lambda: ray.get(through.remote(handle, 2)), lambda: ray.get(Middle.remote().ask.remote(handle, 3))):
    try:
        call()
    except Refused as e:
        print("Refused", e.code, isinstance(e, RayTaskError), isinstance(e, RayError), str(e).strip().splitlines()[-1].endswith("Refused: %d" % e.code))

print(issubclass(RayActorError, RayError), issubclass(TaskCancelledError, RayError), issubclass(RayServeException, RayError))
print(issubclass(serve.exceptions.RequestCancelledError, TaskCancelledError))
serve.shutdown()
ray.shutdown()
