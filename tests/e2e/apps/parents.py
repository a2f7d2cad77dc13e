"""A model whose workers have children."""

import os
import subprocess

import cue
import numpy as np

from anyserve import AnyServe

app = AnyServe()


@app.model("forks")
def forks(request):
    """Leaves a forked child and a started program behind, both of which would live long."""
    program = subprocess.Popen(["sleep", "1000"])
    child = os.fork()
    if child == 0:
        cue.wait("forked child")
        os._exit(0)
    return {"children": np.array([program.pid, child])}


@app.model("staged")
def staged(request):
    cue.wait(request.id)
    return np.zeros(0)
