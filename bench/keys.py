"""What API keys cost whoever has one: requests with a key beside requests without keys, alone and beside a flood of wrong keys.

usage: python bench/keys.py [--build build/release] [--rounds 5] [--seconds 3] [--keys 10000] [--wrong 100000]

Two servers of the echo model, one without keys and one whose file has --keys of them, take turns. `anyserve bench` sends over gRPC on
kept-alive connections; CPU is that of the dispatcher. The flood: `h2load` with 8 connections sends --wrong requests a second, each with
a key that the file does not have. Servers run on core 1, clients on core 0. Meaningful only on a quiet machine.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from statistics import median

import servers
from report import table
from servers import ROOT, cpu_ns

CLIENT, SERVER = {0}, {1}
ECHO = ["echo", "--input", "x:FP32:[32]=" + ",".join(["1"] * 32), "--warmup", "300ms", "--json"]


class Served:
    def __init__(self, build, options=()):
        self.server = servers.AnyServe(build, options=("--threads", 1, *options), unary=False)  # its probe has no key

    def start(self):
        self.server.start()
        for pid in self.server.processes:
            servers.pin(pid, SERVER)
        self.dispatcher = next(pid for pid, role in self.server.processes.items() if role == "dispatcher")


def bench(options, served, key, *load):
    """(the result of `anyserve bench`, CPU µs of the dispatcher per request)."""
    before = cpu_ns(served.dispatcher)
    done = subprocess.run(["taskset", "-c", "0", str(options.build / "src/app/anyserve"), "bench", *ECHO, *map(str, load), "--url",
                           f"127.0.0.1:{served.server.port}"], capture_output=True, text=True, env={**os.environ, "ANYSERVE_API_KEY": key})
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    found = json.loads(done.stdout)
    return found, (cpu_ns(served.dispatcher) - before) / found["sent"] / 1000


def cost(options, without, with_keys, key):
    """As fast as 64 connections can, in turn."""
    load, found = ("--connections", 64, "--duration", f"{options.seconds}s"), {"without": [], "with": []}
    for _ in range(options.rounds):
        found["without"].append(bench(options, without, "", *load))
        found["with"].append(bench(options, with_keys, key, *load))
    ratios = [w[0]["per_second"] / o[0]["per_second"] for o, w in zip(found["without"], found["with"])]
    rows = [[f"{name} keys", f"{median(r['per_second'] for r, _ in rows):,.0f}", f"{median(c for _, c in rows):.2f}"]
            for name, rows in found.items()]
    rows[0].append("1")
    rows[1].append(f"{median(ratios):.2f} [{min(ratios):.2f}..{max(ratios):.2f}]")
    print(table([f"gRPC, 128 bytes, 64 connections; {options.keys:,} keys", "requests/s", "CPU µs", "ratio"], rows))


def flood(options, served, key):
    load, rows = ("--connections", 16, "--rate", 500, "--duration", f"{2 * options.seconds}s"), []
    for name in "alone", "beside wrong keys":
        found = []
        for _ in range(options.rounds):
            attacker = None
            if name != "alone":
                attacker = subprocess.Popen(["taskset", "-c", "0", "h2load", "-D", str(2 * options.seconds), "-c", "8", "-m", "32", "--rps",
                                             str(options.wrong // 8), "-H", "x-api-key: as_" + "A" * 43,
                                             f"http://127.0.0.1:{served.server.port}/v2/models/echo"], stdout=subprocess.PIPE, text=True)
            result, _ = bench(options, served, key, *load)
            wrong = 0.0
            if attacker:
                said = attacker.communicate()[0]
                wrong = int(re.search(r"(\d+) 4xx", said)[1]) / (2 * options.seconds)
                assert " 0 2xx" in said, said
            latency = result["latency_us"]
            found.append((latency["p50"] / 1000, latency["p99"] / 1000, latency["max"] / 1000, result["failed"] + result["unanswered"], wrong))
        rows.append([name, *(f"{median(f[i] for f in found):.2f}" for i in range(3)), str(sum(f[3] for f in found)),
                     f"{median(f[4] for f in found):,.0f}"])
    print(table(["requests at 500/s with a key", "p50 ms", "p99 ms", "longest ms", "errors", "wrong keys/s"], rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=Path)
    parser.add_argument("--rounds", default=5, type=int)
    parser.add_argument("--seconds", default=3, type=int)
    parser.add_argument("--keys", default=10000, type=int)
    parser.add_argument("--wrong", default=100000, type=int, help="a second")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="anyserve-bench-"))
    file, key = folder / "keys", "as_" + "k" * 43
    file.touch(0o600)
    digests = [hashlib.sha256(key.encode()), *(hashlib.sha256(b"%d" % i) for i in range(options.keys - 1))]
    file.write_text("".join(f"name=k{i} sha256={d.hexdigest()} models=* applications=*\n" for i, d in enumerate(digests)))
    started = []
    try:
        for more in (), ("--api-keys", file):
            started.append(Served(options.build, more))
            started[-1].start()
        cost(options, *started, key)
        flood(options, started[1], key)
    finally:
        for served in started:
            served.server.stop()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
