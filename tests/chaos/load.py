#!/usr/bin/env python3
"""An open loop of small requests over gRPC or HTTP, each told apart by an id; what came of each as JSON.

    tests/chaos/load.py HOST:PORT [--protocol grpc|http|web|web-h2c] [--model nap] [--rate 200] [--timeout 10] [--retry 0] [--transparent]
                        [--low-rate 20 --period 6] [--ca FILE]

Runs until its standard input ends; then waits for what is under way and prints one line of JSON: {"rows": [[when the
call was due (s, CLOCK_MONOTONIC), latency from then (s), outcome, attempts, flagged, id, hint], …], "refused": connections
refused, "planned": calls that were due}. The outcome is "" for a right answer (it must carry the id that was sent).
flagged: the failure says that the request may have been executed, and is not to be repeated; hint: when it may be. A call that starts late
counts from when it was due. With --retry a call that fails is made again, as a careful client would, for so many
seconds; only a client whose requests may be repeated should do that. With a --period
(seconds) the rate is --rate in its first half and --low-rate in its second. web, web-h2c: httpx as a client of apps/chain_app.py, by all of
CASES in turn. --ca: by TLS, and who has signed the server's certificate.
"""

import argparse
import asyncio
import gc
import json
import os
import ssl
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

RETRY_PAUSE = 0.005  # seconds
CASES = (("GET", "/"), ("HEAD", "/"), ("PUT", "/"), ("DELETE", "/"), ("OPTIONS", "/"), ("POST", "/marked/"), ("POST", "/"))
ONCE = ("POST", "/")  # the one that may not be repeated
PADDING = 128  # FP32 elements beside the id: a body of about 1 KiB as JSON


class Lost(Exception):
    """The call failed: the text says how."""

    def __init__(self, text, flagged=False, hint=None):
        super().__init__(text)
        self.flagged, self.hint = flagged, hint


class Http:
    """Keep-alive connections, as many as calls are in flight."""

    def __init__(self, host, port, model, ca):
        self._where, self._idle, self.refused, self._tls = (host, port), [], 0, ca and ssl.create_default_context(cafile=ca)
        self._path = f"/v2/models/{model}/infer"
        pad = {"name": "pad", "datatype": "FP32", "shape": [PADDING], "data": [1.5] * PADDING}
        number = {"name": "id", "datatype": "INT64", "shape": [1], "data": ["@"]}
        body = json.dumps({"id": "@", "inputs": [number, pad]})
        self._body = body.replace('["@"]', "[@]")

    async def _connection(self):
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        try:
            return await asyncio.open_connection(*self._where, ssl=self._tls)
        except ConnectionRefusedError:
            self.refused += 1
            raise

    async def call(self, n, timeout):
        try:
            async with asyncio.timeout(timeout + 1):
                return await self._call(n, timeout)
        except TimeoutError:
            raise Lost("no answer") from None
        except (OSError, asyncio.IncompleteReadError) as e:
            raise Lost(type(e).__name__) from None

    async def _call(self, n, timeout):
        reader, writer = await self._connection()
        is_kept = False
        try:
            body = self._body.replace("@", str(n)).encode()
            writer.write(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"
                         b"grpc-timeout: %dm\r\n\r\n" % (self._path.encode(), len(body), timeout * 1000) + body)
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            fields = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:] if line)}
            answer = await reader.readexactly(int(fields.get("content-length", "0")))
            is_kept = fields.get("connection", "").lower() != "close"
        finally:
            if is_kept:
                self._idle.append((reader, writer))
            else:
                writer.close()
        status = int(head[0].split()[1])
        if status != 200:
            flagged = fields.get("anyserve-may-have-executed") == "1"
            raise Lost(f"{status} {answer[:120].decode(errors='replace')}", flagged, fields.get("retry-after"))
        if json.loads(answer)["outputs"][0]["data"] != [n]:
            raise Lost(f"wrong answer {answer[:120]}")

    async def close(self):
        for _, writer in self._idle:
            writer.close()


class Web:
    """An application's: a pool of kept connections (HTTP/1.1), or one of HTTP/2. httpx repeats nothing by itself."""

    def __init__(self, host, port, h2c, ca):
        import httpx
        self._error, self.refused = httpx.HTTPError, 0
        self._refused = httpx.ConnectError
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        self._client = httpx.AsyncClient(http1=not h2c, http2=h2c, base_url=f"http{'s' if ca else ''}://{host}:{port}", timeout=None,
                                         limits=limits, trust_env=False, verify=ssl.create_default_context(cafile=ca) if ca else True)

    async def call(self, n, timeout):
        method, prefix = CASES[n % len(CASES)]
        body = b"x" * 8 * PADDING if method in ("PUT", "POST") else None
        try:
            async with asyncio.timeout(timeout + 1):
                answer = await self._client.request(method, f"{prefix}{n}", content=body)
        except TimeoutError:
            raise Lost(f"no answer to {method} {prefix}") from None
        except self._error as e:
            self.refused += isinstance(e, self._refused)
            raise Lost(f"{type(e).__name__} {e}: {method} {prefix}") from None
        if answer.status_code != 200:
            flagged = answer.headers.get("anyserve-may-have-executed") == "1"
            text = answer.text[:120]
            raise Lost(f"{answer.status_code} {text}: {method} {prefix}", flagged, answer.headers.get("retry-after"))
        if answer.headers.get("x-id") != str(n) or answer.text != ("" if method == "HEAD" else str(n)):
            raise Lost(f"wrong answer to {method} {prefix}")

    async def close(self):
        await self._client.aclose()


