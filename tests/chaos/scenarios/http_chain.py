"""The same as `chain`, over HTTP: an ingress that calls a deployment by its handle; clients with kept connections, and websockets.

100 requests/s come in turn by GET, HEAD, PUT, DELETE, OPTIONS, by POST to a deployment that may be repeated, and by POST to one that
may not. Only the last one may fail, with 5xx, and then it is not executed twice in either deployment; nothing is without an answer.
kills: 2 random replicas a second, over HTTP/1.1 and over h2c. sigterm: one a second is asked to end. update: both applications are deployed
again. upgrade: all three processes of the server become another image (not over h2c: httpx gives up what it has sent to a connection
that reads GOAWAY). Websockets are open all the time: they end with the codes of docs/guide/websockets.md, and a new one is
accepted at once.
"""

import asyncio
import collections
import json
import os
import threading
import time

import load
import rig
from scenarios import chain

COUNT = 200
RATE, DEADLINE, REPLICAS, CALM = 100, 10, 6, 2
SOCKETS, EVERY = 12, 0.1  # seconds from one message of a websocket to the next
DEPLOYMENTS = {"web": ("Web", "Below"), "marked": ("Marked",)}
DIED, RESTARTS = 1011, 1012
PARTS = {  # name → (chain.PARTS, protocol, the codes with which websockets may end, options)
    "kills http": ("kills", "web", {DIED}, ()),
    "kills h2c": ("kills", "web-h2c", {DIED}, ()),
    "sigterm http": ("sigterm", "web", {RESTARTS}, ()),
    "update http": ("update", "web", {RESTARTS}, ()),
    "update h2c": ("update", "web-h2c", {RESTARTS}, ()),
    "upgrade http": ("upgrade", "web", {RESTARTS}, ("--drain-timeout", "2s")),
}


class HttpChain(chain.Chain):
    KILLS_PER_S = 2

    def __init__(self, folder, journal, *options):
        for name in ("Web", "Below"):
            os.mkdir(os.path.join(journal, name))
        super().__init__(folder, "--request-timeout", f"{DEADLINE}s", *options, env={"CHAOS_JOURNAL": journal})

    def spec(self, version):
        return {"applications": [
            {"name": name, "import_path": f"chain_app:{name}", "route_prefix": "/" if name == "web" else f"/{name}",
             "working_dir": str(rig.APPS), "deployments": [{"name": d, "version": version} for d in deployments]}
            for name, deployments in DEPLOYMENTS.items()]}


class Sockets:
    """Websockets in a thread; how each of them ended."""

    def __init__(self, address, prefix="/"):
        self.ends, self.faults, self._url = collections.Counter(), [], f"ws://{address}{prefix}ws"
        self._loop, self._over = asyncio.new_event_loop(), asyncio.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)
        self._thread.start()

    async def _run(self):
        await asyncio.gather(*(self._keep() for _ in range(SOCKETS)))

    async def _keep(self):
        """One at a time, until the end."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed

        while not self._over.is_set():
            try:
                async with connect(self._url, compression=None, open_timeout=DEADLINE, close_timeout=DEADLINE, proxy=None) as ws:
                    try:
                        await self._use(ws)
                    except ConnectionClosed as e:
                        self.ends[e.rcvd.code if e.rcvd else "no close"] += 1
            except Exception as e:  # whatever the client says of a handshake that failed
                self.faults.append(f"{type(e).__name__}: {e}")
                await asyncio.sleep(EVERY)

    async def _use(self, ws):
        n = 0
        while not self._over.is_set():
            await ws.send(str(n := n + 1))
            async with asyncio.timeout(DEADLINE):
                got = await ws.recv()
            if got != str(n):
                raise ValueError(f"{got!r} for {n}")
            await asyncio.sleep(EVERY)

    def end(self):
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(3 * DEADLINE)
        if self._thread.is_alive():
            self.faults.append("a websocket hangs")
        else:
            self._loop.close()


def judge(result, outcome, journal):
    """What was lost, and what ran twice."""
    def is_once(row):
        return load.CASES[row[5] % len(load.CASES)] == load.ONCE

    lost = [r for r in outcome.errors if not is_once(r)]
    unclear = [r for r in outcome.errors if is_once(r) and not r[2].startswith("5")]
    ran = [rig.executions(os.path.join(journal, name)) for name in ("Web", "Below")]
    once = [r for r in outcome.rows if is_once(r)]
    twice = [r[5] for r in once if max(found.get(r[5], 0) for found in ran) > 1]
    never = [r[5] for r in once if not r[2] and not all(r[5] in found for found in ran)]
    result.figures.update(lost=len(lost), once=len(once), once_failed=len(outcome.errors) - len(lost), twice=len(twice))
    if lost:
        result.fault(f"{len(lost)} requests lost that may be repeated: {sorted({r[2] for r in lost})[:4]}")
    if unclear:
        result.fault(f"{len(unclear)} failed without 5xx: {sorted({r[2] for r in unclear})[:4]}")
    if twice:
        result.fault(f"{len(twice)} ran twice: {twice[:5]}")
    if never:
        result.fault(f"{len(never)} were answered and never ran: {never[:5]}")


def judge_sockets(result, sockets, codes):
    result.figures["websockets"] = json.dumps(sockets.ends, separators=(",", ":"))
    if sockets.faults:
        result.fault(f"{len(sockets.faults)} websockets failed: {sorted(set(sockets.faults))[:4]}")
    if wrong := {code: n for code, n in sockets.ends.items() if code not in codes}:
        result.fault(f"websockets ended with {wrong}")
    if not sockets.ends:
        result.fault("no websocket ended: nothing was shown")


def play(name, options):
    part, protocol, codes, more = PARTS[name]
    with rig.tempfile.TemporaryDirectory() as folder, rig.tempfile.TemporaryDirectory() as journal, \
            rig.serving(HttpChain(folder, journal, *more)) as server:
        server.expect_error("drain_timeout|handler_raised")
        rig.wait_workers(server, REPLICAS)
        requests, sockets = rig.Load(server.address, protocol, rate=RATE, timeout=DEADLINE), Sockets(server.address)
        try:
            time.sleep(CALM)
            figures = chain.PARTS[part](server, options, options.count or COUNT)
            time.sleep(0.5)
            outcome = requests.end()
        finally:
            requests.abandon()
            sockets.end()
        rig.wait_workers(server, REPLICAS)
        result = rig.Result("http_chain", name, **figures, **outcome.figures())
        result.add(outcome)
        judge(result, outcome, journal)
        judge_sockets(result, sockets, codes)
        return result


def run(options):
    for name in PARTS:
        if options.wants(name):
            yield play(name, options)
