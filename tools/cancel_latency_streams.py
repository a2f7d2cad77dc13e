#!/usr/bin/env python3
"""How long it takes until a handler of a stream sees that its client has gone: `tools/cancel_latency_streams.py`.

The handler is a generator that gives results all the time (to a client that reads them), one that waits for room (its
client reads nothing), one that awaits something between two results, or one that waits for its client's next message.
The client resets the stream or closes the connection; the handler notes when it was closed, or had CancelledError
(CLOCK_MONOTONIC, one machine). The time starts before the client's system call, so that it bounds the time from the
dispatcher knowing to the handler seeing from above. Prints median, 99th percentile and worst of --samples for each case.
"""

import argparse
import os
import random
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median, quantiles

import numpy as np

ROOT = Path(__file__).resolve().parent.parent

APP = """
import asyncio
import os
import time
from typing import AsyncIterator
import numpy as np
from anyserve import AnyServe, Request, Tensor

app = AnyServe()
board = np.memmap(os.environ["BOARD"], np.float64, "r+")  # results given, time of the end
N = {"n": Tensor("INT32", [1])}


def result(n):
    board[0] += 1
    return {"text": np.array([b"x" * int(n[0])], object)}


def plain(n):
    try:
        while True:
            yield result(n)
    except GeneratorExit:
        board[1] = time.monotonic()
        raise


app.model("sync", inputs=N, deployment="sync", max_ongoing_requests=1)(plain)
app.model("threads", inputs=N, threads=1)(plain)


@app.model("async", inputs=N)
async def with_loop(n):
    try:
        while True:
            yield result(n)
    except (GeneratorExit, asyncio.CancelledError):
        board[1] = time.monotonic()
        raise


@app.model("awaiting", inputs=N)
async def awaiting(n):
    try:
        yield result(n)
        await asyncio.sleep(60)
    except (GeneratorExit, asyncio.CancelledError):
        board[1] = time.monotonic()
        raise


@app.model("taking", inputs=N)
async def taking(requests: AsyncIterator[Request]):
    try:
        async for r in requests:
            yield result(r.inputs["n"])
    except (GeneratorExit, asyncio.CancelledError):
        board[1] = time.monotonic()
        raise
"""
SMALL, LARGE = 100, 16384  # bytes of a result: to a client that reads, to one that does not
WIDE = 2**31 - 1
NAMES = {"sync": "sync generator", "threads": "generator in a thread", "async": "async generator",
         "awaiting": "async generator, awaits", "taking": "takes a stream, awaits it"}
STATES = {"reads": "gives all the time", "deaf": "waits for room", "rest": ""}


class Client:
    """One stream under way."""

    def __init__(self, server, protocol, model, reads):
        sys.path.insert(0, str(ROOT / "tests/e2e"))
        from support.protocol.h2client import H2
        self.protocol, self.reads = protocol, reads
        n = SMALL if reads else LARGE
        if protocol == "SSE, h1":
            self.sock = socket.socket()
            if not reads:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            self.sock.connect((server.host, server.port))
            body = b'{"n":%d}' % n
            self.sock.sendall(b"POST /v2/models/%s/generate_stream HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s"
                              % (model.encode(), len(body), body))
        else:
            self.http = H2(server.host, server.port)
            self.sock = self.http.sock
            if reads:  # what comes is thrown away unread, so the windows must last
                self.http.conn.update_settings({4: WIDE})
                self.http.conn.increment_flow_control_window(WIDE - 65535)
            self.stream = self._open(model, n)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if reads:
            self.reader = threading.Thread(target=self._read)
            self.reader.start()

    def _open(self, model, n):
        from support.protocol import oip
        from support.protocol.h2client import prefixed
        http = self.http
        if self.protocol == "SSE, h2":
            stream = http.open([(":method", "POST"), (":scheme", "http"), (":authority", "h"),
                                (":path", f"/v2/models/{model}/generate_stream")])
            http.send(stream, b'{"n":%d}' % n, end=True)
        else:
            stream = http.open_grpc("ModelStreamInfer")
            http.send(stream, prefixed(oip.infer_request(model, {"n": np.array([n], np.int32)}).SerializeToString()))
        return stream

    def _read(self):
        room = bytearray(1 << 20)
        try:
            while self.sock.recv_into(room):
                pass
        except OSError:
            pass

    def leave(self, how):
        if how == "reset":
            self.http.conn.reset_stream(self.stream, 8)
            self.http.flush()
        else:
            self.sock.shutdown(socket.SHUT_RDWR)
            self.sock.close()

    def close(self):
        if self.sock.fileno() >= 0:
            self.sock.shutdown(socket.SHUT_RDWR)
            self.sock.close()
        if self.reads:
            self.reader.join()


def cases():
    for model in NAMES:
        for state in ("reads", "deaf") if model in ("sync", "threads", "async") else ("rest",):
            for protocol in ("SSE, h1", "SSE, h2", "ModelStreamInfer"):
                if model == "taking" and protocol != "ModelStreamInfer":
                    continue  # events have one request
                for how in ("reset", "disconnect"):
                    if (protocol, how) != ("SSE, h1", "reset"):
                        yield model, state, protocol, how


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--samples", default=100, type=int)
    parser.add_argument("--only", choices=NAMES, help="only this kind of handler")
    parser.add_argument("--threads", default="1", help="event loops of the dispatcher")
    return parser.parse_args()


def main():
    options = parse()
    os.environ["ANYSERVE_BUILD"] = options.build
    sys.path.insert(0, str(ROOT / "tests/e2e"))
    from support.process.server import Server

    folder = tempfile.TemporaryDirectory()
    np.zeros(2).tofile(Path(folder.name, "board"))
    board = np.memmap(Path(folder.name, "board"), np.float64, "r+")
    path = Path(folder.name, "app.py")
    path.write_text(APP)

    def wait_for(what, text):
        end = time.monotonic() + 10
        while not what():
            if time.monotonic() > end:
                sys.exit(f"{text}: waited in vain")
            time.sleep(.0002)

    def is_paused():
        given = board[0]
        time.sleep(.01)
        return board[0] == given

    def sample(server, model, state, protocol, how):
        board[:] = 0
        client = Client(server, protocol, model, state != "deaf")
        wait_for(lambda: board[0], "the first result")
        if state != "reads":
            wait_for(is_paused, "the generator to stop")
        time.sleep(random.uniform(0, .005))  # the moment is no particular one
        start = time.monotonic()
        client.leave(how)
        wait_for(lambda: board[1], "the handler's end")
        client.close()
        return 1e3 * (board[1] - start)

    print(f"{'handler':26} {'state':19} {'client':17} {'leaves by':11} {'median ms':>10} {'p99 ms':>8} {'worst ms':>9}")
    server = Server(path, "--threads", options.threads, env={"BOARD": board.filename})
    try:
        for model, state, protocol, how in cases():
            if options.only not in (None, model):
                continue
            ms = [sample(server, model, state, protocol, how) for _ in range(options.samples)]
            p99 = quantiles(ms, n=100, method="inclusive")[98]
            print(f"{NAMES[model]:26} {STATES[state]:19} {protocol:17} {how:11} {median(ms):10.2f} {p99:8.2f} "
                  f"{max(ms):9.2f}", flush=True)
    finally:
        server.kill()


if __name__ == "__main__":
    main()
