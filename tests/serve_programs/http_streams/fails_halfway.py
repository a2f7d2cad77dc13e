"""A stream that fails: the status was sent, the connection breaks; the next request is served."""

import os

import httpx
from starlette.responses import StreamingResponse

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Stream:
    async def pieces(self):
        yield "one"
        yield "two"
        raise RuntimeError("halfway")

    def __call__(self, request):
        if request.url.path == "/fine":
            return "fine"
        return StreamingResponse(self.pieces())


serve.run(Stream.bind())
got = b""
with client.stream("GET", "/") as r:
    print(r.status_code)
    try:
        for piece in r.iter_bytes():
            got += piece
        print("whole")
    except httpx.TransportError:
        print("broken after", got)
print(client.get("/fine").text)
serve.shutdown()
