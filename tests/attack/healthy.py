#!/usr/bin/env python3
"""Well-behaved clients: an open loop of calls, and newcomers that connect, call once and go.

    tests/attack/healthy.py HOST:PORT [--target models|application] [--rate 200] [--newcomers 10] [--model echo]
                             [--ca FILE]

models: gRPC. application: HTTP/1.1, over connections that are kept; each answer must be the body that was sent.
--ca: over TLS, and who has signed the server's certificate.

Runs until its standard input ends; prints one line of JSON: for each call [when it was due (s, CLOCK_MONOTONIC),
latency from then (s), error or ""], for each newcomer the same. A call that starts late is counted from when it
was due, so that a stall is seen by every call that it delays.
"""

import argparse
import http.client
import json
import queue
import socket
import ssl
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

import grpc  # noqa: E402
import numpy as np  # noqa: E402

from support.protocol import oip  # noqa: E402
from support.protocol.h2client import H2, prefixed  # noqa: E402

TIMEOUT = 10


class Calls:
    """One channel, as most clients have."""

    def __init__(self, address, rate, model, ca):
        self.rows = []
        self._every = 1 / rate
        self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(Path(ca).read_bytes()), oip.UNLIMITED) \
            if ca else grpc.insecure_channel(address, oip.UNLIMITED)
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


class Requests:
    """As Calls, of an application."""

    THREADS = 16

    def __init__(self, connect, rate):
        """connect: makes a connection, which is not opened yet."""
        self.rows, self._connect, self._every, self._due = [], connect, 1 / rate, queue.SimpleQueue()

    def run(self, stop):
        threads = [threading.Thread(target=self._work) for _ in range(self.THREADS)]
        for t in threads:
            t.start()
        due = time.monotonic()
        while not stop.is_set():
            due += self._every
            if (ahead := due - time.monotonic()) > 0:
                time.sleep(ahead)
            self._due.put(due)
        for t in threads:
            self._due.put(None)
        for t in threads:
            t.join()

    def _work(self):
        connection = self._connect()
        while (due := self._due.get()) is not None:
            try:
                error = ask(connection, b"%f" % due)
            except (OSError, http.client.HTTPException) as e:
                error = repr(e)
                connection.close()
            self.rows.append([due, time.monotonic() - due, error])
        connection.close()


def ask(connection, body):
    """"", or what was wrong."""
    connection.request("POST", "/echo", body)
    answer = connection.getresponse()
    data = answer.read()
    return "" if (answer.status, data) == (200, body) else f"{answer.status} {data[:100]}"


class Newcomers:
    def __init__(self, host, port, rate, target, connect, tls):
        self.rows = []
        self._host, self._port, self._every, self._connect, self._tls = host, port, 1 / rate, connect, tls
        self._call = self._call_model if target == "models" else self._call_application

    def _call_model(self):
        with H2(self._host, self._port, self._tls) as h2:
            h2.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as every client does
            reply = h2.grpc(prefixed(b""), method="ServerLive")
            return "" if reply.grpc_status == 0 else f"status {reply.grpc_status}, reset {reply.reset}"

    def _call_application(self):
        connection = self._connect()
        try:
            return ask(connection, b"new")
        finally:
            connection.close()

    def run(self, stop):
        due = time.monotonic()
        while not stop.is_set():
            due = max(due + self._every, time.monotonic() - 1)
            if (ahead := due - time.monotonic()) > 0:
                time.sleep(ahead)
            begin, error = time.monotonic(), ""
            try:
                error = self._call()
            except (OSError, http.client.HTTPException) as e:
                error = repr(e)
            self.rows.append([due, time.monotonic() - begin, error])


def client_context(ca, alpn):
    c = ssl.create_default_context(cafile=ca)
    c.set_alpn_protocols([alpn])
    return c


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("address")
    parser.add_argument("--target", choices=("models", "application"), default="models")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--newcomers", type=float, default=10)
    parser.add_argument("--model", default="echo")
    parser.add_argument("--ca", help="over TLS: the certificate of who has signed the server's")
    options = parser.parse_args()
    host, _, port = options.address.rpartition(":")
    tls, http_tls = (client_context(options.ca, alpn) if options.ca else None for alpn in ("h2", "http/1.1"))

    def connect():
        if http_tls:
            return http.client.HTTPSConnection(host, int(port), timeout=TIMEOUT, context=http_tls)
        return http.client.HTTPConnection(host, int(port), timeout=TIMEOUT)

    if options.target == "models":
        calls = Calls(options.address, options.rate, options.model, options.ca)
    else:
        calls = Requests(connect, options.rate)
    newcomers = Newcomers(host, int(port), options.newcomers, options.target, connect, tls)
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
