"""target_capacity: each deployment of a file has that percentage of its replicas, whatever dies meanwhile."""

import json

import numpy as np
import pytest

from support import paths, wait
from support.deployments import APPLICATIONS, api, deployment, healthy, put, run, spec
from support.process import procs
from support.protocol import oip

QUICKLY = {"upscale_delay_s": 0, "downscale_delay_s": 0, "target_ongoing_requests": 1}
FOLLOWING = {"min_replicas": 2, "max_replicas": 4, **QUICKLY}


def part(capacity, replicas=3, **scaling):
    """`main` with three replicas, `side` with two to four."""
    file = spec(num_replicas=replicas)
    file["applications"][1]["deployments"] = [{"name": "side", "autoscaling_config": {**FOLLOWING, **scaling}}]
    return file if capacity is None else {**file, "target_capacity": capacity}


def served(server):
    return api(server, "GET", APPLICATIONS)[1]


def pids(server, name="main", app="shop"):
    return {r["pid"] for r in deployment(server, name, app)["replicas"] if r["state"] == "RUNNING"}


def have(server, main, side):
    healthy(server, "main", main)
    healthy(server, "side", side, "extra")
    server.forget_fds()  # as many as there are replicas


def direction(server):
    lines = [line for line in api(server, "GET", "/api/serve/config")[1].splitlines() if line.startswith("target_capacity_direction")]
    return lines[0].partition(": ")[2] if lines else None


def test_a_part_then_all_then_nothing_and_back(start):
    server = start(part(50))
    have(server, 2, 1)
    assert served(server)["target_capacity"] == 50
    first = pids(server), pids(server, "side", "extra")
    assert put(server, part(100)) == {"shop/main": ("changed", "light"), "extra/side": ("changed", "light")}
    have(server, 3, 2)
    assert first[0] < pids(server) and first[1] < pids(server, "side", "extra")
    assert served(server)["target_capacity"] == 100
    assert put(server, part(0.1)).keys() == {"shop/main", "extra/side"}
    have(server, 1, 1)
    put(server, part(0))
    have(server, 0, 0)
    assert deployment(server, "main")["target_num_replicas"] == 0 and deployment(server, "main")["num_replicas"] == 3
    put(server, part(None))
    have(server, 3, 2)
    assert served(server)["target_capacity"] is None and direction(server) is None


def test_the_same_again_is_no_change(start):
    server = start(part(50))
    have(server, 2, 1)
    generation = served(server)["generation"]
    assert [step for step, _ in put(server, part(50.0)).values()] == ["unchanged"] * 2
    assert served(server)["generation"] == generation


def test_a_capacity_without_a_deployment_is_kept(start):
    server = start({"applications": []})
    assert put(server, {"applications": [], "target_capacity": 20}) == {}
    assert served(server)["target_capacity"] == 20


def test_what_runs_is_answered_before_a_replica_ends(start, stage, connect):
    stage.reset()
    file = {"applications": [{"name": "shop", "import_path": "staged:app", "working_dir": str(paths.APPS),
                              "deployments": [{"name": "staged", "num_replicas": 2}]}]}  # fmt: skip
    server = start(file, env={"ANYSERVE_TEST_STAGE": stage.path})
    healthy(server, "staged", 2)
    client = connect(server)
    calls = [client.begin("staged", {}, id=f"call{i}") for i in range(2)]
    scenes = stage.started(2)
    assert {scene.pid for scene in scenes} == pids(server, "staged")
    put(server, {**file, "target_capacity": 0})
    wait.until(lambda: {r["state"] for r in deployment(server, "staged")["replicas"]} == {"DRAINING"},
               lambda: deployment(server, "staged"))
    for scene in scenes:
        scene.go("done")
    assert [oip.Answer(c.result())["word"][0] for c in calls] == [b"done"] * 2
    healthy(server, "staged", 0)
    late = client.begin("fast", {"x": np.ones(1, np.float32)})  # waits for a replica
    wait.until(lambda: server.deployment("staged")["queued"] == 1, server.status)
    put(server, {**file, "target_capacity": 50})
    assert oip.Answer(late.result())["y"][0] == 2
    server.forget_fds()


def test_on_the_way_up_initial_replicas_are_the_least(start):
    scaling = {"min_replicas": 1, "initial_replicas": 4, "max_replicas": 8}
    server = start(part(50, **scaling))
    have(server, 2, 2)
    assert direction(server) == "up"  # the first file
    put(server, part(100, **scaling))
    have(server, 3, 4)
    assert direction(server) == "up"
    put(server, part(50, **scaling))
    have(server, 2, 1)
    assert direction(server) == "down"
    put(server, part(75, **scaling))
    have(server, 2, 3)
    put(server, part(None, **scaling))
    have(server, 3, 1)
    put(server, part(100, **scaling))
    have(server, 3, 1)
    assert direction(server) == "down"  # from all of them


