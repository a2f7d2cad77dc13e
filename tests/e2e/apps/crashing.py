"""Cannot start while a certain file is there."""

import os

import numpy as np

from anyserve import AnyServe

FLAG = os.environ["CRASH_FLAG"]
if os.path.exists(FLAG):
    print("last words before the crash", flush=True)
    os._exit(9)

app = AnyServe()


@app.model("crash")
def crash(request):
    with open(FLAG, "w"):
        pass
    os._exit(9)


@app.model("fine")
def fine(request):
    return np.ones(1)
