"""Versions of a few models, each version in a deployment of its own: "one", "two", "three".

TRAFFIC: a JSON object with the options of each deployment that is to be there; "queue" and "sums" are the models'. While the file TRAFFIC_BROKEN is there,
no replica of "two" starts.
"""

from __future__ import annotations

import json
import os
from typing import AsyncIterator

import cue
import numpy as np

from anyserve import AnyServe, Error, Request

NUMBERS = {"one": "1", "two": "2", "three": "3"}
app = AnyServe()


class Version:
    def __init__(self, deployment):
        self.deployment = deployment

    def __call__(self, x, request):
        if request.id.startswith("wait"):
            cue.wait(f"{self.deployment}:{request.id}")
        if (x < 0).any():
            raise Error("INVALID_ARGUMENT", "negative")
        return {"y": x + 1, "pid": np.array([os.getpid()])}


def add(deployment, options):
    number = NUMBERS[deployment]
    version = Version(deployment)

    class Made:
        def __init__(self):
            if deployment == "two" and os.path.exists(os.environ.get("TRAFFIC_BROKEN", "")):
                raise RuntimeError("the file is there")

        def __call__(self, x, request):
            return version(x, request)

    app.deployment(deployment, **{k: v for k, v in options.items() if k not in ("queue", "sums")})
    where = {"version": number, "deployment": deployment}
    app.model("m", max_queued_requests=options.get("queue"), **where)(Made)

    @app.model("numbers", **where)
    def numbers(request):
        for i in range(request.parameters["count"]):
            yield {"output0": np.array([i]), "version": np.array([int(number)])}

    if not options.get("sums"):  # an async handler: more slots than one
        return

    @app.model("sums", **where)
    async def sums(requests: AsyncIterator[Request]):
        total = 0
        async for r in requests:
            total += r.parameters["count"]
            yield np.array([total])


for name, said in json.loads(os.environ["TRAFFIC"]).items():
    add(name, said)
