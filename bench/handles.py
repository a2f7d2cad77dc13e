"""Calls of handles between two replicas, against the round trip of a bare socket pair between two processes.

    python bench/handles.py [--build build/release] [--seconds 1] [--runs 3] [--profile]

One replica, the caller, keeps 1 or 32 calls of another one in flight, with bytes or an array as the argument and the result; both and the dispatcher share one core, as do the two
processes of the socket pair. CPU is that of the whole process, for each call. Nothing here is a test.
"""

import argparse
import os
import shutil
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path

from servers import cpu_ns, dispatcher_of_ours, pin

ROOT = Path(__file__).resolve().parents[1]
SIZES = [(128, "128 B"), (10 << 10, "10 KB"), (1 << 20, "1 MiB")]
WIDTHS = (1, 32)
KINDS = ("bytes", "ndarray")


def parse():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--build", default="build/release", help="the build to measure")
    p.add_argument("--seconds", type=float, default=1, help="of each measurement")
    p.add_argument("--runs", type=int, default=3, help="of which the median counts")
    p.add_argument("--core", type=int, default=os.cpu_count() - 1, help="where all processes run")
    p.add_argument("--profile", action="store_true", help="print where the time goes in the Python code of both replicas")
    return p.parse_args()


def socket_pair(size, seconds, core):
    """p50 of a round trip in µs: send, receive, send back, with blocking calls."""
    here, there = socket.socketpair()
    pid = os.fork()
    os.sched_setaffinity(0, {core})
    if pid == 0:
        here.close()
        buffer = bytearray(size)
        try:
            while exactly(there, buffer):
                there.sendall(buffer)
        finally:
            os._exit(0)
    there.close()
    message, buffer, times = bytes(size), bytearray(size), []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        here.sendall(message)
        exactly(here, buffer)
        times.append(time.perf_counter() - begin)
    here.close()
    os.waitpid(pid, 0)
    os.sched_setaffinity(0, range(os.cpu_count()))
    return statistics.median(times) * 1e6


def exactly(sock, buffer):
    view = memoryview(buffer)
    while view:
        n = sock.recv_into(view)
        if n == 0:
            return False
        view = view[n:]
    return True


def application(serve):
    import asyncio
    import cProfile
    import io
    import pstats

    import numpy as np

    def argument(size, kind):
        return np.ones(size, "u1") if kind == "ndarray" else bytes(size)

    class Profiled:
        profile = None

        async def pid(self):
            return os.getpid()

        async def begin_profile(self):
            self.profile = cProfile.Profile()
            self.profile.enable()

        async def end_profile(self):
            self.profile.disable()
            out = io.StringIO()
            pstats.Stats(self.profile, stream=out).strip_dirs().sort_stats("tottime").print_stats(25)
            return out.getvalue()

    @serve.deployment(max_ongoing_requests=64)
    class Callee(Profiled):
        async def echo(self, x):
            return x

        def sync_echo(self, x):
            return x

        async def items(self, n, x):
            for _ in range(n):
                yield x

    @serve.deployment(max_ongoing_requests=64)
    class Caller(Profiled):
        def __init__(self, callee):
            self.callee = callee

        async def load(self, method, size, kind, width, seconds):
            """Calls for so long; (number of calls, seconds, p50 in µs)."""
            handle, times = getattr(self.callee, method), []
            x = argument(size, kind)
            begin = time.perf_counter()
            end = begin + seconds

            async def one():
                while True:
                    at = time.perf_counter()
                    if at >= end:
                        return
                    await handle.remote(x)
                    times.append(time.perf_counter() - at)

            await asyncio.gather(*[one() for _ in range(width)])
            return len(times), time.perf_counter() - begin, statistics.median(times) * 1e6

        async def stream(self, size, kind, seconds):
            n, begin = 0, time.perf_counter()
            x = argument(size, kind)
            while time.perf_counter() - begin < seconds:
                async for _ in self.callee.items.options(stream=True).remote(1000, x):
                    n += 1
            return n, time.perf_counter() - begin, 0.0

    return Caller.bind(Callee.bind())


class Bench:
    def __init__(self, options, handle, callee):
        self.options, self.handle = options, handle
        self.pids = [handle.pid.remote().result(), dispatcher_of_ours(), callee.pid.remote().result()]
        for pid in self.pids:
            pin(pid, {options.core})

    def measure(self, method, *args):
        """(calls/s, p50 µs, CPU µs per call of caller, dispatcher, callee): medians of the runs."""
        rows = []
        for _ in range(self.options.runs):
            before = [cpu_ns(pid) for pid in self.pids]
            n, seconds, p50 = getattr(self.handle, method).remote(*args, self.options.seconds).result()
            after = [cpu_ns(pid) for pid in self.pids]
            rows.append((n / seconds, p50, *((a - b) / n / 1000 for a, b in zip(after, before))))
        return [statistics.median(column) for column in zip(*rows)]


def line(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def run(options, serve):
    handle = serve.run(application(serve), name="bench", route_prefix=None)
    callee = serve.get_deployment_handle("Callee", "bench")
    bench = Bench(options, handle, callee)
    pairs = {size: socket_pair(size, options.seconds, options.core) for size, _ in SIZES}
    line("what", "in flight", "calls/s", "p50 µs", "× socket pair", "CPU µs: caller", "dispatcher", "callee", "all")
    line(*["---"] * 9)
    for method, size, text, kind in ((m, *s, k) for m in ("echo", "sync_echo") for s in SIZES for k in KINDS):
        for width in WIDTHS:
            rate, p50, *cpu = bench.measure("load", method, size, kind, width)
            ratio = f"{p50 / pairs[size]:.1f}" if width == 1 else ""
            line(f"{'sync' if method != 'echo' else 'async'}, {text}, {kind}", width, f"{rate:.0f}", f"{p50:.0f}", ratio,
                 *(f"{c:.1f}" for c in (*cpu, sum(cpu))))  # fmt: skip
    for size, text, kind in ((*s, k) for s in SIZES[:2] for k in KINDS):
        rate, _, *cpu = bench.measure("stream", size, kind)
        line(f"stream, {text}, {kind}, an item", 1, f"{rate:.0f}", "", "", *(f"{c:.1f}" for c in (*cpu, sum(cpu))))
    print("\nsocket pair, p50 µs:", ", ".join(f"{text} {pairs[size]:.0f}" for size, text in SIZES))
    if options.profile:
        for who in (handle, callee):
            who.begin_profile.remote().result()
            handle.load.remote("echo", 128, "bytes", 32, options.seconds).result()
            print(who.end_profile.remote().result())


def main():
    options = parse()
    build = (ROOT / options.build).resolve()
    folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
    with socket.create_server(("", 0)) as s:
        port = s.getsockname()[1]
    os.environ.update(ANYSERVE_PORT=str(port), ANYSERVE_RUNTIME_DIR=folder + "/run", ANYSERVE_STATE_DIR=folder + "/state")
    sys.path.insert(0, str(build / "python"))
    from anyserve import serve

    try:
        run(options, serve)
    finally:
        serve.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
