"""Handlers that do not end, of each kind, beside quick ones. Options come from the environment: HANGING, as JSON."""

import asyncio
import ctypes
import json
import os
import time

import numpy as np

from anyserve import AnyServe, get_replica_context

app = AnyServe()
app.deployment(**json.loads(os.environ.get("HANGING", "{}")))
sick = os.environ.get("HANGING_SICK")  # a file: while it is there, this replica is not well


def check_health():
    if sick and os.path.exists(f"{sick}.{get_replica_context().rank}"):
        raise RuntimeError("the file is there")


def reconfigure(config, rank):
    if config and config.get("slow"):
        time.sleep(config["slow"])


@app.model("loop")
def loop(request):
    while True:
        pass


@app.model("call", idempotent=True)
def call(request):
    ctypes.CDLL(None).sleep(1000)


@app.model("quick")
def quick(x):
    return {"y": x + 1, "pid": np.array([os.getpid()])}


@app.model("slow", idempotent=True)
def slow(x):
    time.sleep(float(x[0]))
    return {"pid": np.array([os.getpid()])}


@app.model("rank")
def rank(request):
    c = get_replica_context()
    return np.array([c.rank, c.world_size, os.getpid()])


if os.environ.get("HANGING_ASYNC"):
    @app.model("wait", idempotent=True, max_ongoing_requests=4)
    async def wait(x):
        if x[0] > 1 and sick:
            open(f"{sick}.begun", "w").close()
        await asyncio.sleep(float(x[0]))
        return {"pid": np.array([os.getpid()])}

    @app.model("later", max_ongoing_requests=4)
    async def later(request):
        await asyncio.sleep(0.6)
        while True:
            pass
