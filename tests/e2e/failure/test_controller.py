"""The controller is killed at bad moments: requests are served on, nothing that runs is started anew, what is missing comes."""

import os
import re
import signal

import grpc
import numpy as np
import pytest

from support import wait
from support.load import Load
from support.process import procs
from support.process.server import READY
from support.protocol import oip

pytestmark = pytest.mark.core


def add_one(client, n):
    assert client.infer("fast", {"x": np.array([n])})["y"] == n + 1


def began(server):
    """How many controllers have taken over so far."""
    return sum("event=controller_ready " in line for line in server.log.lines)


def kill(server):
    """Ends the controller and waits until the next one has taken its first decisions; the line that it logs."""
    before = began(server)
    procs.kill(server.controller)
    wait.until(lambda: began(server) > before, server.log.text)
    return [line for line in server.log.lines if "event=controller_ready " in line][-1]


def replace(server, replica):
    """Ends a worker and waits for the next one."""
    pid = server.workers()[replica]
    procs.kill(pid)
    wait.until(lambda: server.workers().get(replica, pid) != pid, lambda: server.status())


def test_killed_idle(staged, connect):
    server = staged("--workers", "2")
    before, first = server.workers(), server.controller
    assert "replicas=2 started=0" in kill(server)
    assert server.controller not in (None, first)
    assert server.workers() == before
    assert [p["restarts"] for p in server.status()["processes"]] == [0, 0]
    server.log.wait(rf"\[supervisor\] .*event=controller_exit pid={first} reason=\"signal 9 \(SIGKILL\)\" restart_ms=0")
    replace(server, "staged-0")  # the new one does what the old one did
    server.wait_all_ready()
    assert {p["replica"]: p["restarts"] for p in server.status()["processes"]} == {"staged-0": 1, "staged-1": 0}
    assert connect(server).infer("fast", {"x": np.ones(1)})["y"] == 2


def test_killed_twenty_times_under_load(staged):
    server = staged("--workers", "2")
    before = server.workers()
    with Load(server.address, add_one, threads=4) as load:
        load.wait_more(50)
        for _ in range(20):
            kill(server)
            load.wait_more(20)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    assert server.workers() == before
    replace(server, "staged-1")  # it was READY for none of the controllers but the first
    server.log.wait(r"worker_exit replica=staged-1 .*restart in 0 ms")
    server.wait_all_ready()


def test_a_worker_dies_while_there_is_none(staged):
    """The controller sleeps when the worker dies, and is killed: its successor hears of it."""
    server = staged("--workers", "2")
    before = server.workers()
    procs.kill(server.controller, signal.SIGSTOP)
    procs.kill(before["staged-0"])
    wait.until(lambda: "waiting" in [p["state"] for p in server.status()["processes"]], lambda: server.status())
    assert server.workers() == {"staged-1": before["staged-1"]}
    kill(server)
    server.log.wait(rf"\[controller\] .*worker_exit replica=staged-0 pid={before['staged-0']} .*SIGKILL.*restart in 0 ms")
    server.wait_all_ready()
    assert server.workers()["staged-1"] == before["staged-1"]
    assert {p["replica"]: p["restarts"] for p in server.status()["processes"]} == {"staged-0": 1, "staged-1": 0}


def ranks(server):
    return {p["replica"]: (p["rank"], p["world_size"]) for p in server.status()["processes"]}


def application(server):
    (found,) = server.status()["applications"]
    return found["status"]


