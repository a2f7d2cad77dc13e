"""Sync handlers that wait for the test's cue, and quick ones beside them."""

import os

import cue
import numpy as np

from anyserve import AnyServe

app = AnyServe()


def scene(request):
    word = cue.wait(request.id)
    return {"pid": np.array([os.getpid()]), "word": np.array([word.encode()], object)}


app.model("staged")(scene)
app.model("safe", idempotent=True)(scene)


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
