"""Models with batching, of every kind of handler; `staged` waits for the test's word."""

import asyncio

import numpy as np

import cue
from anyserve import AnyServe, Batching, Error, Response, Tensor

app = AnyServe()
INT = {"x": Tensor("INT64", [-1])}


def answer(x):
    """Of each row: its sum, and the row itself backwards."""
    return {"sum": x.sum(axis=1), "back": x[:, ::-1]}


@app.model("sync", inputs=INT, batching=Batching(16))
def sync(x):
    return answer(x)


@app.model("held", inputs=INT, batching=Batching(8, max_wait_ms=1, preferred_sizes=[2, 4]))
def held(x):
    return answer(x)


@app.model("async", inputs=INT, max_ongoing_requests=2, batching=Batching(16))
async def asynchronous(x, requests):
    await asyncio.sleep(0)
    assert sum(r.items for r in requests) == len(x)
    return answer(x)


@app.model("threads", inputs=INT, threads=2, batching=Batching(16))
def threads(x):
    return answer(x)


@app.model("list", inputs=INT, batching=Batching(16, as_list=True))
def listed(x, requests):
    """A row that begins with a negative number is a bad one: it fails, and nobody else."""
    return [Error("OUT_OF_RANGE", "row of %s" % r.id) if len(a) and a.size and a[0, 0] < 0 else answer(a)
            for a, r in zip(x, requests)]


@app.model("ragged", inputs=INT, batching=Batching(16, ragged=True))
class Ragged:
    def __call__(self, x):
        return [answer(a) for a in x]


@app.model("text", inputs={"s": Tensor("BYTES", [])}, batching=Batching(16))
def text(s, requests):
    return Response({"upper": np.array([v.upper() for v in s], object),
                     "size": np.array([len(v) for v in s])}, {"requests": len(requests)})


@app.model("staged", batching=Batching(8))
def staged(x, requests):
    cue.wait(" ".join(r.id for r in requests))
    return x


@app.model("staged_async", max_ongoing_requests=1, batching=Batching(8))
async def staged_async(x, requests):
    await cue.wait_async(" ".join(r.id for r in requests))
    return x


@app.model("company", batching=Batching(3, max_wait_ms=60_000))
def company(x, requests):
    return Response({"y": x}, {"with": " ".join(r.id for r in requests)})


@app.model("preferred", batching=Batching(8, max_wait_ms=60_000, preferred_sizes=[2, 4]))
def preferred(x, requests):
    cue.wait(" ".join(r.id for r in requests))
    return x


@app.model("raises", batching=Batching(8))
def raises(x, requests):
    cue.wait(" ".join(r.id for r in requests))
    raise Error("FAILED_PRECONDITION", "no room for %d" % len(x))


@app.model("wrong", batching=Batching(8))
def wrong(how):
    n = len(how)
    return {"rows": {"y": np.zeros(n + 1)}, "scalar": {"y": np.float64(1)},
            "list": [np.zeros(n)] * (n + 1), "masked": np.ma.array(np.zeros(n)),
            "masked_each": [np.ma.array(np.zeros(n))]}[how[0].decode()]


@app.model("safe", deployment="safe", idempotent=True, batching=Batching(8))
def safe(x, requests):
    cue.wait(" ".join(r.id for r in requests))
    return x


@app.model("plain")
def plain(x):
    return x + 1
