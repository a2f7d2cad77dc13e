#!/usr/bin/env python3
"""`make leaks`: does anything stay behind? A million calls of mixed size and outcome, and 10,000 that are cancelled.

    tools/leaks.py [--build build/release] [--calls 1000000] [--cancels 10000] [--piece 50000] [--threads 1]

After each piece of work everything that is held must be back at zero: exchanges, streams, queues, slots, bytes of the
budget, connections. After the same mix as warm-up, live bytes (what blobs, arenas and output queues hold) of dispatcher
and workers must end as they began, and resident memory must not have grown by more than 4 MiB in any of them.
Load comes from bench/churn, which judges every outcome. --seed repeats a run as far as the mix goes.
"""

import argparse
import json
import random
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from servers import BENCH, AnyServe, Failed  # noqa: E402

CONNECTIONS, STREAMS = 24, 8
CANCEL_CONNECTIONS = 100
DEPLOYMENTS = 2  # of churn_model.py, with a worker each
GROWTH_MAX = 4 << 20
PING_INTERVAL = 0.25  # seconds; memory that is kept for reuse is looked at as often
OPTIONS = ["--max-message-bytes", "8M", "--log-level", "warn", "--ping-interval", f"{1000 * PING_INTERVAL:.0f}ms"]


def resident(pid):
    """Bytes of its own: pages of files that all processes share come and go with the machine."""
    fields = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        fields[name] = value.split()
    return sum(int(fields[f][0]) << 10 for f in ("RssAnon", "RssShmem"))


class Watched:
    """A server whose memory and holdings are looked at between pieces of work."""

    def __init__(self, build, threads):
        self.build = build
        self.server = AnyServe(build, BENCH / "models/churn_model.py", [*OPTIONS, "--threads", threads])
        self.server.start()

    def status(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.server.status_port}/status", timeout=10) as answer:
            return json.loads(answer.read())

    @staticmethod
    def held(state):
        """What is not at zero, by name."""
        found = {key: state["server"][key] for key in ("connections", "inflight_bytes", "unanswered", "exchanges")}
        for d in state["deployments"]:
            found |= {f"{d['name']}.{key}": d[key] for key in ("queued", "prefetched", "ongoing")}
        for r in state["replicas"]:
            found |= {f"{r['name']}.{key}": r[key] for key in ("ongoing", "unanswered")}
        return {k: v for k, v in found.items() if v}

    def settle(self, seconds=20):
        """The status when nothing is held any more and the workers have shown their last counts."""
        end, last = time.monotonic() + seconds, None
        while True:
            state = self.status()
            held, workers = self.held(state), [r["worker"] for r in state["replicas"]]
            if not held and workers == last and len(workers) == DEPLOYMENTS and state["server"]["ready"]:
                return state
            last = workers
            if time.monotonic() > end:
                raise Failed(f"after {seconds} s still held: {held}, workers: {workers}")
            time.sleep(0.05)

    def churn(self, calls, seed, *args):
        command = [self.build / "bench/churn", "--port", self.server.port, "--calls", calls, "--seed", seed, *args]
        done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
        if done.returncode:
            raise Failed(f"{done.stdout}{done.stderr}")
        return json.loads(done.stdout)

    def memory(self, at_rest=False):
        """{process: (live bytes, resident bytes)}; at rest: when what is kept for reuse has been given back too."""
        state = self.settle()
        while at_rest and self.status()["server"]["kept_bytes"]:
            time.sleep(0.05)
        if at_rest:
            time.sleep(4 * PING_INTERVAL)  # a worker gives back what it did not use between two pings
        found = {"dispatcher": (state["server"]["live_bytes"], resident(state["server"]["pid"]))}
        for r in sorted(state["replicas"], key=lambda r: r["name"]):
            found[r["name"]] = (r["worker"]["live_bytes"], resident(r["pid"]))
        return found


def show(text, memory, extra=""):
    row = "  ".join(f"{name} {live:>8} live {rss / 1048576:7.2f} MiB" for name, (live, rss) in memory.items())
    print(f"{text:>10}: {row}{extra}", flush=True)


def cancels(watched, options):
    """Calls that are all cancelled, at random moments, few enough per connection for the server's limit on resets."""
    before = watched.memory()
    counts = watched.churn(options.cancels, options.seed, "--only", "cancel", "--connections", CANCEL_CONNECTIONS,
                           "--streams", 4)
    after = watched.memory()
    show("cancels", after)
    if {k: v[0] for k, v in before.items()} != {k: v[0] for k, v in after.items()}:
        raise Failed(f"live bytes were {before}, and are {after}")
    return counts


def million(watched, options):
    totals, left, n = {}, options.calls, 0
    mix = ("--connections", CONNECTIONS, "--streams", STREAMS)
    for i in range(options.warmup):
        watched.churn(options.piece, options.seed + 1000 + i, *mix)
        show("warm-up", watched.memory())
    first = watched.memory(at_rest=True)
    show("before", first)
    while left:
        piece = min(left, options.piece)
        counts = watched.churn(piece, options.seed + n, *mix)
        left, n = left - piece, n + 1
        for status, k in counts["statuses"].items():
            totals[status] = totals.get(status, 0) + k
        show(options.calls - left, watched.memory(), f"  {piece / counts['seconds']:6.0f}/s")
    last = watched.memory(at_rest=True)
    show("after", last)
    faults = []
    for name, (live, rss) in last.items():
        if live != first[name][0]:
            faults.append(f"{name}: {first[name][0]} live bytes before, {live} after")
        if rss - first[name][1] > GROWTH_MAX:
            faults.append(f"{name}: resident memory grew by {(rss - first[name][1]) / 1048576:.2f} MiB")
    growth = ", ".join(f"{name} {(rss - first[name][1]) / 1048576:+.2f} MiB" for name, (_, rss) in last.items())
    print(f"statuses: {json.dumps({k: v for k, v in totals.items() if v})}\ngrowth: {growth}")
    if faults:
        raise Failed("\n".join(faults))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=ROOT / "build/release", type=Path)
    parser.add_argument("--calls", default=1_000_000, type=int)
    parser.add_argument("--piece", default=50_000, type=int, help="calls between two looks")
    parser.add_argument("--warmup", default=4, type=int, help="pieces before the first measure")
    parser.add_argument("--cancels", default=10_000, type=int)
    parser.add_argument("--threads", default=1, type=int, help="event loops of the dispatcher")
    parser.add_argument("--seed", default=random.randrange(10**6), type=int)
    options = parser.parse_args()
    print(f"leaks: --seed {options.seed}", flush=True)
    watched = Watched(options.build, options.threads)
    try:
        watched.settle()
        watched.churn(2000, options.seed)
        if options.cancels:
            print(f"cancels: {json.dumps(cancels(watched, options))}", flush=True)
        if options.calls:
            million(watched, options)
    except Failed as e:
        print(f"{watched.server.log_text()[-2000:]}\nleaks: {e}", file=sys.stderr)
        return 1
    finally:
        watched.server.stop()
    print("leaks: nothing stays behind")
    return 0


if __name__ == "__main__":
    sys.exit(main())
