"""`anyserve upgrade` when a part of the next version does not start, and beside other things that are under way."""

import contextlib
import json
import os
import queue
import resource
import shutil
import signal
import sqlite3
import stat
import subprocess

import grpc
import numpy as np
import pytest

from support import paths, wait
from support.load import Load
from support.process import procs
from support.process.upgrading import Upgrade, wait_next
from support.protocol import oip
from support.protocol.raw import HOST, Raw

STORY = """
import cue
import numpy as np
from anyserve import AnyServe, Tensor

app = AnyServe()


@app.model("story", inputs={"n": Tensor("INT32", [1])}, outputs={"part": Tensor("INT32", [1])}, max_ongoing_requests=4)
async def story(n, request):
    for i in range(int(n[0])):
        await cue.wait_async(f"{request.id}{i}")
        yield np.array([i], np.int32)
"""


# --- parts that do not start ---

def test_the_next_dispatcher_does_not_start(serve, connect, tmp_path):
    """It has no memory for its threads: given up, and the former one serves on."""
    path = tmp_path / "anyserve"
    shutil.copy2(paths.BINARY, path)
    server = serve("echo.py", "--threads", "64", "--max-start-failures", "1", "--restart-backoff", "10ms", binary=path)
    server.wait_all_ready()
    client, former, workers = connect(server), server.dispatcher, server.workers()
    for line in ("dispatcher_failed", "dispatcher_exit", "upgrade_failed"):
        server.expect_error(line)
    limited = tmp_path / "limited"
    limited.write_text(f"#!/bin/sh\nulimit -S -v 400000\nexec {paths.BINARY} \"$@\"\n")
    limited.chmod(limited.stat().st_mode | stat.S_IXUSR)
    limited.rename(path)
    with Upgrade(server) as upgrade:
        assert upgrade.fail() == "the new dispatcher does not start; its log lines are above"
    server.log.wait('event=dispatcher_failed reason="no thread"')
    server.log.wait('event=upgrade_failed .*action="the former dispatcher serves on"')
    assert (server.dispatcher, server.workers()) == (former, workers)
    assert client.infer("echo", {"x": np.float32([3])})["x"] == 3
    # what there was is still whole: one that fits takes over
    shutil.copy2(paths.BINARY, limited)
    limited.rename(path)
    resource.prlimit(server.supervisor, resource.RLIMIT_AS, (-1, -1))
    with Upgrade(server) as upgrade:
        upgrade.finish()
    assert (server.dispatcher != former, server.workers()) == (True, workers)
    server.note_fds()


def held(server):
    """Who serves: nothing of it may change when an upgrade is refused."""
    return server.controller, server.dispatcher, server.workers()


def replaced_by(path, script):
    """The program at `path` is a script now; the real one is $ANYSERVE in it."""
    new = path.with_suffix(".new")
    new.write_text(f"#!/bin/sh\nANYSERVE={paths.BINARY}\n{script}\n")
    new.chmod(0o755)
    new.rename(path)


@pytest.fixture
def upgradable(serve, tmp_path):
    """upgradable(*options) → a server with a state folder, and the path of its program, a copy."""
    def start(*options):
        path = tmp_path / "anyserve"
        shutil.copy2(paths.BINARY, path)
        file = tmp_path / "anyserve.yaml"
        file.write_text(json.dumps({"applications": [
            {"name": "shop", "import_path": "echo:app", "working_dir": str(paths.APPS)}]}))
        server = serve(file, "--state-dir", tmp_path / "state", *options, verb="start", binary=path)
        server.wait_all_ready()
        server.expect_error("upgrade_failed")
        return server, path
    return start


@pytest.mark.parametrize("state, why", [
    (b"no database at all, but long enough to look like one" * 100, "is damaged or not a state file of AnyServe"),
    ("PRAGMA user_version = 99", "was written by a newer AnyServe"),
    ("UPDATE generation SET spec = '{\"applications\": [{\"colour\": 1}]}'", "colour"),
    (None, "Is a directory")], ids=["damaged", "newer", "unknown key", "no file"])
def test_a_program_that_cannot_read_the_state(upgradable, tmp_path, state, why):
    """The check says so: controller, dispatcher and workers stay what they are, and so does the file."""
    server, _ = upgradable()
    before = held(server)
    (database,) = (tmp_path / "state").rglob("state.db")
    for part in database.parent.glob("state.db*"):
        shutil.copy2(part, tmp_path / part.name)  # with what is still in the journal
    if isinstance(state, str):
        with contextlib.closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
            db.execute(state)
    kept = database.with_suffix(".kept")
    journal = database.with_name("state.db-wal")
    database.rename(kept)
    journal.rename(tmp_path / "journal")
    if state is None:
        database.mkdir()
    else:
        database.write_bytes(state if isinstance(state, bytes) else (tmp_path / "state.db").read_bytes())
        was = database.read_bytes()
    with Upgrade(server) as upgrade:
        said = upgrade.fail()
    assert why in said and "\n" not in said, said
    assert held(server) == before
    if state is None:
        database.rmdir()
    else:
        assert database.read_bytes() == was
    kept.rename(database)
    (tmp_path / "journal").rename(journal)
    assert not database.with_name("upgrade-check").exists()
    with Upgrade(server) as upgrade:
        upgrade.finish()
    server.note_fds()


