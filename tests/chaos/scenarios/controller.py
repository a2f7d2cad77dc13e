"""The controller is killed, and a worker just before or after it: clients notice nothing, and what is missing comes back.

2 workers, 100 requests/s that may be repeated. No call may fail; the dispatcher and the worker that was not killed stay the
processes that they were. From the first of the two kills to both workers and the controller being there again: at most 2 s
for the slowest hundredth, on a machine where a worker starts in a quarter of a second.
"""

import os
import random
import signal
import time

import rig

COUNT = 50
RATE, WORKERS = 100, 2
MOST = 2.0  # seconds


def is_whole(server, old):
    try:
        return server.controller not in (None, old) and server.all_ready()
    except (OSError, IndexError, ValueError):
        return False


def strike(server, pick):
    """Seconds until everything is there again, and whether what was not killed stayed."""
    old, before = server.controller, server.workers()
    replica = pick.choice(sorted(before))
    victims = [old, before[replica]]
    pick.shuffle(victims)
    begin = time.monotonic()
    os.kill(victims[0], signal.SIGKILL)
    time.sleep(pick.uniform(0, 0.05))
    os.kill(victims[1], signal.SIGKILL)
    rig.wait.until(lambda: server.workers().get(replica) not in (None, before[replica]) and is_whole(server, old),
                   lambda: f"the controller and {replica}: {server.status()}", 60)
    took, after = time.monotonic() - begin, server.workers()
    return took, all(after.get(r) == pid for r, pid in before.items() if r != replica)


def run(options):
    pick, took, stayed = random.Random(options.seed), [], True
    with rig.serving(rig.AnyServe("--log-level", "error", workers=WORKERS)) as server:
        rig.wait_workers(server, WORKERS)
        dispatcher = server.dispatcher
        load = rig.Load(server.address, "grpc", "nap", RATE)
        try:
            for _ in range(options.count or COUNT):
                time.sleep(pick.uniform(0.05, 0.3))
                seconds, same = strike(server, pick)
                took.append(seconds)
                stayed = stayed and same
            outcome = load.end()
        finally:
            load.abandon()
        stayed = stayed and server.dispatcher == dispatcher
    took.sort()
    result = rig.Result("controller", "with a worker", kills=len(took), whole_p50_ms=round(1e3 * rig.quantile(took, .5)),
                        whole_p99_ms=round(1e3 * rig.quantile(took, .99)), **outcome.figures())
    result.add(outcome)
    if outcome.errors:
        result.fault(f"{len(outcome.errors)} errors: {outcome.examples()}")
    if rig.quantile(took, .99) > MOST:
        result.fault(f"whole again after {rig.quantile(took, .99):.2f} s, over {MOST}")
    if not stayed:
        result.fault("a process that was not killed is another one now")
    yield result
