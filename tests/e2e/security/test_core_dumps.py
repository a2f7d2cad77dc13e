"""--core-dumps: a crash of a process of the server that holds secrets leaves no core file."""

import os
import re
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from security.certificates import Authority
from support import paths, wait
from support.process.upgrading import Upgrade, wait_next

pytestmark = pytest.mark.core
FORBIDDEN = 1  # byte: with 0 the kernel would start the program of a core_pattern with '|'


@pytest.fixture(scope="module")
def secrets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secrets")
    for name in "management", "control":
        (folder / name).write_text("x" * 40 + "\n")
        (folder / name).chmod(0o600)
    done = subprocess.run([paths.BINARY, "keys", "add", "me", "--file", folder / "keys"], capture_output=True, text=True)
    assert done.returncode == 0, done
    return {"nothing": [], "keys": ["--api-keys", folder / "keys"], "tls": Authority(folder).server().options,
            "management": ["--management", "127.0.0.1:0", "--management-token-file", folder / "management"],
            "control": ["--control", "127.0.0.1:0", "--control-token-file", folder / "control"]}


@pytest.fixture(scope="module")
def hard():
    limit = resource.getrlimit(resource.RLIMIT_CORE)[1]
    if limit != resource.RLIM_INFINITY:
        pytest.skip("the limit of core files is fixed here")
    if paths.SANITIZED:
        pytest.skip("sanitizers forbid core files themselves")
    return limit


@pytest.fixture
def start(serve, hard, tmp_path):
    """A server that would write core files of all its processes into tmp_path."""
    def start(*options):
        before = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
        try:
            return serve(paths.APPS / "echo.py", *options, cwd=tmp_path)
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, before)
    return start


def may_dump(pid):
    text = Path(f"/proc/{pid}/limits").read_text()
    soft, most = re.search(r"^Max core file size +(\S+) +(\S+)", text, re.M).groups()
    assert most == "unlimited" and soft in ("unlimited", str(FORBIDDEN))
    return soft == "unlimited"


def who_may_dump(server):
    assert all(may_dump(pid) for pid in server.worker_pids()) and server.worker_pids()  # models' crashes are the user's
    return {name for name in ("supervisor", "dispatcher", "controller") if may_dump(getattr(server, name))}


@pytest.mark.parametrize("secret, option, expected", [
    ("nothing", [], {"supervisor", "dispatcher", "controller"}), ("nothing", ["--core-dumps", "off"], set()),
    ("keys", [], {"controller"}), ("tls", [], {"controller"}), ("management", [], {"controller"}), ("control", [], {"dispatcher"}),
    ("keys", ["--core-dumps", "on"], {"supervisor", "dispatcher", "controller"}),
])
def test_the_limit(start, secrets, secret, option, expected):
    server = start(*secrets[secret], *option)
    assert who_may_dump(server) == expected
    server.replace_dispatcher()
    wait.until(server.all_ready, server.log.text)
    assert who_may_dump(server) == expected


@pytest.mark.parametrize("secret", ["nothing", "keys"])
def test_the_file(start, secrets, tmp_path, secret):
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern:
        pytest.skip(f"core files go elsewhere: {pattern}")
    server = start(*secrets[secret])
    old = server.dispatcher
    assert os.readlink(f"/proc/{old}/cwd") == str(tmp_path)
    os.kill(old, signal.SIGABRT)
    server.wait_new_dispatcher(old)
    files = [p for p in tmp_path.iterdir() if p.is_file()]
    assert bool(files) == (secret == "nothing")
    for file in files:
        file.unlink()


def test_workers_keep_their_limit_after_an_upgrade(start, secrets):
    server = start(*secrets["keys"])
    former, worker = server.dispatcher, server.worker_pids()
    Upgrade(server).finish()
    wait_next(server, former)
    assert who_may_dump(server) == {"controller"}
    os.kill(*worker, signal.SIGKILL)
    wait.until(lambda: server.worker_pids() not in ([], worker) and server.all_ready(), server.log.text)
    assert who_may_dump(server) == {"controller"}
