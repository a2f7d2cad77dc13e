"""A request that takes long goes to a second replica, too, and the first answer counts.

Handlers wait for the test's word. How long the server waits before it hedges follows from the requests before; the
test waits for the second handler to begin, however long that takes.
"""

import os
import re
import signal

import grpc
import numpy as np
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


@app.model("held")
def hold(request):
    cue.wait("held")
    return {{"done": np.array([1])}}


@app.model("large", idempotent=True)
def answer_large(request, data):
    # the data with its first bytes replaced: it shows who executed it
    if cue.wait(request.id) == "fail":
        raise Error("INTERNAL", "the first one failed")
    answer = data.copy()
    answer[:8] = np.array([os.getpid()]).view(np.uint8)
    return {{"answer": answer}}
"""
ON = {"hedge_quantile": 0.95, "hedge_budget": 1}
SAMPLES = 100  # AS_HEDGING_SAMPLES


@pytest.fixture
def start(serve, stage, connect):
    """start(options of the deployment, of the command line) → server, client; two replicas, whose usual time is known."""
    def start(options=ON, idempotent=True, arguments=()):
        stage.reset()
        server = serve("hedged.py", "--workers=2", *arguments, source=APP.format(options=options, idempotent=idempotent),
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


def begin(stage, client, model="staged", inputs=None, **fields):
    """A request that executes twice, and its two handlers. The other replica is free only when the first one executes."""
    stage.reset()
    held = client.begin("held", {})
    holder, = stage.started(1)
    call = client.begin(model, inputs or {}, id="slow", **fields)
    _, first = stage.started(2)
    holder.go()
    held.result()
    _, _, second = stage.started(3)
    assert holder.pid == second.pid != first.pid
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


# --- other loops, and large messages ---

MIB = 1 << 20


@pytest.fixture(params=[1, 2], ids=["one loop", "two loops"])
def large(request, start, connect):
    """A server with so many threads, and clients: with two threads on both loops, very likely."""
    server, client = start({**ON, "hedge_quantile": 0.9}, arguments=[f"--threads={request.param}"])
    return server, [client] + [connect(server) for _ in range(5 if request.param > 1 else 2)]


def begin_large(stage, client, size=MIB):
    """The data, the call and its two handlers."""
    data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
    return data, *begin(stage, client, "large", {"data": data})


def check_answer(call, data, *scenes):
    """It is that of one of the handlers, and whole."""
    raw = call.result().raw_output_contents[0]
    assert int.from_bytes(raw[:8], "little") in [s.pid for s in scenes]
    assert raw[8:] == data.tobytes()[8:]


@pytest.mark.parametrize("winner", ["lost", "won"])
def test_a_large_answer_of_either(large, stage, winner):
    server, clients = large
    for client in clients:
        data, call, *scenes = begin_large(stage, client)
        faster = scenes.pop(winner == "won")
        faster.go()
        check_answer(call, data, faster)
        scenes[0].go()
        at_rest(server)
    assert counts(server) == {winner: len(clients)}


def test_large_answers_of_both_at_once(large, stage):
    server, clients = large
    for client in clients:
        data, call, first, second = begin_large(stage, client)
        first.go()
        second.go()
        check_answer(call, data, first, second)
        at_rest(server)
    assert set(counts(server)) <= {"won", "lost"} and sum(counts(server).values()) == len(clients)


def test_a_large_answer_after_an_error(large, stage):
    server, clients = large
    for client in clients:
        data, call, first, second = begin_large(stage, client)
        first.go("fail")
        wait.until(lambda: server.deployment("hedged")["ongoing"] == 1, server.status)
        second.go()
        check_answer(call, data, second)
    assert counts(server) == {"won": len(clients)}


def test_a_client_leaves_two_large_answers(large, stage):
    """The worker's connection goes on where the answers that nobody takes end."""
    server, clients = large
    for n, client in enumerate(clients, 1):
        data, call, first, second = begin_large(stage, client)
        call.cancel()
        wait.until(lambda n=n: counts(server) == {"cancelled": n}, server.metrics)
        first.go()
        second.go()
        at_rest(server)
    data, call, first, second = begin_large(stage, clients[0])
    second.go()
    check_answer(call, data, second)
    first.go()
    at_rest(server)
