"""A websocket: texts, bytes, JSON, close codes from both sides."""

import os

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from anyserve import serve

URL = "ws://127.0.0.1:" + os.environ.get("PORT", "8000")
app = FastAPI()


@serve.deployment
@serve.ingress(app)
class Echo:
    def __init__(self):
        self.codes = []

    @app.websocket("/text")
    async def text(self, ws: WebSocket):
        await ws.accept()
        try:
            while True:
                await ws.send_text("got " + await ws.receive_text())
        except WebSocketDisconnect as e:
            self.codes.append(e.code)

    @app.websocket("/bytes")
    async def bytes(self, ws: WebSocket):
        await ws.accept()
        data = await ws.receive_bytes()
        await ws.send_bytes(data[::-1])
        await ws.send_json({"size": len(data)})
        await ws.close(4001, "enough")

    @app.get("/codes")
    def get_codes(self):
        return self.codes


serve.run(Echo.bind())
with connect(URL + "/text", proxy=None) as ws:
    for word in ("one", "zwölf", "", "x" * 100_000):
        ws.send(word)
        got = ws.recv()
        print(len(got), got[:10])
with connect(URL + "/text", proxy=None) as ws:
    ws.send("last")
    print(ws.recv())
    ws.close(4321, "my reason")
with connect(URL + "/bytes", proxy=None) as ws:
    ws.send(bytes(range(200)))
    print(ws.recv()[:4], ws.recv())
    try:
        ws.recv()
    except ConnectionClosed as e:
        print(e.rcvd.code, e.rcvd.reason)
import urllib.request

for _ in range(100):
    codes = urllib.request.urlopen("http" + URL[2:] + "/codes").read().decode()
    if codes.count(",") == 1:
        break
print(codes)
serve.shutdown()
