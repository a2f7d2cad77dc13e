"""What the tests of API keys serve: models of this file, and applications that show the fields they get."""

import json
import os
import time
from typing import AsyncIterator

import numpy as np

from anyserve import AnyServe, Request, Tensor, serve

app = AnyServe()


@app.model("iris", inputs={"x": Tensor("INT64", [-1])}, outputs={"x": Tensor("INT64", [-1])})
def iris(x):
    return x


@app.model("secret", inputs={"x": Tensor("INT64", [-1])}, outputs={"x": Tensor("INT64", [-1])})
def secret(x):
    return x


@app.model("fields")
def fields(request):
    return {"shown": np.array([json.dumps(dict(request.metadata)).encode()], object)}


@app.model("slow")
def slow(x):
    """Answers when the file is there that it is told."""
    while not os.path.exists(x[0].decode()):
        time.sleep(0.01)
    return x


@app.model("total")
async def total(requests: AsyncIterator[Request]):
    return np.array([sum([int(r.inputs["x"][0]) async for r in requests])])


class App:
    """Echoes on websockets. Answers with the fields that it gets; /closes: with how websockets have ended."""

    closes = []

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.accept"})
            while (message := await receive())["type"] == "websocket.receive":
                await send({"type": "websocket.send", "text": message["text"]})
            self.closes.append([message["code"], message.get("reason")])
            return
        if scope["type"] != "http":
            return
        fields = {k.decode(): v.decode() for k, v in scope["headers"]}
        body = json.dumps(self.closes if scope["path"].endswith("/closes") else fields).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": body})


@serve.deployment
@serve.ingress(App())
class Shown:
    pass


shop, blog = Shown.bind(), Shown.bind()
