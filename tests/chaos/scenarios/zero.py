"""A deployment goes to no replica and back again and again; whatever is killed at zero, the next requests are answered.

min_replicas 0, no delays. 1 to 4 requests come at once by gRPC, and one by HTTP, on new connections. back and forth: in turn when
there is no replica, and when none is wanted but the last one still ends. dispatcher, controller, both: killed when there is no
replica; the requests come at once, without a wait for the next process. No request may fail.
"""

import contextlib
import random
import time

import grpc
import numpy as np
import rig
from scenarios import scaling
from support.process import procs
from support.protocol import http, oip

COUNT = 100
CONFIG = {"min_replicas": 0, "max_replicas": 2, "target_ongoing_requests": 4, "upscale_delay_s": 0, "downscale_delay_s": 0}
AT_ZERO, ENDING = "at_zero", "ending"


class Asked:
    """Requests, how long each round of them took, and what failed."""

    def __init__(self, server):
        self.server, self.took, self.requests, self.failed = server, [], 0, []

    def ask(self, n):
        """n by gRPC and one by HTTP."""
        begin = time.monotonic()
        with contextlib.closing(oip.Client(self.server.address)) as client:
            calls = [client.begin("nap", {"id": [i]}) for i in range(n)]
            self._by_http()
            for i, call in enumerate(calls):
                try:
                    answer = oip.Answer(call.result())["id"]
                    if answer != [i]:
                        self.failed.append(f"wrong answer {answer}")
                except grpc.RpcError as e:
                    self.failed.append(f"{e.code().name} {e.details()}")
        self.requests += n + 1
        self.took.append(time.monotonic() - begin)

    def _by_http(self):
        try:
            with contextlib.closing(http.Http1(self.server.host, self.server.port)) as h:
                reply = h.request("POST", "/v2/models/nap/infer", http.infer_json({"id": np.array([7])}))
                if reply.status != 200:
                    self.failed.append(f"{reply.status} {reply.error}")
        except OSError as e:
            self.failed.append(f"HTTP: {type(e).__name__} {e}")

    def result(self, part, **figures):
        took = sorted(self.took)
        result = rig.Result("zero", part, rounds=len(took), **figures, requests=self.requests, failed=len(self.failed),
                            p50_ms=round(1e3 * rig.quantile(took, .5)), max_ms=round(1e3 * rig.quantile(took, 1)))
        if self.failed:
            result.fault(f"{len(self.failed)} requests failed: {sorted(set(self.failed))[:4]}")
        return result


def wait_zero(server, also_ending=False):
    """Until no replica is wanted, and none is left unless also_ending; which of the two it was."""
    def look():
        found = server.state()
        if not found or found[1]["target_num_replicas"]:
            return None
        left = found[1]["replicas"]
        return (ENDING if left else AT_ZERO) if also_ending or not left else None
    return rig.wait.until(look, server.state, 60)


def back_and_forth(server, count, seed):
    """What came of it; how often the last replica was just ending."""
    asked, pick, found = Asked(server), random.Random(seed), []
    for n in range(count):
        found.append(wait_zero(server, also_ending=n % 2 == 1))
        asked.ask(pick.randint(1, 4))
    return asked, found.count(ENDING)


def kill_at_zero(server, count, seed, victims):
    """victims: of "dispatcher", "controller"."""
    asked, pick = Asked(server), random.Random(seed)
    for _ in range(count):
        wait_zero(server)
        pids = [getattr(server, v) for v in pick.sample(victims, len(victims))]
        for pid in pids:
            procs.kill(pid)
        asked.ask(pick.randint(1, 4))
    return asked


KILLED = {"dispatcher": ("dispatcher",), "controller": ("controller",), "both": ("dispatcher", "controller")}


def run(options):
    for name in ("back and forth", *KILLED):
        if not options.wants(name):
            continue
        figures = {}
        with rig.tempfile.TemporaryDirectory() as folder, rig.serving(scaling.Scaled(folder, CONFIG)) as server:
            if name in KILLED:
                asked = kill_at_zero(server, options.count or COUNT, options.seed, KILLED[name])
            else:
                asked, figures["while_ending"] = back_and_forth(server, options.count or COUNT, options.seed)
            wait_zero(server)
            scaling.wait_fewest(server, 0)
        result = asked.result(name, **figures)
        if figures and not figures["while_ending"]:
            result.fault("no request came while the last replica ended")
        yield result
