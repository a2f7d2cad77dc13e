"""The controller dies at each of its failpoints while a deployment is scaled, restarted, and repaired: clients notice nothing.

2 workers of idempotent handlers, 100 requests/s. For each point of src/ctl/failpoint.h: COUNT times, each with its own seed,
something is asked for (other numbers of replicas, a rolling restart), a worker or the controller may be killed beside
it, and the controller ends itself when it comes to the point for the first or second time. Who asked and was not
answered asks again. No call may fail; from the controller's death to everything being as asked for: at most 2 s for the
slowest hundredth, on a machine where a worker starts in a quarter of a second. Points that nothing of this comes to are
named: what leads there is in tests/e2e.

Needs a build with -Dfailpoints=true: ANYSERVE_BUILD=build/debug.
"""

import contextlib
import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import rig
from support import paths, wait

COUNT = 20
RATE = 100
MOST = 2.0  # seconds
BEFORE_IT_IS_KILLED = {"RUNS", "TOLD", "DISPATCHER", "SERVING", "STATUS", "NOTE"}  # a new controller comes there first


def points():
    """All that this build has; empty when it has none."""
    out = subprocess.run([str(paths.BINARY), "failpoints"], capture_output=True, text=True, check=False)
    return out.stdout.split() if out.returncode == 0 else []


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=10)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(server, method, path, body=None):
    """The JSON of the answer; OSError or HTTPException when the controller ends meanwhile."""
    with contextlib.closing(Unix(os.path.join(server.folder_of_port(), "control.sock"))) as c:
        c.request(method, path, json.dumps(body) if body else None)
        r = c.getresponse()
        text = r.read()
        assert r.status == 200, (r.status, text)
        return json.loads(text)


def ask_until_answered(server, method, path, body=None):
    while True:
        try:
            return ask(server, method, path, body)
        except (OSError, http.client.HTTPException):
            time.sleep(0.01)


class Armed:
    """The file that the server's controllers look at."""

    def __init__(self):
        self.path = os.path.join(tempfile.mkdtemp(prefix="as-"), "failpoint")
        self.env = {"ANYSERVE_FAILPOINT": self.path}

    def arm(self, point, count):
        with open(self.path + ".new", "w", encoding="ascii") as f:
            f.write(f"{point}:{count}")
        os.rename(self.path + ".new", self.path)

    @property
    def waits(self):
        return os.path.exists(self.path)

    def disarm(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)


class Work:
    """What is asked of the server in one round, and when it is done."""

    def __init__(self, server, pick, name, replicas, is_stored):
        self.server, self.name, self.replicas = server, name, replicas
        self.path = f"/api/v1/applications/default/deployments/{name}"
        self.is_restart = not is_stored and pick.random() < 0.4  # a restart is not stored
        if not self.is_restart:
            self.replicas = pick.choice([n for n in (1, 2, 3) if n != replicas])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        if self.is_restart:
            ask_until_answered(self.server, "POST", self.path + "/restart", {})
        else:
            ask_until_answered(self.server, "POST", self.path + "/scale", {"target_num_replicas": self.replicas})

    def deployment(self):
        return ask_until_answered(self.server, "GET", "/api/serve/applications/")["applications"]["default"][
            "deployments"][self.name]

    def is_done(self):
        if self._thread.is_alive():
            return False
        d = self.deployment()
        return d["status"] == "HEALTHY" and d["target_num_replicas"] == self.replicas and \
            [r["state"] for r in d["replicas"]] == ["RUNNING"] * self.replicas


def kill_beside(server, pick, point):
    """Leads to the points that only a death leads to."""
    what = re.sub(r"^\w+-", "", point)
    if what in BEFORE_IT_IS_KILLED:
        victim = server.controller
    elif what in ("EXITED", "PLACE", "GONE") or pick.random() < 0.3:
        victim = pick.choice(sorted(server.workers().values()) or [None])
    else:
        return
    if victim:
        with contextlib.suppress(ProcessLookupError):
            os.kill(victim, signal.SIGKILL)


def back_to(server, n):
    """As many replicas, and so descriptors, as at the beginning: that is looked at in the end."""
    ask_until_answered(server, "POST", "/api/v1/applications/default/deployments/model/scale", {"target_num_replicas": n})
    wait.until(lambda: len(server.workers()) == n and server.all_ready(), server.status)


def play(server, armed, point, seed, name, replicas):
    """(replicas that there are then, seconds from the death until then or None: it did not come to the point)"""
    pick = random.Random(seed)
    armed.arm(point, pick.choice((1, 1, 2)))
    work, died = Work(server, pick, name, replicas, point.startswith("store")), None
    kill_beside(server, pick, point)

    def look():
        nonlocal died
        if died is None and not armed.waits:
            died = time.monotonic()
        return work.is_done()

    wait.until(look, lambda: f"{point}, seed {seed}: {server.status()}", 60)
    took = died and time.monotonic() - died
    armed.disarm()
    return work.replicas, took


def run(options):
    armed, all_points = Armed(), points()
    if not all_points:
        result = rig.Result("failpoints", "no such build")
        result.fault("this build has no failpoints: configure one with -Dfailpoints=true")
        yield result
        return
    replicas, took, never = 2, [], []
    with rig.serving(rig.AnyServe("--log-level", "error", workers=2, env=armed.env)) as server:
        rig.wait_workers(server, 2)
        dispatcher, load = server.dispatcher, rig.Load(server.address, "grpc", "nap", RATE)
        try:
            for point in filter(options.wants, all_points):
                before = len(took)
                for i in range(options.count or COUNT):
                    replicas, seconds = play(server, armed, point, f"{options.seed} {point} {i}", "model", replicas)
                    took += [seconds] if seconds is not None else []
                never += [point] if len(took) == before else []
            outcome = load.end()
            back_to(server, 2)
        finally:
            load.abandon()
        same = server.dispatcher == dispatcher
    took.sort()
    result = rig.Result("failpoints", "scale, restart", points=len(all_points), deaths=len(took),
                        whole_p50_ms=round(1e3 * rig.quantile(took, .5)), whole_p99_ms=round(1e3 * rig.quantile(took, .99)),
                        never=",".join(never), **outcome.figures())
    result.add(outcome)
    if outcome.errors:
        result.fault(f"{len(outcome.errors)} errors: {outcome.examples()}")
    if rig.quantile(took, .99) > MOST:
        result.fault(f"as asked for after {rig.quantile(took, .99):.2f} s, over {MOST}")
    if not same:
        result.fault("the dispatcher is another one now")
    yield result
