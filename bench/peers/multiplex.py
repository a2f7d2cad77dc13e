#!/usr/bin/env python3
"""AnyServe beside Ray Serve 2.60: multiplexed models, and routers of one's own.

    bench/peers/multiplex.py [--rounds 3] [--scenario models,Uniform,LeastThroughput] [--peers anyserve,ray] [--build build/release]

models: apps/multiplexed.py. --models of them, --requests requests whose models follow a Zipf distribution (seeded: the same ones for
each server), sent by 16 connections, each of which waits for its answer, with the header serve_multiplexed_model_id; first to a
server that holds no model ("empty"), then the same number again ("warm"). Each answer names its model and replica, which is checked,
and the number of models that the replica has loaded.
Uniform, LeastThroughput: the two routers of apps/routers.py choose among 4 replicas of apps/routed.py, which echo 128 bytes. Requests
are sent before the measurement until the router has been asked.
A server has the applications of all scenarios, which are measured one after the other. Prints Markdown: medians of the rounds, with the
extremes where they differ.
"""

import argparse
import asyncio
import struct
import sys
import time
from collections import Counter
from pathlib import Path

import load
import report
from peers import RAY_PYTHON, ROOT, AnyServe, Failed, Ray

CONCURRENCY = 16
SEED = 20
ROUTER_SECONDS = 10  # until the router must have been asked
SCENARIOS = ("models", "Uniform", "LeastThroughput")


def timed(port, requests):
    """Answers of a closed loop, and its requests/s."""
    answers = asyncio.run(load.closed_loop(port, requests, CONCURRENCY))
    return answers, len(answers) / (max(a.due + a.seconds for a in answers) - min(a.due for a in answers))


def figures(answers, rate):
    seconds = [a.seconds * 1000 for a in answers]
    return {"requests": len(answers), "rate": rate, "p50": load.percentile(seconds, 50), "p99": load.percentile(seconds, 99)}


def loads_of(answers, models):
    """Models that each replica has loaded, by pid. Failed: an answer is wrong."""
    loads = Counter()
    for answer, model in zip(answers, models):
        name, _, rest = answer.body.decode(errors="replace").partition(", ")
        if answer.status != 200 or name != f"model m{model}":
            raise Failed(f"the answer for model m{model} is {answer.status} {answer.body[:200]!r}")
        pid, _, n = rest.partition(", ")
        loads[int(pid)] = max(loads[int(pid)], int(n))
    return loads


def measure_models(peer, _, options):
    before = Counter()
    for phase, seed in ("empty", SEED), ("warm", SEED + 1):
        models = load.zipf(options.models, options.requests, options.exponent, seed)
        requests = [load.request(headers={"serve_multiplexed_model_id": f"m{m}"}) for m in models]
        answers, rate = timed(peer.port, requests)
        loads = before | loads_of(answers, models)  # | of Counters: the larger number of each
        n = sum(loads.values()) - sum(before.values())
        before = loads
        yield {"phase": phase, "distinct": len(set(models)), "loads": n, "hits": len(answers) - n, "replicas": len(loads),
               **figures(answers, rate)}  # fmt: skip


def decisions(folder, router):
    return sum(struct.unpack("<Q", path.read_bytes())[0] for path in folder.glob(f"decisions-{router}-*"))


def check_echoes(answers, body):
    wrong = [a for a in answers if a.status != 200 or a.body != body]
    if wrong:
        raise Failed(f"{len(wrong)} of {len(answers)} answers are wrong, such as {wrong[0]}")


def measure_router(peer, router, options):
    body = (b"0123456789" * 13)[:128]
    request = load.request(f"/{router}", body=body)
    until = time.monotonic() + ROUTER_SECONDS
    while not decisions(peer.folder, router) and time.monotonic() < until:  # it may start after its replicas
        check_echoes(timed(peer.port, [request] * CONCURRENCY)[0], body)
    before = decisions(peer.folder, router)
    answers, rate = timed(peer.port, [request] * options.requests)
    check_echoes(answers, body)
    yield {"decisions": decisions(peer.folder, router) - before, **figures(answers, rate)}


def run(peer, options):
    peer.env = {**peer.env, "ROUTERS": ",".join(s for s in options.scenario if s != "models")}
    peer.start("models_and_routers")
    try:
        for scenario in options.scenario:
            measure = measure_models if scenario == "models" else measure_router
            for found in measure(peer, scenario, options):
                yield {"scenario": scenario, "peer": peer.name, **found}
    except (Failed, load.Broken) as e:
        raise Failed(f"{peer.name}: {e}; its log:\n{peer.tail()}") from None
    finally:
        peer.stop()


def rounds(options):
    samples = []
    for n in range(options.rounds):
        peers = [p for p in (AnyServe(options.build), Ray("ray")) if p.name in options.peers]
        for peer in peers if n % 2 == 0 else peers[::-1]:
            for found in run(peer, options):
                samples.append({"round": n, "load": report.load_average(), **found})
                print(samples[-1], file=sys.stderr, flush=True)
    samples.sort(key=lambda s: (options.scenario.index(s["scenario"]), s.get("phase", ""), s["peer"]))
    return samples


def text_of(samples, options):
    parts = ["## Multiplexed models, and routers of one's own",
             f"`python bench/peers/multiplex.py --rounds {options.rounds}`, {report.machine()}, load average "
             f"{report.spread([s['load'] for s in samples])}; {report.versions()}. {options.requests} requests for each figure, "
             f"{CONCURRENCY} connections."]  # fmt: skip
    timing = [("rate", "requests/s", 0), ("p50", "p50 ms", 2), ("p99", "p99 ms", 2)]
    for scenario in report.distinct(samples, "scenario"):
        mine = [s for s in samples if s["scenario"] == scenario]
        if scenario == "models":
            asked = ", ".join(f"{s['distinct']} in the {s['phase']} phase" for s in {s["phase"]: s for s in mine}.values())
            parts += [f"### {options.models} multiplexed models on 4 replicas that hold 30",
                      f"Zipf exponent {options.exponent:g}; different models that are asked for: {asked}.",
                      report.columns(mine, [("phase", "phase"), ("peer", "server")],
                                     [("loads", "loads", 0), ("hits", "hits", 0), *timing])]  # fmt: skip
        else:
            parts += [f"### A router of one's own: {scenario}",
                      report.columns(mine, [("peer", "server")], [("decisions", "decisions", 0), *timing])]  # fmt: skip
            unasked = [s["peer"] for s in mine if not s["decisions"]]
            parts += [f"The router was not asked by: {', '.join(dict.fromkeys(unasked))}."] if unasked else []
    return "\n\n".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=lambda p: Path(p).resolve())
    parser.add_argument("--rounds", default=3, type=int)
    parser.add_argument("--requests", default=1500, type=int, help="for each figure")
    parser.add_argument("--models", default=100, type=int)
    parser.add_argument("--exponent", default=1.0, type=float, help="of the Zipf distribution")
    parser.add_argument("--scenario", default=list(SCENARIOS), type=lambda v: v.split(","))
    parser.add_argument("--peers", default=["anyserve", "ray"], type=lambda v: v.split(","))
    options = parser.parse_args()
    unknown = [s for s in options.scenario if s not in SCENARIOS]
    if unknown:
        parser.error(f"--scenario: {unknown[0]!r} is none of {', '.join(SCENARIOS)}")
    if not RAY_PYTHON.exists():
        parser.error(f"{RAY_PYTHON} is missing: make ray makes it")
    try:
        print(text_of(rounds(options), options))
    except Failed as e:
        sys.exit(f"multiplex: {e}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
