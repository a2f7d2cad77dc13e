"""An HTTP ingress calls two deployments side by side, and one after the other."""

import asyncio
import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Count:
    def __call__(self, text, unit):
        return len(text.split() if unit == "words" else text)


@serve.deployment
class Shout:
    async def __call__(self, text):
        return text.upper() + "!"


@serve.deployment
class Front:
    def __init__(self, count, shout):
        self.count, self.shout = count, shout

    async def __call__(self, request):
        text = (await request.body()).decode()
        words, letters = await asyncio.gather(self.count.remote(text, "words"), self.count.remote(text, unit="letters"))
        return {"words": words, "letters": letters, "loud": await self.shout.remote(self.shout.remote(text))}


serve.run(Front.bind(Count.bind(), Shout.bind()))
print(client.post("/", content="one two three").json())
r = client.post("/", content="ab " * 3413)
print(r.json()["words"], r.json()["letters"], len(r.json()["loud"]))
serve.shutdown()
