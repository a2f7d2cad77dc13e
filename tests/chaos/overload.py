"""Three times as many requests as can be served, for 60 s: --count is the seconds.

Goodput stays at 95 % of what the server does when it is just busy, measured before; who is refused hears of it at once (p99 5 ms
as the client sees it) with a hint when to come back; the dispatcher's memory does not grow; and a second after the end a
request is served as before.
"""

import threading
import time

import numpy as np
import rig

from support import oip
from support.load import Load

COUNT = 60
WORKERS, QUEUE, FACTOR, CALIBRATION, DEADLINE = 4, 32, 3, 4, 10
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


def part(server, protocol, options):
    seconds = options.count or COUNT
    most = capacity(server)
    before = rss(server)
    load = rig.Load(server.address, protocol, "work", FACTOR * most, DEADLINE)
    try:
        time.sleep(seconds)
        ended = []
        waiter = threading.Thread(target=lambda: ended.append(load.end()))
        waiter.start()
        back = recovery(server)
        waiter.join()
    finally:
        load.abandon()
    outcome = ended[0]
    until = load.began + load.seconds
    served = sum(not r[2] and r[0] + r[1] < until for r in outcome.rows)
    refused = [r for r in outcome.rows if r[2].startswith(("RESOURCE_EXHAUSTED", "503"))]
    times = sorted(r[1] for r in refused)
    goodput, p99, grown = served / load.seconds / most, 1e3 * rig.quantile(times, .99), rss(server) - before
    result = rig.Result("overload", f"{server.name} {protocol}", capacity_per_s=round(most, 1), calls=len(outcome.rows),
                        goodput=round(goodput, 3), refused=len(refused), refused_p50_ms=round(1e3 * rig.quantile(times, .5), 2),
                        refused_p99_ms=round(p99, 2), recovery_s=round(back, 2), grown_mib=round(grown, 1),
                        load=round(outcome.share, 3))
    result.valid = outcome.valid
    if goodput < 0.95:
        result.fault(f"goodput {goodput:.3f} of capacity, under 0.95")
    if p99 > 5:
        result.fault(f"refusals' p99 {p99:.1f} ms, over 5")
    if not refused or any(not r[6] or int(r[6]) < 1 for r in refused):
        result.fault("refusals without a hint")
    if len(refused) + sum(not r[2] for r in outcome.rows) < len(outcome.rows):
        result.fault(f"other errors: {outcome.examples()}")
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
