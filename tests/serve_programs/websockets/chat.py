"""A chat: what one client says reaches all clients of its room."""

import os

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from anyserve import serve

URL = "ws://127.0.0.1:" + os.environ.get("PORT", "8000")
app = FastAPI()


@serve.deployment(max_ongoing_requests=10)
@serve.ingress(app)
class Chat:
    def __init__(self):
        self.rooms = {}

    async def say(self, room, text):
        for ws in self.rooms[room]:
            await ws.send_text(text)

    @app.websocket("/{room}/{name}")
    async def talk(self, ws: WebSocket, room: str, name: str):
        await ws.accept()
        self.rooms.setdefault(room, []).append(ws)
        await self.say(room, name + " is here")
        try:
            while True:
                await self.say(room, "%s: %s" % (name, await ws.receive_text()))
        except WebSocketDisconnect:
            self.rooms[room].remove(ws)
            await self.say(room, name + " has gone")


serve.run(Chat.bind())
ann = connect(URL + "/a/ann", proxy=None)
print("ann:", ann.recv())
bob = connect(URL + "/a/bob", proxy=None)
print("ann:", ann.recv(), "| bob:", bob.recv())
eve = connect(URL + "/b/eve", proxy=None)
print("eve:", eve.recv())
ann.send("hello")
print("ann:", ann.recv(), "| bob:", bob.recv())
eve.send("anyone?")
print("eve:", eve.recv())
bob.close()
print("ann:", ann.recv())
ann.close()
eve.close()
serve.shutdown()
