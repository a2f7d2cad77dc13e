"""StreamingResponse of sync and async generators; the pieces come one by one."""

import asyncio
import os

import httpx
from starlette.responses import StreamingResponse

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Stream:
    def numbers(self, n):
        for i in range(n):
            yield "%d\n" % i

    async def slowly(self, n):
        for i in range(n):
            yield b"%d;" % i
            await asyncio.sleep(0.1)

    def __call__(self, request):
        n = int(request.query_params["n"])
        if "slowly" in request.query_params:
            return StreamingResponse(self.slowly(n), media_type="application/x-numbers", status_code=206, headers={"x-n": str(n)})
        return StreamingResponse(self.numbers(n), media_type="text/plain")


serve.run(Stream.bind())
r = client.get("/?n=1000")
print(r.status_code, r.headers["content-type"], r.headers.get("content-length"), len(r.text.split()))
with client.stream("GET", "/?n=5&slowly=1") as r:
    pieces = list(r.iter_bytes())
    print(r.status_code, r.headers["content-type"], r.headers["x-n"], r.headers.get("transfer-encoding"), pieces)
print(client.get("/?n=0").content)
serve.shutdown()
