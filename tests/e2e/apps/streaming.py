"""Handlers that answer with streams, and such that take one."""

from __future__ import annotations

import asyncio
from typing import AsyncIterator

import cue
import numpy as np

from anyserve import AnyServe, Error, Request, Response

app = AnyServe()
produced = {}  # name → how many results it was asked for


def numbers(n):
    for i in range(int(n[0])):
        yield np.array([i], np.int32)


async def async_numbers(n):
    for i in range(int(n[0])):
        yield {"output0": np.array([i], np.int32)}


class Numbers:
    async def __call__(self, n):
        for i in range(int(n[0])):
            yield Response(np.array([i], np.int32), {"square": i * i})


app.model("sync", deployment="sync", max_ongoing_requests=1)(numbers)
app.model("threads", threads=4)(numbers)
app.model("async")(async_numbers)
app.model("class")(Numbers)


def endless(name):
    produced[name] = 0

    def count(request):
        with cue.scene(request.id) as say:
            try:
                while True:
                    produced[name] += 1
                    yield np.zeros(1024, np.uint8)
            except GeneratorExit:
                say("closed")
                raise

    return count


app.model("endless_sync", deployment="sync", max_ongoing_requests=1)(endless("endless_sync"))
app.model("endless_threads", threads=1)(endless("endless_threads"))


@app.model("endless_async")
async def endless_async(request):
    """Never waits by itself."""
    produced["endless_async"] = 0
    with cue.scene(request.id) as say:
        try:
            while True:
                produced["endless_async"] += 1
                yield np.zeros(1024, np.uint8)
        except (GeneratorExit, asyncio.CancelledError) as e:
            say(type(e).__name__)
            raise


@app.model("large")
async def large(n):
    for i in range(int(n[0])):
        yield np.full(300_000, i, np.uint8)


@app.model("produced")
async def how_many(request):
    return np.array([produced[request.parameters["name"]]])


@app.model("one_then_wait")
async def one_then_wait(request):
    yield np.array([1])
    await cue.wait_async(request.id)
    yield np.array([2])


@app.model("idempotent", idempotent=True)
async def idempotent(request):
    yield np.array([1])
    await cue.wait_async(request.id)


@app.model("failing")
async def failing(n):
    yield n
    raise Error("FAILED_PRECONDITION", "after one")


@app.model("bad")
async def bad():
    yield np.array([1])
    yield None


@app.model("double")
async def double(n, request):
    if request.id.startswith("wait"):
        await cue.wait_async(request.id)
    return n * 2


@app.model("running_sum")
async def running_sum(requests: AsyncIterator[Request]):
    total = 0
    async for r in requests:
        total += int(r.inputs["n"][0])
        yield np.array([total])


@app.model("sum")
async def total(requests: AsyncIterator[Request]):
    return np.array([sum([int(r.inputs["n"].sum()) async for r in requests])])


@app.model("first_two")
async def first_two(requests: AsyncIterator[Request]):
    ids = []
    async for r in requests:
        ids.append(r.id.encode())
        if len(ids) == 2:
            break
    yield np.array(ids, object)


@app.model("slow_reader")
async def slow_reader(requests: AsyncIterator[Request]):
    first = await anext(requests)
    await cue.wait_async(first.id)
    n = 1
    async for _ in requests:
        n += 1
    yield np.array([n])


@app.model("one_reader", deployment="one_reader", max_ongoing_requests=1)
async def one_reader(requests: AsyncIterator[Request]):
    n = 0
    async for r in requests:
        n += 1
        if n == 1:
            await cue.wait_async(r.id)
    yield np.array([n])


@app.model("scores")
async def scores(request):
    return {"large": np.arange(100_000, dtype=np.int32), "scores": np.arange(3000, dtype=np.int32)}
