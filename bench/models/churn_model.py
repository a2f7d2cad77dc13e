"""What churn calls: two deployments, one that the worker's main thread runs and one on an event loop with threads."""

import asyncio
import time

import numpy as np

from anyserve import AnyServe, Error, Tensor

app = AnyServe()
U8 = Tensor("UINT8", [-1])
PLAIN = {"deployment": "plain", "max_queued_requests": -1}
LOOP = {"deployment": "loop", "max_queued_requests": -1}


@app.model("echo", **PLAIN)
def echo(request):
    return request.inputs


@app.model("error", **PLAIN)
def error(request):
    raise Error("FAILED_PRECONDITION", "as it should")


@app.model("raises", **PLAIN)
def raises(request):
    raise RuntimeError("as it should")


@app.model("bad", outputs={"y": U8}, **PLAIN)
def bad(request):
    return {"y": np.zeros((2, 2), np.float32)}


@app.model("declared", inputs={"a": U8, "b": U8}, **PLAIN)
def declared(a, b):
    return a


@app.model("echo_loop", max_ongoing_requests=64, **LOOP)
async def echo_loop(request):
    await asyncio.sleep(0)
    return request.inputs


@app.model("sleep", max_ongoing_requests=64, **LOOP)
async def sleep(request):
    await asyncio.sleep(0.5)  # deadlines pass long before
    return ()


@app.model("watch", threads=4, **LOOP)
def watch(request):
    """In a thread, until it is cancelled or has had enough."""
    end = time.monotonic() + 0.005
    while not request.cancelled and time.monotonic() < end:
        time.sleep(0.0002)
    return ()
