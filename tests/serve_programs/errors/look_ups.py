"""Errors of look-ups and of options."""

from anyserve import serve


@serve.deployment
def echo(x):
    return x


def name_of(call):
    try:
        call()
        return "no error"
    except Exception as e:
        return type(e).__name__


serve.run(echo.bind(), name="echo", route_prefix=None)
print(name_of(lambda: serve.get_app_handle("absent")))
print(name_of(lambda: serve.get_deployment_handle("absent", "echo")))
print(serve.get_deployment_handle("echo", "echo").remote(1).result())
print(serve.get_app_handle("echo").remote(2).result())
print(name_of(lambda: serve.delete("absent")))
print(name_of(lambda: echo.options(nonsense=1)))
print(name_of(lambda: echo.options(version="1")))
print(isinstance_of_value_error := name_of(lambda: serve.run(echo.bind(), name="x", route_prefix="nope")))
print(name_of(lambda: serve.run(echo)))
print(name_of(lambda: serve.run(echo.bind(), name="")))
try:
    echo.options(num_replicas=-1)
except ValueError:
    print("ValueError for num_replicas")
try:
    echo.options(max_queued_requests=0)
except ValueError:
    print("ValueError for max_queued_requests")
serve.shutdown()
