"""The model of the benchmark that waits: 1 ms for each call, as a handler does that waits for an accelerator."""

import time

from anyserve import AnyServe

app = AnyServe()


@app.model("nap", max_queued_requests=-1)
def nap(request):
    time.sleep(0.001)
    return request.inputs
