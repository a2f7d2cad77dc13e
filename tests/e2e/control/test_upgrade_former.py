"""An upgrade from a program of an earlier commit, whose path is in ANYSERVE_FORMER, to this one, under load."""

import os
import shutil

import pytest

import chaos
from support import paths, wait
from support.process import procs

from scenarios import upgrade as scenario  # noqa: E402, of tests/chaos

FORMER = os.environ.get("ANYSERVE_FORMER")
MODEL = paths.ROOT / "tests/chaos/apps/model.py"
pytestmark = pytest.mark.skipif(not FORMER, reason="ANYSERVE_FORMER is not set")


def replace(path, program):
    fresh = path.with_suffix(".new")
    shutil.copy2(program, fresh)
    fresh.rename(path)


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_nothing_is_lost(serve, tmp_path, protocol):
    path = tmp_path / "anyserve"
    shutil.copy2(FORMER, path)
    server = serve(MODEL, "--workers", "2", "--warm-spares", "1", "--log-level", "warn", binary=path)
    server.wait_all_ready()
    before, supervisor = server.workers(), server.supervisor
    with chaos.loaded(server, protocol, "nap", rate=100, transparent=True) as load:
        for program in (paths.BINARY, paths.BINARY):
            replace(path, program)
            done, _ = scenario.upgrade(server)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert not load.outcome.errors, load.outcome.examples()
    assert load.outcome.refused == 0
    assert (server.workers(), server.supervisor) == (before, supervisor)
    # the next controller knows the replicas: it replaces one that dies
    name, pid = next(iter(before.items()))
    os.kill(pid, 9)
    wait.until(lambda: not procs.alive(pid) and server.workers().get(name, pid) != pid and server.all_ready(),
               server.log.text)
    # a program that does not know the state refuses it, and nothing has changed
    replace(path, FORMER)
    done, _ = scenario.upgrade(server)
    assert done.returncode == 1 and "another format" in done.stderr, done.stderr
    assert server.supervisor == supervisor and server.all_ready()
    server.expected += ["upgrade_failed"]
    server.note_fds()
