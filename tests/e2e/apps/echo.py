"""Echo models, for everything about data on the wire."""

import numpy as np

from anyserve import AnyServe, Response, Tensor

app = AnyServe()


@app.model("echo")
def echo(request):
    return request.inputs


@app.model("parameters")
def parameters(request):
    """The request's parameters as those of the response."""
    return Response({"types": np.array([type(v).__name__.encode() for v in request.parameters.values()], object)},
                    parameters=dict(request.parameters))


@app.model("facts")
def facts(request):
    """What the request says of itself, as text."""
    found = {"id": request.id, "model": request.model_name, "version": request.model_version,
             "deadline": request.deadline is not None, "cancelled": request.cancelled,
             **{f"metadata.{k}": v for k, v in request.metadata.items() if k.startswith("x-")}}
    return Response(np.zeros(0), parameters={k: v.hex() if isinstance(v, bytes) else v for k, v in found.items()})


@app.model("add", inputs={"a": Tensor("FP32", [-1]), "b": Tensor("FP32", [-1])},
           outputs={"sum": Tensor("FP32", [-1])})
def add(a, b):
    return a + b


@app.model("split", inputs={"x": Tensor("FP64", [-1, 2])},
           outputs={"left": Tensor("FP64", [-1]), "right": Tensor("FP64", [-1]), "total": Tensor("FP64", [])})
def split(x):
    return {"left": x[:, 0], "right": x[:, 1], "total": x.sum()}
