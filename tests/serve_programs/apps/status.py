"""serve.status(): names, states and messages."""

from anyserve import serve


@serve.deployment(num_replicas=2)
class A:
    def __call__(self):
        return 1


@serve.deployment
class B:
    def __init__(self, a):
        self.a = a

    async def __call__(self):
        return await self.a.remote()


serve.run(B.bind(A.bind()), name="app", route_prefix="/app")
app = serve.status().applications["app"]
print(app.status, app.status == "RUNNING", repr(app.message))
for name, d in sorted(app.deployments.items()):
    print(name, d.status, d.status.value, d.replica_states)
serve.shutdown()
