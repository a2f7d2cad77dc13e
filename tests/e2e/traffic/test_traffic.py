"""Canaries, mirrors and fallback among the versions of a model; the real server, gRPC and REST."""

import json
import os
import queue
import signal

import grpc
import numpy as np
import pytest

from support import paths, wait
from support.process import procs
from support.protocol import http, oip, prometheus

BOTH = pytest.mark.parametrize("traffic", [1, 2], indirect=True, ids=["1-loop", "2-loops"])  # clients' loops
X = {"x": np.array([1.0])}
GIVEN_UP = "event=worker_exit replica=(two|new)-0 .*given up"
LARGE = {"x": np.ones(200_000)}


@pytest.fixture
def broken(tmp_path):
    return tmp_path / "broken"


@pytest.fixture
def traffic(serve, stage, broken, request):
    """traffic(*options, deployment={…}, …) → a server of traffic.py"""
    def start(*args, **deployments):
        stage.reset()
        env = {"TRAFFIC": json.dumps(deployments), "ANYSERVE_TEST_STAGE": stage.path, "TRAFFIC_BROKEN": str(broken)}
        server = serve("traffic.py", "--threads", getattr(request, "param", 1), "--max-start-failures", "2",
                       "--restart-backoff", "10ms", *args, env=env)
        server.expected.append(GIVEN_UP)
        return server
    return start


def by_grpc(server, client, **fields):
    """The version that answers; it says the same as the answer's name of it."""
    return client.infer("m", X, **fields).message.model_version


def by_rest(server, client, id="", version=""):
    conn = http.Http1(server.host, server.port)
    path = f"/v2/models/m/versions/{version}/infer" if version else "/v2/models/m/infer"
    fields = {"id": id} if id else {}
    reply = conn.request("POST", path, http.infer_json(X, **fields))
    conn.close()
    assert reply.status == 200, reply
    return reply.json()["model_version"]


FRONTS = pytest.mark.parametrize("ask", [by_grpc, by_rest], ids=["grpc", "rest"])


def count(server, name, deployment):
    return prometheus.total(prometheus.parse(server.metrics()), f"anyserve_{name}_total", deployment=deployment)


def lose(server, broken, deployment="two"):
    """Its only replica dies, and no other can start."""
    broken.touch()
    procs.kill(server.workers()[f"{deployment}-0"], signal.SIGKILL)
    wait.until(lambda: f"{deployment}-0" not in server.workers(), lambda: server.status())


def heal(server, broken):
    """What was given up is tried again by the next controller."""
    broken.unlink()
    old = server.controller
    procs.kill(old, signal.SIGKILL)
    wait.until(lambda: server.controller not in (None, old), "another controller")
    server.wait_all_ready()


# --- canaries ---

@FRONTS
@pytest.mark.core
def test_a_canary_gets_its_part(traffic, connect, ask):
    server = traffic(one={}, two={"canary_percent": 12.5})
    client = connect(server)
    got = [ask(server, client) for _ in range(80)]
    assert 8 <= got.count("2") <= 12, got  # by turns: as even as can be
    assert got.count("1") == 80 - got.count("2")
    assert {ask(server, client, version="2") for _ in range(3)} == {"2"}
    assert {ask(server, client, version="1") for _ in range(20)} == {"1"}


def test_an_id_always_meets_the_same_version(traffic, connect):
    server = traffic(one={}, two={"canary_percent": 50})
    client = connect(server)
    ids = [f"order-{i}" for i in range(40)]
    first = {i: by_grpc(server, client, id=i) for i in ids}
    assert 8 <= list(first.values()).count("2") <= 32  # sigma is 3.2
    procs.kill(server.dispatcher, signal.SIGKILL)
    server.wait_all_ready()
    assert {i: by_rest(server, None, id=i) for i in ids} == first


def test_a_canary_that_is_gone_costs_nobody_a_request(traffic, connect, broken):
    server = traffic(one={}, two={"canary_percent": 100})
    client = connect(server)
    assert by_grpc(server, client) == "2"
    lose(server, broken)
    assert {by_grpc(server, client) for _ in range(5)} == {"1"}
    heal(server, broken)
    assert by_grpc(server, client) == "2"


# --- fallback ---

