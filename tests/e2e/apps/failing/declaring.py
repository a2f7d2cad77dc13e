"""Cannot be imported to the end while a file is there. What one model declares is in another file, if that is there."""

import os
import time

import numpy as np

from anyserve import AnyServe, Tensor, get_replica_context

HOLD, SHAPE = os.environ["HOLD"], os.environ["SHAPE"]

while os.path.exists(HOLD):
    time.sleep(0.01)

app = AnyServe()
size = int(open(SHAPE).read()) if os.path.exists(SHAPE) else 1


@app.model("adds", inputs={"x": Tensor("INT64", [size])}, outputs={"y": Tensor("INT64", [size])})
def adds(x):
    return {"y": x + 1}


@app.model("any", version="7")
def any_input(request):
    return {"rank": np.array([get_replica_context().rank])}
