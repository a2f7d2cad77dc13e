"""Replicas that are not well, that hang, and what they know of themselves; the real server with real workers."""

import json
import signal
import time

import grpc
import numpy as np
import pytest

from support import wait
from support.load import Load
from support.process import procs
from support.protocol import http, oip, prometheus

pytestmark = pytest.mark.core

ONE = {"x": np.array([1.0])}


@pytest.fixture
def hanging(serve, tmp_path):
    """hanging(*options, workers=…, sick=…, asynchronous=…, **deployment) → a server of hanging.py"""
    def start(*args, workers=1, asynchronous=False, **deployment):
        env = {"HANGING": json.dumps(deployment), "HANGING_SICK": str(tmp_path / "sick")}
        if asynchronous:
            env["HANGING_ASYNC"] = "1"
        return serve("failing/hanging.py", "--workers", workers, *args, env=env)
    return start


def assert_hung(error):
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    assert "execution_timeout_s" in error.details()
    trailers = oip.trailers_of(error)
    assert (trailers.get("anyserve-may-have-executed"), trailers.get("grpc-retry-pushback-ms")) == ("1", "-1"), error


# --- handlers that do not end ---

@pytest.mark.parametrize("model", ["loop", "call"])
def test_a_hung_handler_is_killed(hanging, connect, model):
    """Idempotent or not, it is answered once and runs nowhere else; what waited behind it is served."""
    server = hanging(execution_timeout_s=2)
    client, pid = connect(server), server.worker()
    began = time.monotonic()
    hung = client.begin(model, {})
    wait.until(lambda: server.status()["replicas"][0]["ongoing"] == 1, lambda: server.status())
    behind = client.begin("quick", ONE)
    assert_hung(hung.exception())
    assert time.monotonic() - began >= 2
    assert behind.result() is not None
    server.wait_all_ready()
    assert server.worker() != pid
    metrics = prometheus.parse(server.metrics())
    assert prometheus.total(metrics, "anyserve_handlers_hung_total", deployment="hanging") == 1
    assert prometheus.total(metrics, "anyserve_worker_exits_total", deployment="hanging", cause="hung") == 1
    assert prometheus.total(metrics, "anyserve_worker_exits_total") == 1
    server.log.wait(f"event=worker_hung replica=hanging-0 pid={pid} model={model} given_up=1")
    server.log.wait(rf"\[hanging-0\] .*line \d+ in {model}")  # where it was
    server.log.wait(f"event=worker_exit replica=hanging-0 pid={pid} .*has run for longer than execution_timeout_s")
    assert server.status()["processes"][0]["restarts"] == 1  # nothing of it was tried again


def test_a_stopped_process_is_killed(hanging, connect):
    server = hanging(execution_timeout_s=2)
    client, pid = connect(server), server.worker()
    running = client.begin("slow", {"x": np.array([30.0])})
    wait.until(lambda: server.status()["replicas"][0]["ongoing"] == 1, lambda: server.status())
    procs.kill(pid, signal.SIGSTOP)
    behind = client.begin("quick", ONE)
    assert_hung(running.exception())
    assert behind.result() is not None
    server.wait_all_ready()
    assert server.worker() != pid


def test_a_stopped_process_has_not_started_it(hanging, connect):
    """What was sent to a process that does not run has not been executed: it is served by the next."""
    server = hanging(execution_timeout_s=1)
    client, pid = connect(server), server.worker()
    procs.kill(pid, signal.SIGSTOP)
    assert client.infer("quick", ONE)["y"] == 2
    server.log.wait(f"event=worker_exit replica=hanging-0 pid={pid} .*was not started within execution_timeout_s")


def test_a_blocked_event_loop_is_killed(hanging, connect):
    """What runs beside a handler that blocks the loop is idempotent, and is served elsewhere."""
    server = hanging(asynchronous=True, execution_timeout_s=2)
    client = connect(server)
    hung = client.begin("later", {})
    client.infer("wait", {"x": np.array([0.3])})
    beside = client.begin("wait", {"x": np.array([0.5])})
    assert_hung(hung.exception())
    assert beside.result() is not None
    server.wait_all_ready()


def test_neighbours_do_not_notice(hanging, connect):
    server = hanging(workers=2, execution_timeout_s=1)
    client = connect(server)
    hung = client.begin("loop", {})
    wait.until(lambda: sum(r["ongoing"] for r in server.status()["replicas"]) == 1, lambda: server.status())

    def quick(c, n):
        assert c.infer("quick", {"x": np.array([float(n)])})["y"] == n + 1

    with Load(server.address, quick, threads=4) as load:
        assert_hung(hung.exception())
        load.wait_more(50)
    assert not load.errors and not load.wrong, load.outcomes
    server.wait_all_ready()


def test_a_long_handler_without_a_limit_is_well(hanging, connect):
    """Checks that come due meanwhile wait for it, and their time does not count."""
    server = hanging(health_check_period_s=0.1, health_check_timeout_s=1, health_check_failure_threshold=1)
    pid = server.worker()
    assert connect(server).infer("slow", {"x": np.array([2.5])})["pid"] == pid
    assert server.worker() == pid
    assert not server.log.find("worker_health")


# --- health ---

def test_a_sick_replica_is_replaced(hanging, connect, tmp_path):
    server = hanging(workers=2, health_check_period_s=0.1, health_check_failure_threshold=3)
    before = server.workers()
    sick = tmp_path / "sick.1"
    sick.touch()
    server.log.wait("event=worker_health replica=hanging-1 healthy=0 failures=1 .*the file is there")
    client = connect(server)
    for _ in range(10):
        assert client.infer("quick", ONE)["pid"] != before["hanging-1"]
    server.log.wait("event=worker_exit replica=hanging-1 .*3 health checks failed in a row, the last one: .*the file is there")
    sick.unlink()
    server.wait_all_ready()
    after = server.workers()
    metrics = prometheus.parse(server.metrics())
    assert prometheus.total(metrics, "anyserve_health_checks_failed_total", deployment="hanging") >= 3
    assert prometheus.total(metrics, "anyserve_worker_exits_total", deployment="hanging", cause="unhealthy") == 1
    assert after["hanging-0"] == before["hanging-0"] and after["hanging-1"] != before["hanging-1"]


