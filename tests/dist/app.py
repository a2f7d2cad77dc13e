"""The model that first_use.py asks."""

from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model("double", inputs={"x": Tensor("FP32", [-1])}, outputs={"y": Tensor("FP32", [-1])})
def double(x):
    return x * 2