def test_a_check_that_hangs(upgradable):
    server, path = upgradable("--upgrade-check-timeout", "300ms")
    before = held(server)
    replaced_by(path, 'echo thinking; exec sleep 1000')
    with Upgrade(server) as upgrade:
        assert upgrade.fail() == f"{path} did not say in 0.3 s whether it can take over (--upgrade-check-timeout)"
    replaced_by(path, 'echo a line; echo the last line; exit 3')
    with Upgrade(server) as upgrade:
        assert upgrade.fail() == f"{path} cannot take over (exit code 3): the last line"
    assert held(server) == before


def leaves_a_copy(path, database):
    """A program whose check looks at the state, as the real one does, and never ends."""
    copy = database.with_name("upgrade-check")
    replaced_by(path, f"mkdir -m 700 {copy}; cp {database}* {copy}; exec sleep 1000")
    return copy


def test_a_check_that_is_killed_leaves_no_copy_of_the_state(upgradable, tmp_path):
    server, path = upgradable("--upgrade-check-timeout", "2s")
    (database,) = (tmp_path / "state").rglob("state.db")
    copy = leaves_a_copy(path, database)
    with Upgrade(server) as upgrade:
        wait.until((copy / "state.db").exists, server.log.text)
        assert "did not say in 2 s" in upgrade.fail()
    assert not copy.exists()


def test_a_server_that_starts_removes_such_a_copy(serve, upgradable, tmp_path):
    """Its supervisor was killed together with the check."""
    server, path = upgradable()
    (database,) = (tmp_path / "state").rglob("state.db")
    copy = leaves_a_copy(path, database)
    with Upgrade(server):
        wait.until((copy / "state.db").exists, server.log.text)
        server.kill()
    server.exit_code = -signal.SIGKILL
    assert copy.exists()
    serve(None, "--state-dir", tmp_path / "state", verb="start").wait_all_ready()
    assert not copy.exists()


CHECKS_NOTHING = 'case "$3" in check) exit 0;; esac; exec $ANYSERVE "$@"'


def test_the_next_controller_does_not_start(upgradable, connect, tmp_path):
    """It cannot read its state. Dispatcher and workers go on without one, until it can."""
    server, path = upgradable("--start-timeout", "8s", "--restart-backoff", "10ms", "--restart-backoff-max", "50ms")
    client, former, workers = connect(server), server.dispatcher, server.workers()
    for line in ("state_unreadable", "controller_exit"):
        server.expect_error(line)
    replaced_by(path, CHECKS_NOTHING)
    (database,) = (tmp_path / "state").rglob("state.db")
    kept = database.with_suffix(".kept")
    database.rename(kept)
    database.mkdir()
    with Upgrade(server) as upgrade:
        assert upgrade.fail() == "the new controller does not start; its log lines are above"
    assert (server.dispatcher, server.workers()) == (former, workers)
    assert client.infer("echo", {"x": np.float32([3])})["x"] == 3
    database.rmdir()
    kept.rename(database)
    wait.until(lambda: server.controller, server.log.text)
    wait.until(lambda: server.log.find("controller_ready replicas=1 started=0"), server.log.text)
    with Upgrade(server) as upgrade:
        upgrade.finish()
    assert (server.dispatcher != former, server.workers()) == (True, workers)
    server.note_fds()


def test_back_while_there_is_no_controller(upgradable, connect, tmp_path):
    """The next program has said that it can, and its controller does not start. Another one takes over from it."""
    server, path = upgradable("--start-timeout", "8s", "--restart-backoff", "60s", "--restart-backoff-max", "60s")
    client, former, workers = connect(server), server.dispatcher, server.workers()
    for line in ("state_unreadable", "controller_exit"):
        server.expect_error(line)
    replaced_by(path, CHECKS_NOTHING)
    (database,) = (tmp_path / "state").rglob("state.db")
    database.rename(kept := database.with_suffix(".kept"))
    database.mkdir()
    with Upgrade(server) as upgrade:
        assert upgrade.fail() == "the new controller does not start; its log lines are above"
    assert (server.controller, server.dispatcher, server.workers()) == (None, former, workers)
    database.rmdir()
    kept.rename(database)
    shutil.copy2(paths.BINARY, path.with_suffix(".back"))
    path.with_suffix(".back").rename(path)
    with Upgrade(server) as upgrade:
        upgrade.finish()
    assert server.controller and (server.dispatcher != former, server.workers()) == (True, workers)
    assert client.infer("echo", {"x": np.float32([3])})["x"] == 3
    server.note_fds()


