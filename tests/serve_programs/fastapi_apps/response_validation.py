"""FastAPI: a response that is not as its model says, other response classes, cookies and headers."""

import os

import httpx
from fastapi import FastAPI, Response
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse
from pydantic import BaseModel

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI()


class Point(BaseModel):
    x: int
    y: int


@serve.deployment
@serve.ingress(app)
class Api:
    @app.get("/right", response_model=Point)
    def right(self):
        return {"x": "1", "y": 2, "z": 3}

    @app.get("/wrong", response_model=Point)
    def wrong(self):
        return {"x": "one"}

    @app.get("/html", response_class=HTMLResponse)
    def html(self):
        return "<p>hello</p>"

    @app.get("/text", response_class=PlainTextResponse, status_code=203)
    def text(self):
        return "hello"

    @app.get("/cookie")
    def cookie(self, response: Response):
        response.set_cookie("a", "b", httponly=True)
        response.headers["x-own"] = "1"
        response.status_code = 202
        return {"a": "b"}

    @app.get("/go")
    def go(self):
        return RedirectResponse("/api/text", status_code=303)

    @app.delete("/gone", status_code=204)
    def gone(self):
        return None


serve.run(Api.bind(), route_prefix="/api")
for path in ("/right", "/wrong", "/html", "/text", "/cookie", "/go"):
    r = client.get("/api" + path)
    print(path, r.status_code, r.headers.get("content-type"), r.text)
    print("   ", r.headers.get("set-cookie"), r.headers.get("x-own"), r.headers.get("location"))
r = client.delete("/api/gone")
print(r.status_code, r.content, r.headers.get("content-length"))
print(client.get("/api/text/", follow_redirects=False).status_code)
serve.shutdown()
