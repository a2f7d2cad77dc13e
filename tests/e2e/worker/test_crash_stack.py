"""A worker that dies of a signal of its own making: its log has the Python stack, and the reason names the line."""

import re
import signal

import numpy as np
import pytest

from support import wait
from support.process import procs

pytestmark = pytest.mark.core

APP = """
import ctypes, os, threading
from anyserve import AnyServe
app = AnyServe()

def deep(n, signum):
    if n:
        return deep(n - 1, signum)
    print("an older line", flush=True)
    if signum == 11:
        ctypes.string_at(0)  # here it crashes
    os.abort()  # or here

@app.model("sync")
def sync(signum):
    deep(40, int(signum[0]))
    return ()

@app.model("threads", threads=1)
def threads(signum):
    deep(0, int(signum[0]))
    return ()
"""
ASYNC = """
@app.model("async")
async def asynchronous(signum):
    deep(3, int(signum[0]))
    return ()
"""


def line_of(text):
    return next(i for i, line in enumerate(APP.splitlines(), 1) if text in line)


@pytest.mark.parametrize("signum, where, name", [(signal.SIGSEGV, "here it crashes", "SIGSEGV"), (signal.SIGABRT, "or here", "SIGABRT")])
@pytest.mark.parametrize("model, source", [("sync", APP), ("threads", APP), ("sync", APP + ASYNC), ("async", APP + ASYNC)])
def test_the_reason_names_the_line(serve, connect, signum, where, name, model, source):
    server = serve("crash.py", "--restart-backoff", "10s", source=source)
    pid, since = server.worker(), len(server.log.lines)
    assert connect(server).refused(model, {"signum": np.array([int(signum)])})
    line = line_of(where)
    if signum == signal.SIGSEGV:  # within ctypes
        frame = r'File \\"\S*ctypes/__init__.py\\", line \d+ in string_at'
    else:
        frame = rf'File \\"\S*crash.py\\", line {line} in deep'
    server.log.wait(rf'event=worker_exit replica=crash-0 pid={pid} reason="signal {int(signum)} \({name}\): {frame}"', since)
    server.log.wait(r"^\[crash-0\] Fatal Python error: ", since)
    server.log.wait(rf'^\[crash-0\] +File "\S*crash.py", line {line} in deep', since)
    reason = wait.until(lambda: server.status()["processes"][0]["reason"], server.status).splitlines()[0]
    assert re.fullmatch(rf"signal {int(signum)} \({name}\): {frame}".replace('\\\\"', '"'), reason), reason


def test_a_kill_from_outside_has_no_line(serve):
    server = serve("crash.py", "--restart-backoff", "10s", source=APP)
    pid = server.worker()
    procs.kill(pid, signal.SIGKILL)
    server.log.wait(rf'event=worker_exit replica=crash-0 pid={pid} reason="signal 9 \(SIGKILL\)" ')


def test_a_crash_while_the_file_is_described(serve):
    server = serve("crash.py", wait_ready=False, source="import ctypes\nctypes.string_at(0)\n")
    server.log.wait("^Fatal Python error: Segmentation fault")
    server.log.wait(r'^ +File "\S*crash.py", line 2 in <module>')
    server.ended(69)
