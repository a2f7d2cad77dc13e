"""Which bound is on a worker's memory, the log and doctor say, and the kernel has it so: a control group where the server may
make one (v1, or v2 that is delegated), else RLIMIT_DATA."""

import json
import os
import re

import pytest

from support import paths, wait
from support.process.server import Log
from support.process.world import PYTHON, USER, command, folder, home, in_world, spawn

LIMIT = 1 << 30
FILE = """applications:
- name: default
  import_path: echo:app
  working_dir: %s
  deployments:
  - {name: echo, memory: 1G}
"""
GROUPS = {"memory.max", "memory.limit_in_bytes"}


def start(uid):
    """A server with one worker that has `memory`; (process, the event's fields, the worker's pid)."""
    env = home(uid)
    with open(folder("/var/lib/files", 0, 0o755) + "/echo.yaml", "w") as f:
        f.write(FILE % paths.APPS)
    process = spawn(uid, env, "start", "/var/lib/files/echo.yaml", "--status-port", "off", *PYTHON)
    process.log = Log(process.stdout.buffer)
    said = process.log.wait("event=memory_bound (.*)")[1]
    process.log.wait("^Ready: ")
    workers = json.loads(command(uid, env, "workers", "--json"))["workers"]
    return process, env, said, workers[0]["pid"]


def doctor(uid, env):
    found = json.loads(command(uid, env, "doctor", "--json", *PYTHON))
    return next(c["text"] for c in found if c["check"] == "cgroup")


def data_limit(pid):
    """Bytes, or None: without."""
    with open(f"/proc/{pid}/limits") as f:
        soft = re.search(r"^Max data size +(\S+)", f.read(), re.M)[1]
    return None if soft == "unlimited" else int(soft)


def group_of(said):
    return re.search('group="([^"]*)"', said)[1]


def by_group():
    process, env, said, pid = start(0)
    by = re.match(r"by=(\S+) ", said)[1]
    text = doctor(0, env)
    if by not in GROUPS:  # this machine gives root none: then both say so
        assert by == "RLIMIT_DATA" and "RLIMIT_DATA" in text
    else:
        with open(f"{group_of(said)}/cgroup.procs") as f:
            assert str(pid) in f.read().split()
        with open(f"{group_of(said)}/{by}") as f:
            assert int(f.read()) == LIMIT
        assert data_limit(pid) is None
        assert text == f"the server that runs limits `memory` of a deployment by a control group ({by})"
    command(0, env, "shutdown", "-y")
    assert process.wait(wait.SECONDS) == 0
    assert by not in GROUPS or not os.path.exists(group_of(said))


def by_rlimit():
    """Without the right to make groups."""
    process, env, said, pid = start(USER)
    why = re.match(r'by=RLIMIT_DATA replica=echo-0 reason="(.*)"', said)[1]
    assert why in ("its control group cannot be written to", "other processes are in the server's control group",
                   "there is no control group that counts memory")
    assert data_limit(pid) == LIMIT
    assert doctor(USER, env) == ("the server that runs limits `memory` of a deployment only for each single process, by RLIMIT_DATA: "
                                 + why)
    command(USER, env, "shutdown", "-y")
    assert process.wait(wait.SECONDS) == 0


@pytest.mark.parametrize("test", [by_group, by_rlimit], ids=lambda t: t.__name__)
def test_memory(test):
    in_world(test)
