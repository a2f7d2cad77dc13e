"""Processes are killed at bad moments: what had not started is served, the rest is told the truth, nothing stays."""

import os
import re
import signal
import socket
import threading

import grpc
import numpy as np
import pytest

from support import ports, wait
from support.load import Load
from support.process import procs
from support.process.numbered import Numbered
from support.process.server import READY
from support.process.terminal import Terminal
from support.process.tracing import Stopped
from support.protocol import link, oip
from support.protocol.h2client import H2, prefixed

pytestmark = pytest.mark.core


@pytest.fixture
def terminal(tmp_path):
    terminal = Terminal(tmp_path)
    yield terminal
    terminal.close()


def assert_may_have_executed(error):
    assert error.code() == grpc.StatusCode.UNAVAILABLE, error
    trailers = oip.trailers_of(error)
    assert (trailers.get("anyserve-may-have-executed"), trailers.get("grpc-retry-pushback-ms")) == ("1", "-1"), error


def add_one(model):
    def call(client, n):
        assert client.infer(model, {"x": np.array([n])})["y"] == n + 1
    return call


def replace(server, replica, signum=signal.SIGKILL):
    """Ends a worker and waits for the next one."""
    pid = server.workers()[replica]
    procs.kill(pid, signum)
    wait.until(lambda: server.workers().get(replica, pid) != pid, lambda: server.status())


# --- a worker dies ---

def test_worker_killed_with_requests_in_every_state(staged, stage, connect):
    server = staged("--workers", "2")
    client, before = connect(server), server.workers()
    calls = {str(i): client.begin("staged", {}, id=str(i)) for i in range(8)}
    first, second = stage.started(2)
    wait.until(lambda: server.deployment("staged")["queued"] == 6, "six to be queued")
    procs.kill(first.pid)
    assert_may_have_executed(calls.pop(first.tag).exception())
    second.go()
    for i in range(2, 8):  # the queued ones are served, by the other one and by the one that comes back
        stage.started(i + 1)[i].go()
    assert all(c.exception() is None for c in calls.values())
    server.wait_all_ready()
    after = server.workers()
    changed = [name for name in before if before[name] != after[name]]
    assert [before[name] for name in changed] == [first.pid]
    assert server.counts("staged")["lost"] == 1
    server.log.wait(rf"worker_exit replica={changed[0]} pid={first.pid} .*SIGKILL.*restart in 0 ms")


def test_worker_killed_while_nothing_runs(staged, connect):
    server = staged()
    replace(server, "staged-0")
    assert connect(server).infer("fast", {"x": np.ones(1)})["y"] == 2


@pytest.mark.parametrize("model, threads", [("fast", 1), ("fast_safe", 1), ("fast", 3)])
def test_workers_killed_under_load(staged, model, threads):
    server = staged("--workers", "2", "--threads", threads, "--log-level", "warn")
    with Load(server.address, add_one(model), threads=8) as load:
        for i in range(6):
            load.wait_more(100)
            replace(server, f"staged-{i % 2}")
        load.wait_more(100)
    assert set(load.outcomes) <= {"OK", "UNAVAILABLE"}, load.outcomes
    for error in load.errors:
        assert_may_have_executed(error)
    if model == "fast_safe":
        assert set(load.outcomes) == {"OK"}, load.errors


def test_idempotent_request_is_run_again(staged, stage, connect):
    server = staged("--workers", "2")
    call = connect(server).begin("safe", {}, id="again")
    (first,) = stage.started(1)
    procs.kill(first.pid)
    second = stage.started(2)[1]
    assert second.tag == "again" and second.pid != first.pid
    second.go()
    assert oip.Answer(call.result())["pid"] == second.pid
    assert server.counts("staged")["replayed"] == 1


@pytest.mark.parametrize("word, reason", [("exit", "exit code 3"), ("abort", "SIGABRT")])
def test_worker_ends_by_itself(staged, stage, connect, word, reason):
    server = staged("--restart-backoff", "20ms")
    client = connect(server)
    call = client.begin("staged", {})
    (scene,) = stage.started(1)
    waiting = client.begin("fast", {"x": np.ones(1)})
    scene.go(word)
    assert_may_have_executed(call.exception())
    assert oip.Answer(waiting.result())["y"] == 2  # by the next one
    line = server.log.wait(rf"worker_exit replica=staged-0 pid={scene.pid} .*")[0]
    assert reason in line
    delay = int(line.partition("restart in ")[2].split(" ms")[0])
    assert 16 <= delay <= 24  # not at once: it was no outside kill


