"""FastAPI: server-sent events and a stream of JSON lines from an async generator."""

import json
import os

import httpx
from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI()


@serve.deployment
class Tokens:
    def __call__(self, text):
        yield from text.split()


@serve.deployment
@serve.ingress(app)
class Api:
    def __init__(self, tokens):
        self.tokens = tokens.options(stream=True)

    @app.get("/events")
    async def events(self, text: str):
        async def made():
            n = 0
            async for token in self.tokens.remote(text):
                yield "id: %d\ndata: %s\n\n" % (n, json.dumps({"token": token}))
                n += 1
            yield "data: [DONE]\n\n"

        return StreamingResponse(made(), media_type="text/event-stream", headers={"cache-control": "no-cache"})

    @app.get("/lines/{n}")
    def lines(self, n: int):
        return StreamingResponse((json.dumps({"i": i}) + "\n" for i in range(n)), media_type="application/x-ndjson")


serve.run(Api.bind(Tokens.bind()))
with client.stream("GET", "/events", params={"text": "the quick brown fox"}) as r:
    print(r.status_code, r.headers["content-type"], r.headers["cache-control"])
    print([line for line in r.iter_lines() if line])
print(client.get("/lines/3").text.split())
serve.shutdown()
