"""FastAPI: HTTPException, own handlers, errors that nobody handles."""

import os

import httpx
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI()


class Teapot(Exception):
    pass


@app.exception_handler(Teapot)
async def teapot(request: Request, e: Teapot):
    return JSONResponse({"teapot": str(e)}, status_code=418)


@serve.deployment
@serve.ingress(app)
class Api:
    @app.get("/http/{code}")
    def http(self, code: int):
        raise HTTPException(code, {"code": code}, headers={"x-code": str(code)})

    @app.get("/teapot")
    async def make(self):
        raise Teapot("short and stout")

    @app.get("/bug")
    def bug(self):
        return 1 / 0

    @app.get("/fine")
    def fine(self):
        return "fine"


serve.run(Api.bind())
for path in ("/http/404", "/http/503", "/teapot", "/bug", "/fine"):
    r = client.get(path)
    print(path, r.status_code, r.headers.get("x-code"), r.text)
serve.shutdown()
