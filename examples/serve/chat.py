"""Chat rooms over websockets, by FastAPI: python chat.py (the clients need `pip install websockets`)"""

import asyncio
import contextlib
import os
from typing import Dict, Set

from anyserve import serve
from fastapi import FastAPI, WebSocket, WebSocketDisconnect

app = FastAPI()


# Each open websocket takes one of `max_ongoing_requests`. The rooms are in the memory of the one replica.
@serve.deployment(num_replicas=1, max_ongoing_requests=1000)
@serve.ingress(app)
class Chat:
    def __init__(self) -> None:
        self.rooms: Dict[str, Set[WebSocket]] = {}

    @app.websocket("/rooms/{room}")
    async def talk(self, websocket: WebSocket, room: str, name: str) -> None:
        await websocket.accept()
        here = self.rooms.setdefault(room, set())
        here.add(websocket)
        try:
            await self.tell(here, f"{name} has come")
            async for text in websocket.iter_text():  # until the client closes, or has gone
                await self.tell(here, f"{name}: {text}")
        finally:
            here.discard(websocket)
            await self.tell(here, f"{name} has gone")

    async def tell(self, room: Set[WebSocket], text: str) -> None:
        for websocket in list(room):
            with contextlib.suppress(WebSocketDisconnect):  # another one, which has gone meanwhile
                await websocket.send_text(text)


chat = Chat.bind()


async def talk(address: str) -> None:
    from websockets.asyncio.client import connect

    async with connect(f"{address}?name=anna") as anna:
        print(await anna.recv())
        async with connect(f"{address}?name=bob") as bob:
            print(await anna.recv())
            await bob.send("hello")
            print(await anna.recv())
            await anna.send("hello, bob")
            print(await anna.recv())
        print(await anna.recv())


if __name__ == "__main__":
    serve.run(chat)
    asyncio.run(talk(f"ws://127.0.0.1:{os.environ.get('ANYSERVE_PORT', 8000)}/rooms/garden"))
