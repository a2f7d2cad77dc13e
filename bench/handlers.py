"""The section on kinds of handlers: sync and async, alone and side by side."""

import subprocess
from contextlib import contextmanager

from client import Call, command
from report import rate_table, table
from sampling import UNPINNED, Load, measure, mid, ratio

KINDS = ["anyserve", "anyserve sync beside async", "anyserve async"]
LOADS = [Load(1, 1), Load(16, 1), Load(4, 16), Load(16, 1, call=Call(payload=1 << 20))]
NEIGHBOUR = Load(4, 4, ("--rate", 500, "--arrivals", "poisson", "--poll"), Call("async_echo"))
SYNC = {"nothing": None, "a handler that sleeps for 20 ms": "sleep", "one that computes for 20 ms": "compute"}


@contextmanager
def called(server, model):
    """Somebody calls the model all the time, one call after the other."""
    if model is None:
        yield
        return
    load = subprocess.Popen(command(server.build, server.port, Call(model), "--warmup", "off", "--duration", "600s"),
                            stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.kill()
        load.wait()


def handlers(stage):
    """### Kinds of handlers (nothing pinned)

    `anyserve`: a sync echo alone. `sync beside async`: the same handler in a worker that has async models too, which are
    idle. `async`: an async echo that awaits nothing. All give the tensor back as it came.
    """
    servers = stage.servers(*KINDS)
    if len(servers) < len(KINDS):
        return ""
    stage.handlers = measure(servers, LOADS, stage.options, UNPINNED, "handlers")
    return rate_table(stage.handlers, base="anyserve", base_text="a sync handler alone")


def neighbours(stage):
    """### An async handler beside a sync one of 20 ms, in one worker (nothing pinned)

    500 calls a second of the async echo; beside them somebody calls a sync handler of the same worker all the time.
    """
    rows = []
    for server in stage.servers("anyserve sync beside async"):
        for beside, model in SYNC.items():
            with called(server, model):
                samples = measure([server], [NEIGHBOUR], stage.options, UNPINNED, f"beside {beside}")
            stage.neighbours[model] = samples[NEIGHBOUR][server.name]
            rows.append([beside, *(f"{mid(stage.neighbours[model], key):.0f}" for key in ("p50_us", "p90_us", "p99_us"))])
    return table(["beside", "p50 µs", "p90 µs", "p99 µs"], rows)


def verdict_rows(stage):
    """(quantity, measured, sign, limit)"""
    rows = []
    for load in LOADS[1:3] if stage.handlers else []:
        by = stage.handlers[load]
        rows += [(f"sync handler beside async ones, requests/s over alone, {load}",
                  ratio(by["anyserve sync beside async"], by["anyserve"]), ">=", 0.85),
                 (f"async handler, requests/s over a sync one, {load}",
                  ratio(by["anyserve async"], by["anyserve"]), ">=", 0.75)]
    if stage.neighbours:
        alone, beside = (mid(stage.neighbours[model], "p99_us") for model in (None, "sleep"))
        rows.append(("async p99 beside a sync handler that sleeps for 20 ms, ms", beside / 1000, "<=",
                     max(2, round(2 * alone / 1000, 1))))
    return rows
