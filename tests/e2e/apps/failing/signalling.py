"""Handlers that send a signal to the server, directly and by a child."""

import os
import signal
import subprocess
import sys

import numpy as np

from anyserve import AnyServe

app = AnyServe()


@app.model("own")
def own(signum):
    os.kill(os.getppid(), int(signum[0]))
    return {"pid": np.array([os.getpid()])}


@app.model("child")
def child(signum):
    """A child that lives on until its parent has ended it."""
    program = "import os, sys, time; os.kill(int(sys.argv[1]), int(sys.argv[2])); print('sent', flush=True); time.sleep(1000)"
    started = subprocess.Popen([sys.executable, "-c", program, str(os.getppid()), str(int(signum[0]))],
                               stdout=subprocess.PIPE, start_new_session=True)
    started.stdout.readline()
    return {"pid": np.array([started.pid])}


@app.model("reap")
def reap(pid):
    os.kill(int(pid[0]), signal.SIGKILL)
    os.waitpid(int(pid[0]), 0)
    return {"pid": pid}
