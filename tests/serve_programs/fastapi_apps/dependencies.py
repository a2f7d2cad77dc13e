"""FastAPI: dependencies with yield, of classes, cached, of routers; header authentication."""

import asyncio
import os
from typing import Annotated

import httpx
from fastapi import Depends, FastAPI, Header, HTTPException, Query

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)
app = FastAPI()
log = []


def page(skip: int = 0, limit: Annotated[int, Query(le=100)] = 10):
    return {"skip": skip, "limit": limit}


class Filter:
    def __init__(self, q: str | None = None, tag: Annotated[list[str], Query()] = []):
        self.q, self.tag = q, tag


def session():
    log.append("open")
    try:
        yield "session %d" % log.count("open")
    finally:
        log.append("close")


def user(x_token: Annotated[str | None, Header()] = None, s: str = Depends(session)):
    if x_token != "secret":
        raise HTTPException(401, "no token", headers={"WWW-Authenticate": "Token"})
    return "ann in " + s


@serve.deployment
@serve.ingress(app)
class Api:
    def __init__(self):
        self.count = 0

    @app.get("/items")
    def items(self, p: Annotated[dict, Depends(page)], f: Annotated[Filter, Depends()]):
        self.count += 1
        return {"page": p, "q": f.q, "tag": f.tag, "count": self.count}

    @app.get("/me")
    async def me(self, who: Annotated[str, Depends(user)], s: Annotated[str, Depends(session)]):
        return {"who": who, "same": who.endswith(s)}

    @app.get("/log", dependencies=[Depends(user)])
    async def log(self):
        while log.count("close") < log.count("open") - 1:  # a dependency ends after its response
            await asyncio.sleep(0.01)
        return sorted(log)


serve.run(Api.bind())
secret = {"X-Token": "secret"}
for path, headers in (("/items", {}), ("/items?skip=3&limit=7&q=x&tag=a&tag=b", {}), ("/items?limit=101", {}), ("/items?skip=no", {}),
                      ("/me", {}), ("/me", secret), ("/me", secret), ("/log", secret), ("/nothing", {})):
    r = client.get(path, headers=headers)
    print(path, r.status_code, r.headers.get("www-authenticate"), r.text)
print(client.post("/items").status_code)
serve.shutdown()
