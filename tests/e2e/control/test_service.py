"""A service manager is told what sd_notify(3) tells it, and the unit that is shipped fits the command."""

import configparser
import os
import socket

import pytest

from support import paths, wait
from support.process.upgrading import Upgrade

UNIT = paths.ROOT / "deploy/systemd/anyserve.service"


@pytest.fixture
def manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(str(tmp_path / "notify"))
        s.settimeout(wait.SECONDS)
        yield s


SOURCE = """
import os
from anyserve import AnyServe
app = AnyServe()

@app.model("environment")
def environment(request):
    names = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
    return {"told": [os.environ.get(name, "nothing").encode() for name in names]}
"""


def test_ready_and_stopping(serve, connect, manager):
    server = serve("notify.py", source=SOURCE, env={"NOTIFY_SOCKET": manager.getsockname()})
    assert manager.recv(100) == b"READY=1"
    # workers are not the service: they cannot speak for it
    assert connect(server).infer("environment", {})["told"].tolist() == [b"nothing"] * 3
    server.stop()
    assert manager.recv(100) == b"STOPPING=1"


def watched(manager, usec, **more):
    return {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": str(usec), **more}


def test_it_says_that_it_is_well(serve, connect, manager):
    """Its loop does: one that does not turn is silent, and the manager ends it."""
    server = serve("notify.py", source=SOURCE, env=watched(manager, 400_000))
    said = []
    while len(said) < 8 or b"READY=1" not in said:  # the loop turns long before the workers are ready
        said.append(manager.recv(100))
    assert said.count(b"READY=1") == 1 and set(said) == {b"READY=1", b"WATCHDOG=1"}, said
    assert connect(server).infer("environment", {})["told"].tolist() == [b"nothing"] * 3
    server.stop()
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            assert manager.recv(100) in (b"WATCHDOG=1", b"STOPPING=1")


@pytest.mark.core
def test_it_is_well_over_an_upgrade(serve, manager):
    """While a program takes over that may know nothing of it, nobody is to wait for it."""
    server = serve("echo.py", env=watched(manager, 400_000))
    with Upgrade(server) as upgrade:
        upgrade.finish()
    said = []
    while not said or not said[-1].startswith(b"WATCHDOG_USEC=400000"):
        said.append(manager.recv(100))
    assert said[-2:] == [b"WATCHDOG_USEC=0", b"WATCHDOG_USEC=400000\nWATCHDOG=1"], said
    assert [manager.recv(100) for _ in range(3)] == [b"WATCHDOG=1"] * 3


def test_the_watchdog_of_another_process(serve, manager):
    """That of a program which started us."""
    server = serve("echo.py", env=watched(manager, 1, WATCHDOG_PID=str(os.getpid())))
    assert manager.recv(100) == b"READY=1"
    server.stop()
    assert manager.recv(100) == b"STOPPING=1"


def test_a_watchdog_that_is_no_time(serve, manager):
    server = serve("echo.py", env=watched(manager, "soon"))
    server.log.wait("WATCHDOG_USEC is not a time in microseconds")
    assert manager.recv(100) == b"READY=1"


def test_a_manager_that_is_gone(serve, tmp_path):
    server = serve("echo.py", env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    server.log.wait("event=notify_failed state=READY=1")
    server.expect_error("event=notify_failed")


def test_an_address_that_is_none(serve):
    server = serve("echo.py", env={"NOTIFY_SOCKET": "relative"})
    server.log.wait("NOTIFY_SOCKET is not the address of a socket")


def test_the_unit():
    """Its timeouts leave time for the drain that the options ask for."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str
    unit.read_string(UNIT.read_text())
    service = unit["Service"]
    assert service["Type"] == "notify" and service["KillMode"] == "mixed"
    rows = dict(line.split("|")[1:3] for line in (paths.ROOT / "docs/guide/options.md").read_text().splitlines()
                if line.startswith("| `--drain-timeout`") or line.startswith("| `--stop-timeout`"))
    defaults = [int(v.strip(" `s")) for v in rows.values()]
    # beside the time-out within which it replaces the two others itself
    assert int(service["WatchdogSec"]) >= 30
    assert len(defaults) == 2 and int(service["TimeoutStopSec"]) > sum(defaults) + 2
