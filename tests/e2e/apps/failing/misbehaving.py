"""Handlers that return or raise what they should not."""

import asyncio

import numpy as np

import anyserve
from anyserve import AnyServe, Response, Tensor

app = AnyServe()
FP32 = {"y": Tensor("FP32", [-1])}


@app.model("echo")
def echo(request):
    return request.inputs


@app.model("wants", inputs={"a": Tensor("FP32", [-1, 2]), "b": Tensor("BYTES", [-1])}, outputs=FP32)
def wants(a, b):
    return a[:, 0]


@app.model("big")
def big(request):
    return np.zeros(request.parameters["n"], np.uint8)


RETURNS = {
    "none": lambda: None,
    "wrong_dtype": lambda: np.zeros(3, np.float64),
    "wrong_shape": lambda: np.zeros((3, 3), np.float32),
    "unknown_output": lambda: {"z": np.zeros(3, np.float32)},
    "one_too_many": lambda: {"y": np.zeros(3, np.float32), "z": np.zeros(3, np.float32)},
    "none_inside": lambda: {"y": None},
    "missing_output": lambda: {},
    "too_many": lambda: (np.zeros(1, np.float32), np.zeros(1, np.float32)),
    "complex": lambda: np.zeros(3, complex),
    "object": lambda: np.array([object()], object),
    "coroutine": lambda: asyncio.sleep(0),
    "bad_parameter": lambda: Response(np.zeros(3, np.float32), parameters={"p": object()}),
    "bad_parameters": lambda: Response(np.zeros(3, np.float32), parameters={7: 1}),
}
for name, make in RETURNS.items():
    app.model(f"returns_{name}", outputs=FP32)(lambda request, make=make: make())
for name in ("none", "complex", "object", "none_inside"):
    app.model(f"any_{name}")(lambda request, make=RETURNS[name]: make())


class Unprintable(Exception):
    def __str__(self):
        raise ValueError("cannot even say what")


RAISES = {
    "plain": lambda: ZeroDivisionError("secret: division by zero"),
    "error": lambda: anyserve.Error("FAILED_PRECONDITION", "grüße: not now"),
    "unicode": lambda: ValueError("lone surrogate \udcff and NUL \0 and newline \n end"),
    "huge": lambda: anyserve.Error("DATA_LOSS", "ü" * 1_000_000),
    "huge_plain": lambda: ValueError("x" * 10_000_000),
    "empty": lambda: anyserve.Error("ABORTED"),
    "unprintable": Unprintable,
    "timeout": TimeoutError,
    "memory": lambda: MemoryError(),
    "stop_iteration": lambda: StopIteration(1),
    "recursion": None,
}


def fail(name):
    if name == "recursion":
        return fail(name)
    raise RAISES[name]()


for name in RAISES:
    app.model(f"raises_{name}")(lambda request, name=name: fail(name))


@app.model("raises_async", deployment="loop")
async def raises_async(request):
    await asyncio.sleep(0)
    fail("plain")


@app.model("cancels_itself", deployment="loop")
async def cancels_itself(request):
    raise asyncio.CancelledError


@app.model("awaits_cancelled", deployment="loop")
async def awaits_cancelled(request):
    task = asyncio.create_task(asyncio.sleep(1000))
    task.cancel()
    await task


@app.model("async_none", deployment="loop")
async def async_none(request):
    return None
