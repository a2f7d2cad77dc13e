"""A dispatcher or controller that lives and does nothing any more is noticed and replaced."""

import pathlib
import signal

import numpy as np
import pytest

import chaos  # noqa: F401, finds tests/chaos

from support import wait
from support.process import procs
from support.process.tracing import Stopped
from support.process.upgrading import Upgrade, wait_next
from support.protocol import link, oip

from scenarios import failpoints  # noqa: E402, of tests/chaos

LIMIT = ("--heartbeat-timeout", "2s")
SENTENCE = r"its event loop has not turned for 2 s \(--heartbeat-timeout\)"


def add_one(server):
    with oip.Client(server.address) as client:
        assert client.infer("fast", {"x": np.ones(1)})["y"] == 2


def lanes(pid):
    """Threads that serve clients: all that run a loop but the first, which hears the supervisor."""
    tasks = pathlib.Path(f"/proc/{pid}/task")
    return [int(t.name) for t in tasks.iterdir() if (t / "comm").read_text() == "as-lane\n"]


@pytest.mark.core
def test_a_dispatcher_that_is_stopped(staged):
    server = staged("--workers", "2", *LIMIT)
    workers, former, controller = server.workers(), server.dispatcher, server.controller
    procs.kill(former, signal.SIGSTOP)
    # the first signal, which could leave a core file, waits for SIGCONT
    server.log.wait(rf"event=dispatcher_exit pid={former} reason=\"signal 9 \(SIGKILL\): {SENTENCE}\"")
    wait_next(server, former)
    add_one(server)
    assert (server.workers(), server.controller) == (workers, controller)
    server.note_fds()


def test_each_of_its_threads_counts(staged):
    """One that serves clients hangs, while the one that hears the supervisor is well."""
    server = staged("--threads", "3", *LIMIT)
    workers, former = server.workers(), server.dispatcher
    assert len(lanes(former)) == 2
    with Stopped(lanes(former)[:1]) as stopped:
        stopped.wait_killed()
    server.log.wait(rf"event=dispatcher_exit pid={former} reason=\"signal 6 \(SIGABRT\): {SENTENCE}\"")
    wait_next(server, former)
    add_one(server)
    assert server.workers() == workers
    assert not server.log.find("aborted: ")  # it has not aborted of itself


def test_an_abort_for_no_reason_that_the_supervisor_knows(staged):
    """It may be a library's, which says nothing: the process says at least that."""
    server = staged(*LIMIT)
    former = server.dispatcher
    procs.kill(former, signal.SIGABRT)
    server.log.wait(rf"event=dispatcher_exit pid={former} reason=\"signal 6 \(SIGABRT\)\" .*last=\"anyserve: aborted: a library ")
    wait_next(server, former)
    server.note_fds()


def test_one_in_a_debugger_is_left_alone(staged):
    server = staged(*LIMIT)
    former = server.dispatcher
    with Stopped([former]):
        server.log.wait(rf"event=dispatcher_hangs pid={former} action=\"none: it is being debugged\"")
    assert server.dispatcher == former
    add_one(server)
    with Stopped([former]):  # it was well in between: it is told again
        wait.until(lambda: sum("event=dispatcher_hangs" in line for line in server.log.lines) == 2, server.log.text)
    assert server.dispatcher == former


@pytest.mark.core
def test_a_controller_that_is_stopped(staged):
    server = staged("--workers", "2", *LIMIT)
    workers, dispatcher, former = server.workers(), server.dispatcher, server.controller
    procs.kill(former, signal.SIGSTOP)
    server.log.wait(rf"event=controller_exit pid={former} reason=\"signal 9 \(SIGKILL\): {SENTENCE}\"")
    wait.until(lambda: server.controller not in (None, former), server.log.text)
    procs.kill(workers["staged-0"])  # about which the next one decides
    wait.until(lambda: server.workers().get("staged-0", workers["staged-0"]) != workers["staged-0"],
               lambda: server.status())
    assert (server.dispatcher, server.workers()["staged-1"]) == (dispatcher, workers["staged-1"])


