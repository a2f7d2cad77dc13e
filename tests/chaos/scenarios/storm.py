"""Workers are killed at random while requests that may be repeated come in: no client may notice.

4 workers, 200 requests/s, a handler that naps for 20 ms. At 4 kills/s the slowest hundredth may take 100 ms. At 10
kills/s, more than workers can be started on two cores, every request must still be answered within its deadline of 10
s. The same load and kills go to plain workers behind HAProxy, which are started again at once, and to a server that
keeps a warm spare; nothing is demanded of the former.
"""

import time

import haproxy
import rig

COUNT = 1000
RATE, WORKERS, DEADLINE, CALM = 200, 4, 10, 3
PATIENT = ("--max-queued-requests", str(2 * RATE * DEADLINE))  # the deadline alone bounds who waits

SPARE = ("--warm-spares", "1")


def storm(server, protocol, kills_per_s, count, seed):
    load = rig.Load(server.address, protocol, "nap", RATE, DEADLINE, ca=server.ca)
    try:
        time.sleep(CALM)
        killer = rig.Killer(server, kills_per_s, count, seed)
        kills = killer.join()
        time.sleep(0.5)
        return load.end(), kills
    finally:
        load.abandon()


def part(server, protocol, kills_per_s, options):
    outcome, kills = storm(server, protocol, kills_per_s, options.count or COUNT, options.seed)
    took = kills[-1][0] - kills[0][0]
    result = rig.Result("storm", f"{server.name} {protocol} {kills_per_s}/s", kills=len(kills),
                        kills_per_s=round(len(kills) / took, 1) if took else 0, **outcome.figures())
    result.add(outcome)
    return result, outcome


def run(options):
    for kills_per_s in (4, 10):
        for protocol, more in (("grpc", ()), ("http", ()), ("http", SPARE)):
            name = "AnyServe with a spare" if more else "AnyServe"
            if not options.wants(f"{name} {protocol} {kills_per_s}/s"):
                continue
            with rig.serving(rig.AnyServe("--log-level", "error", *PATIENT, *more, workers=WORKERS, tls=options.tls)) as server:
                server.name = name
                result, outcome = part(server, protocol, kills_per_s, options)
                if outcome.errors:
                    result.fault(f"{len(outcome.errors)} errors: {outcome.examples()}")
                if kills_per_s == 4 and outcome.latency(.99) > 100:
                    result.fault(f"p99 {outcome.latency(.99)} ms, over 100")
                rig.wait_workers(server, WORKERS)
            yield result
        if not options.wants(f"HAProxy http {kills_per_s}/s"):
            continue
        server = haproxy.HAProxy(WORKERS, deadline=DEADLINE)
        try:
            yield part(server, "http", kills_per_s, options)[0]
        finally:
            server.stop()
