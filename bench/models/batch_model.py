"""The models of the benchmark of batching: 5 ms for a call and 0.1 ms for each of its items, as accelerators are.

`alone` takes requests one by one; `natural` what has come while it was busy; `full` waits up to 5 ms for 64.
"""

import time

from anyserve import AnyServe, Batching, Tensor

app = AnyServe()
ITEM = {"x": Tensor("FP32", [16])}


def run(x):
    time.sleep(0.005 + 0.0001 * len(x))
    return x


app.model("alone", inputs={"x": Tensor("FP32", [-1, 16])}, deployment="alone", max_queued_requests=-1)(run)
app.model("natural", inputs=ITEM, deployment="natural", max_queued_requests=-1, batching=Batching(64))(run)
app.model("full", inputs=ITEM, deployment="full", max_queued_requests=-1, batching=Batching(64, max_wait_ms=5))(run)
