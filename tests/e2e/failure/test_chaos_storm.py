"""`make chaos` in short, part one: workers are killed under an open loop of requests; no client may notice. Figures
and limits of time are for `make chaos`."""

import grpc
import numpy as np
import pytest

import chaos
from security.certificates import Authority
from support import paths, wait
from support.process import procs
from support.protocol import prometheus

MODEL = paths.ROOT / "tests/chaos/apps/model.py"

SLOW_START = """
import os, time
while os.path.exists(os.environ["HOLD"]):
    time.sleep(0.005)
from anyserve import AnyServe
app = AnyServe()
@app.model("fine")
def fine(request):
    return request.inputs
"""


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_nobody_notices_a_storm(serve, tmp_path, protocol, tls):
    authority = Authority(tmp_path) if tls else None
    server = serve(MODEL, "--workers", "4", "--log-level", "warn", *(authority.server().options if tls else ()))
    with chaos.loaded(server, protocol, "nap", rate=100, timeout=30, ca=tls and authority.cert) as load:
        kills = chaos.rig.Killer(server, 4, 8, seed=1).join()
    assert len(kills) == 8
    assert not load.outcome.errors, load.outcome.examples()
    server.wait_all_ready()


def test_all_workers_killed_at_once(serve):
    """For a while nobody is there: requests wait."""
    server = serve(MODEL, "--workers", "2", "--log-level", "warn")
    with chaos.loaded(server, "http", "nap", rate=50, timeout=30) as load:
        for _ in range(2):
            killed = set(server.workers().values())
            for pid in killed:
                procs.kill(pid)
            wait.until(lambda: not killed & set(server.workers().values()), "their deaths are noticed")
            server.wait_all_ready()
    assert not load.outcome.errors, load.outcome.examples()


def test_kills_before_ready_give_nobody_up(serve, tmp_path):
    """A worker that is killed again and again while it starts has done nothing wrong."""
    hold = tmp_path / "hold"
    server = serve("slow_start.py", "--restart-backoff", "1ms", "--max-start-failures", "2", env={"HOLD": str(hold)},
                   source=SLOW_START)
    hold.touch()
    procs.kill(server.worker())
    seen = set()
    for _ in range(5):
        (pid,) = wait.until(lambda: set(server.worker_pids()) - seen, "a worker that starts")
        seen.add(pid)
        procs.kill(pid)
    hold.unlink()
    server.wait_all_ready()
    assert not server.log.find("given up")


def closed_for(server, reason):
    samples = prometheus.parse(server.metrics())
    return sum(v for (name, labels), v in samples.items()
               if name == "anyserve_connections_closed_total" and dict(labels)["reason"] == reason)


def is_served(client):
    """Not on the connection that was closed: the client may not have read of that yet."""
    try:
        return client.call("ServerLive", wait_for_ready=True).live
    except grpc.RpcError as e:
        assert e.code() == grpc.StatusCode.UNAVAILABLE, e
        return False


@pytest.mark.parametrize("patience, closed", [("1ms", 0), ("off", 1)])
def test_calls_taken_back_after_long_are_no_flood(serve, connect, patience, closed):
    """As those of clients whose deadlines pass while nobody answers."""
    server = serve(MODEL, "--log-level", "warn", "--reset-rate", "1", "--reset-patience", patience)
    client, n = connect(server), 600
    for _ in range(2):  # more than --reset-burst lets through
        calls = [client.begin("hold", {"id": np.array([1])}) for _ in range(n)]
        wait.until(lambda: server.deployment()["queued"] + server.deployment()["ongoing"] == n, lambda: server.status())
        for call in calls:
            call.cancel()
        wait.until(lambda: server.deployment()["queued"] + server.deployment()["ongoing"] == 0, lambda: server.status())
    wait.until(lambda: closed_for(server, "rapid_reset") == closed, server.metrics)
    wait.until(lambda: is_served(client), "a connection")
