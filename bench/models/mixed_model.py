"""Models of the benchmark that share a worker: async ones, and others beside them."""

import time

from anyserve import AnyServe

app = AnyServe()


@app.model("echo", max_queued_requests=-1)
def echo(request):
    return request.inputs


@app.model("async_echo")
async def async_echo(request):
    return request.inputs


@app.model("sleep")
def sleep(request):
    time.sleep(0.02)
    return request.inputs


@app.model("compute")
def compute(request):
    end = time.monotonic() + 0.02
    while time.monotonic() < end:
        pass
    return request.inputs