@pytest.mark.skipif(not failpoints.points(), reason="a build without failpoints")
def test_a_controller_that_is_stopped_as_soon_as_it_serves(staged, tmp_path):
    """It says that it turns in the same breath: before that it would be one of a version that never does."""
    armed = tmp_path / "armed"
    server = staged(*LIMIT, env={"ANYSERVE_FAILPOINT": str(armed)})
    first = server.controller
    armed.write_text("said-SERVING:1:stop")
    procs.kill(first)
    server.log.wait(rf"event=controller_exit pid={first} ")
    pid = server.log.wait(rf"event=controller_exit pid=(?!{first} )(\d+) reason=\"signal 9 \(SIGKILL\): {SENTENCE}\"")[1]
    wait.until(lambda: server.controller not in (None, int(pid)), server.log.text)
    procs.kill(server.worker())  # about which the next one decides
    wait.until(server.all_ready, lambda: server.status())
    server.note_fds()


@pytest.mark.core
def test_a_supervisor_that_is_stopped_blames_nobody(staged):
    """It was away for longer than the limit: what the others have said meanwhile is there when it comes back."""
    server = staged("--ping-interval", "50ms", "--log-level", "debug", *LIMIT)
    before = server.dispatcher, server.controller
    for _ in range(2):
        heard = len(server.log.lines)
        procs.kill(server.supervisor, signal.SIGSTOP)
        wait_pings(server, 80)  # of 50 ms each, or longer
        procs.kill(server.supervisor, signal.SIGCONT)
        for who in ("dispatcher", "controller"):
            for _ in range(2):
                server.log.wait(f"event=heartbeat from={who} ", heard)
        assert (server.dispatcher, server.controller) == before
    server.settle()


@pytest.mark.core
def test_a_log_that_nobody_reads_stops_nobody(staged):
    """Dispatcher and controller write to the same pipe as the supervisor. It is full: what they cannot say is dropped."""
    server = staged("--workers", "2", "--log-level", "debug", *LIMIT)
    journals = pathlib.Path(server.folder_of_port(), "logs")
    workers, before = server.workers(), (server.dispatcher, server.controller)

    def journal(name, since=0):
        return (journals / f"{name}.log").read_text().splitlines()[since:]

    with server.log.unread():
        since = len(journal("supervisor"))
        procs.kill(workers["staged-0"])
        wait.until(lambda: server.workers().get("staged-0", workers["staged-0"]) != workers["staged-0"],
                   lambda: server.status())
        add_one(server)
        for who in ("dispatcher", "controller"):  # for longer than the limit
            wait.until(lambda who=who: sum(f"event=heartbeat from={who}" in line for line in journal("supervisor", since)) > 10,
                       lambda: journal("supervisor", since))
        assert (server.dispatcher, server.controller) == before
        lines = len(server.log.lines)
    assert any("event=worker_gone" in line for line in journal("dispatcher"))
    assert any("event=worker_exit" in line for line in journal("controller"))
    assert not any("dispatcher_exit" in line or "controller_exit" in line for line in journal("supervisor"))
    procs.kill(server.workers()["staged-1"])  # of which they speak
    for who in ("dispatcher", "controller"):
        server.log.wait(rf"^\[{who}\] time=\S+ level=warn event=lines_dropped lines=\d+ reason=\"stderr was not read\"$", lines)
    wait.until(server.all_ready, lambda: server.status())
    server.note_fds()


def wait_pings(server, n):
    """A clock: the dispatcher asks a worker at intervals whether it lives."""
    with link.Worker(server, "clock") as clock:
        clock.serve("clock")
        for _ in range(n):
            clock.send(link.frame(link.PONG, clock.next(link.PING).payload))


def test_no_limit(staged):
    """Nobody says that it turns, and nobody waits for that."""
    server = staged("--ping-interval", "50ms", "--heartbeat-timeout", "off", "--log-level", "debug")
    wait_pings(server, 10)
    server.log.wait("event=heard from=dispatcher")
    assert not server.log.find("event=heartbeat")


@pytest.mark.core
def test_an_upgrade_under_it(staged):
    """The former dispatcher is as long as it takes; the next ones are watched."""
    server = staged("--workers", "2", *LIMIT)
    workers = server.workers()
    for _ in range(3):
        former = server.dispatcher
        with Upgrade(server) as upgrade:
            upgrade.finish()
        assert server.dispatcher != former
        add_one(server)
    assert server.workers() == workers
    assert not server.log.find("_exit pid=")
    former = server.dispatcher
    procs.kill(former, signal.SIGSTOP)
    server.log.wait(f"event=dispatcher_exit pid={former} .*--heartbeat-timeout")
    wait_next(server, former)
    server.note_fds()