@FRONTS
def test_without_a_replica_another_deployment_answers(traffic, connect, broken, ask):
    server = traffic(one={}, two={"fallback": "one"})
    client = connect(server)
    assert ask(server, client) == "2"
    lose(server, broken)
    assert {ask(server, client) for _ in range(5)} == {"1"}
    assert count(server, "fallbacks", "two") == 5
    server.log.wait(GIVEN_UP)  # and so it is when no replica will come
    assert ask(server, client) == "1"
    heal(server, broken)
    assert ask(server, client) == "2"


def test_the_answer_tells_who_gave_it(traffic, connect, broken):
    server = traffic(one={}, two={"fallback": "one"})
    client = connect(server)
    assert "anyserve_served_by" not in client.infer("m", X).parameters
    lose(server, broken)
    answer = client.infer("m", X)
    assert answer.parameters["anyserve_served_by"] == "one"
    assert answer["y"] == 2
    conn = http.Http1(server.host, server.port)
    assert conn.request("POST", "/v2/models/m/infer", http.infer_json(X)).json()["parameters"] == {
        "anyserve_served_by": "one"}
    conn.close()
    heal(server, broken)


def test_who_names_a_version_gets_that_one_or_nothing(traffic, connect, broken):
    server = traffic(one={}, two={"fallback": "one"})
    client = connect(server)
    lose(server, broken)
    waits = client.begin("m", X, version="2")  # for a replica, as ever
    error = waits.exception()  # when it is given up
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert "no worker of model 'm' is available" in error.details()
    assert count(server, "fallbacks", "two") == 0
    heal(server, broken)


@pytest.mark.core
@BOTH
def test_a_full_queue_falls_back_along_the_chain(traffic, stage, connect):
    server = traffic(one={"queue": 1}, two={"fallback": "one", "queue": 1}, three={"fallback": "two", "queue": 1})
    client = connect(server)
    calls = []
    for i, deployment in enumerate(["three", "two", "one"]):
        calls.append(client.begin("m", X, id=f"wait-{i}a"))
        assert stage.started(i + 1)[i].tag == f"{deployment}:wait-{i}a"
        calls.append(client.begin("m", X, id=f"wait-{i}b"))
        wait.until(lambda: server.deployment(deployment)["queued"] == 1, lambda: server.status())
    error = client.refused("m", X)
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert int(oip.trailers_of(error)["grpc-retry-pushback-ms"]) > 0
    assert (count(server, "fallbacks", "three"), count(server, "fallbacks", "two")) == (5, 3)
    for i in range(6):
        stage.started(i + 1)[i].go()
    assert [c.result().model_version for c in calls] == ["3", "3", "2", "2", "1", "1"]


@pytest.mark.core
@BOTH
def test_what_waits_goes_elsewhere_when_the_last_replica_dies(traffic, stage, connect, broken):
    server = traffic(one={}, two={"fallback": "one"})
    client = connect(server)
    runs, waits = client.begin("m", X, id="wait-a"), None
    stage.started(1)
    waits = client.begin("m", X, id="b")
    wait.until(lambda: server.deployment("two")["queued"] + server.deployment("two")["prefetched"] == 1,
               lambda: server.status())
    lose(server, broken)
    assert waits.result().model_version == "1"
    error = runs.exception()  # it was being executed, and is not idempotent: it runs nowhere else
    assert oip.trailers_of(error)["anyserve-may-have-executed"] == "1"
    heal(server, broken)


def test_inputs_that_the_other_does_not_take_do_not_fall_back(serve, connect, broken):
    source = """
import os, numpy as np
from anyserve import AnyServe, Tensor
app = AnyServe()
app.deployment("new", fallback="old")
@app.model("m", version="1", deployment="old", inputs={"x": Tensor("FP32", [2])})
def old(x):
    return x
@app.model("m", version="2", deployment="new")
class New:
    def __init__(self):
        if os.path.exists(os.environ["BROKEN"]):
            raise RuntimeError("the file is there")
    def __call__(self, x):
        return x
"""
    server = serve("unlike.py", "--max-start-failures", "1", source=source, env={"BROKEN": str(broken)})
    server.expected.append(GIVEN_UP)
    client = connect(server)
    lose(server, broken, "new")
    assert client.infer("m", {"x": np.ones(2, np.float32)}).message.model_version == "1"
    error = client.refused("m", {"x": np.ones(3, np.float32)})
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    heal(server, broken)


