"""Multiplexed models: each is loaded once, and its requests go where it is."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest
from routing_world import Later, open_gate
from support import wait
from support.process import procs

pytestmark = pytest.mark.core
MODELS = [f"model-{i}" for i in range(20)]  # three replicas hold eight each


def test_a_herd_loads_each_model_once_and_hits_follow_the_holders(routing):
    r = routing(max_ongoing_requests=200)
    with ThreadPoolExecutor(40) as pool:
        first = list(pool.map(r.model, MODELS * 6))
    assert sorted(r.loads()) == sorted(MODELS)
    holder = {a["model"]: a["pid"] for a in first}
    assert sorted(holder) == sorted(MODELS)
    assert all(holder[a["model"]] == a["pid"] for a in first)
    held = r.replicas()
    assert sorted(h["multiplexed_models"] for h in held.values()) == [6, 7, 7], held
    for m in MODELS:
        assert r.call(multiplexed_model_id=m)["pid"] == holder[m]
        assert r.grpc(multiplexed_model_id=m)["pid"] == holder[m]
        assert r.get(version="h2", serve_multiplexed_model_id=m)["pid"] == holder[m]
    assert sorted(r.loads()) == sorted(MODELS)
    router = r.router()
    assert (router["model_misses"], router["model_hits"]) == (20, 20 * 6 - 20 + 60)
    metrics = r.server.metrics()
    assert 'anyserve_model_misses_total{application="models",deployment="Models"} 20' in metrics
    assert 'anyserve_router_info{application="models",deployment="Models",router="late_binding"} 1' in metrics


def test_an_evicted_model_is_loaded_where_there_is_room(routing):
    r = routing(1, max_ongoing_requests=4)
    for m in MODELS[:9]:
        r.model(m)
    (held,) = r.replicas().values()
    assert sorted(held["multiplexed_model_ids"]) == sorted(MODELS[1:9])
    assert held["multiplexed_models"] == 8
    r.model(MODELS[0])
    assert r.loads() == [*MODELS[:9], MODELS[0]]
    assert r.router()["model_misses"] == 10


def test_a_full_model_does_not_hold_up_another(routing):
    r = routing(2, max_ongoing_requests=1, router=("late_binding", {"max_wait_s": 3600}))
    gate, busy = r.begin(serve_multiplexed_model_id="full")
    r.wait_for(ongoing=1)
    waiting = Later(lambda: r.model("full"))
    r.wait_for(waiting_for_preferred=1)
    others = {r.model("other")["pid"] for _ in range(3)}
    assert not waiting.is_done() and not busy.is_done()
    assert r.router()["waiting_for_preferred"] == 1
    open_gate(gate)
    assert busy.result()["pid"] == waiting.result()["pid"] not in others
    assert sorted(r.loads()) == ["full", "other"]


def test_a_model_that_its_holder_is_too_busy_for_is_loaded_by_another(routing):
    r = routing(2, max_ongoing_requests=1, router=("late_binding", {"max_wait_s": 0.05}))
    first = r.model("m")["pid"]
    gate, busy = r.begin(serve_multiplexed_model_id="m")
    r.wait_for(ongoing=1)
    assert r.model("m")["pid"] != first
    open_gate(gate)
    assert busy.result()["pid"] == first
    assert r.loads() == ["m", "m"]


def test_the_models_of_a_replica_that_is_killed_are_loaded_elsewhere(routing):
    r = routing(2, max_ongoing_requests=1, idempotent=True, router=("late_binding", {"max_wait_s": 3600}))
    holder = r.model("m")["pid"]
    gate, running = r.begin(serve_multiplexed_model_id="m")
    r.wait_for(ongoing=1)
    waiting = [Later(lambda: r.model("m")) for _ in range(3)]
    r.wait_for(waiting_for_preferred=3)
    procs.kill(holder)
    wait.until(lambda: not procs.alive(holder), "a death")  # so that the gate opens when its successor reads
    open_gate(gate)
    answers = [q.result() for q in (running, *waiting)]
    assert holder not in {a["pid"] for a in answers}
    assert len({a["pid"] for a in answers}) == 1
    assert r.loads() == ["m", "m"]


def test_without_models_requests_go_anywhere(routing):
    r = routing(2, max_ongoing_requests=1)
    gate, busy = r.begin()
    r.wait_for(ongoing=1)
    assert r.get()["model"] == ""
    open_gate(gate)
    busy.result()
    router = r.router()
    assert (router["model_hits"], router["model_misses"]) == (0, 0)


@pytest.mark.parametrize("size", [8 << 10, 64 << 10])
def test_ids_of_any_size_end_in_an_answer(routing, size):
    r = routing(1, router="session")
    for header in b"x-session-id", b"serve_multiplexed_model_id":
        with socket.create_connection((r.server.host, r.server.port), timeout=wait.SECONDS) as s:
            s.sendall(b"GET /models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n" + header + b": " + b"s" * size + b"\r\n\r\n")
            answer = s.recv(100)
        assert answer.split()[1] in (b"200", b"431"), answer
    assert r.get()["model"] == ""
