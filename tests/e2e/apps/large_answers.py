"""Small answers, and large ones to small requests, of another deployment."""

import numpy as np

from anyserve import AnyServe

app = AnyServe()
ZEROS = np.zeros(1 << 20, np.uint8)


@app.model("echo")
def echo(request):
    return request.inputs


@app.model("mebibyte", deployment="large")
def mebibyte(request):
    return {"y": ZEROS}
