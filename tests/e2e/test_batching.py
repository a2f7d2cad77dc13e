"""Dynamic batching: requests share calls, and each gets what it would have got alone."""

import os
import random
import signal

import grpc
import numpy as np
import pytest

from support import oip, wait

pytestmark = pytest.mark.core

COUNT = int(os.environ.get("ANYSERVE_BATCH_REQUESTS", "10000"))
AT_ONCE = 128


@pytest.fixture(scope="module")
def server(serve_module, stage):
    return serve_module("batches.py", "--threads", "2", env={"ANYSERVE_TEST_STAGE": stage.path})


@pytest.fixture
def client(server, connect):
    return connect(server)


@pytest.fixture(autouse=True)
def empty_stage(stage):
    stage.reset()


def rows(first, n, width=3):
    return np.arange(first, first + n * width, dtype=np.int64).reshape(n, width)


def queued(server, n):
    wait.until(lambda: server.deployment()["queued"] == n, lambda: server.deployment())


# --- what clients see ---

def test_metadata_has_the_batch_dimension_first(client):
    (x,) = client.call("ModelMetadata", oip.message("ModelMetadataRequest", name="sync")).inputs
    assert (x.name, list(x.shape)) == ("x", [-1, -1])


@pytest.mark.parametrize("shape, why", [
    ((17, 2), "input 'x': 17 items, model 'sync' takes 1 to 16 (max_batch_size)"),
    ((0, 2), "input 'x': 0 items, model 'sync' takes 1 to 16 (max_batch_size)"),
    ((2,), "input 'x': shape [2], model 'sync' expects [-1,-1]"),
])
def test_the_number_of_items_is_checked(client, shape, why):
    error = client.refused("sync", {"x": np.zeros(shape, np.int64)})
    assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, why)


def test_inputs_agree_on_their_items(client):
    error = client.refused("plain", {})  # a model without batching is not asked
    assert "missing" in error.details()
    error = client.refused("staged", {"x": rows(0, 2), "y": rows(0, 3)})
    assert error.details() == "input 'y': 3 items, and the first input has 2"
    error = client.refused("staged", {"x": np.int64(3)})
    assert "expects a first dimension that counts items" in error.details()


@pytest.mark.parametrize("model", ["sync", "held", "async", "threads", "list", "ragged"])
def test_a_full_request(client, model):
    x = rows(5, 8 if model == "held" else 16)
    answer = client.infer(model, {"x": x})
    assert (answer["sum"] == x.sum(axis=1)).all() and (answer["back"] == x[:, ::-1]).all()


# --- who shares a call ---

def test_what_waits_shares_the_next_call(server, client, stage):
    first = client.begin("staged", {"x": rows(0, 1)}, id="a")
    stage.started(1)
    calls = {}
    for tag, x, parameters in [("b", rows(10, 1), None), ("c", rows(20, 2), None), ("d", rows(30, 1, 4), None),
                               ("e", rows(40, 1), {"k": 1}), ("f", rows(50, 5), None), ("g", rows(60, 1), None),
                               ("h", rows(70, 1), {"k": 1})]:
        calls[tag] = client.begin("staged", {"x": x}, id=tag, parameters=parameters), x
        queued(server, len(calls))
    # another shape, other parameters, and what makes more than 8 items go by themselves
    for i, tags in enumerate(["a", "b c f", "d", "e h", "g"]):
        scene = stage.started(i + 1)[i]
        assert scene.tag == tags
        assert server.deployment()["ongoing"] == len(tags.split())
        scene.go()
    first.result()
    for call, x in calls.values():
        assert (oip.Answer(call.result())["output0"] == x).all()


def test_who_leaves_takes_nobody_along(server, client, stage):
    for model in ("staged", "staged_async"):
        stage.reset()
        first = client.begin(model, {"x": rows(0, 1)}, id="a")
        stage.started(1)
        calls = [client.begin(model, {"x": rows(i, 1)}, id=tag, timeout=30) for i, tag in enumerate("bcde")]
        queued(server, 4)
        calls[0].cancel()
        queued(server, 3)
        stage.started(1)[0].go()
        scene = stage.started(2)[1]
        assert len(scene.tag.split()) == 3
        calls[1].cancel()
        wait.until(lambda: server.deployment()["counts"]["cancelled"] % 2 == 0, "CANCEL")
        scene.go()
        for i in (2, 3):
            assert (oip.Answer(calls[i].result())["output0"] == rows(i, 1)).all()
        first.result()


def test_the_handler_is_cancelled_when_all_have_left(server, client, stage):
    first = client.begin("staged_async", {"x": rows(0, 1)}, id="a")
    stage.started(1)
    calls = [client.begin("staged_async", {"x": rows(i, 1)}, id=tag) for i, tag in enumerate("bc")]
    queued(server, 2)
    stage.started(1)[0].go()
    first.result()
    scene = stage.started(2)[1]
    for call in calls:
        call.cancel()
    assert scene.last_word() == "cancelled"


