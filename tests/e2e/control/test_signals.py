"""Who may end a server by a signal: an operator, not the code that it serves. Who sent one is in the log."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from support.process import procs
from support.protocol import oip

pytestmark = pytest.mark.core

SENDER = "import os, sys; os.kill(int(sys.argv[1]), int(sys.argv[2])); sys.stdin.read()"


def ask(client, model, value):
    return int(client.infer(model, {"signum" if model != "reap" else "pid": np.array([value])})["pid"][0])


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2])
def test_a_worker_does_not_end_its_server(serve, connect, signum):
    server = serve("failing/signalling.py")
    server.expect_error("event=signal_refused")
    client = connect(server)
    pid = ask(client, "own", signum)
    found = server.log.wait(rf"event=signal_refused signal={signum:d} from=\"(.*)\" replica=(\S+)")
    assert found[1].startswith(f"pid {pid} (") and found[2] in server.workers()
    assert ask(client, "own", 0) == pid  # the same worker, served by the same server
    assert "event=drain" not in server.log.text() and "event=upgrade" not in server.log.text()


def test_nor_does_what_a_worker_has_started(serve, connect):
    """In a session of its own: it is known by its parent."""
    server = serve("failing/signalling.py")
    server.expect_error("event=signal_refused")
    client = connect(server)
    pid = ask(client, "child", signal.SIGTERM)
    found = server.log.wait(r"event=signal_refused signal=15 from=\"(.*)\" replica=(\S+)")
    assert found[1].startswith(f"pid {pid} (python") and found[2] in server.workers()
    assert ask(client, "reap", pid) == pid


def test_a_refused_signal_is_not_the_first_of_two(serve, connect):
    server = serve("failing/signalling.py")
    server.expect_error("event=signal_refused")
    with oip.Client(server.address) as client:
        ask(client, "own", signal.SIGTERM)
        server.log.wait("event=signal_refused")
    server.stop()


def test_who_asked_for_the_end_is_logged(serve):
    server = serve("failing/signalling.py")
    with subprocess.Popen([sys.executable, "-c", SENDER, str(server.supervisor), str(int(signal.SIGTERM))],
                          stdin=subprocess.PIPE) as sender:
        server.log.wait(rf'event=drain signal=15 .*from="pid {sender.pid} \(python[^)]*\), uid {os.getuid()}"')
        sender.stdin.close()
    server.ended()


def test_a_sender_that_has_gone_is_an_operator(serve):
    """As `kill` is by the time that its signal is read."""
    server = serve("failing/signalling.py")
    procs.kill(server.supervisor, signal.SIGSTOP)
    sender = subprocess.Popen([sys.executable, "-c", SENDER, str(server.supervisor), str(int(signal.SIGTERM))],
                              stdin=subprocess.DEVNULL)
    sender.wait()
    procs.kill(server.supervisor, signal.SIGCONT)
    server.log.wait(rf'event=drain signal=15 .*from="pid {sender.pid}, which has ended, uid {os.getuid()}"')
    server.ended()


def test_a_second_signal_is_logged_too(staged, stage):
    server = staged()
    with oip.Client(server.address) as client:
        call = client.begin("staged", {})
        stage.started(1)
        procs.kill(server.supervisor, signal.SIGTERM)
        server.log.wait("event=drain")
        server.stop(code=128 + signal.SIGTERM)
        assert call.exception() is not None
    assert server.log.find(rf'event=end_at_once signal=15 from="pid {os.getpid()} \(')