def test_worker_told_to_end_under_load(staged):
    """SIGTERM to a worker: it finishes what it has, gives back the rest, and another replica takes its place. Nobody notices."""
    server = staged("--workers", "2")
    with Load(server.address, add_one("fast"), threads=8) as load:
        for i in range(4):
            load.wait_more(100)
            pid = list(server.workers().values())[i % 2]
            procs.kill(pid, signal.SIGTERM)
            wait.until(lambda pid=pid: pid not in (now := server.workers().values()) and len(now) == 2, lambda: server.status())
        load.wait_more(100)
    assert set(load.outcomes) == {"OK"}, load.errors[0]


def test_the_next_one_serves_while_a_worker_told_to_end_still_works(staged, stage, connect):
    server = staged()
    client = connect(server)
    long = client.begin("staged", {}, id="long")
    (first,) = stage.started(1)
    procs.kill(first.pid, signal.SIGTERM)
    other = client.begin("staged", {}, id="other")
    second = stage.started(2)[1]
    assert (second.tag, procs.alive(first.pid)) == ("other", True)
    second.go()
    assert other.exception() is None
    assert {r["pid"]: r["state"] for r in server.status()["replicas"]} == {first.pid: "draining", second.pid: "ready"}
    assert server.deployment("staged")["status"] == "HEALTHY"
    first.go()
    assert long.exception() is None
    wait.until(lambda: not procs.alive(first.pid), "it to end")
    wait.until(lambda: server.workers() == {"staged-1": second.pid}, lambda: server.status())
    server.log.wait(r"event=worker_leaves replica=staged-0")
    server.log.wait(r"event=reconfigured rank=0")  # the rank of the former one, which is free now
    assert not server.log.find(r"event=worker_exit")


def test_a_dead_worker_takes_its_children_along(staged, connect):
    server = staged(app="parents.py")
    children = connect(server).infer("forks", {})["children"]
    assert all(procs.alive(pid) for pid in children)
    procs.kill(server.worker())
    wait.until(lambda: not any(procs.alive(pid) for pid in children), "its children to die")
    server.wait_all_ready()


def test_death_is_seen_although_children_hold_descriptors(staged, stage, connect):
    server = staged(app="parents.py")
    client = connect(server)
    client.infer("forks", {})
    call = client.begin("staged", {}, id="parent")
    scene = next(s for s in stage.started(2) if s.tag == "parent")
    procs.kill(scene.pid)
    assert_may_have_executed(call.exception())


def test_hanging_worker_is_ended(staged, connect):
    server = staged("--ping-interval", "100ms", "--ping-timeout", "500ms")
    pid = server.workers()["staged-0"]
    replace(server, "staged-0", signal.SIGSTOP)
    server.log.wait("worker_gone replica=staged-0 .*did not answer a ping")
    assert not procs.alive(pid)
    assert connect(server).infer("fast", {"x": np.ones(1)})["y"] == 2


def test_a_sentence_outlives_a_supervisor_that_does_not_listen(staged):
    """More is said than the control socket takes while the supervisor sleeps; the worker that hangs is killed still."""
    server = staged("--ping-interval", "100ms", "--ping-timeout", "500ms")
    hung = server.worker()
    procs.kill(server.supervisor, signal.SIGSTOP)
    try:
        for _ in range(300):  # each says READY and GONE; the socket takes fewer than that
            with link.Worker(server, "restless") as worker:
                worker.serve("restless")
        procs.kill(hung, signal.SIGSTOP)
        server.log.wait("worker_gone replica=staged-0 .*did not answer a ping")
    finally:
        procs.kill(server.supervisor, signal.SIGCONT)
    wait.until(lambda: server.workers().get("staged-0", hung) != hung, lambda: server.status())
    server.log.wait(f"worker_exit replica=staged-0 pid={hung} .*did not answer a ping")


