"""Hot upgrades under load: supervisor, controller and dispatcher become another image again and again; nobody notices.

Half of the load comes by gRPC, half by HTTP/1.1 on connections that are kept. No call may fail and no connection be refused,
though no client calls again. (The gRPC channel is as grpcio makes it: calls that it gave to a connection which was just reading
GOAWAY, and that were never written, it sends on the next one. Nothing that a server has seen is sent again.) Every worker and the supervisor stay the processes that they were. Between two upgrades the
former dispatcher has ended.
"""

import random
import subprocess
import time

import rig
from support import paths

COUNT = 100
RATE, WORKERS = 1000, 4  # both protocols together


def upgrade(server, program=None):
    """`anyserve upgrade`; seconds until the former dispatcher had answered what it had."""
    begin = time.monotonic()
    done = subprocess.run([str(program or paths.BINARY), "upgrade", "--runtime-dir", server.runtime, "--port",
                           str(server.port)], capture_output=True, text=True, timeout=120, check=False)
    return done, time.monotonic() - begin


def run(options):
    pick, took, wrong = random.Random(options.seed), [], []
    with rig.serving(rig.AnyServe("--log-level", "error", workers=WORKERS, tls=options.tls)) as server:
        rig.wait_workers(server, WORKERS)
        before, supervisor, dispatchers, loads = server.workers(), server.supervisor, {server.dispatcher}, []
        try:
            for protocol in ("grpc", "http"):
                loads.append(rig.Load(server.address, protocol, "nap", RATE / 2, transparent=True, ca=server.ca))
            for _ in range(options.count or COUNT):
                time.sleep(pick.uniform(0.1, 0.3))
                done, seconds = upgrade(server)
                took.append(seconds)
                wrong += [done.stderr.strip()] if done.returncode else []
                dispatchers.add(server.dispatcher)
            outcomes = [load.end() for load in loads]
        finally:
            for load in loads:
                load.abandon()
        same = server.workers() == before and server.supervisor == supervisor
        server.note_fds()
    took.sort()
    for protocol, outcome in zip(("grpc", "http"), outcomes):
        result = rig.Result("upgrade", protocol, upgrades=len(took), upgrade_p50_ms=round(1e3 * rig.quantile(took, .5)),
                            upgrade_max_ms=round(1e3 * rig.quantile(took, 1)), refused=outcome.refused, **outcome.figures())
        result.add(outcome)
        if outcome.errors:
            result.fault(f"{len(outcome.errors)} calls failed: {outcome.examples()}")
        if outcome.refused:
            result.fault(f"{outcome.refused} connections refused")
        if wrong:
            result.fault(f"{len(wrong)} upgrades did not happen: {wrong[0]}")
        if len(dispatchers) != len(took) + 1:
            result.fault(f"{len(dispatchers)} dispatchers in all, {len(took)} upgrades")
        if not same:
            result.fault("a worker, or the supervisor, is another process now")
        yield result
