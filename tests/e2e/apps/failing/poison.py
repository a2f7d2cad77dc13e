"""Ends its worker for some inputs. Models that may run twice and that must not, async and sync."""

import asyncio
import os
import signal

import numpy as np

from anyserve import AnyServe

app = AnyServe()

EXIT, SEGV, KILL = 666, 667, 668


def answer(x):
    v = int(x[0])
    if v == EXIT:
        os._exit(3)
    if v in (SEGV, KILL):  # KILL: as if it came from outside
        os.kill(os.getpid(), signal.SIGSEGV if v == SEGV else signal.SIGKILL)
    return {"y": np.asarray(x) + 1}


@app.model("again", idempotent=True)
async def again(x):
    await asyncio.sleep(0.005)
    return answer(x)


@app.model("once", deployment="other")
def once(x):
    return answer(x)
