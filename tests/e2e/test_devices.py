"""Devices that replicas have for themselves: GPUs of several deployments, CPUs of their own."""

import json
import os

import pytest

from support import paths, procs, wait
from test_deploy import QUICK, api, deployment, healthy, procs_env, put

TOLD = str(paths.BUILD / "tests/workers/told")


def spec(**deployments):
    """An application of its own for each; the names of its model and its deployment are the same."""
    return {"applications": [{"name": name, "command": [TOLD, name], "deployments": [{"name": name, **keys}]}
                             for name, keys in deployments.items()]}


@pytest.fixture
def start(serve, tmp_path):
    def start(what, **env):
        (tmp_path / "anyserve.yaml").write_text(json.dumps(what))
        return serve(tmp_path / "anyserve.yaml", "--state-dir", tmp_path / "state", *QUICK, "--update-failures", "2",
                     verb="start", env=env)
    return start


def pids(server, name):
    return {r["rank"]: r["pid"] for r in deployment(server, name, name)["replicas"] if r["pid"]}


def gpus(server, name):
    return [procs_env(pid).get("CUDA_VISIBLE_DEVICES") for _, pid in sorted(pids(server, name).items())]


def test_gpus_are_shared_out_over_deployments(start):
    server = start(spec(whole={"num_gpus": 1, "num_replicas": 2}, part={"num_gpus": 0.5, "num_replicas": 2},
                        none={"num_gpus": 0}, any={}), CUDA_VISIBLE_DEVICES="3,5,7,9")
    for name, n in (("whole", 2), ("part", 2), ("none", 1), ("any", 1)):
        healthy(server, name, n, name)
    given = gpus(server, "whole") + [gpus(server, "part")[0]]
    assert len(set(given)) == 3 and len(set(gpus(server, "part"))) == 1  # two halves of one
    assert (gpus(server, "none"), gpus(server, "any")) == ([""], ["3,5,7,9"])


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU only")
def test_cpus_of_their_own(start):
    cpus = sorted(os.sched_getaffinity(0))[:2]
    own = {"num_cpus": 1, "cpu_affinity": "auto"}
    os.sched_setaffinity(0, cpus)  # as the server will find it
    try:
        server = start(spec(own={**own, "num_replicas": 2}, set={"cpu_affinity": str(cpus[1])}, free={}))
    finally:
        os.sched_setaffinity(0, range(os.cpu_count()))
    for name, n in (("own", 2), ("set", 1), ("free", 1)):
        healthy(server, name, n, name)

    def had(name):
        return [sorted(os.sched_getaffinity(pid)) for _, pid in sorted(pids(server, name).items())]
    before = had("own")
    assert sorted(before) == [[c] for c in cpus]  # each its own
    assert (had("set"), had("free")) == ([[cpus[1]]], [cpus])
    assert procs_env(pids(server, "own")[0])["OMP_NUM_THREADS"] == "1"
    victim = pids(server, "own")[1]
    procs.kill(victim)
    wait.until(lambda: pids(server, "own").get(1, victim) != victim, server.status)
    healthy(server, "own", 2, "own")
    assert had("own") == before  # what it had is free again
    server.expect_error("worker_exit .*given up")
    put(server, spec(own={**own, "num_replicas": 3}))
    wait.until(lambda: "of 2 there are not so many free" in deployment(server, "own", "own")["message"],
               lambda: deployment(server, "own", "own"))
    assert had("own") == before
    put(server, spec(own={**own, "num_replicas": 2}))
    healthy(server, "own", 2, "own")
