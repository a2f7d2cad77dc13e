"""`make chaos` in short, part two: workers die with requests that must not be repeated, and with others that hold what
they had."""

import os

import numpy as np
import pytest

import chaos
from support import paths
from support.process import procs

from scenarios import detect  # noqa: E402, of tests/chaos


MODEL = paths.ROOT / "tests/chaos/apps/model.py"


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_nothing_is_executed_twice(serve, tmp_path, protocol):
    server = serve(MODEL, "--workers", "4", "--log-level", "warn", env={"CHAOS_JOURNAL": str(tmp_path)})
    with chaos.loaded(server, protocol, "once", rate=200) as load:
        kills = chaos.rig.Killer(server, 5, 8, seed=1).join()
    outcome, ran = load.outcome, chaos.rig.executions(tmp_path)
    assert max(ran.values()) == 1
    assert len(outcome.flagged) == len(outcome.errors) <= len(kills) * 8, outcome.examples()
    answered = {r[5] for r in outcome.rows if not r[2]}
    assert answered <= set(ran)
    server.wait_all_ready()


def test_death_is_seen_although_a_grandchild_holds_the_link(serve, connect):
    """Neither the end of the connection nor that of the pipe comes: the lock and the pidfd tell."""
    server = serve(MODEL, "--log-level", "warn")
    child = int(connect(server).infer("forks", {"id": np.array([1])})["child"][0])
    try:
        sockets = {what for what in procs.fds(server.worker()).values() if what.startswith("socket:")}
        assert sockets and sockets <= set(procs.fds(child).values())
        detect.detection(server)  # the request that ran is answered
        server.wait_all_ready()
        assert procs.alive(child)
        assert connect(server).infer("nap", {"id": np.array([7])})["id"] == 7
    finally:
        os.kill(child, 9)
