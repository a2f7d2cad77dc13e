"""The same replica answers handles and tensors; user_config holds for both."""

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


@serve.deployment(user_config={"scale": 4})
class Scale:
    def __init__(self):
        self.calls = 0

    def reconfigure(self, config):
        self.scale = config["scale"]

    async def __call__(self, x: np.ndarray) -> np.ndarray:
        self.calls += 1
        return x * self.scale

    async def count(self):
        return self.calls


handle = serve.run(Scale.bind())
print(handle.remote(np.ones(2)).result().tolist(), infer("Scale", handle, x=np.ones((1, 2))).tolist())
print(handle.count.remote().result())
serve.shutdown()
