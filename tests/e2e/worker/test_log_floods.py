"""What happens again and again is one line with a count, not a line each time."""

import contextlib
import re
import resource
import socket

import pytest

from support import wait

GONE = re.compile(r"event=worker_gone replica=\?")


def switches(pid):
    """How often it has gone to sleep."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", f.read(), re.M)[1])


@contextlib.contextmanager
def without_descriptors(pid):
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def seen(server, pattern, since):
    return [line for line in server.log.lines[since:] if re.search(pattern, line)]


@pytest.mark.core
def test_no_descriptor_for_a_client(serve, connect):
    server = serve("echo.py", "--header-timeout", "40ms")  # so it tries again every 10 ms
    server.expect_error("accept_failed")
    since, pid = len(server.log.lines), server.dispatcher
    with without_descriptors(pid):
        with socket.create_connection(("127.0.0.1", server.port)):
            server.log.wait("event=accept_failed", since)
            before = switches(pid)
            wait.until(lambda: switches(pid) > before + 50, "it does not try again")
    assert connect(server).call("ServerReady").ready
    (line,) = seen(server, "event=accept_failed", since)
    assert 'reason="Too many open files" failures=1' in line


@pytest.mark.core
def test_no_descriptor_for_a_worker(serve):
    server = serve("echo.py", "--ping-interval", "40ms")
    server.expect_error("accept_failed")
    since, pid = len(server.log.lines), server.dispatcher
    with without_descriptors(pid):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(server.link_path())
            server.log.wait("event=accept_failed", since)
            before = switches(pid)
            wait.until(lambda: switches(pid) > before + 50, "it does not try again")
    server.log.wait(GONE.pattern, since)  # it has come in by now, and left
    assert len(seen(server, "event=accept_failed", since)) == 1


@pytest.mark.core
def test_strangers_that_come_again(serve):
    """Six of them, for one reason: a line at once, and one that says how many there were."""
    server = serve("echo.py", "--ping-interval", "40ms")
    since = len(server.log.lines)
    for _ in range(6):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(server.link_path())
            s.sendall(bytes(64))
            while s.recv(4096):
                pass
    server.log.wait(r"event=worker_gone replica=\? .*times=", since)

    def told():
        return sum(int(m[1]) for m in (re.search(r"times=(\d+)", line) for line in seen(server, GONE, since)) if m)
    wait.until(lambda: told() == 6, lambda: seen(server, GONE, since))
    assert len(seen(server, GONE, since)) <= 3
    assert all("frame before slots were granted" in line for line in seen(server, GONE, since))
