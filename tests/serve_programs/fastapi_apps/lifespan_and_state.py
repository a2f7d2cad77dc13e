"""FastAPI: lifespan before the first request, state, request.state, background tasks."""

import os
import time
from contextlib import asynccontextmanager

import httpx
from fastapi import BackgroundTasks, FastAPI, Request

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)


@asynccontextmanager
async def lifespan(app):
    app.state.began = "began"
    yield


app = FastAPI(lifespan=lifespan)


@app.middleware("http")
async def count(request: Request, call_next):
    request.state.mark = "marked"
    response = await call_next(request)
    response.headers["x-mark"] = request.state.mark
    return response


@serve.deployment
@serve.ingress(app)
class Api:
    def __init__(self):
        self.done = []

    @app.get("/state")
    def state(self, request: Request):
        return [request.app.state.began, request.state.mark]

    @app.post("/later/{what}")
    def later(self, what: str, tasks: BackgroundTasks):
        tasks.add_task(self.done.append, what)
        return "accepted"

    @app.get("/done")
    def get_done(self):
        return self.done


serve.run(Api.bind())
r = client.get("/state")
print(r.json(), r.headers["x-mark"])
print(client.post("/later/a").json(), client.post("/later/b").json())
for _ in range(100):
    if len(client.get("/done").json()) == 2:
        break
    time.sleep(0.05)
print(sorted(client.get("/done").json()))
serve.shutdown()
