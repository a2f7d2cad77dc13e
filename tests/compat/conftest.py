"""Compatibility: software that was not written here, before and behind a server that is run as users run it.

What is marked `install` needs packages that `make test` does not install; without them such a test fails and says so.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]

from support import paths  # noqa: E402
from support.process.server import Server  # noqa: E402

INSTALLED = HERE.parents[1] / "build/compat"
ADD = json.dumps({"inputs": [{"name": "a", "datatype": "FP32", "shape": [2], "data": [1, 2]},
                             {"name": "b", "datatype": "FP32", "shape": [2], "data": [10, 20]}]})
SUM = [11, 22]


def pytest_configure():
    for needed in (paths.BINARY, paths.SDK / "anyserve"):
        if not needed.exists():
            pytest.exit(f"{needed} does not exist: build first (ANYSERVE_BUILD names the build)", 2)


@pytest.fixture(scope="session")
def server():
    """`anyserve run` with the models of app.py; at the end it must be at rest and its log without an error."""
    s = Server(HERE / "app.py")
    yield s
    try:
        s.settle()
        s.stop()
    finally:
        s.kill()


@pytest.fixture(autouse=True)
def settled(request):
    """Behind each test no request, connection, byte or descriptor is left, and the log blames no client."""
    began = len(request.getfixturevalue("server").log.lines) if "server" in request.fixturenames else 0
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        server.settle()
        assert "event=client_closed" not in server.log.text(began), server.log.text(began)


@pytest.fixture
def base(server):
    return f"http://{server.address}"


@pytest.fixture
def run(tmp_path):
    """run(program, …): its output as text; a program that fails, or is not there, fails the test."""
    def run(*command, stdin="", codes=(0,), seconds=120):
        assert shutil.which(command[0]), f"{command[0]} is not installed: tools/setup.sh compat, tests/compat/install.py"
        done = subprocess.run([str(c) for c in command], input=stdin, capture_output=True, text=True, check=False,
                              timeout=seconds, cwd=tmp_path)
        assert done.returncode in codes, f"{command[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr
    return run
