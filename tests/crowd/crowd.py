#!/usr/bin/env python3
"""`make crowd`: nobody is answered with what belongs to another. A million random requests, each answer judged.

    tests/crowd/crowd.py [--build build/release] [--calls 1000000] [--seed N] [-- options of anyserve run]

Requests of gRPC and HTTP/1.1, in JSON and binary data: ten models with every kind of handler, all datatypes but BF16,
one to three dimensions, one item to a full batch and one more, ragged ones, parameters, priorities, deadlines; some
fail alone, some together, some clients leave. The client is `crowd` (C). Afterwards requests must really have shared
calls.
"""

import argparse
import json
import random
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from servers import AnyServe, Failed  # noqa: E402

DEPLOYMENT = "model"
SHARED_LEAST = 1.5  # requests of a call, on average, or nothing was tried


def sizes(server):
    counts = server.counters_of(DEPLOYMENT)
    return counts["anyserve_batch_size_count"], counts["anyserve_batch_size_sum"]


def run(options):
    server = AnyServe(options.build, HERE / "model.py", ["--log-level", "warn", *options.server], unary=False)
    server.start()
    try:
        command = [options.build / "tests/crowd/crowd", "--port", server.port, "--calls", options.calls, "--seed",
                   options.seed]
        done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, text=True, check=False)
        calls, items = sizes(server)
        print(done.stdout, end="")
        if done.returncode:
            raise Failed(f"exit code {done.returncode}\n{server.log_text()}")
        result = json.loads(done.stdout)
        shared = items / calls / (result["rows"] / result["right"])
        print(f"{result['calls'] / result['seconds']:.0f} requests/s; {calls:.0f} calls of handlers with batching, "
              f"{items / calls:.2f} items of {shared:.2f} requests each")
        if shared < SHARED_LEAST:
            raise Failed("too few requests shared a call for this to prove anything")
    finally:
        server.stop()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default=ROOT / "build/release", type=Path)
    parser.add_argument("--calls", default=1_000_000, type=int)
    parser.add_argument("--seed", default=random.randrange(10**6), type=int)
    parser.add_argument("server", nargs="*", help="options of `anyserve run`, behind --")
    options = parser.parse_args()
    print(f"crowd: --seed {options.seed}", flush=True)
    try:
        run(options)
    except Failed as e:
        print(f"crowd: {e}", file=sys.stderr)
        return 1
    print("crowd: everybody got their own")
    return 0


if __name__ == "__main__":
    sys.exit(main())
