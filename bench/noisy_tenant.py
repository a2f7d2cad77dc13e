"""What one noisy tenant does to the others: their p99 with it beside them, and without it, in turns.

usage: python bench/noisy_tenant.py [--build build/release] [--rounds 3] [--seconds 20] [--tenants 8] [--noise 10] [--load 0.75]
                                    [--workers 2] [--slots 16] [--service-ms 200] [--cv 0] [--fairness tenant] [--seed 1]

A deployment with `fairness: tenant` executes workers × slots requests at a time, which sleep for --service-ms on average. TENANTS
tenants share it, so the share of each is capacity / TENANTS. All but one together send LOAD × capacity, in equal parts, each from a
process of its own (`anyserve bench`, Poisson). In the second half of a round the last tenant sends NOISE × its share beside them.
Latency counts from when a request was due.

Two modelled queues, which cost nothing, get other arrivals of the same kind. Neither interrupts what runs: a request that finds all
slots taken waits for one, and with the noisy tenant it always does. *others first*: the noisy tenant gets what the others leave, as the
best that any order can do for them. *fair*: start-time fair queueing, as the server has it (src/core/queue/fair.h): a burst of a tenant
beyond its share waits while others have something waiting. What the server adds to that is its own. *simulated* is the p99 of `anyserve simulate` for the
others alone.

Exit code 1: a request of the others failed, or the median ratio of the rounds is above 1.2. Meaningful only on a quiet machine.
"""

import argparse
import collections
import csv
import heapq
import json
import math
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import servers
from report import spread, table

MOST, WARMUP = 1.2, 2  # seconds
QUEUE = 200  # max_queued_requests of models/shared_model.py
MODEL_SECONDS = 300  # of the modelled queues, for p99s that do not depend on the seed
NOISY = "noisy"


def others(options):
    return [f"tenant-{i}" for i in range(options.tenants - 1)]


def rates(options, with_noise):
    """Requests/s of each tenant: whole numbers."""
    found = {name: round(options.load * options.capacity / (options.tenants - 1)) for name in others(options)}
    return {**found, NOISY: round(options.noise * options.capacity / options.tenants)} if with_noise else found


# --- models ---

def draw_service(rand, options):
    sigma = math.sqrt(math.log1p(options.cv ** 2))
    return rand.lognormvariate(math.log(options.service_ms / 1000) - sigma ** 2 / 2, sigma)


def make_arrivals(options, with_noise):
    """[(seconds, tenant)]"""
    rand, found = random.Random(options.seed), []
    for name, rate in rates(options, with_noise).items():
        now = rand.expovariate(rate)
        while now < MODEL_SECONDS:
            found.append((now, name))
            now += rand.expovariate(rate)
    return sorted(found)


class ModelledQueue:
    """is_fair: start-time fair queueing; else the noisy tenant comes last."""

    def __init__(self, is_fair):
        self.is_fair, self.waiting, self.tags, self.served, self.now, self.n = is_fair, {}, {}, {}, 0, 0

    def _set_tag(self, tenant):
        self.tags[tenant] = max(self.now, self.served.get(tenant, 0))

    def add(self, when, tenant):
        mine = self.waiting.setdefault(tenant, collections.deque())
        if tenant == NOISY and len(mine) >= QUEUE // 2:
            return  # refused
        mine.append(when)
        self.n += 1
        if len(mine) == 1:
            self._set_tag(tenant)

    def pop(self):
        def order(tenant):
            return self.tags[tenant] if self.is_fair else tenant == NOISY, self.waiting[tenant][0]
        tenant = min((t for t, mine in self.waiting.items() if mine), key=order)
        self.now = max(self.now, self.tags[tenant])
        self.served[tenant] = self.tags[tenant] + 1
        self.n -= 1
        when = self.waiting[tenant].popleft()
        self._set_tag(tenant)
        return when, tenant


def modelled(arrivals, options, is_fair):
    """Latencies of the others in seconds, in order of size."""
    rand, free, queue, took, at = random.Random(options.seed), [0.0] * options.slots_in_all, ModelledQueue(is_fair), [], 0
    while at < len(arrivals) or queue.n:
        start = free[0] if queue.n else max(free[0], arrivals[at][0])
        while at < len(arrivals) and arrivals[at][0] <= start:
            queue.add(*arrivals[at])
            at += 1
        when, tenant = queue.pop()
        service = draw_service(rand, options)
        heapq.heapreplace(free, start + service)
        if tenant != NOISY:
            took.append(start + service - when)
    return sorted(took)


def simulate(options):
    """p99 of the others alone by `anyserve simulate`, ms."""
    rand = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="anyserve-noisy-") as folder:
        spec, trace = Path(folder) / "anyserve.yaml", Path(folder) / "trace.csv"
        spec.write_text(json.dumps({"applications": [{"name": "default", "import_path": "shared_model:app", "deployments": [
            {"name": "shared", "num_replicas": options.workers, "max_ongoing_requests": options.slots, "max_queued_requests": QUEUE,
             "fairness": options.fairness}]}]}))
        rows = [(f"{at:.9f}", f"{1000 * draw_service(rand, options):.6f}", t) for at, t in make_arrivals(options, False)]
        with open(trace, "w", newline="") as f:
            csv.writer(f).writerows([("arrival_s", "service_ms", "tenant"), *rows])
        done = subprocess.run([options.build / "src/app/anyserve", "simulate", spec, "--trace", trace, "--json"], check=True,
                              stdout=subprocess.PIPE)
        return json.loads(done.stdout)["total"]["p99_ms"]


