"""`anyserve upgrade`: supervisor, controller and dispatcher become another image; clients and workers do not notice."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import stat

import numpy as np
import pytest

import chaos
from support import paths, wait
from support.process import procs
from support.process.upgrading import Upgrade, wait_next
from support.protocol import link, oip
from support.protocol.http import Unix

from scenarios import upgrade as scenario  # noqa: E402, of tests/chaos

MODEL = paths.ROOT / "tests/chaos/apps/model.py"
HALVES = """
import sys
import anyserve
app = anyserve.AnyServe()

@app.model("halves")
def halves(x):
    sys.stdout.write("first half, " if x[0] == 1 else "second half\\n")
    sys.stdout.flush()
    return {"y": x}
"""


def upgrade(server):
    done, _ = scenario.upgrade(server)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout.startswith("upgraded to ")


def ask(server, method, path, body=None):
    """The JSON that the control API answers; OSError or HTTPException when the controller ends meanwhile."""
    with contextlib.closing(Unix(os.path.join(server.folder_of_port(), "control.sock"))) as c:
        c.request(method, path, json.dumps(body) if body else None)
        r = c.getresponse()
        text = r.read()
    assert r.status == 200, text
    return json.loads(text)


def ask_until_answered(*args):
    def is_answered():
        try:
            return ask(*args) is not None
        except (OSError, http.client.HTTPException):
            return False
    wait.until(is_answered, lambda: args)


@pytest.mark.core
@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_clients_and_workers_do_not_notice(serve, protocol):
    server = serve(MODEL, "--workers", "2", "--log-level", "warn")
    server.wait_all_ready()
    before, supervisor, seen = server.workers(), server.supervisor, {(server.dispatcher, server.controller)}
    with chaos.loaded(server, protocol, "nap", rate=100, transparent=True) as load:
        for _ in range(3):
            upgrade(server)
            seen.add((server.dispatcher, server.controller))
    assert not load.outcome.errors, load.outcome.examples()
    assert load.outcome.refused == 0
    assert len(seen) == 4
    assert (server.workers(), server.supervisor, server.process.poll()) == (before, supervisor, None)
    server.note_fds()


@pytest.fixture
def copied_with(tmp_path, monkeypatch, serve):
    """copied_with(options…) → a server that was started from a copy of the program, whose path can get another one."""
    def copied(*options):
        path = tmp_path / "anyserve"
        shutil.copy2(paths.BINARY, path)
        original = paths.BINARY
        monkeypatch.setattr(paths, "BINARY", path)
        server = serve("echo.py", *options, env={"ANYSERVE_TEST_UPGRADE": "1"})
        server.wait_all_ready()
        monkeypatch.setattr(paths, "BINARY", original)
        return server, path
    return copied


@pytest.fixture
def copied(copied_with):
    return copied_with()


def become(path, text):
    """A script takes the program's place, as a package manager would put it there."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text)
    fresh.chmod(fresh.stat().st_mode | stat.S_IXUSR)
    fresh.rename(path)


def test_the_program_at_the_path_is_the_next_one(copied):
    server, path = copied
    fresh = path.with_suffix(".new")
    shutil.copy2(paths.BINARY, fresh)
    inode = fresh.stat().st_ino
    fresh.rename(path)
    upgrade(server)
    for pid in (server.supervisor, server.dispatcher, server.controller):
        assert os.stat(f"/proc/{pid}/exe").st_ino == inode
    server.note_fds()


@pytest.mark.parametrize("script, reason", [
    ("#!/bin/sh\necho 'no such command' >&2\nexit 2\n", r"cannot take over \(exit code 2\): no such command"),
    ("#!/bin/sh\nkill -9 $$\n", r"cannot take over \(signal 9 \(SIGKILL\)\)"),
    (None, "cannot start .*No such file"),
])
def test_one_that_cannot_take_over_is_refused(copied, connect, script, reason):
    server, path = copied
    before = (server.supervisor, server.dispatcher, server.controller, server.workers())
    server.expect_error("upgrade_failed")
    if script:
        become(path, script)
    else:
        path.unlink()
    done, _ = scenario.upgrade(server)
    assert done.returncode == 1
    server.log.wait(f"event=upgrade_failed reason=.*{reason}")
    assert "not upgraded: " in done.stderr
    assert (server.supervisor, server.dispatcher, server.controller, server.workers()) == before
    assert connect(server).infer("echo", {"x": np.float32([3])})["x"] == 3