def test_ranks_and_statuses_outlive_it(serve, stage, tmp_path):
    flag = tmp_path / "flag"
    stage.reset()
    server = serve("failing/crashing.py", "--workers", "3", "--restart-backoff", "10ms", "--max-start-failures", "2",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    wait.until(lambda: server.deployment().get("status") == "HEALTHY", lambda: server.status())
    assert application(server) == "RUNNING"
    at_first = ranks(server)
    assert at_first == {f"crashing-{i}": (i, 3) for i in range(3)}
    kill(server)
    replace(server, "crashing-1")
    server.wait_all_ready()
    kill(server)
    assert ranks(server) == at_first
    wait.until(lambda: server.deployment()["status"] == "HEALTHY", lambda: server.status())
    flag.touch()
    procs.kill(server.workers()["crashing-0"])
    wait.until(lambda: "last words before the crash" in server.deployment()["message"], lambda: server.status())
    assert (server.deployment()["status"], application(server)) == ("UNHEALTHY", "UNHEALTHY")
    assert server.deployment()["down"] is False  # two are left
    flag.unlink()
    procs.kill(server.supervisor, signal.SIGUSR1)
    wait.until(lambda: server.deployment()["status"] == "HEALTHY", lambda: server.status())
    assert (ranks(server), application(server)) == (at_first, "RUNNING")


def test_killed_while_workers_start(staged):
    server = staged("--workers", "4", "--max-starting", "1", wait_ready=False)
    for _ in range(6):
        wait.until(lambda: began(server), server.log.text)
        kill(server)
    server.wait_ready()
    server.wait_all_ready()
    assert [p["restarts"] for p in server.status()["processes"]] == [0] * 4
    kill(server)
    assert sum(bool(READY.search(line)) for line in server.log.lines) == 1  # told once


def test_the_dispatcher_comes_back_without_it(staged):
    server = staged("--workers", "2")
    before, first = server.workers(), server.dispatcher
    procs.kill(server.controller, signal.SIGSTOP)
    procs.kill(first)
    wait.until(lambda: server.process.poll() is None and dispatcher(server) not in (None, first), server.log.text)
    wait.until(lambda: server.workers() == before, lambda: server.status())
    with oip.Client(server.address) as client:
        add_one(client, 1)
    kill(server)
    assert server.workers() == before
    server.note_fds()


def dispatcher(server):
    try:
        return server.dispatcher
    except OSError:
        return None


def test_all_but_the_workers_are_killed_under_load(staged):
    server = staged("--workers", "2")
    before = server.workers()
    with Load(server.address, add_one, threads=4) as load:
        for _ in range(5):
            load.wait_more(50)
            count = began(server)
            procs.kill(server.controller)
            procs.kill(server.dispatcher)
            wait.until(lambda: began(server) > count, server.log.text)
            load.wait_more(50)
    assert set(load.outcomes) <= {"OK", "UNAVAILABLE"}, (load.outcomes, load.errors[-1])
    server.wait_all_ready()
    assert server.workers() == before
    server.note_fds()


def test_a_hanging_worker_is_ended_without_it(staged):
    server = staged("--ping-interval", "50ms", "--ping-timeout", "1s")
    pid = server.worker()
    procs.kill(server.controller, signal.SIGSTOP)
    procs.kill(pid, signal.SIGSTOP)
    wait.until(lambda: not procs.alive(pid), lambda: server.status())
    wait.until(lambda: "did not answer a ping" in server.status()["processes"][0]["reason"], lambda: server.status())
    kill(server)
    server.wait_all_ready()


def test_what_was_given_up_is_refused_until_it_is_back(serve, stage, connect, tmp_path):
    """A new controller tries at once; until that succeeds requests are refused, not queued."""
    flag = tmp_path / "flag"
    stage.reset()
    server = serve("failing/crashing.py", "--restart-backoff", "10ms", "--max-start-failures", "3",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    flag.touch()
    procs.kill(server.worker())
    wait.until(lambda: server.deployment()["down"], "the deployment to be given up")
    assert "replicas=1 started=1" in kill(server)
    client = connect(server)
    assert client.refused("fine", {}).code() == grpc.StatusCode.UNAVAILABLE
    given_up = "event=worker_exit .*given up"
    wait.until(lambda: sum(bool(re.search(given_up, line)) for line in server.log.lines) == 2, server.log.text)
    assert client.refused("fine", {}).code() == grpc.StatusCode.UNAVAILABLE
    flag.unlink()
    kill(server)
    wait.until(lambda: server.workers(), "the replica to be revived")
    assert client.infer("fine", {})["output0"] == 1
    assert server.deployment()["down"] is False
    first = server.dispatcher  # the supervisor has forgotten it, too
    procs.kill(first)
    wait.until(lambda: dispatcher(server) not in (None, first), server.log.text)
    server.wait_all_ready()
    assert server.deployment()["down"] is False
    server.note_fds()


def test_killed_while_the_server_drains(staged, stage):
    server = staged()
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        procs.kill(server.supervisor, signal.SIGTERM)
        server.log.wait("event=drain")
        kill(server)
        scene.go()
        assert call.exception() is None
    server.ended()


def test_it_ends_with_the_supervisor(staged):
    server = staged()
    server.expect_error("supervisor_gone")
    pid = server.controller
    procs.kill(pid, signal.SIGSTOP)
    procs.kill(server.supervisor)
    server.wait_exit(-signal.SIGKILL)
    wait.until(lambda: not server.family(), lambda: [procs.command(p) for p in server.family()])
    assert not os.path.exists(f"/proc/{pid}") or not procs.alive(pid)
