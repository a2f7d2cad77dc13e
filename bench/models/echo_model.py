"""The model of the benchmark: any tensors, back as they came."""

from anyserve import AnyServe

app = AnyServe()


@app.model("echo", max_queued_requests=-1)
def echo(request):
    return request.inputs
