#!/usr/bin/env python3
"""Instructions per request under callgrind: the dispatcher against B0. A gate that needs no clock.

    bench/instructions.py [--build build/release] [--limit 1.35] [--json]

User instructions of the process, at two request counts, differenced, so that start and stop cancel out.
The load is h2load, 4 connections × 16 streams; `anyserve bench`, whose headers are table references as those of
grpc's own clients, is measured beside it. Exit code 1: over the limit. 2: B0 is not what it must be
(14.5 k ± 8 % with h2load), so that the run says nothing.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from client import METHOD, Call, command
from servers import ROOT, AnyServe, Echo, Failed

FEW, MANY = 2000, 8000
B0_EXPECTED, B0_TOLERANCE = 14_500, 0.08


def request_body():
    """A message with its gRPC prefix."""
    message = Call().message()
    return b"\0" + len(message).to_bytes(4, "big") + message


def with_h2load(build, port, count, folder):
    body = Path(folder) / "body"
    body.write_bytes(request_body())
    url = f"http://127.0.0.1:{port}{METHOD}"
    out = subprocess.run(["h2load", "-n", str(count), "-c", "4", "-m", "16", "-d", str(body),
                          "-H", "content-type: application/grpc", "-H", "te: trailers", url],
                         capture_output=True, text=True, check=True).stdout
    if f"{count} succeeded" not in out:
        raise Failed(f"h2load: {out}")


def with_bench(build, port, count, folder):
    subprocess.run(command(build, port, Call(), "--connections", 4, "--streams", 16, "--warmup", "off", "--requests",
                           count), capture_output=True, check=True)


def total(make, drive, count):
    """Instructions of one whole run."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "out"
        server = make()
        server.start(wrap=["valgrind", "--tool=callgrind", f"--callgrind-out-file={file}"])
        try:
            drive(server.build, server.port, count, folder)
        finally:
            server.stop()
        m = re.search(r"^(?:summary|totals): (\d+)", file.read_text(), re.M)
        if not m:
            raise Failed(f"{server.name}: callgrind wrote no total")
        return int(m[1])


def per_request(make, drive):
    return (total(make, drive, MANY) - total(make, drive, FEW)) / (MANY - FEW)


def measure(build):
    """{load generator: {server: instructions per request}}"""
    servers = {"b0": lambda: Echo(build), "uv": lambda: Echo(build, "uv_echo"),
               "dispatcher": lambda: AnyServe(build)}
    if not (Path(build) / "src/app/anyserve").exists():
        del servers["dispatcher"]
    return {name: {server: per_request(make, drive) for server, make in servers.items()}
            for name, drive in {"h2load": with_h2load, "bench": with_bench}.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=ROOT / "build/release", type=Path)
    parser.add_argument("--limit", default=1.35, type=float)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure(options.build)
    if options.json:
        print(json.dumps(result))
    for load, row in result.items():
        for server, count in row.items():
            print(f"{load:7} {server:10} {count:9.0f} instructions/request, "
                  f"{count / row['b0']:.3f} × B0", file=sys.stderr)
    b0 = result["h2load"]["b0"]
    if abs(b0 / B0_EXPECTED - 1) > B0_TOLERANCE:
        print(f"void: B0 takes {b0:.0f} instructions, not {B0_EXPECTED} ± {B0_TOLERANCE:.0%}")
        return 2
    ratio = result["h2load"].get("dispatcher", 0) / b0
    is_good = 0 < ratio <= options.limit
    print(f"dispatcher {ratio:.3f} × B0, at most {options.limit}: {'ok' if is_good else 'FAILED'}")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
