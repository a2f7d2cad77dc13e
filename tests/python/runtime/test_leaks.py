"""Thousands of calls of every kind leave no Python object behind."""

import numpy as np
import pytest
from fake import Refused

APP = """
import asyncio
import gc
import sys
import numpy as np
from anyserve import AnyServe, Error, Response, Tensor

app = AnyServe()


@app.model("blocks")
def blocks():
    gc.collect()
    return sys.getallocatedblocks()


@app.model("echo")
def echo(request):
    return request.inputs


@app.model("look")
def look(request):
    return Response(request.inputs["x"], {"id": request.id, "p": str(request.parameters), "m": str(request.metadata)})


@app.model("bind", outputs={"y": Tensor("FP32"), "n": Tensor("BYTES")})
def bind(x, n=b"none", *, k=3, **rest):
    return {"y": x, "n": list(rest) or ["none"]}


@app.model("raise")
def fails(request):
    raise Error("ABORTED", "no")


@app.model("bad")
def bad(request):
    return {"a": np.zeros(3), "b": ["x", 1], "c": None}


@app.model("thread", threads=2)
def thread(request):
    return request.inputs
"""
ASYNC = """

@app.model("async")
async def asynchronous(request):
    await asyncio.sleep(0)
    return request.inputs


@app.model("eager", eager=True)
async def eager(request):
    await asyncio.sleep(0)
    return request.inputs


@app.model("eager_now", eager=True)
async def eager_now(x):
    return x


@app.model("async_raise")
async def async_fails(request):
    await asyncio.sleep(0)
    raise Error("ABORTED", "no")


@app.model("forever")
async def forever(request):
    await asyncio.Event().wait()
"""
CALLS = [
    ("echo", {"x": np.zeros(3, "f4")}),
    ("echo", {"x": [b"a", b"b"]}),
    ("echo", {"x": np.zeros(30000, "f4")}),
    ("look", {"x": np.zeros(3, "f4")}),
    ("bind", {"x": np.zeros(3, "f4")}),
    ("bind", {"x": np.zeros(3, "f4"), "k": np.zeros(1), "more": np.zeros(1)}),
    ("bind", {}),
    ("raise", {}),
    ("bad", {}),
    ("thread", {"x": np.zeros(3, "f4")}),
    ("async", {"x": np.zeros(3, "f4")}),
    ("eager", {"x": np.zeros(3, "f4")}),
    ("eager_now", {"x": np.zeros(3, "f4")}),
    ("async_raise", {}),
    ("forever", {}),
]


def call(worker, model, inputs):
    stream = worker.ask(model, inputs, rid="some id", params={"a": 1, "b": "two"}, meta=[("k", "v"), ("k-bin", b"v")])
    if model == "forever":
        worker.cancel(stream)
    try:
        worker.answer(stream)
    except Refused:
        pass


@pytest.mark.parametrize("source", [APP, APP + ASYNC], ids=["sync", "async"])
def test_calls_leave_nothing_behind(start, source):
    worker = start(source)
    calls = [c for c in CALLS if (c[0], "1") in worker.models]
    for model, inputs in calls:
        for _ in range(1000):  # the interpreter keeps up to 255 of what ended tasks were made of
            call(worker, model, inputs)
        before = worker.infer("blocks")["output0"]
        for _ in range(1000):
            call(worker, model, inputs)
        after = worker.infer("blocks")["output0"]
        assert after - before < 500, model  # caches of the interpreter come to rest slowly
