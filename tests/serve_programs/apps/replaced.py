"""A second run of an application replaces it; another application stays; delete is silent for unknown names."""

from anyserve import serve


@serve.deployment
class Version:
    def __init__(self, n):
        self.n = n

    def __call__(self):
        return self.n


@serve.deployment
def other():
    return "other"


first = serve.run(Version.bind(1), name="app", route_prefix=None)
serve.run(other.bind(), name="stays", route_prefix=None)
print(first.remote().result())
second = serve.run(Version.bind(2), name="app", route_prefix=None)
print(second.remote().result(), first.remote().result())
serve.run(other.bind(), name="app", route_prefix=None)
print(sorted(serve.status().applications["app"].deployments), serve.get_app_handle("app").remote().result())
serve.delete("app")
serve.delete("never")
print(sorted(serve.status().applications), serve.get_app_handle("stays").remote().result())
serve.shutdown()
print(sorted(serve.status().applications))
