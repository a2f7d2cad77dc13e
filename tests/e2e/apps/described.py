"""Models whose handlers take whatever fits their signature: for clients that make up requests."""

import numpy as np

from anyserve import AnyServe, Tensor

app = AnyServe()
DTYPES = ["BOOL", "UINT8", "INT64", "UINT64", "FP16", "FP32", "BYTES"]


def same(request):
    return {name.replace("in", "out"): value for name, value in request.inputs.items()}


for dtype in DTYPES:
    app.model(f"of/{dtype.lower()}", inputs={"in": Tensor(dtype, [-1])}, outputs={"out": Tensor(dtype, [-1])})(same)


@app.model("two", inputs={"a": Tensor("FP32", [-1, 2]), "b": Tensor("BYTES", [1])}, version="2")
@app.model("two", inputs={"a": Tensor("FP32", [-1, 2]), "b": Tensor("BYTES", [1])}, version="10")
def two(a, b):
    return {"sum": a.sum(axis=1), "b": b}


@app.model("anything")
def anything(request):
    return request.inputs


@app.model("nothing", inputs={})
def nothing():
    return np.zeros(1)
