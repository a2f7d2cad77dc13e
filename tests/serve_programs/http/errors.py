"""Exceptions in handlers, and answers that cannot be made; the replica lives on."""

import os

import httpx
from starlette.exceptions import HTTPException

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Fails:
    def __init__(self):
        self.calls = 0

    async def __call__(self, request):
        self.calls += 1
        how = request.query_params.get("how")
        if how == "error":
            raise ValueError("no such luck")
        if how == "http":
            raise HTTPException(404, "not here")
        if how == "bytearray":
            return bytearray(b"x")
        if how == "nested":
            return {"inner": object}
        return "call %d" % self.calls


serve.run(Fails.bind())
for how in ("error", "http", "bytearray", "nested", "none"):
    r = client.get("/", params={"how": how})
    print(how, r.status_code, r.text)
print("unknown path below the prefix:", client.get("/somewhere").status_code)
serve.shutdown()
