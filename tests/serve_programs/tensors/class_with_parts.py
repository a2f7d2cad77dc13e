"""A class whose method calls two others with arrays; its tensors go through the same graph."""

import json
import os
import urllib.request

import numpy as np

from anyserve import serve


def infer(model, handle, **inputs):
    """By KServe v2 where the server speaks it, else by the handle."""
    if not serve.__name__.startswith("anyserve"):
        return handle.remote(**inputs).result()
    rows = [{"name": k, "datatype": "FP64", "shape": list(v.shape), "data": v.ravel().tolist()} for k, v in inputs.items()]
    url = "http://127.0.0.1:%s/v2/models/%s/infer" % (os.environ.get("ANYSERVE_PORT", 8000), model)
    request = urllib.request.Request(url, json.dumps({"inputs": rows}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        (output,) = json.load(answer)["outputs"]
    return np.array(output["data"]).reshape(output["shape"])


@serve.deployment
class Part:
    def __init__(self, weights):
        self.weights = np.array(weights)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return x @ self.weights


@serve.deployment
class Model:
    def __init__(self, first, second):
        self.first, self.second = first, second

    async def __call__(self, x: np.ndarray) -> np.ndarray:
        return await self.second.remote(self.first.remote(x))


app = Model.bind(Part.options(name="first").bind([[1, 2], [3, 4]]), Part.options(name="second").bind([[1, 0], [1, 1]]))
handle = serve.run(app)
x = np.array([[1.0, 1.0], [0.0, 2.0], [5.0, -1.0]])
print(handle.remote(x).result().tolist())
print(infer("Model", handle, x=x).tolist())
print(infer("first", serve.get_deployment_handle("first", "default"), x=x).tolist())
serve.shutdown()
