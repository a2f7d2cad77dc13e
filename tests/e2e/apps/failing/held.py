"""Its replicas do not start while a file is there; it can be described meanwhile."""

import os
import time

import numpy as np

from anyserve import AnyServe, Tensor

HOLD = os.environ["HOLD"]
SIZE = int(os.environ.get("SIZE", "1"))

VERSION = os.environ.get("VERSION", "1")

app = AnyServe()


@app.model("adds", version=VERSION, deployment=os.environ.get("DEPLOYMENT"),
           inputs={"x": Tensor("INT64", [SIZE])}, outputs={"y": Tensor("INT64", [SIZE])})
class Adds:
    def __init__(self):
        while os.path.exists(HOLD):
            if os.environ.get("FAIL"):
                raise RuntimeError("this version does not start")
            time.sleep(0.01)

    def __call__(self, x):
        return {"y": x + SIZE * int(VERSION)}


if os.environ.get("MORE"):
    @app.model("more", version="7")
    def more(request):
        return {"n": np.array([SIZE])}
