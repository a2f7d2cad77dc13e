"""Three times as many requests as can be served, for 60 s: --count is the seconds.

Goodput stays at 95 % of what the server does when it is just busy, measured before; who is refused hears of it at once (p99 5 ms
as the client sees it) with a hint when to come back; the dispatcher's memory does not grow; and a second after the end a
request is served as before.
"""

import time

import grpc
import numpy as np
import rig

from support.load import Load
from support.protocol import oip

COUNT = 60
WORKERS, QUEUE, FACTOR, CALIBRATION, DEADLINE, HINTS = 4, 32, 3, 4, 10, 5
CONNECTIONS = {"grpc": 8, "http": 128}  # one of HTTP/1.1 carries one call at a time
WORK = 0.050  # seconds of a handler


def capacity(server):
    """Answers per second with as many clients as keep every worker busy."""
    def call(client, n):
        client.infer("work", {"id": np.array([n])})

    with Load(server.address, call, threads=2 * WORKERS) as load:
        load.wait_more(2 * WORKERS)
        begin, before = time.monotonic(), load.count()
        time.sleep(CALIBRATION)
        return (load.count() - before) / (time.monotonic() - begin)


def rss(server):
    """MiB."""
    with open(f"/proc/{server.dispatcher}/statm") as f:
        return int(f.read().split()[1]) * 4096 / (1 << 20)


def recovery(server):
    """Seconds until a request takes no longer than two turns of the handler."""
    begin = time.monotonic()
    with oip.Client(server.address) as client:
        while time.monotonic() - begin < 10:
            sent = time.monotonic()
            try:
                client.infer("work", {"id": np.array([1])})
            except Exception:  # refused: not yet
                continue
            if time.monotonic() - sent <= 2 * WORK:
                break
    return sent - begin


def hints(server, flood, n):
    """Of n calls that are refused while the flood goes on: the milliseconds after which each may come back. More come at
    once than workers can end together: one that asks again when it is answered would always find the place just left."""
    found = []
    with oip.Client(server.address) as client:
        while len(found) < n and flood.goes_on:
            for call in [client.begin("work", {"id": np.array([0])}) for _ in range(2 * WORKERS)]:
                if call.exception() is not None:
                    assert call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, call.exception()
                    found.append(int(dict(call.trailing_metadata())["grpc-retry-pushback-ms"]))
    return found


def part(server, protocol, options):
    seconds = options.count or COUNT
    most = capacity(server)
    before = rss(server)
    flood = rig.Bench(server, "work", FACTOR * most, seconds, "--protocol", protocol, "--warmup", "0", "--connections",
                      CONNECTIONS[protocol], "--timeout", f"{DEADLINE}s")
    try:
        told = hints(server, flood, HINTS)
        out = flood.end()
    except BaseException:
        flood.abandon()
        raise
    back = recovery(server)
    refused = sum(e["count"] for e in out["errors"].values())
    goodput, p99, grown = out["per_second"] / most, out["errors_us"]["p99"] / 1e3, rss(server) - before
    result = rig.Result("overload", f"{server.name} {protocol}", capacity_per_s=round(most, 1), calls=out["due"],
                        goodput=round(goodput, 3), refused=refused, refused_p50_ms=round(out["errors_us"]["p50"] / 1e3, 2),
                        refused_p99_ms=round(p99, 2), recovery_s=round(back, 2), grown_mib=round(grown, 1), late=out["late"])
    if goodput < 0.95:
        result.fault(f"goodput {goodput:.3f} of capacity, under 0.95")
    if p99 > 5:
        result.fault(f"refusals' p99 {p99:.1f} ms, over 5")
    if len(told) < HINTS or min(told) < 1:
        result.fault("refusals without a hint")
    if set(out["errors"]) != {"UNAVAILABLE" if protocol == "http" else "RESOURCE_EXHAUSTED"} or out["unanswered"] or out["unsent"]:
        result.fault(f"other errors: {out['errors']}, {out['unanswered']} unanswered, {out['unsent']} unsent")
    if back > 1:
        result.fault(f"back to normal after {back:.2f} s")
    if grown > 16:
        result.fault(f"the dispatcher grew by {grown:.1f} MiB")
    return result


def run(options):
    for protocol in ("grpc", "http"):
        if not options.wants(f"AnyServe {protocol}"):
            continue
        server = rig.AnyServe("--log-level", "error", "--max-queued-requests", QUEUE, workers=WORKERS, model="guarded.py",
                              env={"CHAOS_WORK": str(WORK)})
        with rig.serving(server):
            yield part(server, protocol, options)