def test_a_replica_gets_well(hanging, connect, tmp_path):
    server = hanging(health_check_period_s=0.1, health_check_failure_threshold=100)
    pid = server.worker()
    sick = tmp_path / "sick.0"
    sick.touch()
    server.log.wait("event=worker_health replica=hanging-0 healthy=0")
    wait.until(lambda: server.status()["replicas"][0]["state"] == "unhealthy", lambda: server.status())
    call = connect(server).begin("quick", ONE)
    sick.unlink()
    assert call.result() is not None
    server.log.wait("event=worker_health replica=hanging-0 healthy=1")
    assert server.worker() == pid


# --- deadlines ---

def test_requests_without_a_deadline_get_the_deployments(hanging, connect):
    server = hanging(request_timeout_s=0.5)
    client = connect(server)
    late = client.begin("slow", {"x": np.array([1.0])}, timeout=None).exception()
    assert late.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    rest = http.Http1(server.host, server.port)
    body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [1.0]}]}
    reply = rest.request("POST", "/v2/models/slow/infer", json.dumps(body).encode())
    rest.close()
    assert (reply.status, reply.error) == (504, "deadline exceeded")
    # a client's own deadline stays
    assert client.begin("slow", {"x": np.array([0.8])}, timeout=20).exception() is None


def test_the_servers_own_settings_count_where_code_says_nothing(hanging, connect):
    server = hanging("--request-timeout", "300ms", "--execution-timeout", "1s")
    client, pid = connect(server), server.worker()
    assert client.begin("loop", {}, timeout=None).exception().code() == grpc.StatusCode.DEADLINE_EXCEEDED
    server.log.wait(f"event=worker_exit replica=hanging-0 pid={pid} .*execution_timeout_s")
    server.wait_all_ready()


# --- limits ---

def test_limits_that_code_sets(hanging, connect):
    """Three execute, two wait, and the next one is refused."""
    server = hanging(asynchronous=True, max_ongoing_requests=3, max_queued_requests=2)
    client = connect(server)
    long = {"x": np.array([20.0])}
    calls = [client.begin("wait", long) for _ in range(5)]

    def counts():
        (d,) = server.status()["deployments"]
        return d["ongoing"], d["queued"]
    wait.until(lambda: counts() == (3, 2), counts)
    refused = client.begin("wait", long).exception()
    assert refused.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, refused
    for call in calls:
        call.cancel()


@pytest.mark.parametrize("idempotent", [True, False])
def test_what_may_run_twice(hanging, connect, tmp_path, idempotent):
    """The models "wait" and "later" declare the one and the other; what the deployment says counts."""
    server = hanging(asynchronous=True, idempotent=idempotent)
    client = connect(server)
    model = "later" if idempotent else "wait"
    assert client.infer("wait", {"x": np.array([0.0])})
    running = client.begin(model, {"x": np.array([20.0])} if model == "wait" else {})
    wait.until(lambda: server.status()["replicas"][0]["ongoing"] == 1, lambda: server.status())
    if not idempotent:  # what was sent and has not begun is sent again
        wait.until((tmp_path / "sick.begun").exists, "the handler has not begun")
    pid = server.worker()
    procs.kill(pid)
    if idempotent:  # it is under way again, in the next one
        wait.until(lambda: [(r["pid"] != pid, r["ongoing"]) for r in server.status()["replicas"]] == [(True, 1)],
                   lambda: server.status())
        assert not running.done()
        running.cancel()
    else:
        assert running.exception().code() == grpc.StatusCode.UNAVAILABLE


# --- warming up ---

def warm(model, value, count=1):
    request = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [value]}]}
    return {"model": model, "count": count, "request": request}


def test_a_replica_warms_up_before_it_is_ready(hanging, connect):
    """Also the one that takes the place of another; no client's request is counted."""
    server = hanging(warmup_requests=[warm("slow", 0.2, count=2), warm("quick", 1.0)])
    warmed = r"event=warmed_up requests=3 seconds=(0\.[4-9]|[1-9])"
    server.log.wait(warmed)
    assert connect(server).infer("quick", ONE)["y"] == 2
    assert server.status()["deployments"][0]["counts"]["accepted"] == 1
    seen = len(server.log.lines)
    procs.kill(server.worker())
    server.log.wait(warmed, since=seen)
    server.wait_all_ready()


# --- ranks ---

def test_ranks(hanging, connect):
    server = hanging(workers=3)
    client = connect(server)
    pids = server.workers()

    def ranks():
        found = {}

        def ask():
            rank, world, pid = map(int, client.infer("rank", {})["output0"])
            found[pid] = rank, world
            return len(found) == 3
        wait.until(ask, lambda: found)
        return found
    want = {pid: (int(name[-1]), 3) for name, pid in pids.items()}
    with Load(server.address, lambda c, n: c.infer("rank", {}), threads=6):
        assert ranks() == want
    procs.kill(pids["hanging-1"])
    wait.until(lambda: server.workers().get("hanging-1", pids["hanging-1"]) != pids["hanging-1"], lambda: server.status())
    want = {pid: (int(name[-1]), 3) for name, pid in server.workers().items()}
    with Load(server.address, lambda c, n: c.infer("rank", {}), threads=6):
        assert ranks() == want  # the next process in its place has its rank
