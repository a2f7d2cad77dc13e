"""Workers of the simple socket protocol, as clients see them. What single bytes do: tests/unit/link/simple/t_simple.c."""

import threading

import grpc
import numpy as np
import pytest
import requests

from support import wait
from support.protocol import oip
from support.protocol.management import Json
from support.protocol.simple import Simple, echo, error, framed

pytestmark = [pytest.mark.core, pytest.mark.quick]

CALL = {"x": np.arange(6, dtype=np.float32).reshape(2, 3)}


@pytest.fixture(scope="module")
def server(serve_module):
    """Two loops: half of the clients' answers cross from one to the other."""
    return serve_module(None, "--threads", "2", "--ping-interval", "200ms",
                        "--max-message-bytes", "8M", "--worker-heartbeat-timeout", "off")


def known(server, name):
    return any(d["name"] == name for d in server.status()["deployments"])


def replica(server, name):
    return next((r for r in server.status()["replicas"] if r["name"] == name), None)


def gone(server, name):
    wait.until(lambda: not known(server, name), f"{name} stays")


@pytest.fixture
def clients(server, connect):
    """On both loops, very likely."""
    return [connect(server) for _ in range(6)]


def test_every_datatype(server, clients):
    arrays = {name: np.arange(6).astype(code).reshape(2, 3) for name, code in oip.DTYPES.items()}
    arrays["BYTES"] = oip.bytes_array([b"", b"a", "ü".encode(), b"\0\xff"], (2, 2))
    with Simple(server, "echo"):
        for client in clients:
            answer = client.infer("echo", arrays, id="mine", parameters={"k": 1})
            assert answer.message.id == "mine"
            for name, array in arrays.items():
                assert np.array_equal(answer[name], array), name


@pytest.mark.parametrize("n", [0, 1, 8192, 8193, 65536, 200_000, 3_000_000])
def test_every_size(server, clients, n):
    array = np.random.default_rng(n).integers(0, 256, n, np.uint8)
    with Simple(server, "echo"):
        for client in clients:
            assert np.array_equal(client.infer("echo", {"x": array})["x"], array)


def test_over_rest(server):
    with Simple(server, "echo"):
        body = {"id": "r", "inputs": [{"name": "x", "datatype": "INT64", "shape": [3], "data": [1, 2, 3]}]}
        for _ in range(6):
            answer = requests.post(f"http://{server.address}/v2/models/echo/infer", json=body, timeout=30)
            assert answer.status_code == 200
            assert answer.json()["outputs"][0]["data"] == [1, 2, 3]
            assert answer.json()["id"] == "r"


def test_large_answers_lie_at_any_address(server, clients):
    """Their bytes stay where they were in the message. Who reads numbers of them (JSON, classes) does not care."""
    x = np.random.default_rng(3).permutation(20_000) / 7 + 0.1
    body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [20_000], "data": x.tolist()}]}
    for n in range(8):  # the id moves them
        with Simple(server, "echo", handle=lambda q, n=n: echo(q, "m" * n)):
            answer = requests.post(f"http://{server.address}/v2/models/echo/infer", json=body, timeout=30)
            assert answer.json()["outputs"][0]["data"] == x.tolist()
            q = oip.infer_request("echo", {"x": x}, outputs=["x"])
            oip.set_parameter(q.outputs[0].parameters, "classification", 1)
            best = np.argmax(x)
            (text,) = oip.Answer(clients[n % len(clients)].call("ModelInfer", q))["x"]
            assert text == f"{float(x[best])!r}:{best}".encode()


def test_what_the_worker_gets(server, client):
    got = []

    def handle(q):
        got.append(q)
        r = echo(q)
        oip.set_parameter(r.parameters, "took", 0.5)
        return r

    with Simple(server, "team/model", handle=handle, version="7"):
        answer = client.infer("team/model", CALL, version="7", id="i", parameters={"a": 1, "b": "two"})
        client.infer("team/model", CALL)
    assert answer.parameters == {"took": 0.5}
    first, second = got
    assert (first.model_name, first.model_version, first.id) == ("team/model", "7", "i")
    assert oip.parameters_of(first.parameters) == {"a": 1, "b": "two"}
    assert second.model_version == "7" and second.id


def test_errors(server, clients):
    with Simple(server, "bad", handle=lambda q: error(q, "NOT_FOUND", "no such key: ü")):
        for client in clients:
            refused = client.refused("bad", CALL)
            assert refused.code() == grpc.StatusCode.NOT_FOUND
            assert refused.details() == "no such key: ü"


