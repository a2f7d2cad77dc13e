"""Conformance: other people's clients and suites against the real binary, and against the test service.

Everything that is not there is made (build_tools.py) or is a failure with its reason; nothing is skipped.
"""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

import build_tools  # noqa: E402
from security.certificates import Authority  # noqa: E402
from support import paths  # noqa: E402
from support.process.server import ALARMS, Server  # noqa: E402

TLS = "tls"  # instead of a number of threads: @pytest.mark.parametrize("server", [TLS], indirect=True)
SERVICE = paths.BUILD / "tests/conform/test_service"


def pytest_configure():
    for needed in (paths.BINARY, SERVICE, paths.SDK / "anyserve"):
        if not needed.exists():
            pytest.exit(f"{needed} does not exist: build first (ANYSERVE_BUILD names the build)", 2)


class Tools:
    """The clients of build_tools.py, run to their end."""

    def __init__(self, folder):
        self.folder = folder

    def run(self, name, *args, seconds=120):
        """CompletedProcess with text; a tool that does not end is a failure."""
        command = [str(self.folder / name), *map(str, args)]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False,
                                  stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired as e:
            raise AssertionError(f"{' '.join(command)} did not end in {seconds} s:\n{e.stdout}\n{e.stderr}") from None


@pytest.fixture(scope="session")
def tools():
    try:
        return Tools(build_tools.build())
    except build_tools.Failed as e:
        pytest.fail(str(e), pytrace=False)


@pytest.fixture(scope="session", params=[1, pytest.param(4, marks=pytest.mark.long)], ids="threads={}".format)
def server(request, tmp_path_factory):
    """`anyserve run` with the echo models; at the end it must be at rest and its log without an error. param: threads, or TLS; `ca`:
    then the file of the authority that has signed the server's certificate, else None."""
    if request.param == TLS:
        authority = Authority(tmp_path_factory.mktemp("authority"))
        s = Server("echo.py", *authority.server().options)
        s.ca = authority.cert
    else:
        s = Server("echo.py", "--threads", request.param)
        s.ca = None
    yield s
    try:
        s.settle()
        s.stop()
    finally:
        s.kill()


@pytest.fixture(autouse=True)
def settled(request):
    """After each test the server is at rest: no connection, request, byte or descriptor is left."""
    yield
    if "server" in request.fixturenames:
        request.getfixturevalue("server").settle()


@pytest.fixture(scope="session")
def service():
    """Address of grpc.testing.TestService on AnyServe's wire layer."""
    process = subprocess.Popen([SERVICE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline().split()
        assert line[:1] == ["port"], process.communicate()[1]
        yield "127.0.0.1", int(line[1])  # a name would cost grpc-go a question to the name server per channel
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
        assert not ALARMS.search(errors), errors
    finally:
        process.kill()
        process.wait()
