"""Each test runs a program that starts a server of its own, as a script of a user does."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support import paths, ports

HERE = Path(__file__).parent
LONGEST = 120  # seconds


@pytest.fixture
def run_program(tmp_path):
    """run_program(name): what programs/NAME.py prints, as lines; it must end well."""
    def run(name, *args):
        environ = {**os.environ, "PYTHONPATH": f"{paths.SDK}{os.pathsep}{HERE.parent}", "ANYSERVE_PORT": str(ports.free()),
                   "ANYSERVE_RUNTIME_DIR": str(tmp_path / "run"), "ANYSERVE_STATE_DIR": str(tmp_path / "state")}  # fmt: skip
        with subprocess.Popen([sys.executable, HERE / "programs" / f"{name}.py", *args], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=environ, cwd=tmp_path,
                              start_new_session=True) as p:  # fmt: skip
            try:
                out, err = p.communicate(timeout=LONGEST)
            except subprocess.TimeoutExpired:
                os.killpg(p.pid, signal.SIGKILL)
                out, err = p.communicate()
                pytest.fail(f"not ended after {LONGEST} s; stdout:\n{out}\nstderr:\n{err}")
        assert p.returncode == 0, out + err
        return out.splitlines()

    return run
