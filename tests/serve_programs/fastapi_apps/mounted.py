"""FastAPI: mounted applications, routers, root_path and the OpenAPI page below a prefix."""

import os

import httpx
from fastapi import APIRouter, FastAPI, Request
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI(title="mounted", version="3")
sub = FastAPI()
router = APIRouter(prefix="/router")


@sub.get("/inner")
def inner(request: Request):
    return [request.url.path, request.scope["root_path"], request.scope["path"]]


@router.get("/{n}")
def routed(n: int, request: Request):
    return [n, str(request.url_for("routed", n=5)).partition("/v2")[2]]


async def plain(request):
    return PlainTextResponse("plain " + request.scope["path"])


app.include_router(router)
app.mount("/sub", sub)
app.mount("/star", Starlette(routes=[Route("/x", plain)]))


@serve.deployment
@serve.ingress(app)
class Api:
    @app.get("/")
    def root(self, request: Request):
        return [request.scope["root_path"], request.scope["path"]]


serve.run(Api.bind(), route_prefix="/v2")
for path in ("/v2", "/v2/", "/v2/router/7", "/v2/router/x", "/v2/sub/inner", "/v2/star/x", "/v2/star/y", "/v2/none"):
    r = client.get(path, follow_redirects=True)
    print(path, r.status_code, r.text)
openapi = client.get("/v2/openapi.json").json()
print(openapi["info"], openapi.get("servers"), sorted(openapi["paths"]))
print("/v2/openapi.json" in client.get("/v2/docs").text)
serve.shutdown()
