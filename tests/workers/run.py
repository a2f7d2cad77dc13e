#!/usr/bin/env python3
"""`make workers`: long tests of workers of the simple protocol, with figures.

    tests/workers/run.py [--build build/release] [--only PROOF] [--seconds 60] [--calls 1000000] [--cycles 10000] [--seed N]

languages   500 requests/s to one model that a worker in each language serves; the workers are killed and started again
            in turn. No answer is wrong, and, since the model is idempotent, there is no error.
hostile     calls with a deadline of 30 ms to C workers, of which one answer in ten is late, incomplete, sent twice, has
            another id, or is garbage: every answer is right or an error, and the dispatcher goes on.
cycles      workers register and unregister under load: at the end, registry and memory are as at the start.
pool        requests/s of a C worker with reused connections, against one connection per request.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))

WORKERS = 4  # hostile ones
GROWTH_MAX = 4 << 20


class Failed(Exception):
    pass


def need(condition, text):
    if not condition:
        raise Failed(text)


class Beats(threading.Thread):
    """Sends heartbeats for workers, and registers them again if they are unknown."""

    def __init__(self, server, names, model, **options):
        super().__init__(daemon=True)
        self.server, self.names, self.model, self.options = server, names, model, options
        self.ended, self.again = threading.Event(), 0

    def __enter__(self):
        with management.Json(self.server) as m:
            for name in self.names:
                m.register(name, self.model, **self.options)
        self.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.join()
        with management.Json(self.server) as m:
            for name in self.names:
                m.unregister(name, self.model)

    def run(self):
        with management.Json(self.server) as m:
            while not self.ended.wait(0.2):
                for name in self.names:
                    if not m.beat(name):
                        self.again += 1
                        m.register(name, self.model, **self.options)


def resident(pid):
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return sum(int(fields[f].split()[0]) << 10 for f in ("RssAnon", "RssShmem"))


def churn(server, calls, seed, *args):
    command = [paths.BUILD / "bench/churn", "--port", server.port, "--calls", calls, "--seed", seed, "--only", "flaky", *args]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
    need(done.returncode == 0, f"{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


# --- the proofs ---

def languages(options):
    server = Server(None, "--worker-heartbeat", "500ms")
    names = workers.ALL
    running = {name: workers.start(server, name) for name in names}
    kills = 0
    try:
        for worker in running.values():
            workers.wait_registered(worker)
        load = Load(server, 500)
        start = time.monotonic()
        try:
            while time.monotonic() - start < options.seconds:
                name = names[kills % len(names)]
                time.sleep(random.uniform(0.2, 1))
                running[name].kill()
                time.sleep(random.uniform(0, 0.5))
                running[name] = workers.start(server, name)
                workers.wait_registered(running[name])
                kills += 1
        finally:
            load.stop()
        seconds = time.monotonic() - start
        shares = {r["name"]: r for r in server.status()["replicas"]}
        print(f"languages: {', '.join(sorted(shares))}: {load.text()} in {seconds:.0f} s, "
              f"{load.right / seconds:.0f} requests/s; {kills} kills", flush=True)
        need(not load.wrong and not load.errors, load.text())
        need(load.right / seconds > 450, "the rate was not reached")
        for worker in running.values():
            need(worker.stop()[0] == 0, "a worker did not end well")
        server.settle()
        server.stop()
    finally:
        for worker in running.values():
            worker.kill()
        server.kill()


def hostile(options):
    server = Server(None, "--log-level", "error", "--max-message-bytes", "8M")
    pid, left, piece, totals = server.dispatcher, options.calls, 100000, {}
    names = [f"hostile{i}" for i in range(WORKERS)]
    way = ["--only", options.way] if options.way else []
    running = [workers.Process([workers.SIMPLE_C, *way, "--hostile", options.hostile, "--threads", 4 * options.slots, "--late-ms", 60, "--seed",
                                options.seed + i, server.folder_of_port() + f"/workers/{name}.sock"], server)
               for i, name in enumerate(names)]
    try:
        for worker in running:
            worker.log.wait("listening")
        with Beats(server, names, "flaky", max_ongoing_requests=options.slots) as beats:
            start = time.monotonic()
            while left:
                n = min(left, piece)
                result = churn(server, n, options.seed + left, "--connections", 16, "--streams", 8)
                left -= n
                for status, k in result["statuses"].items():
                    totals[status] = totals.get(status, 0) + k
                print(f"hostile: {options.calls - left} calls, {n / result['seconds']:.0f}/s, "
                      f"{ {k: v for k, v in totals.items() if v} }", flush=True)
            seconds, again = time.monotonic() - start, beats.again
        ways = {}
        for worker in running:
            code, text = worker.stop()
            need(code == 0, f"a worker ended with {code}: {text}")
            for way, k in json.loads(text.splitlines()[-1]).items():
                ways[way] = ways.get(way, 0) + k
        need(server.dispatcher == pid, "the dispatcher has died")
        print(f"hostile: {options.calls} calls in {seconds:.0f} s, none wrong; statuses { {k: v for k, v in totals.items() if v} }; "
              f"answers {ways}; registered again {again} times", flush=True)
        server.settle()
        server.stop()
    finally:
        for worker in running:
            worker.kill()
        server.kill()


def cycles(options):
    server = Server(None, "--log-level", "warn", "--ping-interval", "250ms")

    def at_rest():
        state = server.status()["server"]  # two connections: ours and that of the beats
        return state["connections"] == 2 and not state["unanswered"] and not state["kept_bytes"]

    def memory():
        wait.until(at_rest, lambda: f"not at rest: {server.status()}")
        state = server.status()["server"]
        return state["live_bytes"], resident(state["pid"]), len(server.status()["deployments"]), len(server.status()["replicas"])

    def work(m, n):
        seen = 0
        for i in range(n):
            name, model = f"w{i % 7}", ("shared", f"own{i % 50}")[i % 3 == 0]
            m.register(name, model, path=m.socket_of("echo"), max_ongoing_requests=4)
            if i % 5 == 0:
                m.register(name, model, path=m.socket_of("echo"), max_ongoing_requests=4)  # replaces it
            if i % 11 == 0:
                need(m.beat(name), "a registered worker is not known")
            m.unregister(name, model)
            seen += 1
        return seen

    try:
        with workers.echo(server, "echo"), workers.echo(server, "stays", "--threads", "16"):
            with management.Json(server) as m:
                with Beats(server, ["stays"], "add", max_ongoing_requests=8):
                    work(m, 1000)  # pools are filled
                    load = Load(server, 500, "add", "a", lambda a, _: a)
                    load.run_until(lambda: load.right > 500)
                    load.stop()
                    first = memory()
                    load = Load(server, 500, "add", "a", lambda a, _: a)
                    start = time.monotonic()
                    work(m, options.cycles)
                    seconds = time.monotonic() - start
                    load.stop()
                    need(not load.wrong and not load.errors, load.text())
                    last = memory()
        print(f"cycles: {options.cycles} in {seconds:.1f} s beside {load.right} right answers; live bytes {first[0]}, {last[0]}; "
              f"resident MiB {first[1] / 1048576:.2f}, {last[1] / 1048576:.2f}; deployments {first[2]}, {last[2]}; "
              f"replicas {first[3]}, {last[3]}", flush=True)
        need(first[0] == last[0] and first[2:] == last[2:], "it is not as it was")
        need(last[1] - first[1] <= GROWTH_MAX, "memory has grown")
        server.settle()
        server.stop()
    finally:
        server.kill()


def pool(options):
    """Both workers in one server, each with a model of its own, measured in turn. A connection whose answer does not
    repeat the id is not used again (docs/protocol/simple-worker.md)."""
    server = Server(None, "--log-level", "warn")
    rates = {"pooled": [], "once": []}
    values = ",".join(map(str, range(32)))
    try:
        with workers.echo(server, "pooled"), workers.echo(server, "once", "--only", "no_id"):
            with Beats(server, ["pooled"], "pooled", max_ongoing_requests=16), \
                    Beats(server, ["once"], "once", max_ongoing_requests=16):
                for _ in range(options.rounds):
                    for model, found in rates.items():
                        command = [paths.BUILD / "src/app/anyserve", "bench", model, "--input", f"x:FP32:[1,32]={values}",
                                   "--url", f"127.0.0.1:{server.port}", "--json", "--same-answers", "--connections", 16,
                                   "--warmup", "300ms", "--duration", "1s"]
                        done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False)
                        need(done.returncode == 0, done.stdout + done.stderr)
                        found.append(json.loads(done.stdout)["per_second"])
        medians = {k: statistics.median(v) for k, v in rates.items()}
        ratio = statistics.median(p / o for p, o in zip(rates["pooled"], rates["once"]))
        print(f"pool: 16 connections of clients, medians of {options.rounds} rounds: pooled {medians['pooled']:.0f} requests/s, "
              f"one connection per request {medians['once']:.0f} requests/s; {ratio:.2f} ×", flush=True)
        need(ratio >= 1.5, "pooling is not worth enough")
        server.settle()
        server.stop()
    finally:
        server.kill()


PROOFS = {"languages": languages, "hostile": hostile, "cycles": cycles, "pool": pool}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--only", choices=PROOFS)
    parser.add_argument("--seconds", default=60, type=int, help="of languages")
    parser.add_argument("--calls", default=1_000_000, type=int, help="of hostile")
    parser.add_argument("--hostile", default=100, type=int, help="wrong ones of a thousand answers")
    parser.add_argument("--slots", default=32, type=int, help="of each hostile worker; few: connections do not rest")
    parser.add_argument("--way", help="all of them in this one: bench/simple_worker --help")
    parser.add_argument("--cycles", default=10_000, type=int)
    parser.add_argument("--rounds", default=5, type=int, help="of pool")
    parser.add_argument("--seed", default=random.randrange(10**6), type=int)
    options = parser.parse_args()
    os.environ["ANYSERVE_BUILD"] = options.build
    global management, paths, wait, workers, Server, Load
    from support import paths, wait, workers
    from support.process.server import Server
    from support.protocol import management
    from support.steady import Load
    print(f"workers: --seed {options.seed}", flush=True)
    random.seed(options.seed)
    for name, proof in PROOFS.items():
        if options.only in (None, name):
            try:
                proof(options)
            except (Failed, AssertionError) as e:
                print(f"workers: {name}: {e}", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