def test_slow_handler_is_no_hanging_worker(staged, stage, connect):
    """Pings are answered while a sync handler holds the interpreter's main thread."""
    server = staged("--ping-interval", "50ms", "--ping-timeout", "1s")
    call = connect(server).begin("staged", {})
    (scene,) = stage.started(1)
    with link.Worker(server, "clock") as clock:  # it is asked as often: longer than the time-out in all
        clock.serve("clock")
        for _ in range(30):
            clock.send(link.frame(link.PONG, clock.next(link.PING).payload))
    assert server.workers()["staged-0"] == scene.pid
    scene.go()
    call.result()


def test_workers_start_in_turn(staged):
    """At most so many start at once, the first time and after deaths."""
    server = staged("--workers", "5", "--max-starting", "2", "--log-level", "debug")
    assert len(server.workers()) == 5
    for pid in server.workers().values():
        procs.kill(pid)
    started, ready = (r"^\[controller\] .*event=worker_" + word for word in ("started", "ready"))
    wait.until(lambda: sum(bool(re.search(ready, line)) for line in server.log.lines) == 10, server.log.text)
    server.wait_all_ready()
    starting = most = 0
    for line in server.log.lines:
        starting += bool(re.search(started, line)) - bool(re.search(ready, line))
        most = max(most, starting)
    assert (starting, most) == (0, 2)


def test_crash_loop(serve, stage, connect, tmp_path):
    flag = tmp_path / "flag"
    stage.reset()
    server = serve("failing/crashing.py", "--restart-backoff", "10ms", "--max-start-failures", "3",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    client = connect(server)
    first = client.begin("staged", {})
    (scene,) = stage.started(1)
    waiting = client.begin("fine", {})
    flag.touch()
    scene.go("exit")
    assert first.exception().code() == grpc.StatusCode.UNAVAILABLE
    assert waiting.exception().code() == grpc.StatusCode.UNAVAILABLE
    wait.until(lambda: server.deployment()["down"], "the deployment to be given up")
    error = client.refused("fine", {})
    assert error.code() == grpc.StatusCode.UNAVAILABLE
    assert "fine" in error.details()
    assert client.call("ServerReady").ready is False
    assert client.call("ModelReady", oip.message("ModelReadyRequest", name="fine")).ready is False
    assert client.call("ServerLive").live is True
    (process,) = server.status()["processes"]
    assert process["state"] == "down" and "exit code 9" in process["reason"]
    assert "last words before the crash" in process["reason"]
    flag.unlink()
    procs.kill(server.supervisor, signal.SIGUSR1)
    wait.until(lambda: server.workers(), "the replica to be revived")
    assert client.infer("fine", {})["output0"] == 1


# --- the dispatcher dies ---

class Knocking:
    """Connects in a tight loop; `refused` holds what went wrong."""

    def __init__(self, server):
        self.count, self.refused = 0, []
        self._address, self._stop = (server.host, server.port), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self):
        while not self._stop.is_set():
            try:
                socket.create_connection(self._address, 20).close()
                self.count += 1
            except OSError as e:
                self.refused.append(e)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def test_dispatcher_killed(staged, connect):
    server = staged("--workers", "2")
    before, old = server.workers(), server.dispatcher
    with Knocking(server) as knocking:
        wait.until(lambda: knocking.count > 20, "connections")
        procs.kill(old)
        with oip.Client(server.address) as client:  # comes while nobody listens, or nobody is registered yet
            answer = client.call("ModelInfer", oip.infer_request("fast", {"x": np.ones(1)}), wait_for_ready=True)
        assert oip.Answer(answer)["y"] == 2
        server.wait_new_dispatcher(old)
        seen = knocking.count
        wait.until(lambda: knocking.count > seen + 20, "more connections")
    assert not knocking.refused
    server.wait_all_ready()
    assert server.workers() == before
    server.note_fds()


@pytest.mark.parametrize("app, model", [("staged.py", "watching"), ("staged_async.py", "staged")])
def test_dispatcher_killed_with_a_request_in_hand(staged, stage, connect, app, model):
    """Its handler is told that nobody waits any more; the worker stays."""
    server = staged(app=app)
    old, before = server.dispatcher, server.workers()
    call = connect(server).begin(model, {}, id="in hand")
    (scene,) = stage.started(1)
    procs.kill(old)
    assert call.exception().code() == grpc.StatusCode.UNAVAILABLE
    assert scene.last_word() == "cancelled"
    server.wait_new_dispatcher(old)
    server.wait_all_ready()
    assert server.workers() == before
    assert connect(server).infer("fast", {"x": np.ones(1)}).outputs
    server.note_fds()


