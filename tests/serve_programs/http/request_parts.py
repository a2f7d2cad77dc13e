"""What a handler sees of a request."""

import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Look:
    async def __call__(self, request):
        body = await request.body()
        return {
            "method": request.method,
            "path": request.url.path,
            "query": request.url.query,
            "a": request.query_params.getlist("a"),
            "root_path": request.scope["root_path"],
            "scope_path": request.scope["path"],
            "raw_path": request.scope["raw_path"].decode(),
            "type": request.scope["type"],
            "scheme": request.url.scheme,
            "host": request.headers["host"].partition(":")[0],
            "own": request.headers.getlist("x-own"),
            "cookies": request.cookies,
            "content_type": request.headers.get("content-type"),
            "client": request.client.host,
            "size": len(body),
            "body": body[:20].decode("latin-1"),
        }


serve.run(Look.bind(), route_prefix="/look")
shown = [
    client.get("/look"),
    client.get("/look/"),
    client.get("/look/deeper/ü%2Fx?a=1&a=2&b=%20"),
    client.post("/look/json", json={"a": [1, 2]}),
    client.put("/look/form", data={"a": "b c"}),
    client.delete("/look/1", headers=[("X-Own", "1"), ("x-own", "2"), ("Cookie", "a=b; c=d")]),
    client.post("/look/large", content=b"x" * 300_000),
    client.post("/look/pieces", content=(b"y" * 1000 for _ in range(50))),
]
for r in shown:
    print(r.status_code)
    for key, value in r.json().items():
        print("   ", key, value)
serve.shutdown()
