"""What other software calls: a model with two inputs, one that answers what it gets, one that answers in parts."""

import numpy as np

from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model("add", inputs={"a": Tensor("FP32", [-1]), "b": Tensor("FP32", [-1])},
           outputs={"sum": Tensor("FP32", [-1])})
def add(a, b):
    return a + b


@app.model("echo")
def echo(request):
    return request.inputs


@app.model("count", inputs={"n": Tensor("INT32", [1])}, outputs={"i": Tensor("INT32", [1])})
async def count(n):
    for i in range(int(n[0])):
        yield np.array([i], np.int32)
