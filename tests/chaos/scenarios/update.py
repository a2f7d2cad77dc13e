"""A deployment is updated again and again under load, to good versions and to bad ones.

500 requests/s that may be repeated, 2 replicas; 50 good updates and 50 bad ones in random order. A bad version raises while it
is imported, ends without a word, or aborts a moment after it was ready. No call may fail. After a good update every replica is
another process, of that version; after a bad one each is the process that it was.
"""

import random
import time

import rig

COUNT = 100
RATE, REPLICAS = 500, 2
KINDS = ("import", "exit", "late")


class Deployed(rig.Started):
    """The model file of this folder, with a number of replicas."""

    def __init__(self, folder, *options, replicas=REPLICAS, env=None, wait_ready=True):
        self.replicas = replicas
        super().__init__(folder, "--update-failures", "2", *options, env=env, wait_ready=wait_ready)

    def spec(self, version, how=None):
        return {"applications": [{"import_path": "model.py", "working_dir": str(rig.APPS), "deployments": [
            {"name": "model", "num_replicas": self.replicas, "version": version, "env": {"CHAOS_BREAK": how} if how else {}}]}]}

    def model(self):
        return self.api("GET")["applications"]["default"]["deployments"]["model"]

    def update(self, version, how):
        """Until it is over; the status then."""
        generation = self.api("PUT", self.spec(version, how))["generation"]

        def is_over():
            state = self.api("GET")
            d = state["applications"]["default"]["deployments"]["model"]
            reached = d["generation"] == generation and d["status"] == "HEALTHY"
            taken_back = state["generation"] > generation and d["status"] == "DEPLOY_FAILED"
            return (reached or taken_back) and [r["state"] for r in d["replicas"]] == ["RUNNING"] * self.replicas
        rig.wait.until(is_over, lambda: self.api("GET"), 120)
        return self.model()["status"]


def updates(server, count, seed):
    """Half of them good; seconds of each, and what was not as it must be."""
    pick = random.Random(seed)
    plan = [None] * (count - count // 2) + [KINDS[i % len(KINDS)] for i in range(count // 2)]
    pick.shuffle(plan)
    took, faults = {"good": [], "bad": []}, []
    for n, how in enumerate(plan):
        before, begin = server.workers(), time.monotonic()
        status = server.update(f"{how or 'good'}-{n}", how)
        took["bad" if how else "good"].append(time.monotonic() - begin)
        after = server.workers()
        if status != ("DEPLOY_FAILED" if how else "HEALTHY"):
            faults.append(f"update {n} ({how or 'good'}): {status}")
        if how and after != before:
            faults.append(f"update {n} ({how}): {before} became {after}")
        if not how and set(after.values()) & set(before.values()):
            faults.append(f"update {n}: {after} has processes of {before}")
    return took, faults


def run(options):
    with rig.tempfile.TemporaryDirectory() as folder, \
            rig.serving(Deployed(folder, "--log-level", "error")) as server:
        rig.wait_workers(server, REPLICAS)
        load = rig.Load(server.address, "grpc", "nap", RATE)
        try:
            took, faults = updates(server, options.count or COUNT, options.seed)
            outcome = load.end()
        finally:
            load.abandon()
    result = rig.Result("update", "good and bad", good=len(took["good"]), bad=len(took["bad"]),
                        good_p50_s=round(rig.quantile(sorted(took["good"]), .5), 1),
                        bad_p50_s=round(rig.quantile(sorted(took["bad"]), .5), 1), **outcome.figures())
    result.add(outcome)
    if outcome.errors:
        result.fault(f"{len(outcome.errors)} errors: {outcome.examples()}")
    for fault in faults:
        result.fault(fault)
    yield result
