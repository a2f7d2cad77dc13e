"""A client that leaves, and a deadline that passes: the handler is told, and what waits never starts."""

import json
import subprocess

import pytest

from support import paths, wait
from support.protocol import oip
from support.protocol.h2client import H2, prefixed

pytestmark = [pytest.mark.core, pytest.mark.quick]

ONE_AT_A_TIME = """
import itertools
import cue
import numpy as np
from anyserve import AnyServe

app = AnyServe()
counter = itertools.count(1)


@app.model("blocking")
def blocking(request):
    cue.wait(request.id)
    return ()


@app.model("counted")
def counted():
    return np.array([next(counter)])
"""
PLAIN = ["sync", "class", "threads"]
LOOP = PLAIN + ["async", "eager", "async_class", "computing"]
CASES = [("plain", m) for m in PLAIN] + [("loop", m) for m in LOOP]


@pytest.fixture(autouse=True)
def empty_stage(stage):
    stage.reset()


@pytest.fixture(scope="module")
def servers(serve_module, stage):
    """Workers without and with an event loop, and clients on another loop than the queues'."""
    env = {"ANYSERVE_TEST_STAGE": stage.path}
    return {"plain": serve_module("cancelling.py", env={**env, "ANYSERVE_TEST_PLAIN": "1"}),
            "loop": serve_module("cancelling.py", "--threads", "2", env=env)}


@pytest.fixture(scope="module")
def one(serve_module, stage):
    """One worker with one slot; "counted" says how many times it was called."""
    return serve_module("one.py", source=ONE_AT_A_TIME, env={"ANYSERVE_TEST_STAGE": stage.path})


@pytest.fixture(scope="module")
def places(serve_module, stage, one):
    """By where requests wait: the second server gives them to a worker in advance, however slow this machine is."""
    ahead = serve_module("ahead.py", "--prefetch-work", "1s", source=ONE_AT_A_TIME, env={"ANYSERVE_TEST_STAGE": stage.path})
    return {"queued": one, "prefetched": ahead}


def ask(http, model, tag="", extra=(), inputs=None):
    stream = http.open_grpc(extra=extra)
    body = oip.infer_request(model, inputs or {}, id=tag).SerializeToString()
    http.send(stream, prefixed(body), end=True)
    return stream


def reset(http, stream):
    http.conn.reset_stream(stream, 8)  # CANCEL
    http.flush()


def leave(http, stream):
    http.sock.close()


CAUSES = {"reset": reset, "disconnect": leave}


def waiting(server):
    d = server.deployment()
    return d["queued"] + d["prefetched"]


# --- what runs ---

@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("kind, model", CASES)
def test_a_running_handler_is_told_of_a_client_that_leaves(servers, stage, kind, model, cause):
    with H2(servers[kind].host, servers[kind].port) as http:
        stream = ask(http, model)
        (scene,) = stage.started(1)
        CAUSES[cause](http, stream)
        assert scene.last_word() == "cancelled"


@pytest.mark.parametrize("kind, model", CASES)
def test_a_running_handler_is_told_of_its_deadline(servers, stage, kind, model):
    with H2(servers[kind].host, servers[kind].port) as http:
        stream = ask(http, model, extra=[("grpc-timeout", "800m")])
        (scene,) = stage.started(1)
        assert scene.last_word() == "cancelled"
        assert http.reply(stream).grpc_status in (4, 0)  # it answers at once, by its own clock


def test_all_that_run_are_told_at_once(servers, stage):
    """One connection with calls of all kinds is cut."""
    server = servers["loop"]
    with H2(server.host, server.port) as http:
        for model in ("async", "eager", "async_class", "threads"):
            ask(http, model, model)
        scenes = stage.started(4)
    assert [s.last_word() for s in scenes] == ["cancelled"] * 4


@pytest.mark.parametrize("kind, model", [("plain", "deaf"), ("loop", "deaf"), ("loop", "deaf_async")])
def test_a_handler_that_ignores_it_keeps_its_slot_and_is_not_heard(servers, stage, connect, kind, model):
    server = servers[kind]
    before = server.counts()
    with H2(server.host, server.port) as http:
        first = ask(http, model, "first")
        (scene,) = stage.started(1)
        reset(http, first)
        wait.until(lambda: server.counts()["cancelled"] == before["cancelled"] + 1, lambda: server.counts())
        later = ask(http, model, "later")
        wait.until(lambda: waiting(server) == 1, lambda: server.deployment())
        assert stage.tags() == ["first"] and server.deployment()["ongoing"] == 1
        scene.go("unheard")
        stage.started(2)[1].go("heard")
        assert http.reply(later).grpc_status == 0
        assert b"heard" in http.replies[later].data and b"unheard" not in http.replies[later].data
    assert server.counts()["completed"] == before["completed"] + 1


