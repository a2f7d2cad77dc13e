"""What `scaling` and `zero` call: a handler that naps, and one that says which replica answers."""

import asyncio
import os

import numpy as np
from anyserve import AnyServe, get_replica_context

NAP = 0.100  # seconds

app = AnyServe()
app.deployment(max_ongoing_requests=2)


@app.model("nap", idempotent=True)
async def nap(request):
    await asyncio.sleep(NAP)
    return {"id": request.inputs["id"]}


@app.model("who", idempotent=True)
async def who(request):
    await asyncio.sleep(NAP)  # so that the next request goes to another replica
    here = get_replica_context()
    return {"pid": np.array([os.getpid()]), "rank": np.array([int(here.rank)]), "version": np.array([here.version.encode()], object)}
