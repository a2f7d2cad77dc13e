"""Names of run_many must differ; a prefix belongs to one application."""

from anyserve import serve


@serve.deployment
def f():
    return "f"


def attempt(*targets):
    try:
        handles = serve.run_many(list(targets))
        return [h.app_name for h in handles]
    except Exception as e:
        return type(e).__name__


print(attempt(serve.RunTarget(f.bind(), name="x", route_prefix=None), serve.RunTarget(f.bind(), name="x", route_prefix=None)))
print(attempt(serve.RunTarget(f.bind(), name="y", route_prefix="/y"), serve.RunTarget(f.bind(), name="z", route_prefix="/z")))
print([h.remote().result() for h in (serve.get_app_handle("y"), serve.get_app_handle("z"))])
try:
    serve.run(f.bind(), name="clash", route_prefix="/y")
except Exception:
    print("clash refused")
print(serve.get_app_handle("y").remote().result())
serve.shutdown()
