"""The model of the benchmark as an async handler: any tensors, back as they came."""

from anyserve import AnyServe

app = AnyServe()


@app.model("echo", max_queued_requests=-1)
async def echo(request):
    return request.inputs
