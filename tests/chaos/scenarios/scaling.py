"""Replicas are killed and versions replaced while their number follows a load that rises and falls: no request may be lost.

30 requests/s of 100 ms that may be repeated, for 3 s, then 3 requests/s for 3 s, again and again; target_ongoing_requests 1, 1 to 5
replicas. All the time the deployment is updated to the next version as soon as the one before is there. kills: a random replica a
second at most, also while it starts. sigterm: as many are asked to end. controller: one of four victims is the controller. The number must
have risen and fallen; no update may be taken back; whenever the deployment is steady its replicas have the ranks 0 … N-1, and in
the end each replica says the rank that the controller says.
"""

import contextlib
import http.client
import os
import signal
import threading
import time

import rig
from support.protocol import oip

COUNT = 60
RATE, LOW_RATE, PERIOD, DEADLINE = 30, 3, 6, 60
KILLS_PER_S = 1
NAME = "ranked"
CONFIG = {"min_replicas": 1, "max_replicas": 5, "target_ongoing_requests": 1, "upscale_delay_s": 0.1, "downscale_delay_s": 0.5}
LOOK = 0.02  # seconds
SEVERAL = 3  # replicas whose ranks are compared in the end


class Scaled(rig.Started):
    """apps/ranked.py with this autoscaling_config."""

    def __init__(self, folder, config=CONFIG, log_level="error"):
        self.config = config
        super().__init__(folder, "--log-level", log_level, "--update-min-ready", "200ms", "--request-timeout", f"{DEADLINE}s")

    def spec(self, version):
        return {"applications": [{"import_path": "ranked.py", "working_dir": str(rig.APPS), "deployments": [
            {"name": NAME, "version": version, "autoscaling_config": self.config}]}]}

    def state(self):
        """(generation of the server, the deployment). None: there is no controller just now."""
        try:
            state = self.api("GET")
            return state["generation"], state["applications"]["default"]["deployments"][NAME]
        except (OSError, http.client.HTTPException, AssertionError):
            return None

    def steady(self):
        """The deployment, if all replicas that it should have serve. None: not now."""
        found = self.state()
        if not found:
            return None
        d = found[1]
        serves = [r["state"] for r in d["replicas"]] == ["RUNNING"] * d["target_num_replicas"]
        return d if serves and d["status"] == "HEALTHY" else None


def ranks(d):
    """pid → rank."""
    return {r["pid"]: r["rank"] for r in d["replicas"]}


def are_right(found):
    return sorted(found.values()) == list(range(len(found)))


class Beside:
    """Something that a thread does again and again until the end of the block."""

    def __init__(self, server):
        self.server, self.faults, self._over = server, [], threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        try:
            while not self._over.is_set():
                self.once()
        except Exception as e:  # a fault of the run, whatever it is
            self.faults.append(f"{type(self).__name__}: {type(e).__name__}: {e}")

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


class Watch(Beside):
    """How often the number rose and fell, and the ranks whenever the deployment is steady."""

    ups = downs = looks = 0
    number = None

    def once(self):
        found = self.server.state()
        if found:
            number = found[1]["target_num_replicas"]
            self.ups += self.number is not None and number > self.number
            self.downs += self.number is not None and number < self.number
            self.number = number
        d = self.server.steady()
        if d:
            self.looks += 1
            if not are_right(ranks(d)):
                self.faults.append(f"ranks {ranks(d)} of {[r['replica_id'] for r in d['replicas']]}")
        self._over.wait(LOOK)


class Updates(Beside):
    """The deployment gets the next version when it has the one before."""

    done, version = 0, "first"

    def once(self):
        generation = self._put(f"version-{self.done}")
        if generation is not None:
            self.version = f"version-{self.done}"
            rig.wait.until(lambda: self._is_there(generation), self.server.state, 120)
            self.done += 1

    def _put(self, version):
        """None: there is no controller just now; it may have taken the version nevertheless, and gets it again."""
        try:
            return self.server.api("PUT", self.server.spec(version))["generation"]
        except (OSError, http.client.HTTPException):
            return None

    def _is_there(self, generation):
        found = self.server.state()
        if not found:
            return False
        assert found[1]["status"] != "DEPLOY_FAILED", f"{self.version} was taken back: {found}"
        return (found[1]["healthy_generation"] or 0) >= generation


