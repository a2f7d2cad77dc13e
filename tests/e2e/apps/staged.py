"""Sync handlers that wait for the test's cue, and quick ones beside them."""

import os
import subprocess

import cue
import numpy as np

from anyserve import AnyServe

app = AnyServe()


def scene(request):
    word = cue.wait(request.id)
    return {"pid": np.array([os.getpid()]), "word": np.array([word.encode()], object)}


app.model("staged")(scene)
app.model("safe", idempotent=True)(scene)
app.model("elsewhere", deployment="elsewhere")(scene)


@app.model("watching")
def watching(request):
    cue.wait_cancelled(request.id, request)
    return np.zeros(0)


@app.model("fast")
def fast(x):
    return {"y": x + 1, "pid": np.array([os.getpid()])}


@app.model("fast_safe", idempotent=True)
def fast_safe(x):
    return {"y": x + 1, "pid": np.array([os.getpid()])}


@app.model("forks", deployment="parents")
def forks(request):
    """Leaves a forked child and a started program behind, both of which would live long."""
    program = subprocess.Popen(["sleep", "1000"])
    child = os.fork()
    if child == 0:
        cue.wait("forked child")
        os._exit(0)
    return {"children": np.array([program.pid, child])}


@app.model("staged_parent", deployment="parents")
def staged_parent(request):
    return scene(request)
