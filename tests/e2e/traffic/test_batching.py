"""Dynamic batching: requests share calls, and each gets what it would have got alone."""

import json
import os
import random
import signal
import subprocess

import grpc
import numpy as np
import pytest

from support import paths, wait
from support.protocol import oip

pytestmark = [pytest.mark.core, pytest.mark.quick]

MASKED = "a masked array, whose mask would be lost: return .filled(value), or the mask as an output of its own"
CROWD = int(os.environ.get("ANYSERVE_CROWD", "20000"))


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


def queued(server, n, deployment="batches"):
    wait.until(lambda: server.deployment(deployment)["queued"] == n, lambda: server.deployment(deployment))


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
        assert server.deployment("batches")["ongoing"] == len(tags.split())
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
        wait.until(lambda: server.deployment("batches")["counts"]["cancelled"] % 2 == 0, "CANCEL")
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
    before = server.counts("batches")["accepted"]
    short = client.begin("staged", {"x": rows(1, 1)}, id="b", timeout=0.5)
    long = client.begin("staged", {"x": rows(2, 1)}, id="c")
    wait.until(lambda: server.counts("batches")["accepted"] == before + 2, server.status)
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
    wait.until(lambda: server.deployment("batches")["queued"] == 3, "the queue")
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


def test_a_batch_that_may_run_again_runs_again(serve, connect, stage):
    """idempotent=True: all members of the call that died are answered by the next life, together."""
    server = serve("batches.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    client = connect(server)
    first = client.begin("safe", {"x": rows(0, 1)}, id="a")
    stage.started(1)
    calls = [client.begin("safe", {"x": rows(10 * i, 2)}, id=tag) for i, tag in enumerate("bcd")]
    queued(server, 3, "safe")
    stage.started(1)[0].go()
    first.result()
    scene = stage.started(2)[1]
    assert len(scene.tag.split()) == 3
    os.kill(scene.pid, signal.SIGKILL)
    again = stage.started(3)[2]
    assert again.tag == scene.tag and again.pid != scene.pid
    again.go()
    for i, call in enumerate(calls):
        assert (oip.Answer(call.result())["output0"] == rows(10 * i, 2)).all()
    server.log.wait(r"event=worker_ready .*epoch=2")


# --- waiting for company, here for a minute ---

def patient(client, model, x, tag):
    """Without a deadline, which would shorten the wait."""
    return client.begin(model, {"x": x}, timeout=None, id=tag)


def test_a_batch_that_is_full_does_not_wait(server, client):
    calls = []
    for i, tag in enumerate("abc"):
        queued(server, i)
        calls.append(patient(client, "company", rows(i, 1), tag))
    for i, call in enumerate(calls):
        answer = oip.Answer(call.result(wait.SECONDS))
        assert (answer["y"] == rows(i, 1)).all()
        assert answer.parameters["with"] == "a b c"


def test_what_does_not_fit_the_rest_of_a_batch_begins_the_next(server, client):
    """Two items and two more are over three: the first pair goes, the second waits for one item."""
    first = patient(client, "company", rows(0, 2), "a")
    queued(server, 1)
    second = patient(client, "company", rows(10, 2), "b")
    assert oip.Answer(first.result(wait.SECONDS)).parameters["with"] == "a"
    queued(server, 1)
    third = patient(client, "company", rows(20, 1), "c")
    for call, x in [(second, rows(10, 2)), (third, rows(20, 1))]:
        answer = oip.Answer(call.result(wait.SECONDS))
        assert (answer["y"] == x).all() and answer.parameters["with"] == "b c"


def test_a_deadline_is_not_waited_away(client):
    """Nobody comes, and the wait would be a minute: it is served before its deadline."""
    client.infer("company", {"x": rows(0, 3)})  # the handler's usual time is known then
    answer = client.infer("company", {"x": rows(0, 1)}, timeout=3)
    assert (answer["y"] == rows(0, 1)).all()


def test_preferred_sizes(server, client, stage):
    calls = [patient(client, "preferred", rows(0, 2), "a")]
    stage.started(1)
    for i, tag in enumerate("bcdef"):
        calls.append(patient(client, "preferred", rows(10 + i, 1), tag))
        queued(server, i + 1)
    stage.started(1)[0].go()
    assert stage.started(2)[1].tag == "b c d e"
    stage.started(2)[1].go()
    for call in calls[:5]:
        call.result(wait.SECONDS)
    assert server.deployment("batches")["queued"] == 1  # f: one is not a size that the model likes
    calls.append(patient(client, "preferred", rows(20, 1), "g"))
    assert stage.started(3)[2].tag == "f g"
    stage.started(3)[2].go()
    assert (oip.Answer(calls[5].result(wait.SECONDS))["output0"] == rows(14, 1)).all()
    assert (oip.Answer(calls[6].result(wait.SECONDS))["output0"] == rows(20, 1)).all()


# --- answers ---

def test_what_is_raised_answers_for_all(server, client, stage):
    first = client.begin("raises", {"x": rows(0, 1)}, id="a")
    stage.started(1)
    calls = [client.begin("raises", {"x": rows(i, 2)}, id=tag) for i, tag in enumerate("bcd")]
    queued(server, 3)
    stage.started(1)[0].go()
    assert first.exception().details() == "no room for 1"
    assert len(stage.started(2)[1].tag.split()) == 3
    stage.started(2)[1].go()
    for call in calls:
        assert (call.exception().code(), call.exception().details()) == \
            (grpc.StatusCode.FAILED_PRECONDITION, "no room for 6")

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
    ("masked", "output 'output0' of model 'wrong' is " + MASKED), ("masked_each", "output 'output0' of model 'wrong' is " + MASKED),
    ("list", "model 'wrong' returned a list of 3 for a call with 1 request; a list has one answer for each"),
])
def test_results_that_do_not_fit(client, how, why):
    error = client.refused("wrong", {"how": oip.bytes_array([how.encode()] * 2)})
    line = (paths.APPS / "batches.py").read_text().splitlines().index('@app.model("wrong", batching=Batching(8))') + 1
    assert (error.code(), error.details()) == (grpc.StatusCode.INTERNAL, f"{why} (batches.py:{line})")


