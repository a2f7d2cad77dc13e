"""Handlers that take their time beside quick ones, one that ends its worker, and in which order they began. Those that
take their time do not end before a worker was ended: the file $ENDED is there."""

import asyncio
import os

import numpy as np

from anyserve import AnyServe

app = AnyServe()
app.deployment(max_ongoing_requests=64, max_queued_requests=-1)
began = []  # 1: slow, 0: quick


@app.model("slow", idempotent=True, max_ongoing_requests=64)
async def slow(x):
    began.append(1)
    while not os.path.exists(os.environ["ENDED"]):
        await asyncio.sleep(1)
    await asyncio.sleep(float(x[0]))
    return {"y": x}


@app.model("quick", max_ongoing_requests=64)
async def quick(x):
    began.append(0)
    return {"y": x}


@app.model("end", max_ongoing_requests=64)
async def end(x):
    open(os.environ["ENDED"], "x").close()
    os._exit(3)


@app.model("order", max_ongoing_requests=64)
async def order(request):
    return {"began": np.array(began)}
