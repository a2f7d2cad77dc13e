"""What poison and overload call: a handler that may be repeated, one that ends its worker, one that takes its time.

CHAOS_PILLS names a folder: each execution of a pill writes down when it began, and when it ended its worker. CHAOS_WORK:
seconds that `work` takes.
"""

import asyncio
import os
import time

from anyserve import AnyServe

NAP, FUSE = 0.020, 0.010  # seconds

app = AnyServe()


def note(word):
    with open(os.path.join(os.environ["CHAOS_PILLS"], str(os.getpid())), "a") as f:
        f.write(f"{word} {time.monotonic()}\n")


@app.model("nap", idempotent=True, max_ongoing_requests=8)
async def nap(request):
    await asyncio.sleep(NAP)
    return {"id": request.inputs["id"]}


@app.model("pill", idempotent=True, max_ongoing_requests=8)
async def pill(request):
    note("began")
    await asyncio.sleep(FUSE)
    note("ended")
    os._exit(3)


@app.model("work", max_ongoing_requests=1)
def work(request):
    time.sleep(float(os.environ["CHAOS_WORK"]))
    return {"id": request.inputs["id"]}