def test_an_upgrade_before_does_not_end_the_check_of_this_one(copied_with):
    """The time that one upgrade had for its workers is over while the next one is being checked."""
    server, path = copied_with("--drain-timeout", "500ms")
    upgrade(server)
    before = (server.supervisor, server.dispatcher, server.controller, server.workers())
    server.expect_error("upgrade_failed")
    become(path, "#!/bin/sh\nsleep 0.7\necho 'never' >&2\nexit 1\n")
    done, _ = scenario.upgrade(server)
    assert done.returncode == 1 and "cannot take over (exit code 1): never" in done.stderr, done
    assert (server.supervisor, server.dispatcher, server.controller, server.workers()) == before
    server.note_fds()


@pytest.fixture
def begin_upgrade():
    """begin_upgrade(server) → finish(): the command beside the test."""
    with contextlib.ExitStack() as stack:
        yield lambda server: stack.enter_context(Upgrade(server)).finish


@pytest.mark.core
def test_what_is_under_way_is_finished_beside_the_next_one(staged, stage, begin_upgrade):
    """A long request stays where it is, on the same worker; new ones do not wait for it."""
    server = staged("--workers", "1", app="staged_async.py")
    before, old = server.workers(), server.dispatcher
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        finish = begin_upgrade(server)
        wait_next(server, old)
        with oip.Client(server.address) as other:
            for n in range(20):
                assert other.infer("fast", {"x": np.array([n])})["output0"] == n + 1
            assert client.infer("fast", {"x": np.array([1])})["output0"] == 2  # it was told to connect again
        assert procs.alive(old) and not call.done()
        scene.go()
        assert call.exception() is None
    finish()
    assert not procs.alive(old)
    assert server.workers() == before
    server.note_fds()


def test_a_worker_that_is_inside_a_handler_is_waited_for(staged, stage, begin_upgrade):
    """Sync, one slot: it can come over only when the handler returns; the former dispatcher serves until then."""
    server = staged("--workers", "1")
    old = server.dispatcher
    with oip.Client(server.address) as client, oip.Client(server.address, oip.TRANSPARENT) as other:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        finish = begin_upgrade(server)
        server.log.wait("event=yields .* drains=0")
        later = other.begin("fast", {"x": np.array([1])})
        scene.go()
        assert call.exception() is None
        assert oip.Answer(later.result())["y"] == 2
        finish()
        assert other.infer("fast", {"x": np.array([2])})["y"] == 3
    assert server.dispatcher != old
    server.note_fds()


@pytest.mark.core
def test_a_worker_that_cannot_serve_two_dispatchers(serve, begin_upgrade):
    """It joined by itself, and knows nothing of MOVE: it comes when its link ends, and clients wait for it."""
    server = serve(None)
    with oip.Client(server.address) as client:
        with link.Worker(server) as worker:
            worker.serve("hand")
            call = client.begin("hand", {"x": np.ones(1)})
            request = worker.take()
            finish = begin_upgrade(server)
            server.log.wait("event=yields .* foreign=1 drains=1")
            worker.answer(request)
            assert call.exception() is None
            worker.wait_end()
        waits = oip.Client(server.address)
        later = waits.begin("hand", {"x": np.ones(1)})
        with link.Worker(server) as worker:
            worker.serve("hand")
            worker.answer(worker.take())
            assert later.exception() is None
            waits.close()
            finish()
            wait.until(lambda: server.status()["replicas"], server.status)
    wait.until(lambda: not server.status()["replicas"], server.status)
    server.note_fds()


