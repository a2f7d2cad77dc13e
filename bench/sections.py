"""The sections of the benchmark. Each is a function that measures and returns Markdown, in the order of SECTIONS.

A section asks the stage for its servers; those that were not chosen with --only are missing, B0 never is.
"""

from dataclasses import replace
from statistics import median

import handlers
import instructions
import rest
from batching import batching
from client import Call
from json_libraries import json_speed
from report import cpu_cell, others_cell, rate_table, table, thousands
from sampling import AWAKE, PINNED, UNPINNED, Load, measure, mid, ratio, ratios
from streams import streams

ALL = [Load(1, 1), Load(16, 1), Load(64, 1), Load(4, 16), Load(1, 128)]
FEW, MANY = Load(16, 1), Load(4, 16)  # the two that limits are set for
BASELINES = ["b0_echo", "uv_echo", "grpc c++", "grpcio sync", "grpcio aio"]
RATE_LOAD = Load(16, 16)
RATE_SHARES = [0.3, 0.6, 0.9]
RATE_STREAMS = 64  # most in flight on each connection of an open loop


def pinned(stage):
    """### Client on core 0, servers on core 1"""
    loads = [Load(1, 1), FEW, MANY] if stage.options.quick else ALL
    stage.pinned = measure(stage.servers("anyserve", *BASELINES), loads, stage.options, PINNED, "pinned")
    return rate_table(stage.pinned)


def unpinned(stage):
    """### Nothing pinned"""
    servers = stage.servers("anyserve", "b0_echo", "grpc c++", "grpcio sync", "grpcio aio")
    return rate_table(measure(servers, [FEW, MANY], stage.options, UNPINNED, "unpinned"))


def awake(stage):
    """### Pinned, and the client's core kept awake

    A process of idle priority spins on the client's core, so that this virtual CPU never halts. Where it may halt,
    the first write to a client that sleeps costs the *server* a wake-up through the hypervisor (about 20 µs), and a
    bare echo, being faster, finds its client awake more often. No limit is set for these figures.
    """
    servers = stage.servers("anyserve", "b0_echo")
    return rate_table(measure(servers, [FEW, MANY], stage.options, AWAKE, "client awake"))


def tensors(stage):
    """### Tensors of 64 KiB (pinned)"""
    loads = [replace(load, call=Call(payload=65536)) for load in (FEW, MANY)]
    servers = stage.servers("anyserve", "b0_echo", "grpc c++")
    return rate_table(measure(servers, loads, stage.options, PINNED, "64 KiB"))


def add(stage):
    """### Two inputs: FP32[32] a and b, answered with a + b by numpy (pinned)

    The echoes get the same requests, and send them back.
    """
    loads = [replace(load, call=Call("add", ("a", "b"))) for load in (FEW, MANY)]
    servers = stage.servers("anyserve add", "b0_echo", "grpc c++")
    return rate_table(measure(servers, loads, stage.options, PINNED, "add"))


def workers(stage):
    """### Three workers (--workers 3)

    `echo`: pinned, dispatcher and all workers share core 1. Its handler costs nothing, so more workers only spread
    the requests over more wake-ups. `nap`: a handler that waits 1 ms, as for an accelerator; workers then overlap.
    """
    parts = []
    for model, loads in (("echo", [FEW, MANY]), ("nap", [FEW])):
        servers = stage.servers(f"anyserve {model}" if model != "echo" else "anyserve", f"anyserve {model}, 3 workers")
        if len(servers) == 2:
            result = measure(servers, loads, stage.options, PINNED, f"{model}, 3 workers")
            parts.append(rate_table(result, base=servers[0].name, base_text="one worker"))
    return "\n".join(parts)


def c_worker(stage):
    """### A worker in C (pinned)

    `echo_worker.c` on libanyserve-worker, which joined with the token; beside it the Python worker of the same model.
    """
    servers = stage.servers("anyserve C", "anyserve", "b0_echo")
    stage.c_worker = measure(servers, [FEW, MANY], stage.options, PINNED, "C worker")
    return rate_table(stage.c_worker)


