"""Async handlers: many requests wait at the same time in one worker, without threads.

Serve it with
    anyserve run examples/async_model.py
and call it with
    import numpy as np, tritonclient.grpc as triton
    client = triton.InferenceServerClient("127.0.0.1:8000")
    seconds = triton.InferInput("seconds", [1], "FP64")
    seconds.set_data_from_numpy(np.array([0.5]))
    print(client.infer("patient", [seconds]).as_numpy("waited"))
A hundred such calls at once take half a second, not fifty. A call whose client goes away or whose deadline passes is
cancelled: `await` raises asyncio.CancelledError in the handler.
"""

import asyncio
import time

import numpy as np

from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model(
    "patient",
    inputs={"seconds": Tensor("FP64", [1])},
    outputs={"waited": Tensor("FP64", [1])},
    max_ongoing_requests=100,  # executing at once in one worker; the default of an async handler
)
async def patient(seconds):
    begun = time.monotonic()
    await asyncio.sleep(float(seconds[0]))  # in real life: a database, another service, a GPU queue
    return np.array([time.monotonic() - begun])


@app.model("double", eager=True)  # mostly answers without waiting: no task is made until it awaits
async def double(x):
    return x * 2


@app.model("checksum", threads=2)  # a sync handler beside async ones: in threads it blocks nobody
def checksum(x):
    return np.array([int(x.astype(np.uint64).sum())])
