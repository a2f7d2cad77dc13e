#!/usr/bin/env python3
"""How long it takes until the code of a deployment is stopped by a cancel: `tools/cancel_latency_calls.py [--build build/release]`.

A driver cancels a call of a deployment, or of one whose handler waits for another deployment; or a client of the inference
protocol closes its connection while the handler waits for another deployment. The code that is stopped notes when it got
CancelledError (CLOCK_MONOTONIC, one machine); the time starts before the cancel, or the close. Prints median, 99th
percentile and worst of --samples of each.
"""

import argparse
import json
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parent.parent


def application(serve, np):
    import asyncio

    @serve.deployment(max_ongoing_requests=100)
    class Leaf:
        def __init__(self):
            self.begun, self.stopped, self.news = 0, [], asyncio.Condition()

        async def tell(self):
            async with self.news:
                self.news.notify_all()

        async def __call__(self):
            self.begun += 1
            asyncio.ensure_future(self.tell())
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.stopped.append(time.monotonic())
                asyncio.ensure_future(self.tell())
                raise

        async def wait_begun(self, n):
            async with self.news:
                await self.news.wait_for(lambda: self.begun >= n)

        async def wait_stopped(self, n):
            async with self.news:
                await self.news.wait_for(lambda: len(self.stopped) >= n)
            return self.stopped[n - 1]

    @serve.deployment(max_ongoing_requests=100)
    class Front:
        def __init__(self, leaf):
            self.leaf = leaf

        async def call(self):
            await self.leaf.remote()

        async def __call__(self, x: np.ndarray) -> np.ndarray:
            await self.leaf.remote()
            return x

    return Front.bind(Leaf.bind())


def client_that_leaves(port):
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]}).encode()
    s = socket.create_connection(("127.0.0.1", port))
    s.sendall(b"POST /v2/models/Front/infer HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
              b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return s.close


def measure(samples, begin, leaf, before):
    times = []
    for n in range(before + 1, before + samples + 1):
        stop = begin()
        leaf.wait_begun.remote(n).result(timeout_s=60)
        start = time.monotonic()
        stop()
        times.append(1e3 * (leaf.wait_stopped.remote(n).result(timeout_s=60) - start))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--samples", type=int, default=500)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT / options.build / "python"))
    sys.path.insert(1, str(ROOT / "tests/e2e"))
    os.environ["PYTHONPATH"] = str(ROOT / options.build / "python")
    import numpy as np
    from support import ports

    with tempfile.TemporaryDirectory() as folder:
        port = ports.free()
        os.environ.update(ANYSERVE_PORT=str(port), ANYSERVE_RUNTIME_DIR=folder + "/run", ANYSERVE_STATE_DIR=folder + "/state")
        from anyserve import serve

        handle = serve.run(application(serve, np))
        leaf = serve.get_deployment_handle("Leaf", "default")
        kinds = [("a call", lambda: leaf.remote().cancel), ("its parent", lambda: handle.call.remote().cancel),
                 ("a client leaves", lambda: client_that_leaves(port))]  # fmt: skip
        for i, (name, begin) in enumerate(kinds):
            times = measure(options.samples, begin, leaf, i * options.samples)
            print("%-16s p50 %.2f ms, p99 %.2f ms, worst %.2f ms"
                  % (name, median(times), quantiles(times, n=100)[98], max(times)))  # fmt: skip
        serve.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
