"""The models that tests/crowd asks: rows go back reversed, so that everybody can tell their own."""

import asyncio

import numpy as np

from anyserve import AnyServe, Batching, Error, Response, Tensor

app = AnyServe()


def outputs(x):
    """Of each item: its last dimension backwards, and its first element."""
    return {"back": x if x.ndim == 1 else x[..., ::-1], "first": x.reshape(len(x), -1)[:, :1]}


def told(requests, items, most):
    """What all requests of the call have in common; who does not belong here is found out."""
    first = requests[0].parameters
    if any(r.parameters != first for r in requests):
        raise Error("INTERNAL", "requests with different parameters share a call")
    if sum(r.items for r in requests) != items or items > most:
        raise Error("INTERNAL", f"{items} items, requests of {[r.items for r in requests]}, {most} allowed")
    if "fail" in first:
        raise Error("OUT_OF_RANGE", first["fail"])
    return {k: v for k, v in first.items() if k == "k"}


def stacked(x, requests):
    return Response(outputs(x), told(requests, len(x), 16))


def each(x, requests):
    """Answers each by itself; an id that ends in '!' is a bad request."""
    seen = told(requests, sum(len(a) for a in x), 16)
    return [Error("OUT_OF_RANGE", f"bad {r.id}") if r.id.endswith("!") else
            Response(outputs(a), {**seen, "who": r.id}) for a, r in zip(x, requests)]


app.model("sync", batching=Batching(16))(stacked)
app.model("threads", threads=2, batching=Batching(16))(stacked)
app.model("typed", inputs={"x": Tensor("INT32", [-1, 3])}, batching=Batching(16))(stacked)
app.model("list", batching=Batching(16, as_list=True))(each)
app.model("ragged", batching=Batching(16, ragged=True))(each)


@app.model("held", batching=Batching(8, max_wait_ms=1, preferred_sizes=[2, 4]))
def held(x, requests):
    return Response(outputs(x), told(requests, len(x), 8))


@app.model("async", max_ongoing_requests=2, batching=Batching(16))
async def asynchronous(x, requests):
    await asyncio.sleep(0)
    return stacked(x, requests)


@app.model("list_async", max_ongoing_requests=3, batching=Batching(16, max_wait_ms=2, as_list=True))
async def list_async(x, requests):
    await asyncio.sleep(0)
    return each(x, requests)


@app.model("pair", batching=Batching(16))
def pair(x, y, requests):
    both = outputs(x)
    both["other"] = y if y.ndim == 1 else y[..., ::-1]
    assert len(x) == len(y)
    return Response(both, told(requests, len(x), 16))


@app.model("plain")
def plain(x, request):
    return stacked(np.asarray(x), [Alone(request, len(x))])


class Alone:
    """A request to a model without batching, as one of a batch."""

    def __init__(self, request, items):
        self.parameters, self.items = request.parameters, items
