"""Handlers of every kind that say when they begin, and that they saw that nobody waits for them any more.

With ANYSERVE_TEST_PLAIN only those that need no event loop: the worker drives its link in another way then.
"""

import asyncio
import os

import cue
import numpy as np

from anyserve import AnyServe

app = AnyServe()


def watching(request):
    """Looks all the time and keeps the interpreter while it does."""
    with cue.scene(request.id) as say:
        while not request.cancelled:
            pass
        say("cancelled")
    return ()


app.model("sync")(watching)
app.model("threads", threads=4)(watching)


@app.model("class")
class Watching:
    def __call__(self, request):
        return watching(request)


@app.model("deaf", threads=1)
def deaf(request):
    """Does not look."""
    word = cue.wait(request.id)
    return {"word": np.array([word.encode()], object)}


async def awaiting(request):
    await cue.wait_async(request.id)
    return ()


async def computing(request):
    """Never awaits, so that nothing can be thrown into it."""
    return watching(request)


async def deaf_async(request):
    """Is told, and goes on."""
    waiting = asyncio.ensure_future(cue.wait_async(request.id))
    while not waiting.done():
        try:
            await asyncio.shield(waiting)
        except asyncio.CancelledError:
            pass
    return {"word": np.array([waiting.result().encode()], object)}


class Awaiting:
    async def __call__(self, request):
        return await awaiting(request)


if not os.environ.get("ANYSERVE_TEST_PLAIN"):
    app.model("async", max_ongoing_requests=4)(awaiting)
    app.model("eager", eager=True, max_ongoing_requests=4)(awaiting)
    app.model("async_class", max_ongoing_requests=4)(Awaiting)
    app.model("computing", max_ongoing_requests=4)(computing)
    app.model("deaf_async", max_ongoing_requests=1)(deaf_async)
