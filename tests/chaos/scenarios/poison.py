"""A request that ends its worker is sent 1,000 times in 60 s, beside 200 healthy requests/s; 8 workers.

At most two workers may be lost beyond those that were executing the pill when the first one died, and no healthy request.
"""

import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import rig

from support.protocol import oip, prometheus

COUNT = 1000
RATE, WORKERS, DEADLINE, PILLS_PER_S, CALM = 200, 8, 10, 1000 / 60, 2


def send_pills(server, count):
    """Each on time, whatever became of the one before; (outcome, latency in s) of each."""
    local, outcomes = threading.local(), []

    def one(due):
        if not hasattr(local, "client"):
            local.client = oip.Client(server.address)
        if (ahead := due - time.monotonic()) > 0:
            time.sleep(ahead)
        begin = time.monotonic()
        try:
            local.client.infer("pill", {"id": np.array([0])}, timeout=DEADLINE)
            outcome = "OK"
        except grpc.RpcError as e:
            outcome = e.code().name
        outcomes.append((outcome, time.monotonic() - begin))

    with ThreadPoolExecutor(16) as pool:
        begin = time.monotonic()
        list(pool.map(one, [begin + i / PILLS_PER_S for i in range(count)]))
    return outcomes


def executions(folder):
    """(began, ended or None) of each, in order."""
    found = []
    for path in Path(folder).iterdir():
        times = {"began": [], "ended": []}
        for line in path.read_text().splitlines():
            word, when = line.split()
            times[word].append(float(when))
        found += [(when, times["ended"][0] if times["ended"] else None) for when in times["began"]]
    return sorted(found)


def part(server, protocol, folder, options):
    load = rig.Load(server.address, protocol, "nap", RATE, DEADLINE)
    try:
        time.sleep(CALM)
        pills = send_pills(server, options.count or COUNT)
        time.sleep(0.5)
        outcome = load.end()
    finally:
        load.abandon()
    ran = executions(folder)
    first = min(ended for _, ended in ran if ended)
    beside = sum(began < first for began, _ in ran) - 1
    deaths = int(prometheus.total(prometheus.parse(server.metrics()), "anyserve_replica_deaths_total"))
    refused = [s for what, s in pills if what == "INTERNAL"]
    result = rig.Result("poison", f"{server.name} {protocol}", pills=len(pills), refused=len(refused), deaths=deaths,
                        executions=len(ran), beside=beside, slowest_refusal_ms=round(1e3 * max(refused, default=0), 1),
                        **outcome.figures())
    result.add(outcome)
    if deaths > 2 + beside or len(ran) > 2 + beside:
        result.fault(f"{deaths} workers died of {len(ran)} executions, over 2 + {beside}")
    if outcome.errors:
        result.fault(f"{len(outcome.errors)} healthy requests failed: {outcome.examples()}")
    if len(refused) < len(pills):
        result.fault(f"pills ended otherwise: { {w for w, _ in pills} }")
    return result


def run(options):
    for protocol in ("grpc", "http"):
        if not options.wants(f"AnyServe {protocol}"):
            continue
        with tempfile.TemporaryDirectory(prefix="as-") as folder:
            server = rig.AnyServe("--log-level", "error", workers=WORKERS, model="guarded.py", env={"CHAOS_PILLS": folder})
            with rig.serving(server):
                result = part(server, protocol, folder, options)
                rig.wait_workers(server, WORKERS)
            yield result
