#!/usr/bin/env python3
"""The benchmark: AnyServe's ModelInfer echo against its baselines; see README.md.

    bench/run.py [--build build/release] [--repetitions 7] [--seconds 0.7] [--quick] [--sections pinned,rates]

All servers run at once and take turns, load by load, repetition by repetition, so that what disturbs the
machine disturbs all of them. A ratio is formed within a repetition; the tables show medians of ratios.
Rewrites the generated part of bench/RESULTS.md when everything was measured in full; otherwise it only prints.
"""

import argparse
import datetime
import inspect
import os
import sys
from pathlib import Path

from report import machine, write
from rest import H1Echo, Nginx, remove_files
from sampling import ATTEMPTS
from sections import SECTIONS, verdicts
from servers import BENCH, ROOT, AnyServe, AnyServeC, Echo, Grpcio


class Stage:
    """What the sections share: options, servers that start when first asked for, results that others need."""

    def __init__(self, options):
        self.options = options
        self.started = {}
        self.pinned, self.c_worker, self.counts = {}, {}, None
        self.http, self.http_grpc, self.sse = {}, {}, {}
        self.handlers, self.neighbours = {}, {}
        build, three = options.build, ("--workers", 3)
        nap = {"model": "nap"}
        self.known = {s.name: s for s in [
            AnyServe(build), AnyServeC(build),
            AnyServe(build, name="anyserve add", model=BENCH / "models/add_model.py", is_sum=True,
                     call={"model": "add", "inputs": ("a", "b")}),
            AnyServe(build, name="anyserve echo, 3 workers", options=three),
            AnyServe(build, name="anyserve batching", model=BENCH / "models/batch_model.py", unary=False),
            AnyServe(build, name="anyserve nap", model=BENCH / "models/nap_model.py", call=nap),
            AnyServe(build, name="anyserve nap, 3 workers", model=BENCH / "models/nap_model.py", call=nap, options=three),
            AnyServe(build, name="anyserve sync beside async", model=BENCH / "models/mixed_model.py"),
            AnyServe(build, name="anyserve async", model=BENCH / "models/async_model.py"),
            AnyServe(build, name="anyserve count", model=BENCH / "models/stream_model.py", unary=False),
            AnyServe(build, name="anyserve count, SSE", model=BENCH / "models/stream_model.py", unary=False),
            H1Echo(build), Nginx(build), Echo(build), Echo(build, "uv_echo"), Echo(build, "grpc_cpp_echo", name="grpc c++"),
            Grpcio(build, "sync"), Grpcio(build, "aio")]}

    def servers(self, *names):
        """Those of them that were chosen; each runs from here on to the end."""
        only = self.options.only
        names = [n for n in names if not only or n == "b0_echo" or any(n == o or n.startswith(o + " ") for o in only)]
        for name in names:
            if name not in self.started:
                self.started[name] = self.known[name]
                self.known[name].start()
        return [self.started[name] for name in names]

    def stop(self):
        for server in self.started.values():
            server.stop()
        remove_files()

    def print_logs(self):
        for server in self.started.values():
            print(f"--- last words of {server.name}:\n{server.log_text()}", file=sys.stderr)


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=ROOT / "build/release", type=Path)
    parser.add_argument("--repetitions", default=7, type=int)
    parser.add_argument("--seconds", default=0.7, type=float, help="of each sample")
    parser.add_argument("--warmup", default=0.3, type=float, help="seconds before each sample")
    parser.add_argument("--quick", action="store_true", help="one short repetition of everything but unpinned, "
                        "instructions and the longest loads; to stdout")
    parser.add_argument("--stdout", action="store_true", help="print, leave RESULTS.md alone")
    parser.add_argument("--only", help="names of servers, with commas; b0_echo is always there")
    parser.add_argument("--sections", help=f"with commas: {', '.join(SECTIONS)}")
    parser.add_argument("--no-instructions", action="store_true")
    options = parser.parse_args()
    options.is_whole = not (options.quick or options.only or options.sections or options.no_instructions)
    options.only = options.only.split(",") if options.only else []
    options.sections = options.sections.split(",") if options.sections else list(SECTIONS)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"no section is called {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    options.attempts = 1 if options.quick else ATTEMPTS
    if options.quick:
        options.repetitions, options.seconds, options.warmup, options.no_instructions = 1, 0.3, 0.15, True
        options.sections = [s for s in options.sections if s != "unpinned"]
    return options


def raise_priority():
    """Less disturbance, for client and servers alike, where this user may."""
    try:
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    except PermissionError:
        print("run.py: not allowed to raise the priority; run on a quiet machine", file=sys.stderr)


def chapter(function, stage):
    """A section with its heading and text, which are the function's own description."""
    body = function(stage)
    return f"{inspect.cleandoc(function.__doc__)}\n\n{body}" if body else ""


def page(parts, options):
    command = " ".join(["python bench/run.py", *sys.argv[1:]])
    return "\n".join([f"Command: `{command}`; {datetime.date.today()}; {options.repetitions} × {options.seconds} s "
                      f"after {options.warmup} s of warm-up each; tensors of 128 bytes where nothing else is said.",
                      f"\nMachine: {machine()}.\n", *filter(None, parts)])


def main():
    options = parse()
    raise_priority()
    stage = Stage(options)
    parts = []
    try:
        for name in SECTIONS:
            if name in options.sections:
                parts.append(chapter(SECTIONS[name], stage))
    except Exception:
        print(page(parts, options))  # what was measured until then took minutes
        stage.print_logs()
        raise
    finally:
        stage.stop()
    text = page([chapter(verdicts, stage), *parts], options)
    print(text)
    if options.is_whole and not options.stdout:
        write(text)


if __name__ == "__main__":
    sys.exit(main())
