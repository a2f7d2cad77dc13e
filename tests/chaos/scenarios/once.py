"""Workers are killed while requests come in that must not be repeated: none is executed twice, and who fails is told
the truth.

Handlers write down each request that they begin. A failed call must say that it may have been executed, over HTTP by
`anyserve-may-have-executed: 1`, over gRPC also by `grpc-retry-pushback-ms: -1`; no more may fail than the killed
workers had under way. HAProxy with its settings for such requests (only failed connections are repeated) is put
beside it.
"""

import tempfile
import time

import haproxy
import rig

COUNT = 200
RATE, WORKERS, DEADLINE, KILLS_PER_S, ONGOING = 200, 4, 10, 4, 8


def part(server, protocol, journal, options):
    load = rig.Load(server.address, protocol, "once", RATE, DEADLINE)
    try:
        kills = rig.Killer(server, KILLS_PER_S, options.count or COUNT, options.seed).join()
        time.sleep(0.5)
        outcome = load.end()
    finally:
        load.abandon()
    ran = rig.executions(journal)
    twice = [n for n, times in ran.items() if times > 1]
    wrong = [r for r in outcome.rows if not r[2] and r[5] not in ran]  # answered, never executed
    never = [r for r in outcome.errors if r[5] not in ran]
    result = rig.Result("once", f"{server.name} {protocol}", kills=len(kills), **outcome.figures(),
                        flagged=len(outcome.flagged), twice=len(twice), failed_unexecuted=len(never))
    result.add(outcome)
    return result, outcome, twice, wrong, len(kills)


def run(options):
    for protocol in ("grpc", "http"):
        if not options.wants(f"AnyServe {protocol}"):
            continue
        with tempfile.TemporaryDirectory(prefix="as-") as journal:
            with rig.serving(rig.AnyServe("--log-level", "error", workers=WORKERS, journal=journal)) as server:
                result, outcome, twice, wrong, kills = part(server, protocol, journal, options)
                if twice or wrong:
                    result.fault(f"{len(twice)} executed twice, {len(wrong)} answered without being executed")
                if len(outcome.flagged) < len(outcome.errors):
                    unflagged = [r[2] for r in outcome.errors if not r[4]]
                    result.fault(f"{len(unflagged)} failures do not say that they may have run: {unflagged[:3]}")
                if len(outcome.errors) > kills * ONGOING:
                    result.fault(f"{len(outcome.errors)} errors are more than {kills} kills × {ONGOING}")
                if not outcome.errors:
                    result.fault("no request was hit: nothing was shown")
                rig.wait_workers(server, WORKERS)
            yield result
    if not options.wants("HAProxy http"):
        return
    with tempfile.TemporaryDirectory(prefix="as-") as journal:
        server = haproxy.HAProxy(WORKERS, journal, idempotent=False, deadline=DEADLINE)
        try:
            yield part(server, "http", journal, options)[0]
        finally:
            server.stop()
