"""A FastAPI application for the tests of HTTP: dependencies, models, streams both ways, files, events, middleware."""

import asyncio
import hashlib
import os
import resource
from contextlib import asynccontextmanager
from typing import Annotated, List

from fastapi import BackgroundTasks, Depends, FastAPI, File, Header, HTTPException, Request, UploadFile
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel, Field

from anyserve import serve

KEY = "let me in"
CHUNK = 100_000


@asynccontextmanager
async def lifespan(app):
    yield {"began": os.getpid()}


api = FastAPI(lifespan=lifespan)


@api.middleware("http")
async def authenticate(request, call_next):
    if request.url.path.startswith(request.scope["root_path"] + "/private") and request.headers.get("x-key") != KEY:
        return JSONResponse({"detail": "no"}, 401)
    response = await call_next(request)
    response.headers["x-seen"] = request.method
    return response


async def paging(skip: int = 0, limit: Annotated[int, Field(le=100)] = 10):
    return skip, limit


def agent(user_agent: Annotated[str, Header()]):
    return user_agent


class Item(BaseModel):
    name: str
    price: float = Field(gt=0)
    secret: str = "s"


class Shown(BaseModel):
    name: str
    price: float


@serve.deployment
class Double:
    def __call__(self, x):
        return 2 * x


@serve.deployment(max_ongoing_requests=50)
@serve.ingress(api)
class Site:
    def __init__(self, double):
        self.double = double
        self.log = []

    @api.get("/page", response_model=List[int])
    async def page(self, paging: Annotated[tuple, Depends(paging)]):
        return list(range(paging[0], sum(paging)))

    @api.get("/agent")
    def agent(self, agent: Annotated[str, Depends(agent)]):
        return agent

    @api.post("/items", response_model=Shown, status_code=201)
    async def items(self, item: Item):
        if item.name == "none":
            raise HTTPException(409, "no such name", {"x-why": "taken"})
        return item

    @api.get("/double/{x}")
    async def doubled(self, x: int):
        return await self.double.remote(x)

    @api.post("/digest")
    async def digest(self, request: Request):
        digest, n = hashlib.sha256(), 0
        async for piece in request.stream():
            digest.update(piece)
            n += len(piece)
        return {"n": n, "sha256": digest.hexdigest(), "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10}

    @api.get("/zeros/{n}")
    async def zeros(self, n: int):
        async def pieces():
            for _ in range(n // CHUNK):
                yield bytes(CHUNK)

        return StreamingResponse(pieces(), media_type="application/octet-stream")

    @api.post("/upper")
    async def upper(self, request: Request):
        async def pieces():
            async for piece in request.stream():
                yield piece.upper()

        return StreamingResponse(pieces())

    @api.post("/files")
    async def files(self, files: List[UploadFile] = File()):
        return {f.filename: hashlib.sha256(await f.read()).hexdigest() for f in files}

    @api.get("/events")
    async def events(self):
        async def events():
            self.log.append("events began")
            try:
                for i in range(1_000_000):
                    yield "data: %d\n\n" % i
                    await asyncio.sleep(0.005)
            finally:
                self.log.append("events ended")

        return StreamingResponse(events(), media_type="text/event-stream")

    @api.get("/private/name")
    async def private(self):
        return "inside"

    @api.get("/state")
    async def state(self, request: Request):
        return [request.state.began, os.getpid(), str(request.base_url), request.headers["x-request-id"]]

    @api.get("/forever")
    async def forever(self):
        self.log.append("forever began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.log.append("forever cancelled")
            raise

    @api.get("/later")
    async def later(self, tasks: BackgroundTasks):
        tasks.add_task(self.log.append, "later ran")
        return "now"

    @api.get("/fails")
    async def fails(self):
        raise ValueError("fails in a route")

    @api.get("/log")
    async def get_log(self):
        return self.log

    @api.api_route("/any", methods=["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
    async def any(self, request: Request):
        return request.method

    def by_handle(self, x):
        return x, len(self.log) >= 0


@serve.deployment
class Half:
    async def __call__(self, request):
        async def pieces():
            yield b"one"
            await asyncio.sleep(0.01)
            raise ValueError("fails in a stream")

        return StreamingResponse(pieces())


half = Half.bind()
app = Site.bind(Double.bind())
