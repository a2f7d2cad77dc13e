"""The model of the benchmark of streams: n responses of one number each."""

import numpy as np

from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model("count", inputs={"n": Tensor("INT32", [1])}, outputs={"i": Tensor("INT32", [1])}, max_queued_requests=-1)
def count(n):
    for i in range(int(n[0])):
        yield np.array([i], np.int32)
