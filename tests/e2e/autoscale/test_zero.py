"""To no replica and back: the first request waits, starts one, and is answered, whatever was killed meanwhile."""

import numpy as np
import pytest

from support import wait
from support.deployments import deployment
from support.process import procs
from support.protocol import oip

pytestmark = pytest.mark.core

ONE = {"x": np.ones(1, np.float32)}
ZERO = {"min_replicas": 0, "max_replicas": 2}


def is_at_zero(server):
    d = deployment(server, "staged")
    return d["target_num_replicas"] == 0 and not d["replicas"] and d["status"] == "HEALTHY"


def at_zero(server):
    wait.until(lambda: is_at_zero(server), lambda: deployment(server, "staged"))
    server.forget_fds()


def ask(client):
    assert client.infer("fast", ONE)["y"][0] == 2


def test_to_zero_and_back_again_and_again(scaled, connect):
    server = scaled(**ZERO)
    client = connect(server)
    for _ in range(20):
        ask(client)
        at_zero(server)
    counts = server.counts("staged")
    assert (counts["completed"], counts["failed"], counts["refused"]) == (20, 0, 0)


def test_at_zero_the_model_is_known_and_ready(scaled, connect):
    server = scaled(**ZERO)
    at_zero(server)
    client = connect(server)
    assert server.status()["server"]["ready"]
    assert client.call("ModelReady", oip.message("ModelReadyRequest", name="fast")).ready
    ask(client)


def test_the_server_may_begin_with_none(scaled, connect):
    server = scaled(initial_replicas=0, **ZERO)
    assert is_at_zero(server)
    ask(connect(server))


def test_many_requests_at_zero_are_all_answered(scaled, connect):
    server = scaled(**ZERO)
    client = connect(server)
    at_zero(server)
    calls = [client.begin("fast", ONE) for _ in range(200)]
    assert all(oip.Answer(c.result())["y"][0] == 2 for c in calls)
    assert server.counts("staged")["failed"] == 0


def test_a_dispatcher_that_was_just_started_starts_one(scaled, connect):
    server = scaled(**ZERO)
    at_zero(server)
    server.replace_dispatcher()
    ask(connect(server))


def test_a_controller_that_was_just_started_starts_one(scaled, connect):
    server = scaled(initial_replicas=2, **ZERO)
    client = connect(server)
    at_zero(server)
    procs.kill(server.controller)
    ask(client)  # asked while there is none
    at_zero(server)
    old = server.controller
    procs.kill(old)
    wait.until(lambda: server.controller not in (None, old), "no other controller")
    wait.until(lambda: deployment(server, "staged")["autoscaling_detail"]["metrics_health"] == "healthy", "nothing is counted")
    assert is_at_zero(server)  # and not at initial_replicas
    ask(client)


def test_both_killed_at_once(scaled, connect):
    server = scaled(**ZERO)
    at_zero(server)
    old = server.dispatcher
    procs.kill(server.controller)
    procs.kill(old)
    server.wait_new_dispatcher(old)
    ask(connect(server))


def test_requests_that_come_while_the_last_replica_ends(scaled, stage, connect):
    """A stream of single requests, each sent when the one before it was answered: the replica ends and starts under it."""
    server = scaled(**ZERO)
    client = connect(server)
    for _ in range(100):
        ask(client)
        if not server.workers():
            break
    at_zero(server)
    ask(client)
    assert server.counts("staged")["failed"] == 0
