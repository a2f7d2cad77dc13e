"""What `hung` calls: handlers that do not end, in a deployment of their own, and neighbours that answer at once."""

import ctypes
import time

from anyserve import AnyServe

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


app.model("beside", deployment="sick", idempotent=True)(answer)
app.model("echo", deployment="well", idempotent=True)(answer)
