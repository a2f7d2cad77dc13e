"""Cannot start while a certain file is there."""

import os

import cue
import numpy as np

from anyserve import AnyServe

FLAG = os.environ["CRASH_FLAG"]
if os.path.exists(FLAG):
    print("last words before the crash", flush=True)
    os._exit(9)

app = AnyServe()


@app.model("staged")
def staged(request):
    cue.wait(request.id)


@app.model("fine")
def fine(request):
    return np.ones(1)
