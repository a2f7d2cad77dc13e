#!/usr/bin/env python3
"""`make soak`: 100,000 simulator seeds, then load while workers and the dispatcher are killed.

    tools/soak.py [--minutes 10] [--seeds 100000] [--seed N]

Each round loads two workers with checked calls and kills workers with SIGKILL at random moments; every
fourth round the dispatcher dies between two loads. After each round everything must be as before: workers
back, calls answered, gauges at zero, as many descriptors as in the first round. Calls may fail only with
UNAVAILABLE, and no more of them than were in flight at the kills. The moments come from --seed, printed.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from client import Call, command  # noqa: E402
from servers import AnyServe, Failed  # noqa: E402

BUILD = ROOT / "build/release"
CONNECTIONS, STREAMS, SECONDS, KILLS = 4, 16, 6, 3
GAUGES = ("anyserve_queued_requests", "anyserve_ongoing_requests", "anyserve_unanswered_requests",
          "anyserve_inflight_bytes")
READY = "anyserve_replicas_ready"


class Soak:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.server = AnyServe(BUILD, options=["--workers", "2"])
        self.server.start()
        self.wait_calm()
        self.descriptors = None  # of supervisor and dispatcher after the first round
        self.calls = self.failed = 0

    def wait_calm(self, seconds=60):
        """Both workers ready, nothing held."""
        end = time.monotonic() + seconds
        while True:
            try:
                now = self.server.counters()
            except OSError:
                now = {}  # the dispatcher is being replaced
            if now.get(READY) == 2 and not any(now[g] for g in GAUGES):
                return
            if time.monotonic() > end:
                raise Failed(f"not calm after {seconds} s: "
                             f"{ {k: v for k, v in now.items() if k in GAUGES + (READY,)} }")
            time.sleep(0.1)

    def kill(self, role):
        pid = self.random.choice([p for p, r in self.server.find_processes().items() if r == role])
        os.kill(pid, signal.SIGKILL)

    def load(self):
        """Load with kills; counts calls, and judges those that failed."""
        load = command(BUILD, self.server.port, Call(), "--connections", CONNECTIONS, "--streams", STREAMS, "--warmup",
                       "off", "--duration", f"{SECONDS}s")
        with subprocess.Popen(load, stdout=subprocess.PIPE, text=True,
                              stderr=subprocess.PIPE) as client:
            for _ in range(KILLS):
                time.sleep(self.random.uniform(0.3, SECONDS / KILLS - 0.3))
                self.kill("worker")
            out, err = client.communicate(timeout=60)
        result = json.loads(out)
        self.calls += result["ok"]
        self.failed += result["failed"]
        if result["failed"] > KILLS * CONNECTIONS * STREAMS or result["unanswered"]:
            raise Failed(f"too many calls failed: {out} {err}")
        if set(result["errors"]) - {"UNAVAILABLE"}:
            raise Failed(f"a call failed otherwise than by UNAVAILABLE: {result}")

    def count_descriptors(self):
        pids = [self.server.process.pid] + [p for p, r in self.server.find_processes().items()
                                            if r == "dispatcher"]
        return [len(os.listdir(f"/proc/{p}/fd")) for p in pids]

    def check_hygiene(self, seconds=10):
        """Descriptors of supervisor and dispatcher do not grow; what has just been closed may take a
        moment."""
        count, end = self.count_descriptors(), time.monotonic() + seconds
        self.descriptors = self.descriptors or count
        while any(now > first for now, first in zip(count, self.descriptors)):
            if time.monotonic() > end:
                raise Failed(f"descriptors grew from {self.descriptors} to {count}")
            time.sleep(0.1)
            count = self.count_descriptors()

    def round(self, number):
        self.load()
        self.wait_calm()
        if number % 4 == 3:
            self.kill("dispatcher")
            self.server.wait_ready()
            self.wait_calm()
        self.check_hygiene()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", default=10, type=float)
    parser.add_argument("--seeds", default=100_000, type=int)
    parser.add_argument("--seed", default=random.randrange(10**6), type=int)
    options = parser.parse_args()
    if options.seeds:
        for simulator in ("sim", "plan_sim"):
            subprocess.run([BUILD / "tests/sim" / simulator, "--seeds", str(options.seeds)], check=True)
    print(f"soak: --seed {options.seed}", flush=True)
    soak, rounds, end = Soak(options.seed), 0, time.monotonic() + 60 * options.minutes
    try:
        while time.monotonic() < end:
            soak.round(rounds)
            rounds += 1
            print(f"round {rounds}: {soak.calls} calls answered, {soak.failed} UNAVAILABLE, "
                  f"descriptors {soak.descriptors}", flush=True)
    except Failed as e:
        print(f"soak: round {rounds + 1}: {e}\n{soak.server.log_text()}", file=sys.stderr)
        return 1
    finally:
        soak.server.stop()
    print(f"soak: {rounds} rounds, {rounds * KILLS} worker kills, {rounds // 4} dispatcher kills: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
