"""One model for each thing that the SDK promises."""

import asyncio
import contextvars
import os
import threading
import time
from typing import Annotated, Tuple

import numpy as np

from anyserve import AnyServe, Error, Response, Tensor

app = AnyServe()
F32 = Tensor("FP32", [-1])
variable = contextvars.ContextVar("variable", default=0)


# --- how inputs come in ---

@app.model("by_name", inputs={"a": F32, "b": F32})
def by_name(b, a):
    return a - b


@app.model("keyword_only", inputs={"a": F32, "b": F32})
def keyword_only(a, *, b):
    return a - b


@app.model("everything")
def everything(x, request, *, scale=2, **others):
    return {"x": x * scale, "names": np.array([n.encode() for n in sorted(others)], object),
            "all": np.array([n.encode() for n in request.inputs], object)}


@app.model("loose_defaults")
def loose_defaults(a, b=np.float32(10)):
    return a + b


@app.model("inferred")
def inferred(x: Annotated[np.ndarray, Tensor("FP32", [-1, 4])], request=None) -> \
        Tuple[Annotated[np.ndarray, Tensor("FP32", [-1])], Annotated[np.ndarray, Tensor("INT64", [])]]:
    return x.sum(axis=1), np.int64(len(x))


@app.model("views")
def views(x):
    """What an input array is like."""
    return Response(x, parameters={"writable": x.flags.writeable, "aligned": x.ctypes.data % 64 == 0,
                                   "owns": x.flags.owndata, "contiguous": x.flags.c_contiguous})


kept = []


@app.model("keeps")
def keeps(x):
    """Arrays stay valid after the call."""
    kept.append(x)
    return np.concatenate([k.ravel()[:1] for k in kept])


@app.model("bf16")
def bf16(x):
    return Response(x, parameters={"dtype": str(x.dtype)})


# --- what goes out ---

OUTPUTS = {
    "array": lambda: np.array([1, 2], np.int32),
    "dict": lambda: {"p": np.zeros(1), "q": np.ones(2, np.int8)},
    "tuple": lambda: (np.zeros(1), np.ones(2, np.int8)),
    "list": lambda: [1.5, 2.5],
    "scalar": lambda: 7,
    "float": lambda: 0.5,
    "bool": lambda: True,
    "str": lambda: "grüße",
    "bytes": lambda: b"\0\xff",
    "list_of_str": lambda: ["a", "ü"],
    "unicode_array": lambda: np.array(["a", "üü"]),
    "bytes_array": lambda: np.array([b"a", b"bb"]),
    "fortran": lambda: np.asfortranarray(np.arange(6).reshape(2, 3)),
    "strided": lambda: np.arange(10)[::-3],
    "big_endian": lambda: np.arange(3, dtype=">i4"),
    "float16": lambda: np.array([1.5], np.float16),
    "zero_d": lambda: np.array(3.5),
    "empty": lambda: np.zeros((0, 3)),
    "no_outputs": lambda: {},
    "response": lambda: Response({"y": np.ones(1)}, parameters={"s": "ü", "i": -1, "f": 0.5, "b": False, "u": 2**63}),
    "response_array": lambda: Response(np.ones(1)),
    "broadcast": lambda: np.broadcast_to(np.float32(2), (2, 3)),
    "masked_large": lambda: np.arange(200_000, dtype=np.int32)[::2],
}
for name, make in OUTPUTS.items():
    app.model(f"out_{name}")(lambda request, make=make: make())


@app.model("declared_tuple", outputs={"first": F32, "second": Tensor("INT64", [1])})
def declared_tuple(request):
    return np.zeros(2, np.float32), np.array([5])


@app.model("declared_dict", outputs={"first": F32, "second": Tensor("INT64", [1])})
def declared_dict(request):
    return {"second": np.array([5]), "first": np.zeros(2, np.float32)}


# --- errors ---

@app.model("refuses")
def refuses(request):
    raise Error(request.parameters["code"], request.parameters["message"])


# --- classes, versions ---

@app.model("counter:v2")
class Counter:
    made = 0

    def __init__(self):
        Counter.made += 1
        self.calls = 0

    def __call__(self, request):
        self.calls += 1
        return {"calls": np.array([self.calls]), "made": np.array([Counter.made])}


@app.model("where")
def where(request):
    return Response(np.zeros(0), parameters={"thread": threading.current_thread().name, "pid": os.getpid(),
                                             "main": threading.current_thread() is threading.main_thread()})


@app.model("clock")
def clock(request):
    return np.array([request.deadline - time.monotonic() if request.deadline else -1.0])


def plain(x):
    return x


class Callable:
    def __call__(self, x):
        return x + 1


app.model("function")(plain)
app.model("instance")(Callable())


# --- async ---

@app.model("task", deployment="loop")
async def task(request):
    before = variable.get()
    variable.set(1)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        one = group.create_task(asyncio.sleep(0, 20))
        two = group.create_task(asyncio.sleep(0, 22))
    return np.array([before, one.result() + two.result(), asyncio.current_task() is not None])


@app.model("eager", deployment="loop", eager=True)
async def eager(x):
    if x[0] > 5:
        await asyncio.sleep(0)
        assert asyncio.current_task() is not None
    return x + 1


@app.model("sync_in_loop", deployment="loop")
def sync_in_loop(x):
    return x + 2


@app.model("threaded_in_loop", deployment="loop", threads=2)
def threaded_in_loop(request):
    return Response(np.zeros(0), parameters={"main": threading.current_thread() is threading.main_thread()})


gate = None


@app.model("meets", deployment="loop")
async def meets(request):
    """Ends when as many as asked are here at the same time."""
    global gate
    gate = gate or asyncio.Condition()
    async with gate:
        gate.count = getattr(gate, "count", 0) + 1
        gate.notify_all()
        await gate.wait_for(lambda: gate.count >= request.parameters["n"])
    return np.array([gate.count])


class AsyncCallable:
    async def __call__(self, x):
        await asyncio.sleep(0)
        return x * 3


app.model("async_class", deployment="loop")(AsyncCallable)
