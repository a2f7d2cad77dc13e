#!/usr/bin/env python3
"""How long it takes until a handler sees that nobody waits for it: `tools/cancel_latency.py [--build build/release]`.

A client resets a stream, or closes its connection, while a handler runs; the handler notes when it saw that (CLOCK_
MONOTONIC, one machine). The time starts before the client's system call, so that it bounds the time from the
dispatcher knowing to the handler seeing from above. For a deadline it starts at the deadline itself.
Prints median, 99th percentile and worst of --samples for each kind of handler.
"""

import argparse
import os
import random
import socket
import sys
import tempfile
import time
from pathlib import Path
from statistics import median, quantiles

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

APP = """
import asyncio
import os
import threading
import time
import numpy as np
from anyserve import AnyServe

app = AnyServe()
lock = threading.Lock()
board = np.memmap(os.environ["BOARD"], np.float64, "r+")  # begun, seen, then time and deadline of each


def begin():
    with lock:
        board[0] += 1


def note(request):
    now = time.monotonic()
    with lock:
        at = 2 + 2 * int(board[1])
        board[at : at + 2] = now, request.deadline or 0
        board[1] += 1


def spinning(request):
    begin()
    while not request.cancelled:
        pass
    note(request)
    return ()


async def awaiting(request):
    begin()
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note(request)
        raise


async def computing(request):
    return spinning(request)


app.model("sync")(spinning)
app.model("threads", threads=4)(spinning)
if os.environ.get("LOOP"):
    app.model("async")(awaiting)
    app.model("computing")(computing)
"""


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--samples", default=200, type=int)
    parser.add_argument("--loop", choices=["no", "yes"], help="only workers without, or with, an event loop")
    parser.add_argument("--threads", default="1", help="event loops of the dispatcher")
    return parser.parse_args()


def ask(http, model, body, extra=()):
    stream = http.open_grpc(extra=extra)
    http.send(stream, body[model], end=True)
    return stream


def main():
    options = parse()
    os.environ["ANYSERVE_BUILD"] = options.build
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    from support.process.server import Server
    from support.protocol import oip
    from support.protocol.h2client import H2, prefixed

    models = ("sync", "threads", "async", "computing")
    body = {m: prefixed(oip.infer_request(m, {}).SerializeToString()) for m in models}

    def await_count(at, n):
        end = time.monotonic() + 10
        while board[at] < n:
            if time.monotonic() > end:
                sys.exit(f"{board[at]:.0f} of {n} handlers {('began', 'were told')[at]}")
            time.sleep(.0002)

    def sample(server, model, cause):
        """Milliseconds of each handler that was told."""
        n = 4 if model == "threads" else 1
        extra = [("grpc-timeout", "50m")] if cause == "deadline" else []
        board[:] = 0
        with H2(server.host, server.port) as http:
            http.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            streams = [ask(http, model, body, extra) for _ in range(n)]
            await_count(0, n)
            time.sleep(random.uniform(0, .005))  # the moment is no particular one
            start = time.monotonic()
            if cause == "reset":
                for stream in streams:
                    http.conn.reset_stream(stream, 8)
                http.flush()
            elif cause == "disconnect":
                http.sock.close()
            await_count(1, n)
        rows = board[2 : 2 + 2 * n].reshape(n, 2)
        return [1e3 * (t - (deadline or start)) for t, deadline in rows.tolist()]

    print(f"{'handler':28} {'cause':11} {'median ms':>10} {'p99 ms':>8} {'worst ms':>9}")
    folder = tempfile.TemporaryDirectory()
    np.zeros(2 + 2 * 4).tofile(Path(folder.name, "board"))
    board = np.memmap(Path(folder.name, "board"), np.float64, "r+")
    path = Path(folder.name, "app.py")
    path.write_text(APP)
    for loop in {"no": [""], "yes": ["1"], None: ["", "1"]}[options.loop]:
        server = Server(path, "--threads", options.threads, env={"LOOP": loop, "BOARD": board.filename})
        try:
            for model in models if loop else models[:2]:
                for cause in ["reset", "disconnect"] + ["deadline"] * (model == "async"):
                    ms = []
                    while len(ms) < options.samples / (4 if cause == "deadline" else 1):
                        ms += sample(server, model, cause)
                    kind = model + (", beside an event loop" if loop and model in models[:2] else "")
                    print(f"{kind:28} {cause:11} {median(ms):10.2f} {quantiles(ms, n=100)[98]:8.2f} "
                          f"{max(ms):9.2f}", flush=True)
        finally:
            server.kill()


if __name__ == "__main__":
    main()
