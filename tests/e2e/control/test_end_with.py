"""--end-with: a server ends with the process that has started it, however that ends."""

import os
import signal
import subprocess
import sys
import uuid

import pytest

from support import paths, wait
from support.process import procs

pytestmark = pytest.mark.core

PARENT = """
import os, subprocess, sys
server = subprocess.Popen(sys.argv[1:] + ["--end-with", str(os.getpid())], start_new_session=True, stdin=subprocess.DEVNULL)
print(server.pid, flush=True)
sys.stdin.read()
"""


class Family:
    """A parent, its server, and what that has started."""

    def __init__(self, folder, *options):
        self.mark = f"ANYSERVE_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        env = {**os.environ, "PYTHONPATH": f"{paths.SDK}:{paths.APPS}", name: value}
        self.runtime, self.log = folder / "run", folder / "log"
        command = [paths.BINARY, "run", "echo.py", "--port", "0", "--status-port", "0", "--runtime-dir", self.runtime,
                   "--python", sys.executable, *options]
        with open(self.log, "wb") as log:
            self.parent = subprocess.Popen([sys.executable, "-c", PARENT, *map(str, command)], stdin=subprocess.PIPE,
                                           stdout=subprocess.PIPE, stderr=log, env=env, cwd=paths.APPS)
        self.server = int(self.parent.stdout.readline())
        self.began = procs.began(self.server)

    def wait_for(self, text, count=1):
        wait.until(lambda: self.log.read_text().count(text) >= count, lambda: f"{text} in {self.log.read_text()}")

    def end(self):
        self.parent.kill()
        self.parent.wait()
        self.parent.stdin.close()
        self.parent.stdout.close()

    def is_gone(self):
        return not procs.family(self.server, self.began, self.mark) and not os.listdir(self.runtime)


@pytest.fixture
def family(tmp_path_factory):
    all = []

    def make(*options):
        all.append(Family(tmp_path_factory.mktemp("f"), *options))
        return all[-1]

    yield make
    for f in all:
        f.end()
        for pid in procs.family(f.server, f.began, f.mark):
            os.kill(pid, signal.SIGKILL)


def test_a_killed_parent_leaves_no_process(family):
    f = family()
    f.wait_for("Ready: ")
    f.end()
    wait.until(f.is_gone, "processes of the server are left")
    assert "event=parent_ended" in f.log.read_text() and "end_at_once" not in f.log.read_text()


def test_also_while_the_code_is_loaded(family):
    f = family()
    f.end()
    wait.until(f.is_gone, "processes of the server are left")


def test_also_after_an_upgrade(family):
    f = family()
    f.wait_for("Ready: ")
    f.wait_for("event=controller_ready")
    os.kill(f.server, signal.SIGUSR2)
    f.wait_for("event=upgraded")
    f.end()
    wait.until(f.is_gone, "processes of the server are left")
    assert "event=parent_ended" in f.log.read_text()


def test_a_parent_that_asks_it_to_end_and_leaves(family):
    """The second reason to end does not cut off what the first one lets finish."""
    f = family()
    f.wait_for("Ready: ")
    os.kill(f.server, signal.SIGTERM)
    f.end()
    wait.until(f.is_gone, "processes of the server are left")
    assert "end_at_once" not in f.log.read_text()


def test_a_process_that_is_not_the_parent(serve):
    """It may have ended before the server could look: then whoever has the pid now is another."""
    server = serve("echo.py", "--end-with", "1", wait_ready=False)
    server.log.wait("event=parent_ended pid=1")
    server.ended()
