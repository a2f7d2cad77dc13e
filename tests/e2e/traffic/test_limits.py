"""Queues, slots, deadlines, cancellation and routing: the limits hold exactly, in the order that was promised."""

import collections

import grpc
import numpy as np
import pytest

from support import wait
from support.load import Load
from support.protocol import oip
from support.protocol.h2client import H2, prefixed

pytestmark = [pytest.mark.core, pytest.mark.quick]


@pytest.fixture(autouse=True)
def empty_stage(stage):
    stage.reset()


def staged_server(serve_module, stage, app, *options):
    return serve_module(app, *options, env={"ANYSERVE_TEST_STAGE": stage.path})


@pytest.fixture(scope="module")
def one(serve_module, stage):
    """One worker that runs one at a time."""
    return staged_server(serve_module, stage, "staged.py")


@pytest.fixture(scope="module")
def queue_of_4(serve_module, stage):
    return staged_server(serve_module, stage, "queue_of_4.py")


@pytest.fixture(scope="module")
def loop(serve_module, stage):
    """Async handlers, three at once."""
    return staged_server(serve_module, stage, "staged_async.py")


def wait_queued(server, n, name=None):
    """n requests wait, in the queue or prefetched."""
    def look():
        d = server.deployment(name)
        return d["queued"] + d["prefetched"] == n
    wait.until(look, lambda: server.deployment(name))


def line_up(server, stage, client, n, deployment=None):
    """n staged calls, of which one runs and the rest waits in this order."""
    calls = [client.begin("staged", {}, id="0")]
    stage.started(1)
    for i in range(1, n):
        calls.append(client.begin("staged", {}, id=str(i)))
        wait_queued(server, i, deployment)
    return calls


def finish(stage, calls, seen=0):
    """Lets every handler end, one after the other, in the order of their start."""
    for i in range(seen, seen + len(calls)):
        stage.started(i + 1)[i].go()
    for call in calls:
        call.result()


# --- the queue ---

def test_queue_limit(queue_of_4, stage, connect):
    """One executes, four wait, the sixth is refused and told when to come again."""
    client = connect(queue_of_4)
    calls = line_up(queue_of_4, stage, client, 5, "queue_of_4")
    error = client.refused("staged", {})
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "max_queued_requests" in error.details()
    assert int(oip.trailers_of(error)["grpc-retry-pushback-ms"]) > 0
    assert queue_of_4.counts("queue_of_4")["refused"] == 1
    stage.scenes[0].go()
    stage.started(2)
    calls.append(client.begin("staged", {}, id="5"))  # there is room for one again
    finish(stage, calls[1:], seen=1)
    assert stage.tags() == ["0", "1", "2", "3", "4", "5"]


def test_queue_option(serve, stage, connect):
    server = serve("staged.py", "--max-queued-requests", "2", env={"ANYSERVE_TEST_STAGE": stage.path})
    client = connect(server)
    calls = line_up(server, stage, client, 3)
    assert client.refused("staged", {}).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    finish(stage, calls)


def test_default_queue(one, stage, connect):
    client, second = connect(one), connect(one)  # a connection has 1024 streams
    calls = [(client, second)[i % 2].begin("staged", {}, timeout=None) for i in range(1 + 1024)]
    stage.started(1)
    wait_queued(one, 1024)
    assert client.refused("staged", {}).code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    for call in calls:
        call.cancel()
    wait_queued(one, 0)
    stage.scenes[0].go()
    wait.until(lambda: one.deployment()["ongoing"] == 0, "the one that had started")
    assert len(stage.scenes) == 1


def test_first_come_first_served(one, stage, connect):
    calls = line_up(one, stage, connect(one), 12)
    finish(stage, calls)
    assert stage.tags() == [str(i) for i in range(12)]


# --- slots ---

def assert_at_most(stage, calls, limit):
    """All are served; never more than `limit` at once, never fewer while some wait."""
    for ended in range(len(calls)):
        running = min(limit, len(calls) - ended)
        scenes = stage.started(ended + running)
        assert len(scenes) == len(stage.scenes) == ended + running
        scenes[ended].go()
        calls_done = [c for c in calls if c.done()]
        assert len(calls_done) <= ended + 1
    for call in calls:
        call.result()


def test_max_ongoing_requests_async(loop, stage, connect):
    client = connect(loop)
    calls = [client.begin("staged", {}) for _ in range(10)]
    stage.started(3)
    wait_queued(loop, 7)
    assert loop.deployment()["ongoing"] == 3
    assert_at_most(stage, calls, 3)


def test_max_ongoing_requests_threads(queue_of_4, stage, connect):
    client = connect(queue_of_4)
    calls = [client.begin("threaded", {}) for _ in range(8)]
    stage.started(3)
    assert queue_of_4.deployment("threads")["ongoing"] == 3
    assert_at_most(stage, calls, 3)


