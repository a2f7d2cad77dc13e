#!/usr/bin/env python3
"""Well-behaved clients: an open loop of gRPC calls, and newcomers that connect, call once and go.

    tests/attack/healthy.py HOST:PORT [--rate 200] [--newcomers 10] [--model echo]

Runs until its standard input ends; prints one line of JSON: for each call [when it was due (s, CLOCK_MONOTONIC),
latency from then (s), error or ""], for each newcomer the same. A call that starts late is counted from when it
was due, so that a stall is seen by every call that it delays.
"""

import argparse
import json
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

import grpc  # noqa: E402
import numpy as np  # noqa: E402

from support import oip  # noqa: E402
from support.h2client import H2, prefixed  # noqa: E402

TIMEOUT = 10


class Calls:
    """One channel, as most clients have."""

    def __init__(self, address, rate, model):
        self.rows = []
        self._every = 1 / rate
        self._channel = grpc.insecure_channel(address, oip.UNLIMITED)
        self._infer = self._channel.unary_unary(f"/{oip.SERVICE}/ModelInfer", lambda m: m, lambda b: b)
        self._message = oip.infer_request(model, {"x": np.ones(16, np.float32)}).SerializeToString()

    def run(self, stop):
        due = time.monotonic()
        open_ = []
        while not stop.is_set():
            due += self._every
            if (ahead := due - time.monotonic()) > 0:
                time.sleep(ahead)
            call = self._infer.future(self._message, timeout=TIMEOUT)
            call.add_done_callback(lambda c, due=due: self._done(c, due))
            open_ = [c for c in open_ if not c.done()] + [call]
        for call in open_:
            call.exception()
        self._channel.close()

    def _done(self, call, due):
        now = time.monotonic()
        error = "" if call.code() is grpc.StatusCode.OK else f"{call.code()} {call.details()}"
        self.rows.append([due, now - due, error])


class Newcomers:
    def __init__(self, host, port, rate):
        self.rows = []
        self._host, self._port, self._every = host, port, 1 / rate

    def run(self, stop):
        due = time.monotonic()
        while not stop.is_set():
            due = max(due + self._every, time.monotonic() - 1)
            if (ahead := due - time.monotonic()) > 0:
                time.sleep(ahead)
            begin, error = time.monotonic(), ""
            try:
                with H2(self._host, self._port) as http:
                    reply = http.grpc(prefixed(b""), method="ServerLive")
                    if reply.grpc_status != 0:
                        error = f"status {reply.grpc_status}, reset {reply.reset}"
            except OSError as e:
                error = repr(e)
            self.rows.append([due, time.monotonic() - begin, error])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("address")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--newcomers", type=float, default=10)
    parser.add_argument("--model", default="echo")
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    calls = Calls(options.address, options.rate, options.model)
    newcomers = Newcomers(host, int(port), options.newcomers)
    stop = threading.Event()
    threads = [threading.Thread(target=part.run, args=(stop,)) for part in (calls, newcomers)]
    for t in threads:
        t.start()
    sys.stdin.read()
    stop.set()
    for t in threads:
        t.join()
    time.sleep(0.05)  # the last callbacks
    print(json.dumps({"calls": sorted(calls.rows), "newcomers": newcomers.rows}))


if __name__ == "__main__":
    main()
