"""http_options.root_path: clients do not send it, applications see it in root_path, path and links."""

import os

import httpx
import websockets.sync.client
from fastapi import FastAPI, Request, WebSocket

from anyserve import serve

PORT = os.environ.get("PORT", "8000")
client = httpx.Client(base_url="http://127.0.0.1:" + PORT, trust_env=False, timeout=60)
api = FastAPI()


@serve.deployment
class Plain:
    def __call__(self, request):
        scope = request.scope
        return [scope["root_path"], scope["path"], scope["raw_path"].decode(), request.url.path, request.query_params.get("q")]


@serve.deployment
@serve.ingress(api)
class Api:
    @api.get("/info/{item}")
    def info(self, request: Request, item: str):
        return [request.scope["root_path"], request.scope["path"], item, request.url_for("info", item="z").path]

    @api.websocket("/chat")
    async def chat(self, ws: WebSocket):
        await ws.accept()
        await ws.send_json([ws.scope["root_path"], ws.scope["path"]])
        await ws.close()


serve.start(http_options={"port": int(PORT), "root_path": "/proxied"})
serve.run(Api.bind(), name="api", route_prefix="/api")
serve.run(Plain.bind(), name="deep", route_prefix="/api/plain")
for path in ("/api/info/a%20b", "/api/info/%C3%A9?q=1", "/api/plain", "/api/plain/a%2Fb?q=2", "/api/plain//x/", "/proxied/api/info/a",
             "/proxied/api/plain", "/x%20y", "/-/healthz", "/proxied/-/healthz", "/api/openapi.json", "/api/nothing"):
    r = client.get(path)
    body = r.json().get("servers", r.text) if path.endswith("openapi.json") else r.text
    print(path, r.status_code, body)
with websockets.sync.client.connect("ws://127.0.0.1:%s/api/chat" % PORT) as ws:
    print(ws.recv())
serve.delete("api")
serve.delete("deep")
serve.run(Plain.bind(), name="all", route_prefix="/")
for path in ("/", "/x?q=3", "/proxied/x"):
    print(path, client.get(path).json())
serve.shutdown()
