"""A middleware that lets only those in who have a key: python http_auth.py"""

import os
import secrets
from typing import Awaitable, Callable
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import fastapi
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse, Response

from anyserve import serve

URL = "http://127.0.0.1:%s" % os.environ.get("ANYSERVE_PORT", "8000")
KEYS = {"anna": "anna's key", "bob": "bob's key"}
api = FastAPI()


@api.middleware("http")
async def authenticate(request: fastapi.Request, call_next: Callable[[fastapi.Request], Awaitable[Response]]) -> Response:
    given = request.headers.get("authorization", "").removeprefix("Bearer ")
    for user, key in KEYS.items():
        if secrets.compare_digest(given.encode(), key.encode()):
            request.state.user = user
            return await call_next(request)
    return PlainTextResponse("a key is needed", 401, {"www-authenticate": "Bearer"})


@serve.deployment
@serve.ingress(api)
class Private:
    @api.get("/who")
    def who(self, request: fastapi.Request) -> str:
        return str(request.state.user)


app = Private.bind()

if __name__ == "__main__":
    serve.run(app)
    print(urlopen(Request(URL + "/who", headers={"authorization": "Bearer anna's key"})).read().decode())
    try:
        urlopen(URL + "/who")
    except HTTPError as e:
        print(e.code, e.read().decode(), e.headers["www-authenticate"])
