"""Handshakes that are refused, subprotocols, headers, parameters of the path and the query."""

import os

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from anyserve import serve

URL = "ws://127.0.0.1:" + os.environ.get("PORT", "8000")
app = FastAPI()


@serve.deployment
@serve.ingress(app)
class Rooms:
    @app.websocket("/rooms/{room}")
    async def room(self, ws: WebSocket, room: int, name: str = "nobody"):
        if name == "eve":
            await ws.close(4003, "not you")
            return
        await ws.accept(subprotocol="chat.v2" if "chat.v2" in ws.scope["subprotocols"] else None, headers=[(b"x-room", b"%d" % room)])
        await ws.send_json([room, name, ws.scope["subprotocols"], ws.headers.get("x-own"), ws.scope["path"], ws.scope["type"], ws.scope["scheme"]])
        await ws.close()


serve.run(Rooms.bind(), route_prefix="/chat")


def try_it(path, **options):
    try:
        with connect(URL + path, proxy=None, **options) as ws:
            print(path, ws.subprotocol, ws.response.headers.get("x-room"), ws.recv())
            try:
                ws.recv()
            except ConnectionClosed as e:
                print("   ", e.rcvd.code)
    except InvalidStatus as e:
        print(path, e.response.status_code)


try_it("/chat/rooms/7")
try_it("/chat/rooms/7?name=ann", subprotocols=["chat.v1", "chat.v2"], additional_headers={"X-Own": "mine"})
try_it("/chat/rooms/7?name=ann", subprotocols=["other"])
try_it("/chat/rooms/7?name=eve")
try_it("/chat/rooms/seven")
try_it("/chat/nowhere")
serve.shutdown()
