"""What `hung` calls: handlers that do not end, in a deployment of their own, and neighbours that take 20 ms."""

import asyncio
import ctypes
import time

from anyserve import AnyServe

NAP = 0.020  # seconds

app = AnyServe()


def answer(request):
    return {"id": request.inputs["id"]}


@app.model("loop", deployment="sick")
def loop(request):
    while True:
        pass


@app.model("call", deployment="sick")
def call(request):
    """Sleeps in C, and keeps the interpreter's lock."""
    ctypes.PyDLL(None).sleep(1000)


@app.model("brief", deployment="sick", idempotent=True)
def brief(request):
    time.sleep(0.3)
    return answer(request)


@app.model("beside", deployment="sick", idempotent=True)
def beside(request):
    time.sleep(NAP)
    return answer(request)


@app.model("nap", deployment="well", idempotent=True)
async def nap(request):
    await asyncio.sleep(NAP)
    return answer(request)
