"""X-Request-ID: taken over, or made; the same in all deployments that a request goes through."""

import os

import httpx

from anyserve import serve
from anyserve.serve.context import _get_serve_request_context

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Inner:
    async def __call__(self):
        return _get_serve_request_context().request_id


@serve.deployment
class Outer:
    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, request):
        own = _get_serve_request_context().request_id
        return [own, request.headers.get("x-request-id"), await self.inner.remote()]


serve.run(Outer.bind(Inner.bind()))
r = client.get("/", headers={"X-Request-ID": "my own id"})
print(r.headers["x-request-id"], r.json())
r = client.get("/")
made = r.headers["x-request-id"]
print(len(made), made.count("-"), r.json() == [made] * 3)
again = client.get("/").headers["x-request-id"]
print(again != made)
serve.shutdown()
