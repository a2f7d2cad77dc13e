"""Server-sent events: a generator of a model's tokens reaches the browser as it runs: python http_events.py"""

import asyncio
import os
from typing import AsyncIterator
from urllib.request import urlopen

from fastapi import FastAPI
from fastapi.responses import StreamingResponse

from anyserve import serve
from anyserve.serve.handle import DeploymentHandle

URL = "http://127.0.0.1:%s" % os.environ.get("ANYSERVE_PORT", "8000")
api = FastAPI()


@serve.deployment
class Model:
    async def generate(self, prompt: str) -> AsyncIterator[str]:
        for word in prompt.split():
            await asyncio.sleep(0.01)
            yield word.upper()


@serve.deployment
@serve.ingress(api)
class Events:
    def __init__(self, model: DeploymentHandle) -> None:
        self.model = model.options(stream=True)

    @api.get("/tokens")
    async def tokens(self, prompt: str) -> StreamingResponse:
        async def events() -> AsyncIterator[str]:
            async for token in self.model.generate.remote(prompt):  # ends when the client goes away
                yield "data: %s\n\n" % token

        return StreamingResponse(events(), media_type="text/event-stream")


app = Events.bind(Model.bind())

if __name__ == "__main__":
    serve.run(app)
    with urlopen(URL + "/tokens?prompt=one+two+three") as answer:
        print(answer.headers["content-type"])
        for line in answer:
            if line.strip():
                print(line.decode().strip())
