#!/usr/bin/env python3
"""Attacks a server of its own while well-behaved clients use it, and says what it cost them; `make attack`.

    tests/attack/run.py [NAME…] [--target models|application] [--seconds 30] [--calm 5] [--rate 200] [--connections 4] [--tls] [--json FILE]

Each attack gets a server of its own, once with a model that is called by gRPC, and once (but hostile workers) with an application that
is called over HTTP/1.1. Healthy traffic runs alone first (calm), then attacked. An attack passes when
no healthy call and no newcomer failed, the worst healthy latency is at most 50 ms or four times the worst of the
calm part, the dispatcher's resident memory grew by at most 4 MiB, and every hostile connection was closed within
a second, for the expected reason. Slow attacks (the last ones) are closed by timers, shortened here to 2 s; they
pass on errors, latency, and on what they leave behind, and some on how far memory grew meanwhile. --tls: the port speaks TLS, and so do
all clients; the attacks on TLS itself run too, and those by workers do not.
"""

import argparse
import json
import os
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
sys.path.insert(0, str(HERE))

import attacks as hostile  # noqa: E402
from security.certificates import Authority  # noqa: E402
from support import paths, wait  # noqa: E402
from support.process.server import Server  # noqa: E402
from support.protocol import prometheus  # noqa: E402

MIB = 1 << 20
SLOW = ("--header-timeout", "2s", "--body-timeout", "2s", "--send-timeout", "2s")
AFTER = 2.5  # seconds: idle memory is given back within two (docs/architecture/memory.md)
SLOW_CLOSE = 8  # seconds: the timer, two looks, a busy machine


def rss(pid):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"process {pid} has no VmRSS")


def closings(server):
    """Reason → connections closed for it; part → requests given up."""
    samples = prometheus.parse(server.metrics())
    found = {dict(labels)["reason"]: int(v) for (name, labels), v in samples.items()
             if name == "anyserve_connections_closed_total" and v}
    stalls = {dict(labels)["part"]: int(v) for (name, labels), v in samples.items()
              if name == "anyserve_requests_stalled_total" and v}
    return found, stalls


def page(server, path, ca):
    url, tls = (f"https://{server.address}{path}", ssl.create_default_context(cafile=ca)) if ca else (f"http://{server.address}{path}", None)
    with urllib.request.urlopen(url, timeout=wait.SECONDS, context=tls) as answer:
        return answer.read()


def worst(rows):
    return max((r[1] for r in rows), default=0.0)


def attack(name, target="models", seconds=30, calm=5, rate=200, connections=4, newcomers=10, authority=None):
    """One attack against a fresh server: a dictionary of what was seen. authority: over TLS, and who signs."""
    kind, what = hostile.attacks(hostile.TARGETS[target]())[name], hostile.TARGETS[target]
    ca, over_tls = (authority.cert, authority.server().options) if authority else (None, [])
    server = Server(HERE / what.app if what.app else kind.app, "--log-level", "warn", *(SLOW if kind.slow else ()), *kind.options, *over_tls)
    try:
        pid = server.dispatcher
        healthy = subprocess.Popen([sys.executable, HERE / "healthy.py", server.address, "--target", target,
                                    "--rate", str(rate), "--newcomers", str(newcomers), *(["--ca", ca] if ca else [])],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "ANYSERVE_BUILD": str(paths.BUILD)})
        wait.until(lambda: server.counts(what.deployment or kind.app[:-3])["completed"] > 50, "healthy traffic")
        calm_from = time.monotonic()
        time.sleep(calm)
        before = rss(pid)
        attacked_from = time.monotonic()
        gang = subprocess.Popen([sys.executable, HERE / "attacks.py", name, server.address, "--target", target, "--seconds", str(seconds),
                                 "--connections", str(connections), "--link", server.link_path(),
                                 "--token", server.join_token(), *(["--tls"] if ca else [])], stdout=subprocess.PIPE)
        peak = before
        while gang.poll() is None:
            time.sleep(0.05)
            peak = max(peak, rss(pid))
        attacked_to = time.monotonic()
        seen = json.loads(gang.stdout.read())
        time.sleep(AFTER)
        healthy.stdin.close()
        rows = json.loads(healthy.stdout.read())
        assert healthy.wait(30) == 0
        after = rss(pid)
        smuggled = json.loads(page(server, "/counts", ca))["smuggled"] if target == "application" else 0
        reasons, stalls = closings(server)
        lines = len(server.log.lines)
        server.settle()
        server.stop()
    finally:
        server.kill()
    parts = {"calm": (calm_from, attacked_from), "attacked": (attacked_from, attacked_to)}
    got = {part: [r for r in rows["calls"] if since <= r[0] < to] for part, (since, to) in parts.items()}
    fresh = [r for r in rows["newcomers"] if attacked_from <= r[0] < attacked_to]
    return {"attack": name, "target": target, "smuggled": smuggled, "seconds": seconds, "reason": kind.reason, "slow": kind.slow, **seen,
            "calls": len(got["attacked"]), "errors": [r[2] for r in got["attacked"] + fresh if r[2]][:5],
            "n_errors": sum(1 for r in got["attacked"] + fresh if r[2]),
            "calm_worst_ms": round(1e3 * worst(got["calm"]), 1),
            "attacked_worst_ms": round(1e3 * worst(got["attacked"]), 1),
            "attacked_p99_ms": round(1e3 * sorted(r[1] for r in got["attacked"])[int(len(got["attacked"]) * .99)], 1),
            "newcomers": len(fresh), "newcomer_worst_ms": round(1e3 * worst(fresh), 1),
            "rss_before": before, "rss_peak_growth_mib": round((peak - before) / MIB, 2),
            "rss_growth_mib": round((after - before) / MIB, 2), "closed_for": reasons, "stalls": stalls,
            "worker": kind.worker, "must_stall": kind.stalled, "may_peak_mib": kind.peak, "log_lines": lines}