def test_a_deadline_ends_one_of_them(server, client, stage):
    first = client.begin("staged", {"x": rows(0, 1)}, id="a")
    stage.started(1)
    short = client.begin("staged", {"x": rows(1, 1)}, id="b", timeout=0.5)
    long = client.begin("staged", {"x": rows(2, 1)}, id="c")
    queued(server, 2)
    stage.started(1)[0].go()
    scene = stage.started(2)[1]
    assert short.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
    scene.go()
    assert (oip.Answer(long.result())["output0"] == rows(2, 1)).all()
    first.result()


@pytest.mark.parametrize("how", ["abort", "kill"])
def test_a_death_in_the_middle_of_a_batch(serve, connect, stage, how):
    """All members have started: the client is told, and what waits goes to the next life."""
    server = serve("batches.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    client = connect(server)
    first = client.begin("staged", {"x": rows(0, 1)}, id="a")
    stage.started(1)
    calls = [client.begin("staged", {"x": rows(i, 3)}, id=tag) for i, tag in enumerate("bcd")]
    wait.until(lambda: server.deployment()["queued"] == 3, "the queue")
    stage.started(1)[0].go()
    first.result()
    scene = stage.started(2)[1]
    started, waits = scene.tag.split(), None
    assert len(started) == 2
    if how == "abort":
        scene.go("abort")
    else:
        os.kill(scene.pid, signal.SIGKILL)
    for tag, call in zip("bcd", calls):
        if tag in started:
            assert call.exception().code() == grpc.StatusCode.UNAVAILABLE
            assert oip.trailers_of(call.exception())["anyserve-may-have-executed"] == "1"
        else:
            waits = call
    stage.started(3)[2].go()
    waits.result()
    server.log.wait(r"event=worker_ready .*epoch=2")


# --- answers ---

def test_one_bad_request_fails_alone(client):
    calls = [client.begin("list", {"x": rows(-1 if i % 3 == 0 else i, 2)}, id=str(i)) for i in range(30)]
    for i, call in enumerate(calls):
        if i % 3:
            assert (oip.Answer(call.result())["sum"] == rows(i, 2).sum(axis=1)).all()
        else:
            assert call.exception().code() == grpc.StatusCode.OUT_OF_RANGE
            assert call.exception().details() == f"row of {i}"


@pytest.mark.parametrize("how, why", [
    ("rows", "output 'y' of model 'wrong' has 3 rows; the call has 2 items of 1 request"),
    ("scalar", "output 'y' of model 'wrong' has no dimension that counts items"),
    ("list", "model 'wrong' returned a list of 3 for a call with 1 request; a list has one answer for each"),
])
def test_results_that_do_not_fit(client, how, why):
    error = client.refused("wrong", {"how": oip.bytes_array([how.encode()] * 2)})
    assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, why)


def test_statistics(server, client):
    before = server.deployment()["batches"]
    client.infer("sync", {"x": rows(0, 7)})
    after = server.deployment()["batches"]
    assert after["calls"] == before["calls"] + 1 and after["items"] == before["items"] + 7
    assert after["sizes"][3] == before["sizes"][3] + 1  # 5 to 8 items
    assert 'anyserve_batch_size_bucket{deployment="batches",le="+Inf"}' in server.metrics()


# --- nobody gets another's rows ---

def make(random, i):
    """A request of a random model, with numbers that no other has, and what must come back."""
    model = random.choice(["sync", "held", "async", "threads", "list", "ragged", "text", "plain"])
    n = random.choice([1, 1, 1, 2, 3, 8 if model == "held" else 11])
    if model == "text":
        s = [f"r{i}.{k}-{'x' * random.randrange(20)}".encode() for k in range(n)]
        return model, {"s": oip.bytes_array(s)}, {"upper": [v.upper() for v in s], "size": [len(v) for v in s]}
    x = rows(i * 100, n, random.choice([1, 3, 3, 3, 4]))
    if model == "plain":
        return model, {"x": x}, {"output0": x + 1}
    if model == "list" and random.random() < 0.1:
        x[0, 0] = -1
        return model, {"x": x}, None
    return model, {"x": x}, {"sum": x.sum(axis=1), "back": x[:, ::-1]}


def check(call, want, i):
    if want is None:
        assert call.exception().details() == f"row of {i}"
        return
    got = oip.Answer(call.result()).outputs
    assert set(got) == set(want)
    for name, value in want.items():
        assert got[name].tolist() == np.asarray(value).tolist() if name != "upper" else list(got[name]) == value


def test_nobody_gets_anothers_rows(server, connect):
    """Random requests, many at once, on connections of both loops. ANYSERVE_BATCH_REQUESTS says how many."""
    seed = random.randrange(2**32)
    rand = random.Random(seed)
    clients = [connect(server) for _ in range(4)]
    under_way = []
    for i in range(COUNT):
        model, inputs, want = make(rand, i)
        under_way.append((clients[i % 4].begin(model, inputs, id=str(i), timeout=120), want, i))
        if rand.random() < 0.01:
            under_way.pop(rand.randrange(len(under_way)))[0].cancel()
        while len(under_way) >= AT_ONCE or (under_way and i == COUNT - 1):
            call, want, k = under_way.pop(0)
            try:
                check(call, want, k)
            except (AssertionError, grpc.RpcError) as e:
                raise AssertionError(f"seed {seed}, request {k}") from e
    batches = server.deployment()["batches"]
    assert batches["items"] > 1.5 * batches["calls"]  # or the test has tried nothing