@pytest.mark.core
@BOTH
def test_a_stream_falls_back_before_it_begins(traffic, connect, broken):
    server = traffic(one={}, two={"fallback": "one"})
    lose(server, broken)
    client = connect(server)
    call = client.channel.stream_stream(f"/{oip.SERVICE}/ModelStreamInfer", lambda q: q.SerializeToString(),
                                        oip.messages()["ModelStreamInferResponse"].FromString)
    answers = [oip.Answer(m.infer_response) for m in call(iter([oip.infer_request("numbers", {}, parameters={"count": 3})] * 2))]
    assert [int(a["output0"][0]) for a in answers] == [0, 1, 2] * 2
    assert {(a.message.model_version, a.parameters["anyserve_served_by"]) for a in answers} == {("1", "one")}
    conn = http.Http1(server.host, server.port)
    reply = conn.request("POST", "/v2/models/numbers/generate_stream", b'{"count": 3}')
    conn.close()
    assert reply.status == 200 and reply.data.count(b"data: ") == 3, reply
    assert count(server, "fallbacks", "two") == 3
    heal(server, broken)


class Talk:
    """A call of ModelStreamInfer, message by message."""

    def __init__(self, client):
        self.out = queue.SimpleQueue()
        method = client.channel.stream_stream(f"/{oip.SERVICE}/ModelStreamInfer", lambda q: q.SerializeToString(),
                                              oip.messages()["ModelStreamInferResponse"].FromString)
        self.call = method(iter(self.out.get, None), timeout=wait.SECONDS)

    def say(self, model, count):
        self.out.put(oip.infer_request(model, {}, parameters={"count": count}))

    def hear(self):
        m = next(self.call)
        assert not m.error_message, m.error_message
        return int(oip.Answer(m.infer_response)["output0"][0]), m.infer_response.model_version

    def end(self):
        self.out.put(None)
        assert list(self.call) == []


@BOTH
def test_a_stream_of_requests_stays_where_its_first_one_went(traffic, connect, broken):
    server = traffic(one={"sums": True}, two={"fallback": "one", "sums": True},
                     three={"canary_percent": 50, "sums": True})
    client = connect(server)
    for version in ("2", "3"):  # by turns: the second call is the canary's
        talk = Talk(client)
        for i in range(1, 5):
            talk.say("sums", 1)
            assert talk.hear() == (i, version)
        talk.end()
    lose(server, broken)
    seen = set()
    for _ in range(2):
        talk = Talk(client)
        talk.say("sums", 5)
        total, version = talk.hear()
        seen.add(version)
        for i in range(1, 4):
            talk.say("sums", 1)
            assert talk.hear() == (5 + i, version)
        talk.end()
    assert seen == {"1", "3"}
    heal(server, broken)


# --- mirrors ---

def settled(server, name, n):
    """The counter of three's copies, when it is there."""
    wait.until(lambda: count(server, name, "three") == n, lambda: server.metrics())


@FRONTS
def test_a_mirror_sees_its_part_and_no_client_sees_it(traffic, connect, ask):
    server = traffic(one={}, two={"canary_percent": 50}, three={"canary_percent": 0, "mirror_percent": 100})
    client = connect(server)
    for i in range(10):
        assert ask(server, client) in ("1", "2")
        settled(server, "mirrored", i + 1)  # one slot: the next copy would find none
        wait.until(lambda: server.counts("three")["completed"] == i + 1, lambda: server.status())
    assert ask(server, client, version="3") == "3"
    settled(server, "mirrored", 10)  # what it is asked itself is not mirrored
    assert (count(server, "mirror_dropped", "three"), count(server, "mirror_failed", "three")) == (0, 0)


@BOTH
def test_large_inputs_are_mirrored_too(traffic, connect):
    server = traffic(one={}, three={"canary_percent": 0, "mirror_percent": 100})
    assert connect(server).infer("m", LARGE)["y"].sum() == 400_000
    settled(server, "mirrored", 1)
    wait.until(lambda: server.counts("three")["completed"] == 1, lambda: server.status())