def test_dispatcher_killed_under_load(staged):
    server = staged("--workers", "2", "--threads", "2")
    before = server.workers()
    with Load(server.address, add_one("fast"), threads=6) as load:
        for _ in range(3):
            load.wait_more(50)
            old = server.dispatcher
            procs.kill(old)
            server.wait_new_dispatcher(old)
        load.wait_more(50)
    assert set(load.outcomes) <= {"OK", "UNAVAILABLE"}, (load.outcomes, load.errors[-1])
    server.wait_all_ready()
    assert server.workers() == before
    server.note_fds()


def test_dispatcher_told_to_end(staged):
    """SIGTERM to the dispatcher alone: it drains, and the next one takes over; the port stays."""
    server = staged("--goaway-grace", "10ms")
    old = server.dispatcher
    with Knocking(server) as knocking, Load(server.address, add_one("fast"), threads=4) as load:
        load.wait_more(50)
        procs.kill(old, signal.SIGTERM)
        server.wait_new_dispatcher(old)
        load.wait_more(50)
    assert set(load.outcomes) <= {"OK", "UNAVAILABLE"}, (load.outcomes, load.errors[-1])
    assert not knocking.refused
    server.wait_all_ready()
    server.note_fds()


def test_all_of_them_killed(staged, connect):
    server = staged()
    old = server.dispatcher
    for pid in (*server.workers().values(), old):
        procs.kill(pid)
    server.wait_new_dispatcher(old)
    server.wait_all_ready()
    assert connect(server).infer("fast", {"x": np.ones(1)})["y"] == 2
    server.note_fds()


# --- the supervisor dies ---

def test_supervisor_killed(staged, stage, connect):
    server = staged("--workers", "2", "--port", ports.free(), app="parents.py")  # nobody takes it afterwards
    server.expect_error("supervisor_gone")
    client = connect(server)
    client.infer("forks", {})
    call = client.begin("staged", {}, id="mine")
    stage.started(2)
    assert len(server.family()) == 7  # supervisor, dispatcher, controller, two workers, two children of one
    procs.kill(server.supervisor)
    server.wait_exit(-signal.SIGKILL)
    wait.until(lambda: not server.family(), lambda: [procs.command(p) for p in server.family()])
    assert call.exception().code() == grpc.StatusCode.UNAVAILABLE
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((server.host, server.port))


def test_the_number_of_a_worker_is_another_process_by_then(staged):
    """The dispatcher ends what workers have left, and nothing else."""
    server = staged()
    server.expect_error("supervisor_gone")
    dispatcher, worker = server.dispatcher, server.workers()["staged-0"]
    with Stopped([dispatcher]) as stopped:  # SIGSTOP would not last: its group has no parent any more
        procs.kill(server.supervisor)  # the kernel ends the workers
        server.process.wait(wait.SECONDS)
        with wait.until(lambda: numbered(worker), "the number to be free") as other:
            stopped.go()
            wait.until(lambda: not procs.alive(dispatcher), "it to end")
            assert other.lives()
    server.wait_exit(-signal.SIGKILL)


def numbered(pid):
    try:
        return Numbered(pid)
    except FileExistsError:
        return None


def test_a_killed_server_does_not_stop_the_next(staged, serve, stage):
    first = staged("--port", ports.free())  # nobody takes it in between
    first.expect_error("supervisor_gone")
    procs.kill(first.supervisor)
    first.wait_exit(-signal.SIGKILL)
    wait.until(lambda: not first.family(), "it to end")
    again = serve("staged.py", "--port", first.port, "--runtime-dir", first.runtime,
                  env={"ANYSERVE_TEST_STAGE": stage.path}, wait_ready=False)
    again.log.wait(READY.pattern)
    again.stop()


# --- SIGTERM and Ctrl-C ---

