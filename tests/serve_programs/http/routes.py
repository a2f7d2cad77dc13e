"""Several applications: the longest prefix counts; /-/routes and /-/healthz."""

import os
import time

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Named:
    def __init__(self, name):
        self.name = name

    def __call__(self, request):
        return "%s %s %s" % (self.name, request.scope["root_path"], request.scope["path"])


def until(path, text):
    """Routes reach the proxy a moment after a deploy."""
    for _ in range(200):
        r = client.get(path)
        if r.text.startswith(text):
            return r.text
        time.sleep(0.05)
    return "%d %s" % (r.status_code, r.text)


serve.run(Named.bind("root"), name="root", route_prefix="/")
serve.run(Named.bind("api"), name="api", route_prefix="/api")
serve.run(Named.bind("deep"), name="deep", route_prefix="/api/v1/deep")
serve.run(Named.bind("none"), name="none", route_prefix=None)
for path, text in (("/", "root"), ("/x", "root"), ("/api", "api"), ("/api/", "api"), ("/apix", "root"), ("/api/v1", "api"),
                   ("/api/v1/deep", "deep"), ("/api/v1/deep/er", "deep"), ("/api/v1/deeper", "api")):
    print(path, "->", until(path, text))
print(sorted(client.get("/-/routes").json().items()))
print(client.get("/-/healthz").status_code, client.get("/-/healthz").text)
print(serve.get_app_handle("none").options(method_name="__call__") is not None)

serve.delete("deep")
print(until("/api/v1/deep", "api"))
serve.run(Named.bind("moved"), name="api", route_prefix="/moved")
print(until("/moved/a", "moved"))
print(until("/api/a", "root"))
print(sorted(client.get("/-/routes").json().items()))
serve.shutdown()