@pytest.mark.core
@BOTH
def test_a_mirror_that_is_busy_or_fails_disturbs_nobody(traffic, stage, connect):
    server = traffic(one={"max_ongoing_requests": 1}, three={"canary_percent": 0, "mirror_percent": 100})
    client = connect(server)
    call = client.begin("m", X, id="wait-a")
    scenes = {s.tag.split(":")[0]: s for s in stage.started(2)}
    scenes["one"].go()
    assert call.result().model_version == "1"
    for _ in range(3):  # its only slot is taken: nothing waits for it
        assert by_grpc(server, client) == "1"
    settled(server, "mirror_dropped", 3)
    assert server.deployment("three")["queued"] == 0
    scenes["three"].go("raise")
    settled(server, "mirror_failed", 1)
    assert by_grpc(server, client) == "1"
    settled(server, "mirrored", 2)


@BOTH
def test_streams_are_mirrored(traffic, connect):
    server = traffic(one={}, three={"canary_percent": 0, "mirror_percent": 100})
    conn = http.Http1(server.host, server.port)
    reply = conn.request("POST", "/v2/models/numbers/generate_stream", b'{"count": 500}')
    conn.close()
    assert reply.data.count(b"data: ") == 500
    settled(server, "mirrored", 1)
    wait.until(lambda: server.counts("three")["completed"] == 1, lambda: server.status())


def test_copies_are_paid_for_or_not_made(traffic, connect):
    server = traffic("--max-inflight-bytes", "3M", "--connection-share", "100", one={}, three={"canary_percent": 0, "mirror_percent": 100})
    client = connect(server)
    assert client.infer("m", LARGE)["y"].size == 200_000  # 1.6 MB, twice
    assert prometheus.total(prometheus.parse(server.metrics()), "anyserve_mirror_uncopied_total") == 1
    assert count(server, "mirrored", "three") == 0
    assert by_grpc(server, client) == "1"
    settled(server, "mirrored", 1)


# --- while it serves ---

def test_a_canary_grows_and_is_promoted_without_a_restart(serve, connect, tmp_path):
    """By files that are deployed; those that make no sense change nothing."""
    names = ("one", "two")

    def say(**two):
        return {"applications": [{"name": "shop", "import_path": "traffic:app", "working_dir": str(paths.APPS),
                                  "env": {"TRAFFIC": json.dumps({n: {} for n in names})},
                                  "deployments": [{"name": "one"}, {"name": "two", **two}]}]}

    def deploy(**two):
        conn = http.Unix(os.path.join(server.folder_of_port(), "control.sock"))
        conn.request("PUT", "/api/serve/applications/", json.dumps(say(**two)))
        reply = conn.getresponse()
        text = reply.read().decode()
        conn.close()
        return reply.status, text

    file = tmp_path / "anyserve.yaml"
    file.write_text(json.dumps(say(canary_percent=0)))
    server = serve(file, "--state-dir", tmp_path / "state", verb="start")
    client, before = connect(server), server.workers()
    assert {by_grpc(server, client) for _ in range(10)} == {"1"}
    for percent in (50, 100):
        assert deploy(canary_percent=percent)[0] == 200
        server.log.wait(rf"event=traffic deployment=shop#two canary=yes canary_percent={percent}\.000")
        # its replica gets nothing until it has answered that it is reconfigured
        wait.until(lambda: by_grpc(server, client) == "2", lambda: server.status())
        got = [by_grpc(server, client) for _ in range(20)].count("2")
        assert abs(got - 20 * percent // 100) <= 2  # any 20 turns in a row
    status, text = deploy(fallback="onn")
    assert status == 400 and "there is no deployment 'onn'; did you mean one?" in text, text
    status, text = deploy(fallback="two")
    assert status == 400 and "the deployments form a circle: two → two" in text, text
    assert deploy()[0] == 200  # the canary is no canary any more
    server.log.wait("event=traffic deployment=shop#two canary=no")
    assert {by_grpc(server, client) for _ in range(5)} == {"2"}
    assert server.workers() == before


# --- what cannot be ---

@pytest.mark.parametrize("options, why", [
    ({"one": {}, "two": {"fallback": "onn"}}, "there is no deployment 'onn'; did you mean one?"),
    ({"one": {"fallback": "two"}, "two": {"fallback": "one"}}, "the deployments form a circle: one → two → one"),
    ({"one": {"canary_percent": 101}}, "canary_percent"),
])
def test_wrong_words_end_the_start(serve, options, why):
    server = serve("traffic.py", env={"TRAFFIC": json.dumps(options)}, wait_ready=False)
    server.process.wait(wait.SECONDS)
    server.log.join()
    server.exit_code = server.process.returncode
    assert server.exit_code != 0 and why in server.log.text(), server.log.text()
