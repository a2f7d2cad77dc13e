"""Wedges its worker for some inputs: it hangs, or is not well while it executes. Options come from the environment: WEDGING, as JSON."""

import asyncio
import json
import os

import numpy as np

from anyserve import AnyServe

app = AnyServe()
app.deployment(**json.loads(os.environ.get("WEDGING", "{}")))

WEDGE = 666
wedged = False


def check_health():
    if wedged:
        raise RuntimeError("wedged")


@app.model("sicken", idempotent=True, max_ongoing_requests=8)
async def sicken(x):
    """Its handler waits for ever, and the checks fail meanwhile."""
    global wedged
    if x[0] == WEDGE:
        wedged = True
        await asyncio.sleep(1000)
    await asyncio.sleep(0.005)
    return {"y": np.asarray(x) + 1}


@app.model("hang", idempotent=True, max_ongoing_requests=8)
async def hang(x):
    """Its event loop stands still."""
    while x[0] == WEDGE:
        pass
    await asyncio.sleep(0.005)
    return {"y": np.asarray(x) + 1}
