"""Every method reaches a plain deployment."""

import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Methods:
    async def __call__(self, request):
        return "%s %d" % (request.method, len(await request.body()))


serve.run(Methods.bind())
for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"):
    r = client.request(method, "/thing", content=b"body" if method in ("POST", "PUT", "PATCH") else None)
    print(method, r.status_code, r.headers.get("content-type"), r.text)
serve.shutdown()
