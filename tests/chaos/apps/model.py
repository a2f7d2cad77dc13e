"""What the scenarios call: handlers that nap and give the request's id back.

CHAOS_JOURNAL names a folder: each execution is a line with the request's id in a file of the worker's pid, written
before anything else, so that it stays when the worker is killed. CHAOS_RSS: MiB that this worker holds. CHAOS_BREAK: how
this version fails: "import" raises, "exit" ends without a word, "late" aborts half a second after it was imported, "hang" is never
ready; "worker" ends without a word, but not while it is only described.
"""

import asyncio
import ctypes
import os
import sys
import threading
import time

import numpy as np  # as nearly every model does
from anyserve import AnyServe

NAP = 0.020  # seconds

def fail():
    """As this version does."""
    how = os.environ.get("CHAOS_BREAK")
    if how == "import":
        raise RuntimeError("this version is bad")
    if how == "exit" or (how == "worker" and "--describe=lines" not in sys.orig_argv):
        os._exit(3)
    if how == "hang":
        time.sleep(3600)
    if how == "late":
        threading.Timer(0.5, os.abort).start()


fail()
app = AnyServe()
ballast = np.ones(int(os.environ.get("CHAOS_RSS", "0")) << 20, np.uint8)  # every page is there
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
    """Leaves a child behind that holds every descriptor of the worker, the link too, in a session of its own.

    By the system's fork, behind the back of Python and its hooks, as a library may do it.
    """
    libc = ctypes.PyDLL(None)  # keeps the interpreter's lock: the child has it
    child = libc.fork()
    if child == 0:
        libc.setsid()
        while True:
            libc.pause()
    return {"child": np.array([child])}


@app.model("grow")
def grow(request):
    """Takes memory until there is no more."""
    held = []
    while True:
        held.append(b"x" * (8 << 20))
