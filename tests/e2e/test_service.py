"""A service manager is told what sd_notify(3) tells it, and the unit that is shipped fits the command."""

import configparser
import socket

import pytest

from support import paths, wait

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
    return {"told": [os.environ.get("NOTIFY_SOCKET", "nothing").encode()]}
"""


def test_ready_and_stopping(serve, connect, manager):
    server = serve("notify.py", source=SOURCE, env={"NOTIFY_SOCKET": manager.getsockname()})
    assert manager.recv(100) == b"READY=1"
    # workers are not the service: they cannot speak for it
    assert connect(server).infer("environment", {})["told"].tolist() == [b"nothing"]
    server.stop()
    assert manager.recv(100) == b"STOPPING=1"


def test_a_manager_that_is_gone(serve, tmp_path):
    server = serve("echo.py", env={"NOTIFY_SOCKET": str(tmp_path / "nobody")})
    server.log.wait("event=notify_failed state=READY=1")
    server.expect_error("event=notify_failed")


def test_an_address_that_is_none(serve):
    server = serve("echo.py", env={"NOTIFY_SOCKET": "relative"})
    server.log.wait("NOTIFY_SOCKET is no socket's address")


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
    assert len(defaults) == 2 and int(service["TimeoutStopSec"]) > sum(defaults) + 2
