"""What `bodies` calls: handlers that execute until their worker dies."""

import asyncio

from anyserve import AnyServe

app = AnyServe()
app.deployment(max_ongoing_requests=256)


@app.model("again", idempotent=True, max_ongoing_requests=256)
async def again(x):
    await asyncio.sleep(1000)


@app.model("once", max_ongoing_requests=256)
async def once(x):
    await asyncio.sleep(1000)
