"""Models for generate and generate_stream: their inputs are declared, or a flat object could not name them."""

from __future__ import annotations

from typing import AsyncIterator

import cue
import numpy as np

from anyserve import AnyServe, Error, Request, Response, Tensor

app = AnyServe()
N = {"n": Tensor("INT32", [1])}
produced = 0


@app.model("words", inputs={"prompt": Tensor("BYTES", [1]), "n": Tensor("INT32", [1])},
           outputs={"text": Tensor("BYTES", [1])})  # fmt: skip
async def words(prompt, n, request):
    for i in range(int(n[0])):
        word = prompt[0].decode() + " %d\n%s" % (i, request.parameters.get("suffix", ""))
        yield Response(np.array([word.encode()], object), {"i": i})


@app.model("double", inputs=N)
async def double(n):
    return n * 2


@app.model("failing", inputs=N)
async def failing(n):
    for i in range(int(n[0])):
        yield np.array([i])
    raise Error("FAILED_PRECONDITION", 'no "more"')


@app.model("no_text", inputs=N)
async def no_text(n):
    for i in range(int(n[0])):
        yield {"text": np.array([b"fine" if i == 0 else b"\xff"], object)}


@app.model("sum", inputs=N)
async def sum_of(requests: AsyncIterator[Request]):
    return np.array([sum([int(r.inputs["n"][0]) async for r in requests])])


@app.model("endless", inputs=N)
async def endless(n, request):
    global produced
    with cue.scene(request.id) as say:
        try:
            while True:
                produced += 1
                yield {"text": np.array([b"x" * 1000], object)}
        except BaseException:
            say("closed")
            raise


@app.model("produced", inputs=N)
async def how_many(n):
    return np.array([produced])


@app.model("one_large_then_wait", inputs=N)
async def one_large_then_wait(n, request):
    yield {"text": np.array([b"x" * int(n[0])], object)}
    await cue.wait_async(request.id)
