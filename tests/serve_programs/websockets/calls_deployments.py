"""A websocket whose messages go through another deployment, and a stream of answers."""

import os

from fastapi import FastAPI, WebSocket, WebSocketDisconnect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from anyserve import serve

URL = "ws://127.0.0.1:" + os.environ.get("PORT", "8000")
app = FastAPI()


@serve.deployment
class Translate:
    def __call__(self, word):
        return {"eins": "one", "zwei": "two"}.get(word, "?")

    def spell(self, word):
        yield from word


@serve.deployment
@serve.ingress(app)
class Front:
    def __init__(self, translate):
        self.translate = translate

    @app.websocket("/")
    async def talk(self, ws: WebSocket):
        await ws.accept()
        async for word in ws.iter_text():
            if word == "bug":
                raise ValueError("of the handler")
            answer = await self.translate.remote(word)
            await ws.send_text(answer)
            async for letter in self.translate.options(stream=True, method_name="spell").remote(answer):
                await ws.send_text(letter)
            await ws.send_text(".")


serve.run(Front.bind(Translate.bind()))
with connect(URL + "/", proxy=None) as ws:
    for word in ("eins", "zwei", "drei"):
        ws.send(word)
        got = [ws.recv()]
        while got[-1] != ".":
            got.append(ws.recv())
        print(word, got)
    ws.send("bug")
    try:
        ws.recv()
    except ConnectionClosed:
        print("closed")
serve.shutdown()
