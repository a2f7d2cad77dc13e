"""A server beside its simulation: the same trace for `anyserve simulate` and for 8 workers whose handlers wait.

usage: python bench/simulate_check.py [--build build/release] [--seconds 60] [--load 0.9] [--mean-ms 50] [--cv 2] [--seed 1]
                                      [-- OPTION…]        further options of both: --router pow_2, --outlier-factor off …

Arrivals are Poisson, service times log-normal. Latency counts from when a request was due. A sleeping handler wakes up late, so
the server runs first, and the simulation gets the trace with the mean excess that the server has measured. Prints both,
their ratio and the load of the machine; exit code 1 if a row differs by more than 20 %. Meaningful only on a quiet machine: latencies
of the server grow with everything else that runs.
"""

import argparse
import asyncio
import csv
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

import servers
from report import table

WORKERS = 8
DIFFERENCE = 0.2
LEAD = 0.5  # seconds before the first request is due
ROWS = ("mean", "p50", "p90", "p95", "p99")


def make_trace(options):
    rand, rows, now = random.Random(options.seed), [], 0.0
    rate = options.load * WORKERS / (options.mean_ms / 1000)
    sigma2 = math.log1p(options.cv ** 2)
    while now < options.seconds:
        rows.append((now, rand.lognormvariate(math.log(options.mean_ms) - sigma2 / 2, math.sqrt(sigma2))))
        now += rand.expovariate(rate)
    return rows


def write_trace(path, rows, excess):
    with open(path, "w", newline="") as f:
        csv.writer(f).writerows([("arrival_s", "service_ms"), *((f"{at:.9f}", f"{ms + excess:.6f}") for at, ms in rows)])


def simulate(build, folder, trace, options):
    spec = folder / "anyserve.yaml"
    spec.write_text(json.dumps({"applications": [{"name": "default", "import_path": "trace_model:app", "deployments": [
        {"name": "wait", "num_replicas": WORKERS, "max_ongoing_requests": 1, "max_queued_requests": -1}]}]}))
    done = subprocess.run([build / "src/app/anyserve", "simulate", spec, "--trace", trace, "--json",
                           "--link-latency", options.link_latency, *options.more],
                          check=True, stdout=subprocess.PIPE)
    result = json.loads(done.stdout)
    return {row: result["total"][f"{row}_ms"] for row in ROWS}, result


async def send_one(session, url, due, ms):
    await asyncio.sleep(max(0.0, due - time.monotonic()))
    body = {"inputs": [{"name": "ms", "shape": [1], "datatype": "FP64", "data": [ms]}]}
    async with session.post(url, json=body) as answer:
        await answer.read()
        if answer.status != 200:
            raise servers.Failed(f"status {answer.status}")
    return (time.monotonic() - due) * 1000


async def send(port, rows):
    url = f"http://127.0.0.1:{port}/v2/models/wait/infer"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        begin = time.monotonic() + LEAD
        pending = set()
        latencies = []
        for at, ms in rows:
            await asyncio.sleep(max(0.0, begin + at - time.monotonic() - 0.05))  # not all tasks at once
            pending.add(asyncio.ensure_future(send_one(session, url, begin + at, ms)))
            done = {p for p in pending if p.done()}
            latencies += [p.result() for p in done]
            pending -= done
        return latencies + list(await asyncio.gather(*pending))


def measure(build, rows, options):
    server = servers.AnyServe(build, model=servers.BENCH / "models/trace_model.py", unary=False,
                              options=("--workers", str(WORKERS), *options.more))
    server.start()
    try:
        latencies = sorted(asyncio.run(send(server.port, rows)))
        counters = server.counters()
    finally:
        server.stop()
    n = len(latencies)
    found = {"mean": sum(latencies) / n}
    found.update({row: latencies[min(n - 1, int(n * int(row[1:]) / 100))] for row in ROWS[1:]})
    service = 1000 * counters["anyserve_service_duration_seconds_sum"] / counters["anyserve_service_duration_seconds_count"]
    return found, service, counters.get("anyserve_ejections_total", 0)


def cpu():
    """Busy and all ticks of all cores since the start of the machine."""
    ticks = [int(t) for t in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return sum(ticks) - ticks[3] - ticks[4], sum(ticks)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, default=servers.ROOT / "build/release")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--load", type=float, default=0.9)
    p.add_argument("--mean-ms", type=float, default=50)
    p.add_argument("--cv", type=float, default=2)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--link-latency", default="100us", help="of the simulation; default 100us")
    p.add_argument("more", nargs="*")
    options = p.parse_args()
    rows = make_trace(options)
    before, others = cpu(), os.getloadavg()[0]
    measured, service, ejected = measure(options.build, rows, options)
    after = cpu()
    excess = max(0.0, service - sum(ms for _, ms in rows) / len(rows))
    with tempfile.TemporaryDirectory(prefix="anyserve-simulate-") as folder:
        trace = Path(folder) / "trace.csv"
        write_trace(trace, rows, excess)
        simulated, result = simulate(options.build, Path(folder), trace, options)
    busy = (after[0] - before[0]) / (after[1] - before[1])
    print(f"{len(rows)} requests in {options.seconds:.0f} s, {WORKERS} workers, load {options.load}, mean {options.mean_ms} ms, "
          f"CV {options.cv}, seed {options.seed}; load average before {others:.2f}, cores busy {100 * busy:.0f} % meanwhile; "
          f"replicas ejected: server {ejected:.0f}, simulation {result['ejected']}; mean service time {service:.2f} ms, "
          f"{excess:.2f} ms more than in the trace")
    print(table(["milliseconds", "server", "simulation", "ratio"],
                [[row, f"{measured[row]:.1f}", f"{simulated[row]:.1f}", f"{measured[row] / simulated[row]:.2f}"] for row in ROWS]))
    return any(abs(measured[row] / simulated[row] - 1) > DIFFERENCE for row in ROWS)


if __name__ == "__main__":
    sys.exit(main())
