"""Requests that end their workers: found out, tried alone, refused for a while. The others lose nothing."""

import contextlib
import json

import grpc
import numpy as np
import pytest

from support import wait
from support.load import Load
from support.protocol import http, oip, prometheus

pytestmark = pytest.mark.core

EXIT, SEGV, KILL = 666, 667, 668
# crashes are on purpose here: the next worker shall come at once
QUICK = ("--restart-backoff", "1ms", "--restart-backoff-max", "20ms")
# each death has its verdict, also where a busy machine takes longer than 50 ms from a death to what the controller says of it
JUDGED = (*QUICK, "--verdict-wait", "10s")


def ask(client, model, v):
    return client.infer(model, {"x": np.array([v])})["y"]


def failure(client, model, v):
    with pytest.raises(grpc.RpcError) as e:
        ask(client, model, v)
    return e.value


def assert_quarantined(error):
    assert error.code() == grpc.StatusCode.INTERNAL, error
    assert "has ended workers" in error.details(), error
    assert oip.trailers_of(error).get("grpc-retry-pushback-ms") == "-1", error


def value(server, name, **labels):
    return prometheus.total(prometheus.parse(server.metrics()), name, **labels)


def deaths(server, deployment="poison"):
    return value(server, "anyserve_replica_deaths_total", deployment=deployment)


@pytest.fixture
def poisoned(serve):
    return serve("failing/poison.py", "--workers", "3", *JUDGED)


@pytest.mark.parametrize("pill", [EXIT, SEGV])
def test_a_pill_ends_two_workers_and_no_more(poisoned, connect, pill):
    client = connect(poisoned)
    assert_quarantined(failure(client, "again", pill))
    assert deaths(poisoned) == 2
    for _ in range(20):
        assert_quarantined(failure(client, "again", pill))
    assert deaths(poisoned) == 2
    assert ask(client, "again", 1) == 2  # of the same size, and not like it
    assert value(poisoned, "anyserve_quarantined_total", deployment="poison") == 21
    assert value(poisoned, "anyserve_quarantined_fingerprints", deployment="poison") == 1


def test_a_pill_that_must_not_run_twice(poisoned, connect):
    client = connect(poisoned)
    for n in (1, 2):
        error = failure(client, "once", EXIT)
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        assert oip.trailers_of(error)["anyserve-may-have-executed"] == "1"
        wait.until(lambda: value(poisoned, "anyserve_blamed_total", deployment="other") == n, "the verdict")
    assert value(poisoned, "anyserve_quarantined_fingerprints", deployment="other") == 1
    assert_quarantined(failure(client, "once", EXIT))
    assert deaths(poisoned, "other") == 2


def test_over_http(poisoned):
    with contextlib.closing(http.Http1(poisoned.host, poisoned.port)) as client:
        for _ in range(3):
            reply = client.request("POST", "/v2/models/again/infer", http.infer_json({"x": np.array([EXIT])}))
            assert reply.status == 500 and "has ended workers" in reply.error
            assert "retry-after" not in reply.headers
    assert deaths(poisoned) == 2


def test_a_large_pill(poisoned, connect):
    """Its body is read over several turns of the dispatcher; one that differs in its last bytes only is another one."""
    client, x = connect(poisoned), np.arange(EXIT, EXIT + 1_000_000)
    for _ in range(3):
        with pytest.raises(grpc.RpcError) as e:
            client.infer("again", {"x": x})
        assert_quarantined(e.value)
    assert deaths(poisoned) == 2
    with pytest.raises(grpc.RpcError) as e:
        client.infer("again", {"x": np.append(x[:-1], 0)})
    assert_quarantined(e.value)
    assert deaths(poisoned) == 4  # it had to be found out, too
    assert client.infer("again", {"x": np.append(0, x[1:])})["y"][-1] == x[-1] + 1


def test_a_connection_goes_on_while_a_body_is_kept(serve):
    """Its request is answered when the worker dies; the body stays until it is known why."""
    server = serve("failing/poison.py", *QUICK, "--verdict-wait", "60s")
    with contextlib.closing(http.Http1(server.host, server.port)) as client:
        for n in range(1, 4):
            reply = client.request("POST", "/v2/models/once/infer", http.infer_json({"x": np.array([KILL, n])}))
            assert reply.status == 503 and reply.headers["anyserve-may-have-executed"] == "1"
            reply = client.request("POST", "/v2/models/once/infer", http.infer_json({"x": np.array([n])}))
            assert reply.status == 200