class Killer(rig.Killer):
    """Spares the deployment while two of the wanted replicas are missing: on a busy machine they start more slowly than they die,
    and what is lost then is lost to the deadline."""

    def victims(self):
        found, is_early = self._server.state(), self.kills and time.monotonic() - self.kills[-1][0] < 0.5 / KILLS_PER_S
        if not found or is_early:
            return []
        running = sum(r["state"] in ("RUNNING", "UPDATING") for r in found[1]["replicas"])
        return super().victims() if running >= max(1, found[1]["target_num_replicas"] - 1) else []


class Ender(Killer):
    SIGNAL = signal.SIGTERM


class ControllerToo(Killer):
    """One of four victims is the controller."""

    controllers = 0

    def victims(self):
        found = super().victims()
        if not found or self._random.random() >= 0.25 or not (controller := self._server.controller):
            return found
        self.controllers += 1
        return [controller]


PARTS = {"kills": Killer, "sigterm": Ender, "controller": ControllerToo}


def told(server):
    """pid → rank, and all versions, as the replicas say; those that have answered."""
    with contextlib.closing(oip.Client(server.address)) as client:
        answers = [oip.Answer(c.result()) for c in [client.begin("who", {}) for _ in range(20)]]
    return {int(a["pid"][0]): int(a["rank"][0]) for a in answers}, {a["version"][0].decode() for a in answers}


def compare_ranks(server, version):
    """Until there are several replicas under a load that stays, all of this version, and each says the rank that the controller says."""
    def is_so():
        before = server.steady()
        if not before or len(before["replicas"]) < SEVERAL:
            return False
        (said, versions), after = told(server), server.steady()
        return after and said == ranks(before) == ranks(after) and are_right(said) and versions == {version}
    with rig.loaded(server, rate=RATE):
        rig.wait.until(is_so, lambda: (server.state(), told(server)), 60)


def wait_fewest(server, fewest):
    """Until nothing but the fewest replicas is left, as processes too."""
    def is_so():
        d = server.steady()
        return d and len(d["replicas"]) == fewest and sorted(server.worker_pids()) == sorted(ranks(d))
    rig.wait.until(is_so, lambda: (server.state(), server.worker_pids()), 60)
    server.forget_fds()


def play(server, kind, count, seed):
    """What came of the load; the watch, the updates, the killer."""
    with Watch(server) as watch, rig.loaded(server, rate=RATE, timeout=DEADLINE, low_rate=LOW_RATE, period=PERIOD) as load:
        with Updates(server) as updates:
            killer = kind(server, KILLS_PER_S, count, seed)
            killer.join()
        rig.wait.until(lambda: watch.ups > 0 and watch.downs > 0, "the number did not rise and fall", 2 * PERIOD)
        time.sleep(0.5)
    return load.outcome, watch, updates, killer


def run(options):
    for name, kind in PARTS.items():
        if not options.wants(name):
            continue
        with rig.tempfile.TemporaryDirectory() as folder, rig.serving(Scaled(folder)) as server:
            outcome, watch, updates, killer = play(server, kind, options.count or COUNT, options.seed)
            compare_ranks(server, updates.version)
            wait_fewest(server, CONFIG["min_replicas"])
        more = {"controllers": killer.controllers} if name == "controller" else {}
        result = rig.Result("scaling", name, victims=len(killer.kills), **more, updates=updates.done, ups=watch.ups,
                            downs=watch.downs, steady_looks=watch.looks, **outcome.figures())
        result.add(outcome)
        if outcome.errors:
            result.fault(f"{len(outcome.errors)} calls failed: {outcome.examples()}")
        if not watch.looks:
            result.fault("it was never steady, so no ranks were seen")
        for fault in (watch.faults + updates.faults)[:5]:
            result.fault(fault)
        yield result
