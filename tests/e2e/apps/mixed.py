"""One deployment for each kind of traffic, so that several loops own what the clients of one loop ask for."""

import asyncio

import numpy as np

from anyserve import AnyServe, Batching, Error, Tensor

app = AnyServe()
N = {"n": Tensor("INT32", [1])}


@app.model("double", deployment="plain")
def double(x):
    return {"y": x * 2}


@app.model("toggled", deployment="toggled")
def toggled(x):
    return {"y": x * 2}


@app.model("slow", deployment="slow", max_ongoing_requests=16)
async def slow(x):
    await asyncio.sleep(0.02)
    return {"y": x * 2}


@app.model("numbers", deployment="streams", inputs=N, max_ongoing_requests=64)
async def numbers(n):
    for i in range(abs(int(n[0]))):
        yield {"y": np.array([i], np.int32)}
    if n[0] < 0:
        raise Error("ABORTED", "enough")


@app.model("rows", deployment="batches", inputs={"x": Tensor("INT32", [-1])}, batching=Batching(16, max_wait_ms=1))
async def rows(x):
    return {"y": x * 2}
