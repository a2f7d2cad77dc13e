"""The number of replicas that `scale` has set: it counts until the deployment's own num_replicas changes, or somebody
takes it back."""

import pytest

from support import wait
from support.deployments import APPLICATIONS, api, causes, deployment, healthy, put, run, spec
from support.process import procs


def numbers(server):
    """(what counts, what the file says)"""
    d = deployment(server, "main")
    return d["target_num_replicas"], d["num_replicas"]


def order(server, *args):
    done = run(*args, "--runtime-dir", server.runtime)
    assert done.returncode == 0, done.stderr
    server.forget_fds()  # as many as there are replicas
    return done.stdout


def test_it_counts_whatever_else_is_deployed(start):
    """Another application's change, a version of its own, the very same file again, the end of another application."""
    server = start(spec())
    healthy(server)
    order(server, "scale", "main", "3")
    healthy(server, "main", 3)
    assert numbers(server) == (3, 2)
    other = spec()
    other["applications"][1]["env"]["COLOUR"] = "red"
    assert put(server, other)["shop/main"] == ("unchanged", "")
    healthy(server, "side", 1, "extra", generation=3)
    assert numbers(server) == (3, 2)
    put(server, spec(version="two"))
    healthy(server, "main", 3, generation=4)
    assert put(server, spec(version="two"))["shop/main"] == ("unchanged", "")
    assert api(server, "DELETE", APPLICATIONS + "extra")[0] == 200
    assert numbers(server) == (3, 2)
    assert "num_replicas: 2" in api(server, "GET", "/api/serve/config")[1]
    healthy(server, "main", 3)


def test_another_number_in_the_file_takes_its_place(start):
    server = start(spec())
    healthy(server)
    order(server, "scale", "main", "3")
    put(server, spec(num_replicas=1))
    healthy(server, "main", 1)
    assert numbers(server) == (1, 1)
    put(server, spec())
    healthy(server, "main", 2)


def test_a_deployment_that_was_removed_begins_anew(start):
    server = start(spec())
    healthy(server)
    order(server, "scale", "main", "3")
    put(server, {"applications": spec()["applications"][1:]})
    wait.until(lambda: "shop" not in api(server, "GET", APPLICATIONS)[1]["applications"], "main stays")
    put(server, spec())
    healthy(server, "main", 2)
    assert numbers(server) == (2, 2)


def test_it_is_taken_back_by_hand(start):
    server = start(spec())
    healthy(server)
    assert order(server, "scale", "main", "3") == "shop/main is healthy\n"
    assert order(server, "scale", "main", "--reset") == "shop/main is healthy\n"
    healthy(server, "main", 2)
    assert numbers(server) == (2, 2)
    assert causes(server)[:2] == ["scale main to what its file says", "scale main to 3"]
    generations = len(causes(server))
    order(server, "scale", "main", "--reset")  # there is nothing to take back
    assert len(causes(server)) == generations
    for args in (("main",), ("main", "3", "--reset"), ("--reset",)):
        assert run("scale", *args, "--runtime-dir", server.runtime).returncode == 2


@pytest.mark.parametrize("by_hand", [True, False])
def test_it_counts_for_what_is_gone_back_to(start, by_hand):
    server = start(spec(version="one"), "--update-failures", "1")
    healthy(server)
    order(server, "scale", "main", "3")
    if by_hand:
        put(server, spec(version="two"))
        healthy(server, "main", 3, generation=3)
        order(server, "rollback", "main")
        healthy(server, "main", 3, generation=4)
    else:
        put(server, spec(version="two", env={"BREAK_IMPORT": "1"}))
        wait.until(lambda: deployment(server, "main")["status"] == "DEPLOY_FAILED" and
                   [r["state"] for r in deployment(server, "main")["replicas"]] == ["RUNNING"] * 3,
                   lambda: deployment(server, "main"))
    assert numbers(server) == (3, 2)


def test_it_outlives_controller_and_server(start):
    server = start(spec())
    healthy(server)
    order(server, "scale", "main", "3")
    before = server.controller
    procs.kill(before)
    wait.until(lambda: server.controller not in (None, before), "no other controller")
    healthy(server, "main", 3)
    assert numbers(server) == (3, 2)
    server.stop()
    again = start(spec())  # the same file, which is kept already
    healthy(again, "main", 3)
    assert numbers(again) == (3, 2)
    assert again.log.find("main × 3")


def test_status_says_both_numbers(start):
    server = start(spec())
    healthy(server)
    order(server, "scale", "main", "3")
    wait.until(lambda: "main: HEALTHY, scaled to 3; num_replicas is 2" in order(server, "status"),
               lambda: order(server, "status"))
    assert deployment(server, "main")["message"] == "scaled to 3; num_replicas is 2"
    order(server, "scale", "main", "2")  # what the file says: nothing is kept
    wait.until(lambda: "num_replicas" not in order(server, "status"), lambda: order(server, "status"))
