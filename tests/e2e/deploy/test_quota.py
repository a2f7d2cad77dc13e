"""A server whose control group has less CPU time than the machine has CPUs: what that decides."""

import os
from pathlib import Path

import numpy as np
import pytest

from support import paths, wait
from support.process import commands

CPU = Path("/sys/fs/cgroup/cpu")  # of version 1; of version 2 the unit test of io/process/cpu_limit has samples
SOURCE = """
import os
import numpy as np
from anyserve import AnyServe
app = AnyServe()

@app.model("variables")
def variables(names):
    return {"values": np.array([os.environ.get(n.decode(), "").encode() for n in names], object)}
"""
VARIABLES = ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"]


@pytest.fixture
def group():
    """A control group that gets half a CPU."""
    path = CPU / f"anyserve-test-{os.getpid()}"
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU: no quota is less")
    try:
        path.mkdir()
        (path / "cpu.cfs_quota_us").write_text("50000")
    except OSError as e:
        pytest.skip(f"no control group of version 1 with a CPU quota can be made here: {e}")
    yield path
    wait.until(lambda: not (path / "cgroup.procs").read_text(), "the group to be empty")
    path.rmdir()


def test_threads_and_doctor(group, serve, connect, tmp_path, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    program = tmp_path / "anyserve"
    program.write_text(f'#!/bin/sh\necho $$ >{group}/cgroup.procs && exec {paths.BINARY} "$@"\n')
    program.chmod(0o755)
    server = serve("quota.py", source=SOURCE, binary=program)
    names = np.array([n.encode() for n in VARIABLES], object)
    assert connect(server).infer("variables", {"names": names})["values"].tolist() == [b"1"] * 3
    done = commands.run("doctor", *commands.at(server))
    assert "and the time of 0.5 CPUs in each period of its quota" in done.stdout


def test_without_a_quota(serve, connect, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    server = serve("quota.py", source=SOURCE)
    names = np.array([n.encode() for n in VARIABLES], object)
    assert connect(server).infer("variables", {"names": names})["values"].tolist() == [b""] * 3
