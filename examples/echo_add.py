"""The smallest application: a function without a signature, one with, and a class.

Serve it with
    anyserve run examples/echo_add.py
and call it with any KServe v2 client, for example
    import numpy as np, tritonclient.grpc as triton
    client = triton.InferenceServerClient("127.0.0.1:8000")
    a = triton.InferInput("a", [3], "FP32")
    a.set_data_from_numpy(np.array([1, 2, 3], np.float32))
    b = triton.InferInput("b", [3], "FP32")
    b.set_data_from_numpy(np.array([10, 20, 30], np.float32))
    print(client.infer("add", [a, b]).as_numpy("sum"))
"""

import numpy as np

from anyserve import AnyServe, Tensor  # Tensor(datatype, shape): one entry of a signature

app = AnyServe()


@app.model("echo")  # no signature: any tensors
def echo(request):  # a parameter called `request` gets the whole request
    return request.inputs  # mapping: tensor name -> numpy array


@app.model(
    "add",
    inputs={"a": Tensor("FP32", [-1]), "b": Tensor("FP32", [-1])},
    outputs={"sum": Tensor("FP32", [-1])},
)
def add(a, b):  # other parameters bind to inputs by name
    return a + b  # one output: the array; several: dict or tuple


@app.model("counter:v2", max_ongoing_requests=4)  # short for name="counter", version="v2"
class Counter:  # constructed once in each worker
    def __init__(self):
        self.calls = 0

    async def __call__(self, request):
        self.calls += 1
        return {"calls": np.array([self.calls])}