def test_slots_are_those_of_the_worker(staged, stage, begin_upgrade):
    """Two links, three slots: never more than three handlers run."""
    server = staged("--workers", "1", app="staged_async.py")
    old = server.dispatcher
    with oip.Client(server.address) as client:
        calls = [client.begin("staged", {}) for _ in range(3)]
        first = stage.started(3)
        finish = begin_upgrade(server)
        wait_next(server, old)
        with oip.Client(server.address) as other:
            calls += [other.begin("staged", {}) for _ in range(3)]
            wait.until(lambda: server.deployment()["ongoing"] + server.deployment()["prefetched"] >= 3, server.status)
            assert len(stage.scenes) == 3
            first[0].go()
            assert len(stage.started(4)) == 4
            for scene in first[1:]:
                scene.go()
            for scene in stage.started(6)[3:]:
                scene.go()
            assert all(c.exception() is None for c in calls)
    finish()
    server.note_fds()


def test_what_the_supervisor_knows_goes_along(serve, connect, tmp_path):
    """A worker that dies after it is reaped, told and replaced; a line that was begun before it is one line."""
    target = tmp_path / "halves.py"
    target.write_text(HALVES)
    server = serve(target, "--workers", "1")
    server.wait_all_ready()
    connect(server).infer("halves", {"x": np.float32([1])})
    upgrade(server)
    server.note_fds()
    connect(server).infer("halves", {"x": np.float32([2])})
    server.log.wait(r"^\[halves-0\] first half, second half$")
    pid = server.worker()
    procs.kill(pid)
    server.log.wait(rf"worker_exit replica=halves-0 pid={pid} .*SIGKILL.*restart in 0 ms")
    wait.until(lambda: pid not in server.workers().values() and server.workers(), server.status)
    assert [p["restarts"] for p in server.status()["processes"]] == [1]
    upgrade(server)
    assert [p["restarts"] for p in server.status()["processes"]] == [1]
    server.note_fds()


def test_what_was_asked_for_goes_along(serve):
    server = serve("echo.py")
    path = "/api/v1/applications/default/deployments/echo/scale"
    ask(server, "POST", path, {"target_num_replicas": 2})
    wait.until(lambda: len(server.workers()) == 2, server.status)
    before = server.workers()
    upgrade(server)
    assert server.workers() == before
    ask_until_answered(server, "POST", path, {"target_num_replicas": 1})
    wait.until(lambda: len(server.workers()) == 1, server.status)


def test_it_ends_with_the_supervisor(serve):
    """The death signal of workers and controller outlives the exec."""
    server = serve("echo.py", "--workers", "2")
    upgrade(server)
    server.expect_error("supervisor_gone")
    procs.kill(server.supervisor)
    server.wait_exit(-signal.SIGKILL)
    wait.until(lambda: not server.family(), lambda: [procs.command(p) for p in server.family()])


def test_a_server_that_is_not_ready_is_not_upgraded(staged, stage):
    server = staged()
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        server.expect_error("upgrade_failed")
        procs.kill(server.supervisor, signal.SIGTERM)
        server.log.wait("event=drain")
        procs.kill(server.supervisor, signal.SIGUSR2)
        server.log.wait("event=upgrade_failed reason=\"the server ends\"")
        scene.go()
        assert call.exception() is None
    server.ended()


def test_a_server_of_a_deployment_file(serve, connect, tmp_path):
    """`anyserve start`: its generation, its replicas, and who may change it, go along."""
    file = tmp_path / "anyserve.yaml"
    file.write_text(json.dumps({"applications": [{
        "name": "shop", "import_path": "echo:app", "working_dir": str(paths.APPS),
        "deployments": [{"name": "echo", "num_replicas": 2}]}]}))
    server = serve(file, "--state-dir", tmp_path / "state", verb="start")
    server.wait_all_ready()
    before = server.workers()
    for _ in range(2):
        upgrade(server)
    assert server.workers() == before
    d = ask(server, "GET", "/api/serve/applications/")["applications"]["shop"]["deployments"]["echo"]
    assert (d["status"], d["target_num_replicas"], len(d["replicas"])) == ("HEALTHY", 2, 2)
    ask(server, "POST", "/api/v1/applications/shop/deployments/echo/scale", {"target_num_replicas": 1})
    wait.until(lambda: len(server.workers()) == 1, server.status)
    assert connect(server).infer("echo", {"x": np.float32([3])})["x"] == 3