class Grpc:
    """One channel. Without retries of its own, unless transparent: then calls that it never wrote go to the next connection."""

    def __init__(self, host, port, model, transparent, ca):
        import grpc
        import numpy as np

        from support.protocol import oip
        self._oip, self._np, self.refused = oip, np, 0
        self._error = grpc.aio.AioRpcError
        # a channel's own pauses between attempts are for servers that are away
        quick = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
                 ("grpc.max_reconnect_backoff_ms", 100)]
        options = [o for o in oip.UNLIMITED if not (transparent and o[0] == "grpc.enable_retries")]
        self._channel = grpc.aio.secure_channel(f"{host}:{port}", grpc.ssl_channel_credentials(Path(ca).read_bytes()), options + quick) \
            if ca else grpc.aio.insecure_channel(f"{host}:{port}", options + quick)
        self._infer = self._channel.unary_unary(
            f"/{oip.SERVICE}/ModelInfer", request_serializer=lambda m: m,
            response_deserializer=oip.messages()["ModelInferResponse"].FromString)
        self._pad, self._model = np.full(PADDING, 1.5, np.float32), model

    async def call(self, n, timeout):
        q = self._oip.infer_request(self._model, {"id": self._np.array([n]), "pad": self._pad}, id=str(n))
        try:
            answer = await self._infer(q.SerializeToString(), timeout=timeout)
        except self._error as e:
            trailers = dict(e.trailing_metadata() or ())
            self.refused += "refused" in (e.details() or "").lower()
            pushback = trailers.get("grpc-retry-pushback-ms")
            flagged = (trailers.get("anyserve-may-have-executed"), pushback) == ("1", "-1")
            raise Lost(f"{e.code().name} {e.details()}", flagged, pushback) from None
        if self._oip.Answer(answer)["id"] != [n]:
            raise Lost("wrong answer")

    async def close(self):
        await self._channel.close()


class Load:
    """rate_at(t): calls/s, t seconds after the begin."""

    def __init__(self, client, rate_at, timeout, retry):
        self.rows, self.planned = [], 0
        self._client, self._rate_at, self._timeout, self._retry = client, rate_at, timeout, retry

    async def _one(self, n, due):
        attempts, outcome, flagged, hint = 0, "", False, None
        while True:
            attempts += 1
            try:
                await self._client.call(n, self._timeout)
                outcome, flagged, hint = "", False, None
            except Lost as e:
                outcome, flagged, hint = str(e), e.flagged, e.hint
                if time.monotonic() - due < self._retry:
                    await asyncio.sleep(RETRY_PAUSE)
                    continue
            break
        self.rows.append([due, time.monotonic() - due, outcome, attempts, flagged, n, hint])

    async def run(self, stop):
        begin, tasks = time.monotonic(), set()
        due = begin
        while not stop.is_set():
            ahead = due - time.monotonic()
            if ahead > 0:
                await asyncio.sleep(ahead)
            task = asyncio.ensure_future(self._one(self.planned, due))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            self.planned += 1
            due += 1 / self._rate_at(due - begin)
            if ahead < -0.1:
                await asyncio.sleep(0)  # late: let answers in between
        if tasks:
            await asyncio.wait(tasks)
        await self._client.close()


async def work(options):
    host, _, port = options.address.rpartition(":")
    if options.protocol.startswith("web"):
        client = Web(host, int(port), options.protocol == "web-h2c", options.ca)
    elif options.protocol == "grpc":
        client = Grpc(host, int(port), options.model, options.transparent, options.ca)
    else:
        client = Http(host, int(port), options.model, options.ca)
    stop, loop = asyncio.Event(), asyncio.get_running_loop()

    def on_input():
        if not os.read(0, 4096):
            loop.remove_reader(0)
            stop.set()

    loop.add_reader(0, on_input)
    await client.call(-1, options.timeout)  # connected, imported, warm
    def rate_at(t):
        return options.low_rate if options.period and t % options.period >= options.period / 2 else options.rate

    load = Load(client, rate_at, options.timeout, options.retry)
    gc.freeze()
    print("began", flush=True)
    await load.run(stop)
    print(json.dumps({"rows": sorted(load.rows), "refused": client.refused, "planned": load.planned}))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("address")
    parser.add_argument("--protocol", choices=("grpc", "http", "web", "web-h2c"), default="grpc")
    parser.add_argument("--model", default="nap")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--low-rate", type=float, default=0, help="calls/s in the second half of each --period")
    parser.add_argument("--period", type=float, default=0, help="seconds; 0: the rate stays")
    parser.add_argument("--timeout", type=float, default=10, help="deadline of a call, seconds")
    parser.add_argument("--retry", type=float, default=0, help="for so long a failed call is made again, seconds")
    parser.add_argument("--ca", help="by TLS: the certificate of who has signed the server's")
    parser.add_argument("--transparent", action="store_true", help="gRPC: the channel's own transparent retry is left on")
    asyncio.run(work(parser.parse_args()))


if __name__ == "__main__":
    main()