# --- the server ---

def send(port, options, number, with_noise):
    """Tenant → what `anyserve bench` says of it; all at the same time, each with random numbers of its own."""
    clients = {}
    for i, (name, rate) in enumerate(rates(options, with_noise).items()):
        command = [options.build / "src/app/anyserve", "bench", "wait", "--url", f"127.0.0.1:{port}", "--input", "n:INT32:[1]=[1]",
                   "--rate", rate, "--arrivals", "poisson", "--warmup", f"{WARMUP}s", "--duration", f"{options.seconds}s",
                   "--metadata", f"x-tenant={name}", "--seed", 1000 * (options.seed + number) + i, "--json"]
        clients[name] = subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE)
    return {name: json.loads(client.communicate()[0]) for name, client in clients.items()}


def quantile(results, q):
    """Of the latencies of all these tenants, ms."""
    buckets = sorted((us, n) for r in results for us, n in r["histogram_us"])
    left = q * sum(n for _, n in buckets)
    for us, n in buckets:
        left -= n
        if left < 0:
            return us / 1000
    return buckets[-1][0] / 1000


def play(port, options, number, with_noise):
    """p50 and p99 of the others in ms, their requests that failed, the results of all."""
    results = send(port, options, number, with_noise)
    mine = [r for name, r in results.items() if name != NOISY]
    return {"p50": quantile(mine, 0.5), "p99": quantile(mine, 0.99), "failed": sum(r["failed"] + r["unanswered"] for r in mine),
            "late": max(r["late_us"]["p99"] for r in mine) / 1000, "results": results}


def measure(options):
    os.environ.update(SERVICE_MS=str(options.service_ms), SERVICE_CV=str(options.cv), SLOTS=str(options.slots),
                      FAIRNESS=options.fairness)
    server = servers.AnyServe(options.build, model=servers.BENCH / "models/shared_model.py", unary=False,
                              options=("--workers", str(options.workers), "--tenant-header", "x-tenant"))
    server.start()
    try:
        return [tuple(play(server.port, options, number, noise) for noise in (False, True)) for number in range(options.rounds)]
    finally:
        server.stop()


def show(rounds, options, load):
    """Prints what was found; the median ratio."""
    share = options.capacity / options.tenants
    print(f"{options.workers} workers × {options.slots} slots × {options.service_ms:g} ms (CV {options.cv:g}), fairness "
          f"{options.fairness}: {options.capacity:.0f} requests/s; {options.tenants - 1} tenants send {100 * options.load:.0f} % of that "
          f"together, the noisy one {options.noise:g} × its share of {share:.0f}/s; rounds of 2 × {options.seconds:g} s; load average {load:.2f}\n")
    ratios = [beside["p99"] / alone["p99"] for alone, beside in rounds]
    print(table(["round", "alone: p50 ms", "p99 ms", "with the noisy one: p50 ms", "p99 ms", "ratio of p99", "clients late by p99 ms"],
                [[str(n + 1), *(f"{half[f]:.0f}" for half in (alone, beside) for f in ("p50", "p99")), f"{ratio:.2f}",
                  f"{max(alone['late'], beside['late']):.1f}"] for n, ((alone, beside), ratio) in enumerate(zip(rounds, ratios))]))
    for name, is_fair in (("others first", False), ("fair", True)):
        p99 = [1000 * found[int(len(found) * 0.99)] for found in
               (modelled(make_arrivals(options, noise), options, is_fair) for noise in (False, True))]
        print(f"modelled queue, {name}: p99 {p99[0]:.0f} ms alone, {p99[1]:.0f} ms with the noisy one, ratio {p99[1] / p99[0]:.2f}")
    print(f"simulated: p99 {simulate(options):.0f} ms alone\n")
    tenants = [half["results"] for _, half in rounds]
    print(table(["tenant", "sends/s", "answered/s with the noisy one"],
                [[name, str(rate), spread([t[name]["per_second"] for t in tenants])] for name, rate in rates(options, True).items()]))
    return median(ratios)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", type=Path, default=servers.ROOT / "build/release")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=int, default=20, help=f"of each half of a round, after {WARMUP} s of the same load")
    p.add_argument("--tenants", type=int, default=8, help="with the noisy one")
    p.add_argument("--noise", type=float, default=10, help="times its share that the noisy one sends")
    p.add_argument("--load", type=float, default=0.75, help="of the others, as a part of the capacity")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--slots", type=int, default=16, help="of each worker")
    p.add_argument("--service-ms", type=float, default=200)
    p.add_argument("--cv", type=float, default=0, help="of the service time: standard deviation / mean")
    p.add_argument("--fairness", choices=("tenant", "off"), default="tenant", help="off: first come, first served, for comparison")
    p.add_argument("--seed", type=int, default=1, help="of the arrivals")
    options = p.parse_args()
    options.build = options.build.resolve()
    options.slots_in_all = options.workers * options.slots
    options.capacity = options.slots_in_all / options.service_ms * 1000
    load = os.getloadavg()[0]
    rounds = measure(options)
    ratio = show(rounds, options, load)
    failed = sum(half["failed"] for both in rounds for half in both)
    print(f"median ratio {ratio:.2f}, wanted at most {MOST}; {failed} requests of the others failed")
    return 1 if failed or ratio > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
