"""sys.exit() in a handler is an exception of the handler: INTERNAL, a traceback in the log, and no worker is lost."""

import signal

import grpc
import numpy as np
import pytest

from support import wait
from support.process import procs

pytestmark = pytest.mark.core

APP = """
import asyncio, os, sys
import numpy as np
from anyserve import AnyServe, Batching
app = AnyServe()

@app.model("sync")
def sync(code):
    sys.exit(int(code[0]))

@app.model("batched", batching=Batching(4))
def batched(code):
    sys.exit(int(code.min()))

@app.model("listed", batching=Batching(4))
def listed(code, requests):
    return [SystemExit(int(c[0])) if c[0] < 8 else c for c in code]

@app.model("pid")
def pid():
    return np.array([os.getpid()])
"""
ASYNC = """
@app.model("async")
async def asynchronous(code):
    async def inner():
        await asyncio.sleep(0)
        raise KeyboardInterrupt
    await asyncio.gather(inner())

@app.model("async_batched", batching=Batching(4))
async def async_batched(code):
    await asyncio.sleep(0)
    sys.exit(int(code.min()))

@app.model("pool", threads=2)
def pool(code):
    sys.exit(int(code[0]))
"""
SYNC = ["sync", "batched", "listed"]


@pytest.mark.parametrize("models, source", [(SYNC, APP), (SYNC + ["async", "async_batched", "pool"], APP + ASYNC)],
                         ids=["alone", "beside a loop"])
def test_no_worker_is_lost(serve, connect, models, source):
    server = serve("exits.py", source=source)
    client, pid = connect(server), server.worker()
    for code in range(8):
        for model in models:
            error = client.refused(model, {"code": np.array([[code]] if "ed" in model else [code])})
            assert error.code() == grpc.StatusCode.INTERNAL, error
            what = "KeyboardInterrupt" if model == "async" else f"SystemExit: {code}"
            assert what in error.details(), error.details()
    assert client.infer("listed", {"code": np.array([[8]])})["output0"] == 8
    assert client.infer("pid", {})["output0"] == pid == server.worker()
    server.log.wait(r'event=handler_raised model=sync error="SystemExit: 7"')
    server.log.wait(r"\[exits-0\] +sys.exit\(int\(code\[0\]\)\)")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("source", [APP, APP + ASYNC], ids=["alone", "beside a loop"])
def test_a_signal_still_ends_the_worker(serve, connect, source, signum):
    """Also after a handler that has raised what a signal could have raised."""
    server = serve("exits.py", source=source)
    client, pid = connect(server), server.worker()
    client.refused("sync", {"code": np.array([1])})
    procs.kill(pid, signum)
    wait.until(lambda: pid not in server.workers().values() and server.workers(), lambda: server.status())
    assert client.infer("pid", {})["output0"] == server.worker() != pid
