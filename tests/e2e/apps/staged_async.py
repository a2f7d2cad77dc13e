"""Async handlers that wait for the test's cue; three at once, of "narrow" only one."""

import os

import cue
import numpy as np

from anyserve import AnyServe

app = AnyServe()


async def scene(request):
    word = await cue.wait_async(request.id)
    return {"pid": np.array([os.getpid()]), "word": np.array([word.encode()], object)}


@app.model("staged", max_ongoing_requests=3)
async def staged(request):
    return await scene(request)


@app.model("narrow", max_ongoing_requests=1)
async def narrow(request):
    return await scene(request)


@app.model("fast", max_ongoing_requests=3)
async def fast(x):
    return x + 1
