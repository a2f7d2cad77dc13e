"""A function of arrays: by a handle and by tensors."""

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
def affine(x: np.ndarray, by: np.ndarray) -> np.ndarray:
    return x * by + 1


handle = serve.run(affine.bind())
x, by = np.arange(6.0).reshape(2, 3), np.array([2.0])
print(handle.remote(x, by=by).result().tolist())
print(infer("affine", handle, x=x, by=by).tolist())
print(infer("affine", handle, x=x[:1], by=by * 0).tolist())
serve.shutdown()
