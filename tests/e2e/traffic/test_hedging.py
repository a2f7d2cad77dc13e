"""A request that takes long goes to a second replica, too, and the first answer counts.

Handlers wait for the test's word. How long the server waits before it hedges follows from the requests before; the
test waits for the second handler to begin, however long that takes.
"""

import os
import re
import signal

import grpc
import pytest

from support import wait

pytestmark = pytest.mark.core

APP = """
import os
import cue
import numpy as np
from anyserve import AnyServe, Error

app = AnyServe()
app.deployment(max_ongoing_requests=1, **{options!r})


@app.model("staged", idempotent={idempotent!r})
def staged(request):
    word = cue.wait(request.id) if request.id else "go"
    if word == "fail":
        raise Error("INTERNAL", "the first one failed")
    return {{"pid": np.array([os.getpid()])}}
"""
ON = {"hedge_quantile": 0.95, "hedge_budget": 1}
SAMPLES = 100  # AS_HEDGING_SAMPLES


@pytest.fixture
def start(serve, stage, connect):
    """start(options of the deployment) → server, client; two replicas, whose usual time is known."""
    def start(options=ON, idempotent=True):
        stage.reset()
        server = serve("hedged.py", "--workers=2", source=APP.format(options=options, idempotent=idempotent),
                       env={"ANYSERVE_TEST_STAGE": stage.path})
        client = connect(server)
        for _ in range(SAMPLES):
            client.infer("staged", {})
        return server, client
    return start


def count(server, outcome):
    found = re.search(r'^anyserve_hedges_total\{[^}]*outcome="%s"[^}]*\} (\d+)$' % outcome, server.metrics(), re.M)
    return int(found.group(1))


def counts(server):
    return {o: n for o in ("won", "lost", "failed", "cancelled") if (n := count(server, o))}


def begin(stage, client, **fields):
    """A request that executes twice, and its two handlers."""
    call = client.begin("staged", {}, id="slow", **fields)
    first, second = stage.started(2)
    assert first.pid != second.pid
    return call, first, second


def at_rest(server):
    wait.until(lambda: server.deployment("hedged")["ongoing"] == 0, server.status)


def pid_of(call):
    return int.from_bytes(call.result().raw_output_contents[0][:8], "little")


def test_the_second_replica_answers_while_the_first_still_executes(start, stage):
    server, client = start()
    call, first, second = begin(stage, client)
    second.go()
    assert pid_of(call) == second.pid
    assert server.deployment("hedged")["ongoing"] == 1  # cancelled, and it has its slot until it ends
    assert counts(server) == {"won": 1}
    first.go()
    at_rest(server)
    assert pid_of(client.begin("staged", {})) in (first.pid, second.pid)


def test_the_first_replica_may_be_faster(start, stage):
    server, client = start()
    call, first, second = begin(stage, client)
    first.go()
    assert pid_of(call) == first.pid
    assert counts(server) == {"lost": 1}
    second.go()
    at_rest(server)


def test_an_error_of_one_leaves_the_other(start, stage):
    server, client = start()
    call, first, second = begin(stage, client)
    first.go("fail")
    wait.until(lambda: server.deployment("hedged")["ongoing"] == 1, server.status)
    assert not call.done()
    second.go()
    assert pid_of(call) == second.pid and counts(server) == {"won": 1}
    stage.reset()
    call, first, second = begin(stage, client)
    first.go("fail")
    wait.until(lambda: server.deployment("hedged")["ongoing"] == 1, server.status)
    second.go("fail")
    assert (call.code(), call.details()) == (grpc.StatusCode.INTERNAL, "the first one failed")


def test_a_death_of_one_leaves_the_other(start, stage):
    server, client = start()
    call, first, second = begin(stage, client)
    os.kill(first.pid, signal.SIGKILL)
    wait.until(lambda: server.deployment("hedged")["ongoing"] == 1, server.status)
    assert not call.done()
    second.go()
    assert pid_of(call) == second.pid and counts(server) == {"won": 1}


def test_a_client_that_leaves_ends_both(start, stage):
    server, client = start()
    call, first, second = begin(stage, client)
    call.cancel()
    wait.until(lambda: counts(server) == {"cancelled": 1}, server.metrics)
    first.go()
    second.go()
    at_rest(server)


def test_a_deadline_ends_both(start, stage):
    server, client = start()
    call, first, second = begin(stage, client, timeout=2)
    assert call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    wait.until(lambda: counts(server) == {"cancelled": 1}, server.metrics)
    first.go()
    second.go()
    at_rest(server)


def test_only_what_may_run_twice_is_hedged(start, stage):
    server, client = start(idempotent=False)
    call = client.begin("staged", {}, id="slow")
    stage.started(1)
    for _ in range(20):
        client.infer("staged", {})
    assert len(stage.scenes) == 1 and "anyserve_hedge_delay_seconds" in server.metrics()
    stage.scenes[0].go()
    call.result()
    assert counts(server) == {}


def test_it_is_off_by_default(start, stage):
    server, client = start({})
    call = client.begin("staged", {}, id="slow")
    stage.started(1)
    for _ in range(20):
        client.infer("staged", {})
    stage.scenes[0].go()
    call.result()
    assert counts(server) == {} and count(server, "withheld") == 0