def test_garbage(server, clients):
    since = len(server.log.lines)
    with Simple(server, "bad", handle=lambda q: framed(b"garbage")) as worker:
        for client in clients:
            refused = client.refused("bad", CALL)
            assert refused.code() == grpc.StatusCode.INTERNAL
            assert "the worker's answer is not valid" in refused.details()
        worker.handle = echo
        assert np.array_equal(clients[0].infer("bad", CALL)["x"], CALL["x"])
    server.log.wait(r"event=worker_fault replica=w deployment=bad:1 reason=", since)


def test_outputs_that_contradict_the_signature(server, client):
    spec = [{"name": "y", "datatype": "FP32", "shape": [-1]}]
    with Simple(server, "signed", signature={"outputs": spec}):
        assert client.refused("signed", CALL).code() == grpc.StatusCode.INTERNAL


def test_a_deadline_frees_the_slot(server, client):
    begun, go = threading.Event(), threading.Event()

    def handle(q):
        begun.set()
        go.wait(30)
        return echo(q)

    with Simple(server, "slow", handle=handle) as worker:
        call = client.begin("slow", CALL, timeout=0.5)
        assert begun.wait(30)
        assert call.exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
        worker.handle = echo
        assert np.array_equal(client.infer("slow", CALL)["x"], CALL["x"])  # on another connection
        go.set()  # and an answer that nobody reads
        for _ in range(5):
            client.infer("slow", CALL)


def test_a_worker_that_dies(server, client):
    """Out of the rotation at once, which health clients see; requests wait for it."""
    with Simple(server, "mortal") as worker:
        client.infer("mortal", CALL)
        worker.die()
        wait.until(lambda: replica(server, "w")["state"] == "lost", "it is not lost")
        ready = oip.messages()["ModelReadyRequest"](name="mortal")
        assert not client.call("ModelReady", ready).ready
        call = client.begin("mortal", CALL)
        worker.listen()
        assert np.array_equal(oip.Answer(call.result())["x"], CALL["x"])
        wait.until(lambda: replica(server, "w")["state"] == "ready", "it is not back")


def test_forgotten_after_the_grace_time(serve, connect):
    server = serve(None, "--worker-grace", "300ms")
    client = connect(server)
    stays = threading.Event()
    with Simple(server, "mortal", handle=lambda q: stays.wait(wait.SECONDS) and echo(q)) as worker:
        running, call = client.begin("mortal", CALL), client.begin("mortal", CALL)
        wait.until(lambda: server.deployment()["queued"] == 1, server.status)  # for its only slot
        worker.die()
        assert running.exception() and call.exception().code() == grpc.StatusCode.UNAVAILABLE
        stays.set()
        gone(server, "mortal:1")
        assert worker.unregister()[0] == 404
        assert client.refused("mortal", CALL).code() == grpc.StatusCode.NOT_FOUND
    client.close()


def test_one_of_several_is_killed_under_load(server, clients):
    """Idempotent: no error and no wrong answer, while each dies and comes back."""
    workers = [Simple(server, "many", f"w{i}", slots=4, idempotent=True) for i in range(3)]
    for w in workers:
        w.register()
    errors, done, stop = [], [0] * len(clients), threading.Event()

    def load(i):
        rng = np.random.default_rng(i)
        while not stop.is_set():
            x = rng.integers(0, 1000, 50)
            try:
                if not np.array_equal(clients[i].infer("many", {"x": x})["x"], x):
                    errors.append("a wrong answer")
            except grpc.RpcError as e:
                errors.append(e)
            done[i] += 1

    threads = [threading.Thread(target=load, args=(i,)) for i in range(len(clients))]
    for t in threads:
        t.start()
    for i in range(9):
        before = sum(done)
        wait.until(lambda: sum(done) >= before + 50, "nothing is answered")
        w = workers[i % 3]
        w.die()
        before = sum(done)
        wait.until(lambda: sum(done) >= before + 50, "nothing is answered")
        w.listen()
        if i % 2:
            w.register()
        wait.until(lambda: replica(server, w.worker)["state"] == "ready", "it is not back")
    stop.set()
    for t in threads:
        t.join()
    for w in workers:
        w.__exit__()
    assert not errors
    gone(server, "many:1")


def test_memory_after_they_have_come_and_gone(server, client):
    def round_trip(i):
        with Simple(server, "fleeting", f"w{i % 5}"):
            client.infer("fleeting", CALL)
        gone(server, "fleeting:1")

    def live():
        return server.status()["server"]["live_bytes"]

    for i in range(20):
        round_trip(i)
    before = live()
    for i in range(60):
        round_trip(i)
    wait.until(lambda: live() <= before, lambda: f"{live()} bytes are held, {before} were")
    with Json(server) as management:
        assert not management.beat("w1")
