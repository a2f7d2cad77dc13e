"""Devices that replicas have for themselves: GPUs of several deployments, CPUs of their own."""

import json
import os

import numpy as np
import pytest

from support import paths, wait
from support.deployments import QUICK, api, causes, deployment, healthy, procs_env, put, run
from support.load import Load
from support.process import procs

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
    wait.until(lambda: "fewer of the 2 are free" in deployment(server, "own", "own")["message"],
               lambda: deployment(server, "own", "own"))
    assert had("own") == before
    put(server, spec(own={**own, "num_replicas": 2}))
    healthy(server, "own", 2, "own")


def asked(client, n):
    assert client.infer("whole", {"x": np.full(1, n)})["size"].size == 1


def test_a_machine_whose_devices_are_all_used_is_updated(start):
    """One replica after the other gives its device to the one that replaces it; the others serve."""
    def what(size, **more):
        return spec(whole={"num_gpus": 1, "num_replicas": 2, "env": {"SIZE": size}, **more})
    server = start(what("one"), CUDA_VISIBLE_DEVICES="3,5")
    healthy(server, "whole", 2, "whole")
    before = pids(server, "whole")
    with Load(server.address, asked, threads=2) as load:
        load.wait_more(10)
        assert put(server, what("two")) == {"whole/whole": ("changed", "restart")}
        healthy(server, "whole", 2, "whole", generation=2)
        load.wait_more(10)
    assert set(load.outcomes) == {"OK"}, load.errors[:3]
    assert sorted(gpus(server, "whole")) == ["3", "5"]
    assert not set(pids(server, "whole").values()) & set(before.values())
    assert causes(server)[0] == "deploy"  # nothing was taken back
    assert not server.log.find("worker_exit")  # and nothing has failed


def test_an_update_that_may_not_surge(start):
    """The new process has the number of the old one: that is gone before the new one is there."""
    def what(size, **more):
        return spec(whole={"env": {"SIZE": size}, **more})
    server = start(what("one", max_surge=0, max_unavailable=1))
    healthy(server, "whole", 1, "whole")
    put(server, what("two", max_surge=0, max_unavailable=1))
    healthy(server, "whole", 1, "whole", generation=2)
    assert [r["replica_id"] for r in deployment(server, "whole", "whole")["replicas"]] == ["whole-0"]
    put(server, what("three"))
    healthy(server, "whole", 1, "whole", generation=3)
    assert [r["replica_id"] for r in deployment(server, "whole", "whole")["replicas"]] == ["whole-1"]
    status, answer = api(server, "PUT", "/api/serve/applications/", what("four", max_surge=0))
    assert status == 400 and "max_surge: must not be 0 when max_unavailable is 0" in answer["error"]


def test_a_replica_waits_for_a_device_and_says_so(start):
    server = start(spec(first={"num_gpus": 1, "num_replicas": 2}), CUDA_VISIBLE_DEVICES="3,5")
    healthy(server, "first", 2, "first")
    put(server, spec(first={"num_gpus": 1, "num_replicas": 2}, second={"num_gpus": 1}))

    def waits():
        d = deployment(server, "second", "second")
        (replica,) = d["replicas"]
        return (d["status"], replica["state"]) == ("UPDATING", "WAITING") and \
            all("needs 1 GPUs for itself, but fewer of the 2 are free" in m
                for m in (d["message"], replica["message"])) and replica["starts"] == 0
    wait.until(waits, lambda: deployment(server, "second", "second"))
    wait.until(lambda: "but fewer of the 2 are free" in run("status", "--runtime-dir", server.runtime).stdout,
               lambda: run("status", "--runtime-dir", server.runtime).stdout)
    assert not server.log.find("worker_exit")
    put(server, spec(first={"num_gpus": 1, "num_replicas": 1}, second={"num_gpus": 1}))
    healthy(server, "second", 1, "second")
    healthy(server, "first", 1, "first")
    assert sorted(gpus(server, "first") + gpus(server, "second")) == ["3", "5"]
    assert deployment(server, "second", "second")["message"] == ""
    assert not server.log.find("worker_exit")
