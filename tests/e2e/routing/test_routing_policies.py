"""How a deployment's policy is set, changed under requests, and refused."""

import threading

import pytest

pytestmark = pytest.mark.core


def test_round_robin_is_exact(routing):
    r = routing(3, router="round_robin")
    order = [r.get()["pid"] for _ in range(12)]
    assert len(set(order[:3])) == 3
    assert order == order[:3] * 4


@pytest.mark.parametrize("config, why", [
    ({"request_router_class": "sesion"}, "request_router_class: 'sesion' is no built-in router; did you mean session?"),
    ({"request_router_class": "session", "request_router_kwargs": {"session_ttl_s": -1}},
     "request_router_kwargs: session_ttl_s: '-1' is not a number of seconds from 0.001 to 31536000"),
    ({"request_router_kwargs": {"virtual_node": 1}}, "did you mean virtual_nodes?"),
])  # fmt: skip
def test_what_is_wrong_is_named(routing, config, why):
    r = routing(1)
    status, answer = r.put(1, request_router_config=config)
    assert status == 400 and why in str(answer), answer
    assert r.get()["model"] == ""


def test_a_live_change_loses_no_request_and_starts_no_process(routing):
    r = routing(3, max_ongoing_requests=2)
    assert r.router()["policy"] == "late_binding"
    workers = r.server.workers()
    ends, failures, done = threading.Event(), [], []

    def ask(i):
        while not ends.is_set():
            try:
                done.append(r.session(f"s{i}")["pid"])
            except BaseException as e:
                failures.append(repr(e))

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
    for t in threads:
        t.start()
    try:
        for name in "session", "round_robin", "consistent_hash", "pow_2", "least_ongoing":
            before = len(done)
            r.deploy(3, max_ongoing_requests=2, request_router_config={"request_router_class": name})
            r.wait_for(policy=name)
            while len(done) < before + 20 and not failures:
                ends.wait(0.001)
        r.deploy(3, max_ongoing_requests=2)
        r.wait_for(policy="late_binding")
    finally:
        ends.set()
        for t in threads:
            t.join()
    assert not failures
    assert r.server.workers() == workers


def test_a_dispatcher_that_replaces_another_has_the_policy(routing):
    r = routing(2, router="consistent_hash")
    r.server.replace_dispatcher()
    r.server.wait_all_ready()
    assert r.router()["policy"] == "consistent_hash"
    home = {s: r.session(s)["replica"] for s in "abcdefgh"}
    assert home == {s: r.session(s)["replica"] for s in "abcdefgh"}


def test_the_policy_is_known_before_the_first_worker(routing):
    r = routing(0, router="session")
    r.wait_for(policy="session", connected=0)