def test_other_applications_begin_on_the_way_up(start):
    server = start(part(50))
    put(server, part(40))
    assert direction(server) == "down"
    less = part(30)
    del less["applications"][1]
    put(server, less)
    assert direction(server) == "up"


@pytest.mark.parametrize("path", ["after", "at once"])
def test_it_outlives_the_controller(start, path):
    scaling = {"min_replicas": 1, "initial_replicas": 4, "max_replicas": 8}
    server = start(part(50, **scaling))
    have(server, 2, 2)
    kept = pids(server), pids(server, "side", "extra")
    put(server, part(100, **scaling))
    if path == "after":
        have(server, 3, 4)
    before = server.controller
    procs.kill(before)
    wait.until(lambda: server.controller not in (None, before), "no other controller")
    have(server, 3, 4)
    assert kept[0] < pids(server) and kept[1] < pids(server, "side", "extra")
    assert served(server)["target_capacity"] == 100 and direction(server) == "up"
    put(server, part(0, **scaling))
    procs.kill(server.controller)
    have(server, 0, 0)
    assert direction(server) == "down"


def test_it_outlives_the_server(start):
    server = start(part(50))
    have(server, 2, 1)
    put(server, part(40))
    server.stop()
    again = start(None)
    have(again, 1, 1)
    assert served(again)["target_capacity"] == 40 and direction(again) == "down"
    assert again.log.find("main × 1")
    again.stop()
    more = start(part(90))  # another file
    have(more, 3, 2)
    assert direction(more) == "up"
    more.stop()
    same = start(part(90))
    assert same.log.find("as it is stored") and direction(same) == "up"


def test_a_scaled_number_and_another_application_stay(start):
    server = start(part(50))
    have(server, 2, 1)
    assert run("scale", "main", "4", "--runtime-dir", server.runtime).returncode == 0
    have(server, 2, 1)
    assert deployment(server, "main")["message"] == "scaled to 4; num_replicas is 3\ntarget_capacity: 50% of 4 replicas"
    # one application is deployed alone: the file's percentage holds for it, too
    one = {"import_path": "echo:app", "working_dir": str(paths.APPS), "deployments": [{"name": "echo", "num_replicas": 5}]}
    assert api(server, "PUT", APPLICATIONS + "third", one)[0] == 200
    healthy(server, "echo", 3, "third")
    assert served(server)["target_capacity"] == 50 and direction(server) == "up"
    put(server, part(100))
    have(server, 4, 2)


def test_a_failed_update_keeps_it(start):
    server = start(part(50, replicas=4), "--update-failures", "1")
    have(server, 2, 1)
    broken = part(50, replicas=4)
    broken["applications"][0]["deployments"][0]["env"] = {"BREAK_IMPORT": "1"}
    put(server, broken)
    wait.until(lambda: deployment(server, "main")["status"] == "DEPLOY_FAILED", lambda: deployment(server, "main"))
    put(server, part(100, replicas=4))
    have(server, 4, 2)


def test_status_says_it(start):
    server = start(part(50))
    have(server, 2, 1)
    said = run("status", "--runtime-dir", server.runtime).stdout
    assert "target_capacity: 50% of 3 replicas" in said and "target_capacity: 50% of its minimum and maximum" in said
    done = run("deploy", "-", "--runtime-dir", server.runtime, input=json.dumps(part(100)))
    assert done.returncode == 0 and "target_capacity" in done.stdout, done.stdout + done.stderr
    have(server, 3, 2)
    assert "target_capacity" not in run("status", "--runtime-dir", server.runtime).stdout
    history = api(server, "GET", "/api/serve/history")[1]["generations"][0]
    assert [(c["step"], c["keys"], c["state"]) for c in history["changes"]] == [("changed", "target_capacity", "healthy")] * 2


@pytest.mark.parametrize("value, why", [(-1, "is below the minimum 0"), (100.01, "is above the maximum 100"), ("half", "is not a number"),
                                        ("50", "is not a number"), (True, "is not a number"), ([1], "is not a number"),
                                        (float("nan"), "is not a number")])  # fmt: skip
def test_another_value_is_refused(start, value, why):
    server = start(part(50))
    status, said = api(server, "PUT", APPLICATIONS, part(value))
    assert status == 400 and "target_capacity: " in said["error"] and why in said["error"]
    assert served(server)["target_capacity"] == 50
