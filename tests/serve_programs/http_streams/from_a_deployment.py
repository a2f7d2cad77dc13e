"""The ingress streams what another deployment yields."""

import os

import httpx
from starlette.responses import StreamingResponse

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Words:
    async def __call__(self, text):
        for word in text.split():
            yield word


@serve.deployment
class Front:
    def __init__(self, words):
        self.words = words.options(stream=True)

    async def lines(self, text):
        n = 0
        async for word in self.words.remote(text):
            n += 1
            yield "%d %s\n" % (n, word)

    async def __call__(self, request):
        return StreamingResponse(self.lines((await request.body()).decode()), media_type="text/plain")


serve.run(Front.bind(Words.bind()))
print(client.post("/", content="a stream of words").text)
print(repr(client.post("/", content="").text))
serve.shutdown()
