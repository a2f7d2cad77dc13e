"""Warm spares: a process that has made its handlers takes the place of a dead replica, and is that replica in all."""

import os
import signal

import pytest

import chaos  # noqa: F401, which adds the folder of upgrade
from support import wait
from support.process import procs
from support.protocol import oip

from scenarios import upgrade  # noqa: E402, of tests/chaos


@pytest.fixture
def spared(serve, tmp_path):
    """A server of apps/spared.py, and the processes that have made a handler, in order."""
    journal = tmp_path / "journal"
    journal.touch()

    def start(*options, **env):
        return serve("spared.py", *options, env={"SPARED_JOURNAL": str(journal), **env})

    start.made = lambda: [int(line) for line in journal.read_text().split()]
    return start


def wait_made(spared, n):
    wait.until(lambda: len(spared.made()) >= n, lambda: f"{n} processes: {spared.made()}")
    return spared.made()


def who(server):
    with oip.Client(server.address) as client:
        answer = client.infer("who", {})
    return int(answer["pid"][0]), int(answer["rank"][0]), [r.decode() for r in answer["replica"]]


def replaced(server, replica, pid):
    """The pid of the process that follows."""
    os.kill(pid, signal.SIGKILL)
    wait.until(lambda: server.workers().get(replica, pid) != pid, server.status)
    return server.workers()[replica]


def test_a_spare_takes_the_place_of_a_dead_replica(spared):
    server = spared("--workers", "2", "--warm-spares", "1")
    first = set(server.workers().values())
    for round in range(3):
        waiting = wait_made(spared, 3 + round)[-1]
        assert waiting not in server.workers().values()
        replica, pid = sorted(server.workers().items())[round % 2]
        assert replaced(server, replica, pid) == waiting
    assert not first & set(server.workers().values())
    wait_made(spared, 6)  # the next one waits already
    server.stop()


def test_it_is_that_replica(spared):
    server = spared("--warm-spares", "1")
    before = who(server)
    waiting = wait_made(spared, 2)[-1]
    assert replaced(server, *server.workers().popitem()) == waiting
    assert who(server) == (waiting, *before[1:])
    server.stop()


def test_code_that_asks_who_it_is_while_it_is_imported_waits(spared):
    server = spared("--warm-spares", "1", SPARED_EARLY="1")
    before = who(server)
    wait.until(lambda: len(server.worker_pids()) == 2, server.status)
    (spare,) = set(server.worker_pids()) - {before[0]}
    assert replaced(server, *server.workers().popitem()) == spare
    assert who(server) == (spare, *before[1:])
    server.stop()


def test_a_spare_that_ends_by_itself_is_told_once_and_missed_by_nobody(spared):
    server = spared("--warm-spares", "1", SPARED_MOST="1")
    server.log.wait(r'event=spare_gone deployment=spared reason="exit code 70" last=".*one too many')
    os.truncate(server.env["SPARED_JOURNAL"], 0)
    replica, pid = server.workers().popitem()
    assert replaced(server, replica, pid) in spared.made()
    server.stop()


def test_none_by_default_and_none_is_left(spared):
    server = spared("--workers", "2", "--warm-spares", "2")
    wait_made(spared, 4)
    spares = set(spared.made()) - set(server.workers().values())
    assert len(spares) == 2
    server.stop()
    wait.until(lambda: not any(map(procs.alive, spares)), str(spares))
    server = spared()
    assert set(server.worker_pids()) == set(server.workers().values())
    server.stop()


def test_an_upgrade_has_spares_of_its_own(spared):
    server = spared("--warm-spares", "1")
    old = wait_made(spared, 2)[-1]
    done, _ = upgrade.upgrade(server)
    assert done.returncode == 0, done.stderr
    waiting = wait_made(spared, 3)[-1]
    wait.until(lambda: old not in server.worker_pids(), "the former spare is gone and reaped")
    assert replaced(server, *server.workers().popitem()) == waiting
    server.note_fds()
    server.stop()