def rates(stage):
    """### Latency against offered rate (pinned, open loop)

    Calls are due at a given rate, whatever the answers do; latency counts from when a call was due. The rates are
    shares of what AnyServe answers in a closed loop of 16×16; 16 connections carry them, each with at most 64 calls in
    flight. The client never sleeps here. *Late*: how long after it was due a call was sent, because the client was
    busy or all streams were. Where 1024 calls are in flight all the time (p50 × rate), the server is at its limit:
    calls come in smaller portions than in a closed loop, so that limit is below the maximum.
    """
    servers = stage.servers("anyserve", "b0_echo")
    if len(servers) < 2:
        return ""
    closed = measure(servers[:1], [RATE_LOAD], stage.options, PINNED, "maximum")
    most = mid(closed[RATE_LOAD]["anyserve"], "per_second")
    loads = {}
    for share in RATE_SHARES:
        for arrivals in ("constant", "poisson"):
            load = Load(RATE_LOAD.connections, RATE_STREAMS,
                        ("--rate", round(share * most), "--arrivals", arrivals, "--poll"))
            loads[load] = (share, arrivals)
    result = measure(servers, list(loads), stage.options, PINNED, "offered rate")
    rows = []
    for load, by_server in result.items():
        share, arrivals = loads[load]
        for name, samples in by_server.items():
            answered = median(s["per_second"] / s["offered_per_second"] for s in samples)
            rows.append([f"{share:.0%} ({thousands(share * most)}/s)".replace("%", " %"), arrivals, name,
                         f"{100 * answered:.1f} %",
                         *(f"{mid(samples, key):.0f}" for key in ("p50_us", "p90_us", "p99_us", "p999_us")),
                         f"{mid(samples, 'late_p99_us'):.0f}", cpu_cell(samples), others_cell(samples)])
    return (f"Maximum: {thousands(most)} requests/s.\n\n"
            + table(["offered", "arrivals", "server", "answered in time", "p50 µs", "p90 µs", "p99 µs", "p99.9 µs",
                     "late p99 µs", "CPU µs per request", "others' CPU"], rows))


def counters(stage):
    """### Exported counters, per request (pinned)

    What `/metrics` counts: event loop wakes and system calls. They do not depend on the clock.
    """
    by_load = {load: by_server["anyserve"] for load, by_server in stage.pinned.items() if "anyserve" in by_server}
    names = sorted({name for samples in by_load.values() for name in samples[0]["counters"]},
                   key=lambda name: ("worker" in name, name))
    rows = [[str(load), *(f"{median(s['counters'][name] for s in samples):.3f}" for name in names)]
            for load, samples in by_load.items()]
    heads = [name.replace("anyserve_", "").replace("_total", "").replace("_", " ") for name in names]
    heads = [head if head.startswith("worker ") else f"dispatcher {head}" for head in heads]
    return table(["load", *heads], rows) if rows else ""


def user_instructions(stage):
    """### User instructions per request (callgrind, 4×16)"""
    if stage.options.no_instructions:
        return ""
    stage.counts = instructions.measure(stage.options.build)
    rows = [[load, server, f"{count:.0f}", f"{count / row['b0']:.3f}"]
            for load, row in stage.counts.items() for server, count in row.items()]
    return table(["load generator", "process", "instructions", "ratio to B0"], rows)


def json_tensors(stage):
    """### JSON tensors: 1,000 elements, MB of text per second of CPU time (ratio to jansson)

    AnyServe reads a whole inference request into the tensor, and writes a whole answer; the others do the same work
    with their own means. simdjson (On-Demand, as its documentation shows it) and yyjson are ceilings.
    """
    found = json_speed.programs(stage.options.build, not stage.options.quick)
    return table(json_speed.HEAD, list(json_speed.rows(json_speed.measure(found, 1 if stage.options.quick else 5))))