@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_drain(staged, stage, signum):
    """What is in flight is answered, GOAWAY is said, nobody new is let in, the exit code is 0."""
    server = staged("--goaway-grace", "50ms", "--port", ports.free())
    with H2(server.host, server.port) as http:
        stream = http.open_grpc()
        body = oip.infer_request("staged", {}, id="slow").SerializeToString()
        http.send(stream, prefixed(body), end=True)
        (scene,) = stage.started(1)
        procs.kill(server.supervisor, signum)
        while not http.goaways:
            assert http.read()
        wait.until(lambda: is_refused(server), "the port to close")
        while len(http.goaways) < 2:
            assert http.read()
        assert http.goaways == [2**31 - 1, stream]
        assert server.get("/-/healthz") == (503, "draining\n")
        assert server.get("/-/routes")[0] == 503
        scene.go()
        assert http.reply(stream).grpc_status == 0
        while http.read():
            pass
    server.ended()


def test_interrupt_from_the_terminal(staged, stage):
    """Ctrl-C reaches the whole foreground process group; still what is in flight is answered."""
    server = staged("--goaway-grace", "20ms")
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        os.killpg(server.supervisor, signal.SIGINT)
        server.log.wait("event=drain")
        scene.go()
        assert call.exception() is None
    server.ended()


def is_refused(server):
    try:
        socket.create_connection((server.host, server.port)).close()
    except ConnectionRefusedError:
        return True
    return False


def test_drain_serves_what_is_queued(staged, stage):
    server = staged("--goaway-grace", "20ms")
    with oip.Client(server.address) as client:
        calls = [client.begin("staged", {}, id=str(i)) for i in range(4)]
        stage.started(1)
        wait.until(lambda: server.deployment("staged")["queued"] == 3, "the queue")
        procs.kill(server.supervisor, signal.SIGTERM)
        server.log.wait("event=drain")
        for i in range(4):
            stage.started(i + 1)[i].go()
        assert all(c.exception() is None for c in calls)
    server.ended()


def test_drain_timeout(staged, stage):
    server = staged("--drain-timeout", "100ms", "--stop-timeout", "100ms", "--goaway-grace", "10ms")
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        stage.started(1)
        server.stop()
        assert call.exception().code() == grpc.StatusCode.UNAVAILABLE


def test_second_signal_ends_at_once(staged, stage):
    server = staged()
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        stage.started(1)
        procs.kill(server.supervisor, signal.SIGTERM)
        server.log.wait("event=drain")
        server.stop(code=128 + signal.SIGTERM)
        assert call.exception().code() == grpc.StatusCode.UNAVAILABLE


def test_a_hangup_does_not_hurry_it(staged, stage, terminal):
    """A terminal that goes says so twice, the shell and the kernel; a service manager may say it behind SIGTERM."""
    server = staged("--goaway-grace", "20ms", binary=terminal.program)
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        terminal.close()
        server.log.wait("event=drain signal=1")
        procs.kill(server.supervisor, signal.SIGHUP)
        server.log.wait("event=hangup_ignored")
        scene.go()
        assert call.exception() is None
    server.ended()


def test_a_hangup_by_hand_asks_for_a_reload(staged, terminal):
    """Its terminal is still there."""
    server = staged(binary=terminal.program)
    procs.kill(server.supervisor, signal.SIGHUP)
    server.log.wait("event=nothing_to_reload")
    assert "event=drain" not in server.log.text()
    server.stop()  # before its terminal goes


def test_a_signal_behind_a_hangup_ends_at_once(staged, stage, terminal):
    """Somebody has decided that."""
    server = staged(binary=terminal.program)
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        stage.started(1)
        terminal.close()
        server.log.wait("event=drain")
        server.stop(code=128 + signal.SIGTERM)
        assert call.exception().code() == grpc.StatusCode.UNAVAILABLE


def test_load_while_it_ends(staged):
    """Requests end in an answer or in UNAVAILABLE, never in anything else."""
    server = staged("--workers", "2", "--goaway-grace", "20ms")
    with Load(server.address, add_one("fast"), threads=6) as load:
        load.wait_more(100)
        server.stop()
    assert set(load.outcomes) <= {"OK", "UNAVAILABLE"}, (load.outcomes, load.errors[-1])