def test_cap_of_a_model_within_its_deployment(loop, stage, connect):
    """The queue's head skips a model at its cap, and comes back to it."""
    client = connect(loop)
    narrow = [client.begin("narrow", {}, id="narrow 0")]
    stage.started(1)
    for i in (1, 2):
        narrow.append(client.begin("narrow", {}, id=f"narrow {i}"))
        wait_queued(loop, i)
    wide = [client.begin("staged", {}, id=f"wide {i}") for i in range(3)]
    stage.started(3)
    assert sorted(stage.tags()) == ["narrow 0", "wide 0", "wide 1"]
    wait_queued(loop, 3)
    assert client.call("ModelReady", oip.message("ModelReadyRequest", name="narrow")).ready
    stage.scenes[0].go()
    stage.started(4)
    assert stage.tags()[3] == "narrow 1"
    assert len(stage.scenes) == 4
    finish(stage, [narrow[1], wide[0], wide[1]], seen=1)
    finish(stage, [narrow[2], wide[2]], seen=4)
    assert len(stage.scenes) == 6


def test_deployments_do_not_hold_up_each_other(queue_of_4, stage, connect):
    client = connect(queue_of_4)
    blocked = client.begin("staged", {})
    stage.started(1)
    other = client.begin("threaded", {})
    stage.started(2)[1].go()
    other.result()
    stage.scenes[0].go()
    blocked.result()


# --- deadlines ---

def open_infer(http, model, timeout, id):
    stream = http.open_grpc(extra=[("grpc-timeout", timeout)])
    http.send(stream, prefixed(oip.infer_request(model, {}, id=id).SerializeToString()), end=True)
    return stream


def test_deadline_in_the_queue(one, stage, connect):
    """Answered by the server, and the handler never starts."""
    client = connect(one)
    before = one.counts()
    running = client.begin("staged", {}, id="runs")
    stage.started(1)
    with H2(one.host, one.port) as http:  # which has no clock of its own
        reply = http.reply(open_infer(http, "staged", "50m", "late"))
    assert (reply.grpc_status, reply.trailers) == (4, {})
    assert one.counts()["expired"] == before["expired"] + 1
    after = client.begin("staged", {}, id="after")
    finish(stage, [running, after])
    assert stage.tags() == ["runs", "after"]


def test_deadline_passed_on_arrival_counts(one):
    """It passes while the message is on its way: refused without waiting, and counted as expired."""
    before = one.counts()
    with H2(one.host, one.port) as http:
        stream = http.open_grpc(extra=[("grpc-timeout", "1n")])
        assert http.grpc(prefixed(b""), "ServerLive").grpc_status == 0  # a later turn of the loop
        http.send(stream, prefixed(oip.infer_request("staged", {}).SerializeToString()), end=True)
        assert http.reply(stream).grpc_status == 4
    after = one.counts()
    assert {k: after[k] - before[k] for k in after if after[k] != before[k]} == {"accepted": 1, "expired": 1}


def test_deadline_while_it_runs(one, stage, connect):
    """The handler is told."""
    with H2(one.host, one.port) as http:
        stream = open_infer(http, "watching", "1S", "runs")
        (scene,) = stage.started(1)
        assert http.reply(stream).grpc_status in (4, 0)  # it answers at once, by its own clock
    assert scene.last_word() == "cancelled"
    assert connect(one).infer("fast", {"x": np.ones(1)})["y"] == 2


def test_deadline_keeps_the_slot(one, stage, connect):
    """The client is answered in time, the slot stays taken until the handler returns."""
    client = connect(one)
    with H2(one.host, one.port) as http:
        stream = open_infer(http, "staged", "1S", "runs")  # it starts within that, however slow this machine is
        stage.started(1)
        assert http.reply(stream).grpc_status == 4
        later = client.begin("staged", {}, id="later")
        wait_queued(one, 1)
    assert len(stage.scenes) == 1
    stage.scenes[0].go()
    finish(stage, [later], seen=1)


def test_deadlines_of_many(one, stage, connect):
    client = connect(one)
    running = client.begin("staged", {}, id="runs")
    stage.started(1)
    with H2(one.host, one.port) as http:
        streams = [open_infer(http, "staged", f"{20 + 3 * (i * 7 % 20)}m", "late") for i in range(100)]
        patient = client.begin("staged", {}, id="patient")
        assert {http.reply(s).grpc_status for s in streams} == {4}
    finish(stage, [running, patient])
    assert stage.tags() == ["runs", "patient"]


def test_tritonclient_timeout(one, stage):
    import tritonclient.grpc as triton
    with triton.InferenceServerClient(one.address) as client:
        with pytest.raises(triton.InferenceServerException, match="DEADLINE_EXCEEDED|Deadline"):
            client.infer("staged", [], client_timeout=1)
    stage.started(1)[0].go()


# --- cancellation ---

def test_cancel_in_the_queue(one, stage, connect):
    client = connect(one)
    before = one.counts()["cancelled"]
    calls = line_up(one, stage, client, 5)
    for i in (1, 3):
        calls[i].cancel()
    wait_queued(one, 2)
    assert one.counts()["cancelled"] == before + 2
    finish(stage, [calls[i] for i in (0, 2, 4)])
    assert stage.tags() == ["0", "2", "4"]