SECTIONS = {"pinned": pinned, "unpinned": unpinned, "awake": awake, "tensors": tensors, "add": add,
            "workers": workers, "handlers": handlers.handlers, "neighbours": handlers.neighbours, "c_worker": c_worker, "rates": rates, "counters": counters, "http": rest.http_echo,
            "sse": rest.sse, "streams": streams, "batching": batching, "json": json_tensors,
            "instructions": user_instructions}


def verdicts(stage):
    """### What must hold"""
    rows = grpc_rows(stage) + handlers.verdict_rows(stage) + c_worker_rows(stage) + rest.verdict_rows(stage)
    if not rows:
        return ""
    return table(["quantity", "measured", "must", "holds"],
                 [[text, f"{value:.2f}", f"{sign} {limit:g}",
                   "yes" if (value >= limit if sign == ">=" else value <= limit) else "**no**"]
                  for text, value, sign, limit in rows])


def c_worker_rows(stage):
    """As grpc_rows."""
    if not stage.c_worker or not {"anyserve C", "anyserve"} <= set(stage.c_worker[FEW]):
        return []
    few = stage.c_worker[FEW]
    return [("C worker, requests/s over B0, 16×1", ratio(few["anyserve C"], few["b0_echo"]), ">=", 0.72),
            ("C worker, requests/s over the Python worker, 16×1", ratio(few["anyserve C"], few["anyserve"]), ">=", 1)]


def grpc_rows(stage):
    """Those of the sections about gRPC: (quantity, measured, sign, limit)."""
    needed = {"anyserve", "b0_echo", "grpc c++", "grpcio sync", "grpcio aio"}
    if not stage.pinned or not needed <= set(stage.pinned[FEW]):
        return []

    def over(load, base):
        return ratio(stage.pinned[load]["anyserve"], stage.pinned[load][base])

    def thrift(load, base):
        """Requests for each second of CPU time of all the server's processes, over the base's."""
        return median(sum(b["cpu_us"].values()) / sum(a["cpu_us"].values())
                      for a, b in zip(stage.pinned[load]["anyserve"], stage.pinned[load][base]))

    def over_grpcio(load):
        return min(over(load, "grpcio sync"), over(load, "grpcio aio"))

    few = stage.pinned[FEW]["anyserve"]
    rows = [
        ("requests/s over B0, 16×1", over(FEW, "b0_echo"), ">=", 0.70),
        ("requests/s over B0, 4×16", over(MANY, "b0_echo"), ">=", 0.60),
        ("requests/s per core over gRPC C++, 16×1", over(FEW, "grpc c++"), ">=", 1.5),
        ("requests/s per core over gRPC C++, 4×16", over(MANY, "grpc c++"), ">=", 4),
        ("requests per CPU second over gRPC C++, 16×1", thrift(FEW, "grpc c++"), ">=", 1.5),
        ("requests per CPU second over gRPC C++, 4×16", thrift(MANY, "grpc c++"), ">=", 4),
        ("requests/s over the better grpcio server, 16×1", over_grpcio(FEW), ">=", 12),
        ("requests/s over the better grpcio server, 4×16", over_grpcio(MANY), ">=", 12),
        ("p99/p50, 16×1", median(s["p99_us"] / s["p50_us"] for s in few), "<=", 3.5),
    ]
    if Load(1, 128) in stage.pinned:
        deep = stage.pinned[Load(1, 128)]["anyserve"]
        rows.append(("worker CPU µs per call, 128 in flight", median(s["cpu_us"]["worker"] for s in deep), "<=", 1.0))
    if stage.counts:
        h2load = stage.counts["h2load"]
        rows.append(("dispatcher instructions over B0, 4×16 (h2load)", h2load["dispatcher"] / h2load["b0"], "<=", 1.35))
    return rows