# --- what is under way ---

@pytest.mark.core
def test_streams_are_finished_by_the_former_dispatcher(serve, stage, tmp_path):
    stage.reset()
    server = serve("story.py", "--workers", "1", source=STORY, env={"ANYSERVE_TEST_STAGE": stage.path})
    former, messages = server.dispatcher, queue.SimpleQueue()
    body = json.dumps({"n": 3, "id": "h"}).encode()
    with grpc.insecure_channel(server.address, oip.UNLIMITED) as channel, Raw(server) as http:
        http.send(b"POST /v2/models/story/generate_stream HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        call = channel.stream_stream(f"/{oip.SERVICE}/ModelStreamInfer", lambda q: q.SerializeToString(),
                                     oip.messages()["ModelStreamInferResponse"].FromString)(iter(messages.get, None))
        messages.put(oip.infer_request("story", {"n": np.array([3], np.int32)}, id="g"))

        def scenes(i):
            wait.until(lambda: {f"h{i}", f"g{i}"} <= set(stage.tags()), stage.tags)
            return [s for s in stage.scenes if s.tag in (f"h{i}", f"g{i}")]

        def part(i):
            for scene in scenes(i):
                scene.go()
            assert oip.Answer(next(call).infer_response)["part"] == i
            assert http.until(rb'"part":%d' % i)

        part(0)
        with Upgrade(server) as upgrade:
            wait_next(server, former)
            part(1)
            # a request that comes on a stream which the former dispatcher has is its own as well
            messages.put(oip.infer_request("story", {"n": np.array([1], np.int32)}, id="later"))
            wait.until(lambda: "later0" in stage.tags(), stage.tags)
            stage.scenes[stage.tags().index("later0")].go()
            assert oip.Answer(next(call).infer_response)["part"] == 0
            part(2)
            messages.put(None)
            assert list(call) == []
            assert http.until(rb"\r\n0\r\n\r\n$")
            upgrade.finish()
        # the connection of the stream by HTTP is the next dispatcher's
        http.seen = b""
        http.send(b"GET /v2/health/ready HTTP/1.1\r\n" + HOST + b"\r\n")
        assert http.until(rb'"ready":true')
    server.note_fds()


def test_a_second_one_meanwhile(staged, stage):
    """It is the same upgrade: both commands end when the former dispatcher has."""
    server = staged("--workers", "1", app="staged_async.py")
    former = server.dispatcher
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        (scene,) = stage.started(1)
        with Upgrade(server) as first:
            wait_next(server, former)
            next_one = server.dispatcher
            with Upgrade(server) as second:
                server.log.wait('event=upgrade_ignored reason="one is under way"')
                assert first.process.poll() is None and second.process.poll() is None
                scene.go()
                assert call.exception() is None
                first.finish()
                second.finish()
    assert server.dispatcher == next_one and not procs.alive(former)
    server.note_fds()


def test_while_an_update_rolls(serve, tmp_path):
    """The update goes on under the next controller; no call fails."""
    import test_deploy as deploy
    file = tmp_path / "anyserve.yaml"
    file.write_text(json.dumps(deploy.spec(version="1")))
    server = serve(file, "--state-dir", tmp_path / "state", *deploy.QUICK, verb="start")
    deploy.healthy(server)
    before = deploy.pids(server, "main")
    with Load(server.address, deploy.called, threads=4, options=oip.TRANSPARENT) as load:
        load.wait_more(20)
        assert deploy.put(server, deploy.spec(version="2"))["shop/main"] == ("changed", "restart")
        wait.until(lambda: len(deploy.pids(server, "main")) > 2, server.status)  # a surge: it rolls
        with Upgrade(server) as upgrade:
            upgrade.finish()
        deploy.healthy(server, generation=2)
        load.wait_more(20)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    assert not before & deploy.pids(server, "main")
    with oip.Client(server.address) as client:
        assert {deploy.ask(client)["version"] for _ in range(8)} == {"2"}
    server.note_fds()


# --- the command ---

def test_the_command_waits_for_so_long(upgradable):
    server, _ = upgradable()
    os.kill(server.supervisor, signal.SIGSTOP)
    try:
        with Upgrade(server, "--timeout", "300ms") as upgrade:
            assert upgrade.process.wait(wait.SECONDS) == 4
            assert "not done within --timeout" in upgrade.process.stderr.read()
    finally:
        os.kill(server.supervisor, signal.SIGCONT)
    server.log.wait("event=upgraded")
    server.note_fds()


def test_the_command_asks_the_server_alone(upgradable):
    """Not the process that has the number in the server's lock."""
    server, _ = upgradable()
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        lock = os.path.join(server.folder_of_port(), "lock")
        with open(lock, "r+") as f:
            f.truncate()
            f.write(f"{bystander.pid}\n")
        with Upgrade(server) as upgrade:
            upgrade.finish()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    server.note_fds()
