"""An application for web pages of other sites: text, a stream, an error, CORS fields of its own."""

import asyncio

from starlette.responses import PlainTextResponse, StreamingResponse

from anyserve import serve


async def lines():
    for i in range(3):
        yield b"%d\n" % i
        await asyncio.sleep(0)


@serve.deployment
class Page:
    async def __call__(self, request):
        path = request.url.path
        if path == "/own":
            return PlainTextResponse("own", headers={"Access-Control-Allow-Origin": "https://own.example", "Vary": "accept"})
        if path == "/stream":
            return StreamingResponse(lines())
        if path == "/error":
            raise ValueError("no")
        return PlainTextResponse(f"{request.method} {path}", headers={"x-mine": "1"})


app = Page.bind()
