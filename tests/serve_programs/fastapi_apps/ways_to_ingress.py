"""An application from a function, a class of its own routes, a Starlette and a bare ASGI application."""

import os

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)


def build():
    app = FastAPI()

    @app.get("/made")
    def made():
        return "made"

    return app


@serve.deployment
@serve.ingress(build)
class FromFunction:
    pass


async def hello(request):
    return PlainTextResponse("hello from " + request.scope["root_path"])


starlette = Starlette(routes=[Route("/hello", hello)])


@serve.deployment
@serve.ingress(starlette)
class FromStarlette:
    pass


class Asgi:
    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": message["type"] + ".complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = [(b"x-method", scope["method"].encode()), (b"x-two", b"1"), (b"x-two", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"%d bytes" % len(body), "more_body": True})
        await send({"type": "http.response.body", "body": b", all of them"})


@serve.deployment
@serve.ingress(Asgi())
class FromAsgi:
    pass


serve.run(FromFunction.bind(), name="f", route_prefix="/f")
print(client.get("/f/made").json())
serve.run(FromStarlette.bind(), name="f", route_prefix="/f")
for _ in range(200):
    r = client.get("/f/hello")
    if r.status_code == 200:
        break
print(r.text)
serve.delete("f")
serve.run(FromAsgi.bind(), name="a", route_prefix="/a")
r = client.post("/a/x", content=b"x" * 1234)
print(r.status_code, r.headers["x-method"], r.headers.get_list("x-two"), r.text)
try:
    @serve.ingress(FastAPI())
    class Both:
        def __call__(self):
            pass
except ValueError as e:
    print(e)
serve.shutdown()
