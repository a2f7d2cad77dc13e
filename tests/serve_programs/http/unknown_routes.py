"""Paths that belong to no application."""

import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
def here(request):
    return "here " + request.url.path


serve.run(here.bind(), route_prefix="/here")
for path in ("/here", "/here/", "/here/x", "/hereafter", "/he", "/nowhere?x=1"):
    r = client.get(path)
    print(path, r.status_code, r.text)
r = client.post("/nowhere", content=b"x" * 100_000)
print(r.status_code)
serve.shutdown()
