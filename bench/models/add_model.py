"""The model of the benchmark with two inputs: their sum, by numpy."""

from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model("add", inputs={"a": Tensor("FP32", [-1]), "b": Tensor("FP32", [-1])},
           outputs={"sum": Tensor("FP32", [-1])}, max_queued_requests=-1)
def add(a, b):
    return a + b
