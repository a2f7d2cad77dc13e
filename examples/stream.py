"""Streams: models that answer with many responses, and one that takes many requests.

    anyserve run examples/stream.py
    curl -N http://127.0.0.1:8000/v2/models/words/generate_stream -d '{"prompt": "one two three"}'

gRPC clients call them by ModelStreamInfer (tritonclient: start_stream, async_stream_infer).
"""

from typing import AsyncIterator

import numpy as np

from anyserve import AnyServe, Request, Response, Tensor

app = AnyServe()


@app.model("words", inputs={"prompt": Tensor("BYTES", [1])}, outputs={"word": Tensor("BYTES", [1])})
async def words(prompt, request):
    """One response for each word; `upper` is a parameter of the request."""
    for i, word in enumerate(prompt[0].split()):
        word = word.upper() if request.parameters.get("upper") else word
        yield Response(np.array([word], object), {"index": i})


@app.model("primes", threads=4)
def primes(n):
    """Sync generators work too. This one has no end: it stops when its client leaves or has enough."""
    found, candidate = [], 2
    while not n.size or len(found) < n[0]:
        if all(candidate % p for p in found):
            found.append(candidate)
            yield np.array([candidate])
        candidate += 1


@app.model("running_mean", inputs={"x": Tensor("FP64", [-1])}, outputs={"mean": Tensor("FP64", [])})
async def running_mean(requests: AsyncIterator[Request]):
    """All requests of one call, as they come."""
    total, count = 0.0, 0
    async for request in requests:
        total += request.inputs["x"].sum()
        count += request.inputs["x"].size
        yield np.float64(total / count if count else np.nan)
