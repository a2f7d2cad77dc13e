"""`import starlette` alone: its modules are there after ray.serve was imported."""

import os
import urllib.request

import ray
import starlette
from ray import serve

ray.init(ignore_reinit_error=True)
URL = "http://127.0.0.1:%s" % os.environ.get("PORT", "8000")


@serve.deployment
class Echo:
    async def __call__(self, request: starlette.requests.Request) -> starlette.responses.Response:
        body = (await request.body()).decode()
        return starlette.responses.PlainTextResponse("%s %s" % (request.method, body), status_code=201)


serve.run(Echo.bind())
with urllib.request.urlopen(URL, data=b"hello") as answer:
    print(answer.status, answer.read().decode())
try:
    starlette.no_such_module
except AttributeError as e:
    print(type(e).__name__)
serve.shutdown()
ray.shutdown()