def faults(r, timing=True):
    """What of the promises was not kept."""
    bad = []
    if r["smuggled"]:
        bad.append(f"{r['smuggled']} smuggled requests were executed")
    if r["n_errors"]:
        bad.append(f"{r['n_errors']} errors: {r['errors']}")
    if timing and r["attacked_worst_ms"] > max(50, 4 * r["calm_worst_ms"]):
        bad.append(f"worst latency {r['attacked_worst_ms']} ms, calm {r['calm_worst_ms']} ms")
    if r["rss_growth_mib"] > 4:
        bad.append(f"memory grew by {r['rss_growth_mib']} MiB")
    if r["reason"] or r["worker"]:
        limit = SLOW_CLOSE if r["slow"] else 1
        if not r["closed"] or (r["reason"] and not r["closed_for"].get(r["reason"])):
            bad.append(f"not closed for {r['reason']}: {r['closed_for']}")
        if max(r["slowest_close_s"], r["oldest_open_s"]) > limit:
            bad.append(f"closed after {max(r['slowest_close_s'], r['oldest_open_s'])} s")
    if r["may_peak_mib"] and r["rss_peak_growth_mib"] > r["may_peak_mib"]:
        bad.append(f"memory grew by {r['rss_peak_growth_mib']} MiB meanwhile")
    if r["must_stall"] and not r["stalls"].get(r["must_stall"]):
        bad.append(f"no {r['must_stall']} was given up")
    if r["log_lines"] > 30 + 5 * r["seconds"]:
        bad.append(f"{r['log_lines']} log lines")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--target", choices=hostile.TARGETS, help="default: both")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--calm", type=float, default=5)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--json", help="append each result as a line")
    parser.add_argument("--tls", action="store_true", help="over TLS")
    options = parser.parse_args()
    failed = 0
    print(f"{'target':11} {'attack':24} {'closed':>7} {'slowest s':>9} {'calm ms':>8} {'worst ms':>8} {'p99 ms':>7} {'new ms':>7} "
          f"{'MiB':>6} {'peak':>6} errors")
    known = hostile.attacks()
    every = [(target, name) for target in ([options.target] if options.target else hostile.TARGETS)
             for name in options.names or known if not (known[name].worker and (options.tls or target != "models"))
             and (options.tls or not known[name].tls)]
    folder = tempfile.TemporaryDirectory()
    authority = Authority(Path(folder.name)) if options.tls else None
    for target, name in every:
        r = attack(name, target, options.seconds, options.calm, options.rate, options.connections, authority=authority)
        bad = faults(r)
        failed += bool(bad)
        print(f"{target:11} {name:24} {r['closed']:7} {r['slowest_close_s']:9.3f} {r['calm_worst_ms']:8.1f} "
              f"{r['attacked_worst_ms']:8.1f} {r['attacked_p99_ms']:7.1f} {r['newcomer_worst_ms']:7.1f} "
              f"{r['rss_growth_mib']:6.2f} {r['rss_peak_growth_mib']:6.2f} {r['n_errors']} of {r['calls']}"
              + "".join(f"\n    FAILED: {b}" for b in bad), flush=True)
        if options.json:
            with open(options.json, "a", encoding="utf-8") as out:
                out.write(json.dumps(r) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