def test_statistics(server, client):
    before = server.deployment("batches")["batches"]
    client.infer("sync", {"x": rows(0, 7)})
    after = server.deployment("batches")["batches"]
    assert after["calls"] == before["calls"] + 1 and after["items"] == before["items"] + 7
    assert after["sizes"][3] == before["sizes"][3] + 1  # 5 to 8 items
    assert 'anyserve_batch_size_bucket{application="default",deployment="batches",le="+Inf"}' in server.metrics()


# --- nobody gets another's rows ---

def test_nobody_gets_anothers_rows(server, connect):
    """grpcio as the client, requests on connections of both loops; tests/crowd asks more, and far more often."""
    clients = [connect(server) for _ in range(4)]
    under_way = []
    for i in range(400):
        model = ["sync", "held", "async", "threads", "list", "ragged"][i % 6]
        x = rows(i * 100, 1 + i % 3)
        under_way.append((clients[i % 4].begin(model, {"x": x}, id=str(i)), x))
        while len(under_way) >= 64 or (under_way and i == 399):
            call, x = under_way.pop(0)
            answer = oip.Answer(call.result())
            assert (answer["sum"] == x.sum(axis=1)).all() and (answer["back"] == x[:, ::-1]).all()


def test_a_crowd_gets_its_own(serve):
    """Random requests of every kind over gRPC and HTTP, each answer judged. ANYSERVE_CROWD says how many."""
    server = serve(paths.ROOT / "tests/crowd/model.py", "--threads", "2")
    seed = random.randrange(2**32)
    done = subprocess.run([paths.BUILD / "tests/crowd/crowd", "--port", str(server.port), "--calls",
                           str(CROWD), "--seed", str(seed)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    result = json.loads(done.stdout)
    assert result["right"] > 0.7 * CROWD
    batches = server.deployment()["batches"]
    # that is, 1.5 requests or more of a call, or the test has tried nothing
    assert batches["items"] / batches["calls"] > 1.5 * result["rows"] / result["right"]
