"""Requests of HTTP to deployments: what each kind of handler costs, beside a bare echo over HTTP/1.1.

    python bench/http_handlers.py [--build build/release] [--seconds 2] [--runs 3] [--profile]

One replica of each kind; wrk keeps 16 requests in flight on another core than that of the dispatcher and the replica, and
compares the body of each answer with what it has sent. CPU is that of the whole process, for each request. Nothing here is a test.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from servers import BENCH, ROOT, Echo, cpu_ns, dispatcher_of_ours, free_port, pin

SIZES = [(128, "128 B"), (10 << 10, "10 KB"), (1 << 20, "1 MiB")]
CONNECTIONS = 16
BASELINE = "h1_echo"
EARLY = "plain, sync"  # answers before a large body is sent, which wrk takes for a broken connection now and then


def parse():
    p = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    p.add_argument("--build", default="build/release", help="the build to measure")
    p.add_argument("--seconds", type=int, default=2, help="of each measurement, whole ones")
    p.add_argument("--runs", type=int, default=3, help="of which the median counts")
    p.add_argument("--core", type=int, default=os.cpu_count() - 1, help="where the server runs; wrk runs on core 0")
    p.add_argument("--profile", action="store_true", help="print where the time goes in the Python code of each replica")
    return p.parse_args()


def applications(serve):
    """{what the handler is: its application}; each answers with the body that it got."""
    import cProfile
    import io
    import pstats

    from fastapi import Body, FastAPI, Request, Response
    from starlette.applications import Starlette
    from starlette.routing import Route

    class Profiled:
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
    class Async(Profiled):
        async def __call__(self, request):
            return await request.body()

    @serve.deployment(max_ongoing_requests=64)
    class Sync(Profiled):
        """It cannot wait for the body; it knows it."""

        def __call__(self, request):
            n = int(request.headers["content-length"])
            return (b"0123456789" * (n // 10 + 1))[:n]

    class Asgi:
        async def __call__(self, scope, receive, send):
            if scope["type"] != "http":
                return
            body, more = b"", True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
            await send({"type": "http.response.body", "body": body})

    async def endpoint(request):
        return Response(await request.body())

    fastapi = FastAPI()

    @fastapi.post("/async")
    async def of_fastapi(request: Request):
        return Response(await request.body())

    @fastapi.post("/sync")
    def of_fastapi_sync(body: bytes = Body()):
        return Response(body)

    def behind(app):
        return serve.deployment(max_ongoing_requests=64)(serve.ingress(app)(type("Ingress", (Profiled,), {}))).bind()

    return {"plain, async": Async.bind(), "plain, sync": Sync.bind(), "ASGI": behind(Asgi()),
            "Starlette": behind(Starlette(routes=[Route("/", endpoint, methods=["POST"])])),
            "FastAPI, async": behind(fastapi), "FastAPI, sync": behind(fastapi)}  # fmt: skip


PATHS = {"FastAPI, async": "/async", "FastAPI, sync": "/sync"}


def wrk(url, size, seconds):
    command = ["taskset", "-c", "0", "wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "30s",
               "-s", BENCH / "peers/echo.lua", url, "--", str(size)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 120)
    if done.returncode:
        sys.exit(f"wrk: {done.stderr or done.stdout}")
    found = json.loads(done.stdout.strip().splitlines()[-1])
    if found["wrong"] or found["broken"] or not found["requests"]:
        sys.exit(f"{url}, {size} bytes: {found['wrong']} wrong answers, {found['broken']} broken connections of {found['requests']}")
    return found


def measure(options, url, size, pids):
    """(requests/s, p50 ms, CPU µs per request of each process): medians of the runs."""
    rows = []
    wrk(url, size, 1)
    for _ in range(options.runs):
        before = [cpu_ns(pid) for pid in pids]
        found = wrk(url, size, options.seconds)
        spent = [cpu_ns(pid) - b for pid, b in zip(pids, before)]
        rows.append((found["requests"] / found["seconds"], found["p50"], *(s / found["requests"] / 1000 for s in spent)))
    return [statistics.median(column) for column in zip(*rows)]


def line(*cells):
    print("| " + " | ".join(str(c) for c in cells) + " |", flush=True)


def row(kind, text, rate, p50, cpu, base):
    line(kind, text, f"{rate:.0f}", f"{rate / base:.2f}", f"{p50:.2f}", *(f"{c:.1f}" for c in cpu), f"{sum(cpu):.1f}")


def baseline(options, build):
    """{size: requests/s} of a server that gives the body back and does nothing else."""
    server, rates = Echo(build, BASELINE), {}
    server.wait_ready = lambda: None  # it is not asked by gRPC
    server.start()
    try:
        pin(server.process.pid, {options.core})
        for size, text in SIZES:
            rates[size], p50, cpu = measure(options, f"http://127.0.0.1:{server.port}/", size, [server.process.pid])
            row(BASELINE, text, rates[size], p50, [cpu, 0], rates[size])
    finally:
        server.stop()
    return rates


def run(options, serve, port, rates):
    profiles = []
    for kind, application in applications(serve).items():
        handle = serve.run(application, name="bench", route_prefix="/")
        pids = [dispatcher_of_ours(), handle.pid.remote().result()]
        for pid in pids:
            pin(pid, {options.core})
        url = f"http://127.0.0.1:{port}{PATHS.get(kind, '/')}"
        for size, text in SIZES:
            if kind == EARLY and size == SIZES[-1][0]:
                continue
            rate, p50, *cpu = measure(options, url, size, pids)
            row(kind, text, rate, p50, cpu, rates[size])
        if options.profile:
            handle.begin_profile.remote().result()
            wrk(url, SIZES[0][0], options.seconds)
            profiles.append((kind, handle.end_profile.remote().result()))
        serve.delete("bench")
    for kind, text in profiles:
        print(f"\n{kind}, {SIZES[0][1]}:\n{text}")


def main():
    options = parse()
    build = (ROOT / options.build).resolve()
    if not shutil.which("wrk"):
        sys.exit("wrk is missing: tools/setup.sh bench installs it")
    line("handler", "body", "requests/s", f"× {BASELINE}", "p50 ms", "CPU µs: dispatcher", "replica", "both")
    line(*["---"] * 8)
    rates = baseline(options, build)
    folder, port = tempfile.mkdtemp(prefix="as-", dir="/tmp"), free_port()
    os.environ.update(ANYSERVE_PORT=str(port), ANYSERVE_RUNTIME_DIR=folder + "/run", ANYSERVE_STATE_DIR=folder + "/state")
    sys.path.insert(0, str(Path(build, "python")))
    from anyserve import serve

    try:
        run(options, serve, port, rates)
    finally:
        serve.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
