"""The model of bench/simulate_check.py: each call says for how many milliseconds its handler waits."""

import time

from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model("wait", max_queued_requests=-1, inputs={"ms": Tensor("FP64", [1])}, outputs={"ms": Tensor("FP64", [1])})
def wait(ms):
    time.sleep(ms[0] / 1000)
    return ms
