"""Handles under `import ray`: in tasks, in actors, and actors and tasks in deployments."""

import ray
from ray import serve
from ray.serve.handle import DeploymentHandle, DeploymentResponse


@ray.remote
def double(x):
    return 2 * x


@ray.remote
class Sum:
    def __init__(self):
        self.value = 0

    def add(self, x):
        self.value += x
        return self.value


@serve.deployment
class Front:
    def __init__(self, sums, back: DeploymentHandle):
        self.sums, self.back = sums, back

    async def __call__(self, x):
        doubled = await double.remote(x)
        return await self.back.remote(doubled), await self.sums.add.remote(doubled)

    def from_a_thread(self, x):
        return ray.get(double.remote(x)) + self.back.remote(1).result()


@serve.deployment
def back(x):
    return x + 0.5


@ray.remote
def call(handle, x):
    return handle.remote(x).result()


@ray.remote
class Caller:
    def __init__(self, handle):
        self.handle = handle

    async def call(self, x):
        return await self.handle.remote(x)


print(ray.is_initialized())
sums = Sum.remote()
handle = serve.run(Front.bind(sums, back.bind()), name="front", route_prefix=None)
print(ray.is_initialized(), isinstance(handle, DeploymentHandle))
response = handle.remote(3)
print(isinstance(response, DeploymentResponse), response.result())
print(handle.from_a_thread.remote(4).result())
print(ray.get(call.remote(handle, 5)))
print(ray.get(Caller.remote(handle).call.remote(6)))
print(ray.get(sums.add.remote(0)))
print(handle == serve.get_app_handle("front"), sorted(serve.status().applications))
serve.shutdown()
print(ray.get(double.remote(21)), ray.get(sums.add.remote(1)))
ray.shutdown()
print(ray.is_initialized())
