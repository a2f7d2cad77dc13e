"""The dispatcher is killed under load from clients that call again: nobody is refused, and no worker notices.

Half of the load comes by gRPC, half by HTTP. No connection is refused; every worker is the process that it was, in
the place that it had; from a kill to the first answer to a call that was made after it, at most 300 ms for the
slowest hundredth. A client that calls again has its answer in the end, so no call may fail.
"""

import os
import random
import signal
import time

import rig

COUNT = 100
RATE, WORKERS, RETRY = 100, 2, 10
MOST = 300  # ms


def recovery(kill, rows):
    """Milliseconds until a call that was due after the kill was answered."""
    return 1e3 * min((due + took - kill for due, took, outcome, *_ in rows if due >= kill and not outcome), default=10)


def new_dispatcher(server, old):
    """Another one answers, and has all its workers."""
    def look():
        try:
            return server.dispatcher != old and server.all_ready()
        except (OSError, IndexError, ValueError):
            return False
    rig.wait.until(look, "a new dispatcher with all its workers")


def places(server):
    """Replica → what must not change: its process, and its rank where the status tells one."""
    return {r["name"]: (r["pid"], r.get("rank")) for r in server.status()["replicas"]}


def run(options):
    pick = random.Random(options.seed)
    kills, loads = [], []
    with rig.serving(rig.AnyServe("--log-level", "error", workers=WORKERS, tls=options.tls)) as server:
        rig.wait_workers(server, WORKERS)
        before = places(server)
        try:
            for protocol in ("grpc", "http"):
                loads.append(rig.Load(server.address, protocol, "nap", RATE, retry=RETRY, ca=server.ca))
            for _ in range(options.count or COUNT):
                time.sleep(pick.uniform(0.2, 0.5))
                old = server.dispatcher
                kills.append(time.monotonic())
                os.kill(old, signal.SIGKILL)
                new_dispatcher(server, old)
            time.sleep(1)
            outcomes = [load.end() for load in loads]
        finally:
            for load in loads:
                load.abandon()
        after = places(server)
        server.note_fds()
    for protocol, outcome in zip(("grpc", "http"), outcomes):
        took = sorted(recovery(kill, outcome.rows) for kill in kills)
        p99 = rig.quantile(took, .99)
        result = rig.Result("dispatcher", protocol, kills=len(kills), recovery_p50_ms=round(rig.quantile(took, .5), 1),
                            recovery_p99_ms=round(p99, 1), refused=outcome.refused,
                            again=sum(1 for r in outcome.rows if r[3] > 1), **outcome.figures())
        result.add(outcome)
        if p99 > MOST:
            result.fault(f"recovery p99 {p99:.0f} ms, over {MOST}")
        if outcome.errors:
            result.fault(f"{len(outcome.errors)} calls failed although they were made again: {outcome.examples()}")
        if outcome.refused:
            result.fault(f"{outcome.refused} connections refused")
        if before != after:
            result.fault(f"workers changed: {before} became {after}")
        yield result