# --- what waits ---

def run(client, stage, n):
    """n calls of "blocking", one after the other: the dispatcher learns that this worker is slow."""
    for i in range(n):
        call = client.begin("blocking", {})
        stage.started(i + 1)[i].go()
        call.result()
    stage.reset()


@pytest.mark.parametrize("cause", [*CAUSES, "deadline"])
@pytest.mark.parametrize("place", ["queued", "prefetched"])
def test_what_waits_leaves_at_once_and_never_starts(places, stage, connect, cause, place):
    one = places[place]
    client = connect(one)
    if place == "queued":
        run(client, stage, 3)
    n = client.infer("counted", {})["output0"][0]
    blocks = client.begin("blocking", {})
    (scene,) = stage.started(1)
    before = one.counts()
    extra = [("grpc-timeout", "1500m")] if cause == "deadline" else []
    with H2(one.host, one.port) as http:
        streams = [ask(http, "counted", extra=extra) for _ in range(5)]
        wait.until(lambda: one.status()["server"]["unanswered"] == 6, lambda: one.status())
        d = one.deployment()
        assert d["prefetched" if place == "prefetched" else "queued"] > 0, d
        if cause == "deadline":
            assert {http.reply(s).grpc_status for s in streams} == {4}
        elif cause == "reset":
            for s in streams:
                reset(http, s)
    wait.until(lambda: one.status()["server"]["unanswered"] == 1 and waiting(one) == 0, lambda: one.status())
    counted = "expired" if cause == "deadline" else "cancelled"
    assert one.counts()[counted] == before[counted] + 5
    scene.go()
    blocks.result()
    assert client.infer("counted", {})["output0"] == n + 1


def test_those_who_wait_longer_get_the_slot_that_others_gave_up(one, stage, connect):
    client = connect(one)
    blocks = client.begin("blocking", {})
    (scene,) = stage.started(1)
    with H2(one.host, one.port) as http:
        late = [ask(http, "counted", extra=[("grpc-timeout", f"{20 + i}m")]) for i in range(20)]
        patient = ask(http, "counted")
        assert {http.reply(s).grpc_status for s in late} == {4}
        scene.go()
        assert http.reply(patient).grpc_status == 0
    blocks.result()


# --- nothing stays behind ---

def churn(server, calls, *args):
    """bench/churn against this server: it judges every outcome."""
    command = [paths.BUILD / "bench/churn", "--host", server.host, "--port", server.port, "--calls", calls, *args]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=5 * wait.SECONDS)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def live(server):
    """Live bytes of every process; a worker shows them a moment after its last call."""
    state = server.status()
    return [state["server"]["live_bytes"], *(r["worker"]["live_bytes"] for r in state["replicas"])]


def wait_pinged(server):
    """Each worker has been pinged twice, and so shows what it holds now."""
    def wakes():
        return [r["worker"]["wakes"] for r in server.status()["replicas"]]
    before = wakes()
    wait.until(lambda: all(now > then + 1 for now, then in zip(wakes(), before)), server.status)


@pytest.mark.stress
@pytest.mark.parametrize("threads", [1, 4])
def test_cancelled_and_mixed_calls_leave_nothing_behind(serve, threads):
    """The small version of tools/leaks.py."""
    server = serve(paths.ROOT / "bench/models/churn_model.py", "--threads", threads, "--max-message-bytes", "8M",
                   "--log-level", "warn", "--ping-interval", "100ms")  # workers look at their memory when pinged
    server.wait_all_ready()
    churn(server, 500)
    server.settle()
    wait_pinged(server)
    before = live(server)
    assert max(before) < 200_000, before
    cancelled = churn(server, 2000, "--only", "cancel", "--connections", 20, "--streams", 4)
    assert cancelled["kinds"]["cancel"] == 2000
    server.settle()
    wait.until(lambda: live(server) == before, lambda: f"{live(server)}, not {before}")
    mixed = churn(server, 5000)
    assert mixed["calls"] == 5000
    server.settle()
    wait.until(lambda: live(server) == before, lambda: f"{live(server)}, not {before}")
    assert server.status()["server"]["exchanges"] == 0
