#!/usr/bin/env python3
"""AnyServe beside Ray Serve 2.60: how many replicas a deployment has while its load changes, and how long requests take.

    bench/peers/autoscale.py [--scenario step,sine] [--together 3] [--only anyserve] [--build build/release] [--list]

The scenarios are in scenarios.py, the program is apps/scaled.py. Requests are sent when they are due, whatever the answers do; latency
counts from then. `--together` scenarios run at the same time, each as an application of its own, so that all of them take about
7 minutes; with --together 1 none disturbs another (14 minutes). The number of replicas is asked for every 0.2 s (serve.status() of
each server). Prints Markdown; writes one plot a scenario to build/autoscale, and what was measured to build/autoscale/samples.json.
Exit code 1: AnyServe misses a goal of a scenario (scenarios.py): after a step the queue is back to normal within 1.5 × the start of a
replica + upscale_delay_s; in a sine of 60 s the number changes its direction at most twice a period.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import load
import replicas
import report
from peers import RAY_PYTHON, ROOT, AnyServe, Failed, Ray
from scenarios import SCENARIOS

OUT = ROOT / "build/autoscale"
SERVE_SECONDS = 120


class States:
    """The lines that apps/scaling.py writes."""

    def __init__(self, peer):
        self.peer, self.path, self.seen = peer, peer.folder / "states", 0

    def lines(self):
        """Those that are new."""
        text = self.path.read_text() if self.path.exists() else ""
        rows = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        new, self.seen = rows[self.seen :], len(rows)
        return new

    def wait_served(self):
        until = time.monotonic() + SERVE_SECONDS
        while not any("served" in row for row in self.lines()):
            if time.monotonic() > until or self.peer.process.poll() is not None:
                raise Failed(f"{self.peer.name} does not serve; its log:\n{self.peer.tail()}")
            time.sleep(0.1)


async def send(port, scenarios):
    """Runs the loads of all scenarios at once: when they began (time.monotonic()), and the answers of each."""
    dues = [load.arrivals(s.rate, s.seconds) for s in scenarios]
    start = time.monotonic() + 0.5

    async def one(scenario, times):
        data = load.request(f"/{scenario.name}", body=b"ready?")
        answers = await load.open_loop(port, data, [start + t for t in times])
        await asyncio.sleep(max(0, start + scenario.seconds - time.monotonic()))
        return answers

    return start, await asyncio.gather(*map(one, scenarios, dues))


def batch(peer, states, scenarios):
    configs = {s.name: s.autoscaling_config for s in scenarios}
    peer.process.stdin.write(json.dumps(configs).encode() + b"\n")
    peer.process.stdin.flush()
    states.wait_served()
    start, answers = asyncio.run(send(peer.port, scenarios))
    rows = [row for row in states.lines() if "t" in row]
    for scenario, found in zip(scenarios, answers):
        counts = [(row["t"] - start, row["replicas"][scenario.name]) for row in rows]
        yield {"scenario": scenario.name, "peer": peer.name, "load": report.load_average(),
               "counts": [c for c in counts if c[0] <= scenario.seconds],
               "answers": sorted((a.due - start, a.seconds, a.status) for a in found)}  # fmt: skip


def run(options):
    chosen = sorted((SCENARIOS[name] for name in options.scenario), key=lambda s: s.seconds)
    batches = [chosen[n : n + options.together] for n in range(0, len(chosen), options.together)]
    runs = []
    for peer in (p for p in (AnyServe(options.build), Ray("ray")) if p.name in options.peers):
        peer.launcher = "scaling.py"
        peer.start("echo")
        try:
            states = States(peer)
            for scenarios in batches:
                for found in batch(peer, states, scenarios):
                    runs.append(found)
                    print(f"{peer.name}: {found['scenario']}, {len(found['answers'])} answers, load average {found['load']:.1f}",
                          file=sys.stderr, flush=True)  # fmt: skip
        finally:
            peer.stop()
    return runs


def rows_of(runs):
    return [{**r, **replicas.figures(SCENARIOS[r["scenario"]], r["counts"], r["answers"])} for r in runs]


def text_of(rows, runs, options):
    rows.sort(key=lambda r: list(SCENARIOS).index(r["scenario"]))
    fields = [("requests", "requests", 0), ("failed", "failed", 0), ("p50", "p50 ms", 0), ("p99", "p99 ms", 0),
              ("slow", f"over {replicas.SLOW * 1000:.0f} ms", 0), ("first", "first ms", 0),
              ("most", "most replicas", 0), ("more_after", "one more after s", 1),
              ("normal_after", "none waits after s", 1), ("fewest_after", "fewest after s", 1), ("turns", "turns", 0),
              ("replica_seconds", "replica-seconds", 0)]  # fmt: skip
    head = (f"`python bench/peers/autoscale.py --together {options.together}`, {report.machine()}, load average "
            f"{report.spread([r['load'] for r in runs])}; {report.versions() if 'ray' in options.peers else 'AnyServe alone'}.")  # fmt: skip
    about = "\n".join(f"- {name}: {SCENARIOS[name].about}" for name in report.distinct(rows, "scenario"))
    return "\n\n".join(["## Autoscaling", head, about, report.columns(rows, [("scenario", "scenario"), ("peer", "server")], fields)])


def has_matplotlib(python):
    return Path(python).exists() and not subprocess.run([python, "-c", "import matplotlib"], stderr=subprocess.DEVNULL, check=False).returncode


def plot(path):
    runs = json.loads(Path(path).read_text())
    for name in report.distinct(runs, "scenario"):
        mine = {r["peer"]: (r["counts"], r["answers"]) for r in runs if r["scenario"] == name}
        replicas.plot(SCENARIOS[name], mine, OUT / f"{name}.svg")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=lambda p: Path(p).resolve())
    parser.add_argument("--scenario", default=list(SCENARIOS), type=lambda v: v.split(","))
    parser.add_argument("--together", default=3, type=int, help="scenarios that run at the same time")
    parser.add_argument("--only", "--peers", dest="peers", default=["anyserve", "ray"], type=lambda v: v.split(","))
    parser.add_argument("--list", action="store_true", help="print the scenarios")
    parser.add_argument("--plot", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plot:
        return plot(options.plot)
    if options.list:
        for s in SCENARIOS.values():
            print(f"{s.name:25} {s.seconds:4g} s  {s.about}")
        return 0
    unknown = [s for s in options.scenario if s not in SCENARIOS]
    if unknown:
        parser.error(f"--scenario: {unknown[0]!r} is none of {', '.join(SCENARIOS)}")
    if "ray" in options.peers and not RAY_PYTHON.exists():
        parser.error(f"{RAY_PYTHON} is missing: make ray makes it")
    try:
        runs = run(options)
    except Failed as e:
        sys.exit(f"autoscale: {e}")
    OUT.mkdir(parents=True, exist_ok=True)
    (OUT / "samples.json").write_text(json.dumps(runs))
    plotter = next((p for p in (RAY_PYTHON, sys.executable) if has_matplotlib(p)), None)
    if plotter:
        subprocess.run([plotter, Path(__file__).resolve(), "--plot", OUT / "samples.json"], check=True)
    else:
        print("autoscale: no plots: matplotlib is in neither environment (make ray)", file=sys.stderr)
    rows = rows_of(runs)
    print(text_of(rows, runs, options))
    missed = [text for r in rows if r["peer"] == "anyserve" for text in replicas.missed(SCENARIOS[r["scenario"]], r)]
    print("\n".join(missed) or "all goals are reached", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
