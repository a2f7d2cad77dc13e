"""Routers in Python beside the built-in policy: what they cost, how many are late, and how old what they know is.

    python bench/python_router.py [--build build/release] [--seconds 2] [--rounds 3]

A replica calls a deployment of two replicas by a handle, with 1 and with 8 calls in flight, through four routers in turn
(models/routed_model.py): the built-in one, a trivial one in Python, one that asks a central store, one that has the statistics of the
replicas. Differences and ratios are those to the built-in one of the same round; the median of the rounds counts. `late` are the answers
that came after --router-timeout, as the server has counted them. Every call is asked about once, so the counts of a router must add up
to the calls; else this ends with an error. The age of what a router knows is the time from a replica's change until the router first
decides with that knowledge. Nothing here is a test.
"""

import argparse
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROUTERS = ("built_in", "trivial", "store", "broadcast")
CLIENTS = (1, 8, 32)


def parse():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--build", default="build/release", help="the build to measure")
    p.add_argument("--seconds", type=float, default=2, help="of each measurement")
    p.add_argument("--rounds", type=int, default=3, help="of which the median counts")
    p.add_argument("--period", type=float, default=0.02, help="seconds between two statistics of a replica")
    p.add_argument("--router-timeout", default="2ms", help="of the server")
    p.add_argument("--keys", type=int, default=100, help="different keys; a replica holds 32")
    return p.parse_args()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def outcomes(port):
    """{application: {outcome: number}} of the questions to routers."""
    found = {}
    with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % port, timeout=10) as answer:
        for text in answer.read().decode().splitlines():
            if text.startswith("anyserve_router_decisions_total{"):
                labels = dict(part.split("=", 1) for part in text[text.index("{") + 1 : text.index("}")].split(","))
                name = labels["deployment"].strip('"')
                app = labels.get("application", '""').strip('"') or name
                row = found.setdefault(app, {})
                outcome = labels["outcome"].strip('"')
                row[outcome] = row.get(outcome, 0) + int(float(text.rsplit(" ", 1)[1]))
    return found


def percentile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] * 1e6


def take_ages(folder, name):
    """Those that the router has recorded since the last time. It appends to its file."""
    file = Path(folder, name)
    data = file.read_bytes() if file.exists() else b""
    if data:
        os.truncate(file, 0)
    return list(struct.unpack("%dd" % (len(data) // 8), data))


def difference(after, before, app):
    return {k: v - before.get(app, {}).get(k, 0) for k, v in after.get(app, {}).items() if v != before.get(app, {}).get(k, 0)}


def measure(options, port, handles, folder):
    """{(router, clients): [(p50, p99, calls/s, outcomes) of each round]}, {(router, clients): ages}"""
    rows, ages = {}, {}
    for _ in range(options.rounds):
        for clients in CLIENTS:
            for name in ROUTERS:
                before = outcomes(port)
                times = handles[name].load.remote(clients, options.seconds, options.keys).result()
                counted = difference(outcomes(port), before, name)
                ages.setdefault((name, clients), []).extend(take_ages(folder, name))
                if name != "built_in" and sum(counted.values()) != len(times):
                    sys.exit("%s: %d calls, but the server has counted %s" % (name, len(times), counted))
                rows.setdefault((name, clients), []).append(
                    (percentile(times, 0.5), percentile(times, 0.99), len(times) / options.seconds, len(times), counted))
    return rows, ages


def print_tables(rows, ages):
    print("| router | calls in flight | p50 µs | added | p99 µs | added | calls/s | × built-in | calls | chosen in time | late | other |")
    print("|---" * 12 + "|")
    for clients in CLIENTS:
        base = rows["built_in", clients]
        for name in ROUTERS:
            mine = rows[name, clients]

            def median(pick):
                return statistics.median(pick(m, b) for m, b in zip(mine, base))

            counted = {}
            for row in mine:
                for k, v in row[4].items():
                    counted[k] = counted.get(k, 0) + v
            late, chosen = counted.pop("late", 0), counted.pop("chosen", 0)
            print("| %s | %d | %.0f | %+.0f | %.0f | %+.0f | %.0f | %.2f | %d | %d | %d | %s |"
                  % (name, clients, median(lambda m, b: m[0]), median(lambda m, b: m[0] - b[0]), median(lambda m, b: m[1]),
                     median(lambda m, b: m[1] - b[1]), median(lambda m, b: m[2]), median(lambda m, b: m[2] / b[2]),
                     sum(m[3] for m in mine), chosen, late, counted or ""))  # fmt: skip
    print("\n| router | calls in flight | changes | age ms: p50 | p90 | p99 | most |\n|---|---|---|---|---|---|---|")
    for name, clients in sorted(k for k in ages if ages[k]):
        mine = ages[name, clients]
        print("| %s | %d | %d | %.2f | %.2f | %.2f | %.2f |"
              % (name, clients, len(mine), *(percentile(mine, q) / 1000 for q in (0.5, 0.9, 0.99, 1))))


def run(options, serve, port, folder):
    import routed_model

    handles = {}
    for name in ROUTERS:
        handles[name] = serve.run(routed_model.application(name, options.period), name=name, route_prefix=None)
        handles[name].load.remote(8, 0.5, options.keys).result()  # warm-up
    for name in ("store", "broadcast"):
        take_ages(folder, name)
    print_tables(*measure(options, port, handles, folder))


def wait_listening(port, server):
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the server has ended")


def main():
    options = parse()
    build = (ROOT / options.build).resolve()
    folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
    port, status = free_port(), free_port()
    os.environ.update(ANYSERVE_PORT=str(port), ANYSERVE_RUNTIME_DIR=folder + "/run", AGES_FOLDER=folder,
                      PYTHONPATH=os.pathsep.join([str(build / "python"), str(ROOT / "bench/models")]))  # fmt: skip
    sys.path[:0] = os.environ["PYTHONPATH"].split(os.pathsep)
    os.makedirs(folder + "/run", 0o700)
    with open(folder + "/log", "wb") as log:
        server = subprocess.Popen([build / "src/app/anyserve", "start", f"--port={port}", f"--status-port={status}",
                                   f"--runtime-dir={folder}/run", f"--state-dir={folder}/state", f"--python={sys.executable}",
                                   f"--router-timeout={options.router_timeout}"], stdout=log, stderr=log)  # fmt: skip
    try:
        wait_listening(port, server)
        from anyserve import serve

        run(options, serve, status, folder)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
