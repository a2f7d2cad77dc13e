"""What the scenarios call: handlers that nap and give the request's id back.

CHAOS_JOURNAL names a folder: each execution is a line with the request's id in a file of the worker's pid, written before
anything else, so that it stays when the worker is killed. CHAOS_RSS: MiB that this worker holds.
"""

import asyncio
import os
import time

from anyserve import AnyServe

NAP = 0.020  # seconds

app = AnyServe()
ballast = bytearray(int(os.environ.get("CHAOS_RSS", "0")) << 20)
ballast[::4096] = b"x" * len(ballast[::4096])  # every page is there
journal = None


def note(request):
    """One write: a line is never torn."""
    global journal
    folder = os.environ.get("CHAOS_JOURNAL")
    if not folder:
        return
    if journal is None:
        journal = os.open(os.path.join(folder, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(journal, b"%d\n" % request.inputs["id"][0])


async def nap(request):
    note(request)
    await asyncio.sleep(NAP)
    return {"id": request.inputs["id"]}


app.model("nap", idempotent=True)(nap)
app.model("once", max_ongoing_requests=8)(nap)


@app.model("hold")
async def hold(request):
    await asyncio.sleep(1000)
    return {"id": request.inputs["id"]}


@app.model("forks")
def forks(request):
    """Leaves a child behind that holds every descriptor it got, and lives on in a session of its own."""
    child = os.fork()
    if child == 0:
        os.setsid()
        time.sleep(1000)
        os._exit(0)
    return {"id": request.inputs["id"]}


@app.model("grow")
def grow(request):
    """Takes memory until there is no more."""
    held = []
    while True:
        held.append(b"x" * (8 << 20))
