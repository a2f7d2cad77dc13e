"""The smallest model: it imports nothing, needs no event loop, and may be repeated."""

from anyserve import AnyServe

app = AnyServe()


@app.model("echo", idempotent=True)
def echo(x):
    return x