def test_an_outside_kill_blames_nobody(poisoned, connect):
    """A request that happens to be there each time: it runs again until its deadline."""
    client = connect(poisoned)
    with pytest.raises(grpc.RpcError) as e:
        client.infer("again", {"x": np.array([KILL])}, timeout=3)
    assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    assert deaths(poisoned) >= 3  # more than --retry-attempts would allow, if it counted
    assert value(poisoned, "anyserve_blamed_total") == 0
    assert ask(client, "again", 1) == 2


def test_neighbours_lose_nothing(poisoned, connect):
    """Eight clients beside a client that sends nothing but pills, of which every other one is new."""
    def add_one(client, n):
        assert ask(client, "again", n % 500) == n % 500 + 1

    client = connect(poisoned)
    with Load(poisoned.address, add_one) as load:
        load.wait_more(20)
        for i in range(6):
            x = np.array([EXIT, i // 2])
            with pytest.raises(grpc.RpcError) as e:
                client.infer("again", {"x": x})
            assert_quarantined(e.value)
        load.wait_more(50)
    assert set(load.outcomes) == {"OK"}, load.outcomes
    assert deaths(poisoned) == 6  # three pills, two workers each


# --- requests that wedge their workers, which are killed for it ---

WEDGE = 666


@pytest.fixture
def wedged(serve):
    def start(**deployment):
        return serve("failing/wedging.py", "--workers", "3", *JUDGED, env={"WEDGING": json.dumps(deployment)})
    return start


def test_a_request_that_hangs_ends_two_workers_and_no_more(wedged, connect):
    server = wedged(execution_timeout_s=0.5)
    client = connect(server)
    for n in (1, 2):
        assert failure(client, "hang", WEDGE).code() == grpc.StatusCode.DEADLINE_EXCEEDED
        wait.until(lambda: value(server, "anyserve_blamed_total", deployment="wedging") == n, lambda: server.metrics())
    for _ in range(20):
        assert_quarantined(failure(client, "hang", WEDGE))
    assert deaths(server, "wedging") == 2
    assert ask(client, "hang", 1) == 2
    assert value(server, "anyserve_quarantined_fingerprints", deployment="wedging") == 1


def test_a_request_that_makes_checks_fail_ends_two_workers_and_no_more(wedged, connect):
    """One after the other, as it is idempotent; the clients beside it lose nothing."""
    def add_one(client, n):
        assert ask(client, "sicken", n % 500) == n % 500 + 1

    server = wedged(health_check_period_s=0.1, health_check_failure_threshold=2)
    client = connect(server)
    with Load(server.address, add_one) as load:
        load.wait_more(20)
        assert_quarantined(failure(client, "sicken", WEDGE))
        load.wait_more(50)
    assert set(load.outcomes) == {"OK"}, load.outcomes
    assert deaths(server, "wedging") == 2


# --- suspects beside the others ---

def test_many_suspects_do_not_starve_the_only_worker(serve, connect, tmp_path):
    """One crash, 30 suspects, one worker: those that wait at the end of a suspect's turn go before the next suspect."""
    def quick(client, n):
        client.infer("quick", {"x": np.array([n])})

    server = serve("failing/suspects.py", *QUICK, env={"ENDED": str(tmp_path / "ended")})
    client = connect(server)
    slow = [client.begin("slow", {"x": np.array([0.3, n])}) for n in range(30)]
    wait.until(lambda: server.status()["replicas"][0]["ongoing"] == len(slow), lambda: server.status())
    assert failure(client, "end", 0).code() == grpc.StatusCode.UNAVAILABLE
    with Load(server.address, quick) as load:
        for call in slow:
            call.result()
        load.wait_more(8)
    assert value(server, "anyserve_trials_total") == len(slow)
    turns = "".join(map(str, client.infer("order", {})["began"]))
    # where none of the eight clients had asked again yet, two suspects may follow each other
    assert turns.count("1") == len(slow) and "11111" not in turns, turns