def test_cancel_running_sync(one, stage, connect):
    client = connect(one)
    call = client.begin("watching", {})
    (scene,) = stage.started(1)
    call.cancel()
    assert scene.last_word() == "cancelled"
    assert client.infer("fast", {"x": np.ones(1)})["y"] == 2


def test_cancel_running_async(loop, stage, connect):
    client = connect(loop)
    calls = [client.begin("staged", {}, id=str(i)) for i in range(3)]
    scenes = {s.tag: s for s in stage.started(3)}
    calls[1].cancel()
    assert scenes["1"].last_word() == "cancelled"
    later = client.begin("staged", {}, id="3")
    stage.started(4)
    for tag in ("0", "2"):
        scenes[tag].go()
    stage.scenes[3].go()
    for call in (calls[0], calls[2], later):
        call.result()


async def test_cancel_by_tritonclient_aio(loop, stage):
    import asyncio
    import tritonclient.grpc.aio as triton_aio
    async with triton_aio.InferenceServerClient(loop.address) as client:
        task = asyncio.create_task(client.infer("staged", []))
        scenes = await asyncio.to_thread(stage.started, 1)
        task.cancel()
        assert await asyncio.to_thread(scenes[0].last_word) == "cancelled"


def test_gone_client_is_a_cancelled_one(loop, stage):
    with H2(loop.host, loop.port) as http:
        http.send(http.open_grpc(), prefixed(oip.infer_request("staged", {}).SerializeToString()), end=True)
        (scene,) = stage.started(1)
    assert scene.last_word() == "cancelled"


# --- two workers ---

@pytest.mark.parametrize("router", ["late_binding", "least_ongoing", "pow_2"])
def test_two_workers_share(serve, stage, connect, router):
    server = serve("staged.py", "--workers", "2", "--router", router, env={"ANYSERVE_TEST_STAGE": stage.path})
    client = connect(server)
    pids = set(server.workers().values())
    # late binding: both run at once, whatever the router chose first
    calls = [client.begin("staged", {}) for _ in range(2)]
    assert {s.pid for s in stage.started(2)} == pids
    for scene in stage.scenes:
        scene.go()
    for call in calls:
        call.result()
    # one is busy: the other one serves all
    call = client.begin("staged", {})
    busy = stage.started(3)[2]
    for _ in range(20):
        assert int(client.infer("fast", {"x": np.ones(1)})["pid"][0]) in pids - {busy.pid}
    busy.go()
    call.result()
    # both idle: both are used
    count = collections.Counter(int(client.infer("fast", {"x": np.ones(1)})["pid"][0]) for _ in range(60))
    assert set(count) == pids
    assert min(count.values()) >= (28 if router == "late_binding" else 10)


def test_prefetched_requests_go_to_an_idle_worker(serve, stage, connect):
    """Quick requests wait inside a worker; one that blocks does not keep them."""
    server = serve("staged.py", "--workers", "2", "--max-prefetch", "64", "--prefetch-work", "100ms",
                   env={"ANYSERVE_TEST_STAGE": stage.path})
    client = connect(server)
    for _ in range(50):
        client.infer("fast", {"x": np.ones(1)})  # so that their service time is known
    calls = [client.begin("staged", {}) for _ in range(2)]
    first, second = stage.started(2)
    quick = [client.begin("fast", {"x": np.array([i])}) for i in range(40)]
    wait_queued(server, 40)
    first.go()  # the other one still blocks: all forty come through this one
    for i, call in enumerate(quick):
        answer = oip.Answer(call.result())
        assert (answer["y"], answer["pid"]) == (i + 1, first.pid)
    second.go()
    for call in calls:
        call.result()


# --- many loops ---

def test_threads(serve, stage):
    """Connections on four loops, one queue: answers go to those who asked."""
    server = serve("staged.py", "--threads", "4", "--workers", "2", env={"ANYSERVE_TEST_STAGE": stage.path})

    def call(client, n):
        size = (1, 10, 5000, 70_000)[n % 4]
        x = np.full(size, n)
        if n % 10 == 9:
            assert client.refused("nope", {"x": x}).code() == grpc.StatusCode.NOT_FOUND
        elif n % 10 == 8:
            client.begin("fast", {"x": x}).cancel()
        else:
            assert np.array_equal(client.infer("fast", {"x": x}, id=str(n))["y"], x + 1)

    with Load(server.address, call, threads=12, max_calls=2000) as load:
        wait.until(lambda: sum(load.outcomes.values()) == 2000, lambda: load.outcomes)
    assert set(load.outcomes) == {"OK"}, load.errors
    assert server.status()["server"]["threads"] == 4


def test_threads_with_deadlines_and_cancels(serve, stage, connect):
    server = serve("staged.py", "--threads", "4", env={"ANYSERVE_TEST_STAGE": stage.path})
    clients = [connect(server) for _ in range(8)]
    running = clients[0].begin("staged", {}, id="runs")
    stage.started(1)
    calls = [c.begin("staged", {}, timeout=0.05 if i % 2 else 20, id="waits") for c in clients for i in range(6)]
    for call in calls[::2]:
        call.cancel()
    for call in calls[1::2]:
        assert call.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
    wait_queued(server, 0)
    finish(stage, [running])
    assert stage.tags() == ["runs"]
