"""The number of replicas follows the load: up when requests wait, down to what is used, and never at the cost of a request."""

import numpy as np
import pytest

from support import wait
from support.deployments import api, deployment, run
from support.process import procs
from support.protocol import oip

pytestmark = pytest.mark.core

ONE = {"x": np.zeros(1, np.float32)}


def replicas(server):
    """pid → (rank, state)"""
    return {r["pid"]: (r["rank"], r["state"]) for r in deployment(server, "staged")["replicas"]}


def has(server, n, busy=False):
    """Waits until there are exactly n replicas that serve, and n is the target. busy: a handler keeps each of them from
    being told the new number."""
    def is_so():
        d = deployment(server, "staged")
        states = [r["state"] for r in d["replicas"]]
        return d["target_num_replicas"] == n == len(states) and (
            set(states) <= {"RUNNING", "UPDATING"} if busy else set(states) <= {"RUNNING"} and d["status"] == "HEALTHY")
    wait.until(is_so, lambda: deployment(server, "staged"))
    server.forget_fds()


def detail(server):
    return deployment(server, "staged")["autoscaling_detail"]


def test_requests_that_wait_start_replicas_and_idle_ones_end(scaled, stage, connect):
    server = scaled(min_replicas=1, max_replicas=3)
    client = connect(server)
    has(server, 1)
    calls = [client.begin("staged", {}, id=str(i)) for i in range(5)]
    stage.started(3)  # more are not allowed; the fourth and the fifth wait
    has(server, 3, busy=True)
    assert sorted(rank for rank, _ in replicas(server).values()) == [0, 1, 2]
    for i in range(5):
        stage.started(i + 1)[i].go()
    for call in calls:
        call.result()
    has(server, 1)
    assert [rank for rank, _ in replicas(server).values()] == [0]
    assert server.counts("staged")["failed"] == 0
    found = [(d["prev_num_replicas"], d["current_num_replicas"]) for d in detail(server)["decisions"]]
    assert found[0][0] == 1 and found[-1][1] == 1 and max(n for _, n in found) == 3


def test_the_emptiest_replica_ends_and_the_busy_one_goes_on(scaled, stage, connect):
    """Whatever rank it has; then it has rank 0."""
    server = scaled(min_replicas=1, max_replicas=3)
    client = connect(server)
    calls = [client.begin("staged", {}, id=str(i)) for i in range(3)]
    scenes = {scene.pid: scene for scene in stage.started(3)}
    has(server, 3, busy=True)
    busy = next(pid for pid, (rank, _) in replicas(server).items() if rank == 2)
    for pid, scene in scenes.items():
        if pid != busy:
            scene.go()
    has(server, 1, busy=True)
    assert list(replicas(server)) == [busy]
    scenes[busy].go()
    assert {int(oip.Answer(c.result())["pid"][0]) for c in calls} == set(scenes)
    has(server, 1)
    assert replicas(server) == {busy: (0, "RUNNING")}


def test_nothing_follows_before_its_delay(scaled, stage, connect):
    server = scaled(min_replicas=1, max_replicas=3, upscale_delay_s=3600, look_back_period_s=1)
    client = connect(server)
    calls = [client.begin("staged", {}, id=str(i)) for i in range(3)]
    stage.started(1)
    wait.until(lambda: detail(server)["scaling_status"] == "UPSCALING", lambda: detail(server))
    assert deployment(server, "staged")["target_num_replicas"] == 1
    wait.until(lambda: "s unless that changes (upscale_delay_s)" in run("status", "--runtime-dir", server.runtime).stdout,
               lambda: run("status", "--runtime-dir", server.runtime).stdout)
    for i in range(3):
        stage.started(i + 1)[i].go()
    for call in calls:
        call.result()


def test_status_says_the_numbers_and_the_reason(scaled, stage, connect):
    server = scaled(min_replicas=1, max_replicas=2)
    client = connect(server)
    calls = [client.begin("staged", {}, id=str(i)) for i in range(6)]
    stage.started(2)
    has(server, 2, busy=True)
    line = "autoscaling: 4 queued + 2 ongoing requests, 2 running / target_ongoing_requests 1: 6 wanted, at most max_replicas 2; stays at 2"
    wait.until(lambda: line in run("status", "--runtime-dir", server.runtime).stdout,
               lambda: run("status", "--runtime-dir", server.runtime).stdout)
    assert detail(server)["metrics"] == {"queued_requests": 4, "ongoing_requests": 2, "running_replicas": 2,
                                         "aggregated_requests": 6, "wanted_replicas": 6, "desired_replicas": 2}
    assert 'anyserve_replicas_wanted{application="shop",deployment="staged"} 2' in server.metrics()
    for i in range(6):
        stage.started(i + 1)[i].go()
    for call in calls:
        call.result()


def test_the_number_outlives_the_controller(scaled, stage, connect):
    """It does not go back to initial_replicas, and no replica ends for that."""
    server = scaled(min_replicas=1, max_replicas=3, downscale_delay_s=3600)
    client = connect(server)
    calls = [client.begin("staged", {}, id=str(i)) for i in range(3)]
    for scene in stage.started(3):
        scene.go()
    for call in calls:
        call.result()
    has(server, 3)
    before = replicas(server)
    old = server.controller
    procs.kill(old)
    wait.until(lambda: server.controller not in (None, old), "no other controller")
    has(server, 3)
    wait.until(lambda: detail(server)["metrics_health"] == "healthy", lambda: detail(server))
    assert replicas(server) == before and deployment(server, "staged")["target_num_replicas"] == 3
    server.replace_dispatcher()
    wait.until(lambda: detail(server)["metrics_health"] == "healthy", lambda: detail(server))
    has(server, 3)
    assert replicas(server) == before


def test_scale_by_hand_is_refused(scaled):
    server = scaled(min_replicas=1, max_replicas=2)
    code, answer = api(server, "POST", "/api/v1/applications/shop/deployments/staged/scale", {"target_num_replicas": 2})
    assert code == 400 and "the number of replicas of 'staged' follows its load" in str(answer)
    done = run("scale", "staged", "2", "--runtime-dir", server.runtime)
    assert done.returncode != 0 and "follows its load" in done.stderr


def test_a_latency_target_is_judged_by_the_times_of_the_workers(scaled, connect):
    server = scaled(min_replicas=1, max_replicas=2, target_latency_ms=10000, look_back_period_s=30)
    client = connect(server)

    def is_measured():
        client.infer("fast", ONE)  # two reports at least, which differ
        return "target_latency_ms 10000: 1 wanted" in detail(server)["message"]
    wait.until(is_measured, lambda: detail(server))
    assert deployment(server, "staged")["target_num_replicas"] == 1
