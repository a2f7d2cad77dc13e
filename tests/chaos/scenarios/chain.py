"""Replicas of a chain of three deployments are killed, ended, updated, and the server upgraded, while requests pass through
all three: none may be lost.

200 requests/s enter at the first deployment; two replicas of each, all of which may be repeated. kills: 4 random replicas a
second. sigterm and sigterm_storm: one and 4 a second are asked to end, and finish their calls, which wait for replicas that are
asked to end, too. update: the application is deployed again with other versions. upgrade: supervisor, controller and dispatcher
become another image.
"""

import random
import signal
import time

import rig
from scenarios.upgrade import upgrade

COUNT = 200
RATE, REPLICAS, DEADLINE, CALM = 200, 6, 10, 2
DEPLOYMENTS = ("nap", "Middle", "Leaf")
PATIENT = ("--max-queued-requests", str(2 * RATE * DEADLINE))  # the deadline alone bounds who waits


class Chain(rig.Started):
    KILLS_PER_S = 4

    def __init__(self, folder, *options, env=None):
        super().__init__(folder, "--log-level", "error", *PATIENT, *options, env=env)

    def spec(self, version):
        deployments = [{"name": name, "version": version} for name in DEPLOYMENTS]
        return {"applications": [{"import_path": "chain_app:app", "working_dir": str(rig.APPS), "deployments": deployments}]}

    def update(self, version):
        """Until all replicas are of this version."""
        generation = self.api("PUT", self.spec(version))["generation"]

        def is_over():
            found = [d for a in self.api("GET")["applications"].values() for d in a["deployments"].values()]
            return all(d["generation"] == generation and d["status"] == "HEALTHY" for d in found)
        rig.wait.until(is_over, lambda: self.api("GET"), 120)


class Ender(rig.Killer):
    """Asks replicas to end, as an administrator might."""

    SIGNAL = signal.SIGTERM


def killed(server, options, count):
    return {"kills": len(rig.Killer(server, server.KILLS_PER_S, count, options.seed).join())}


def ended(server, options, count):
    return {"ended": len(Ender(server, 1, count // 4, options.seed).join())}


def ended_in_storm(server, options, count):
    return {"ended": len(Ender(server, server.KILLS_PER_S, count, options.seed).join())}


def updated(server, options, count):
    times = max(1, count // 20)
    for n in range(times):
        server.update(f"version-{n}")
    return {"updates": times}


def upgraded(server, options, count):
    times, pick = max(1, count // 10), random.Random(options.seed)
    for _ in range(times):
        time.sleep(pick.uniform(0.1, 0.3))
        done, _ = upgrade(server)
        assert done.returncode == 0, done.stderr
    return {"upgrades": times}


PARTS = {"kills": killed, "sigterm": ended, "sigterm_storm": ended_in_storm, "update": updated, "upgrade": upgraded}


def run(options):
    for name, disturb in PARTS.items():
        if not options.wants(name):
            continue
        with rig.tempfile.TemporaryDirectory() as folder, rig.serving(Chain(folder)) as server:
            rig.wait_workers(server, REPLICAS)
            load = rig.Load(server.address, "grpc", "nap", RATE, DEADLINE, transparent=name == "upgrade")
            try:
                time.sleep(CALM)
                figures = disturb(server, options, options.count or COUNT)
                time.sleep(0.5)
                outcome = load.end()
            finally:
                load.abandon()
            rig.wait_workers(server, REPLICAS)
        result = rig.Result("chain", name, **figures, **outcome.figures())
        result.add(outcome)
        if outcome.errors:
            result.fault(f"{len(outcome.errors)} calls failed: {outcome.examples()}")
        yield result
