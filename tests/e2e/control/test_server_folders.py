"""Where a server is found: in the background after its user has logged out, as the shipped systemd unit runs it, and by
root. Each test has /run, /tmp, /var/lib and a network of its own, and needs root for that and for the other users; there is
no systemd here, so what it would do with the unit's lines is done by hand."""

import configparser
import os
import re
import shlex
import subprocess

import pytest

from support import paths, wait
from support.process.server import Log
from support.process.world import ANOTHER, PYTHON, USER, command, end, folder, home, in_world, logged_out, server, spawn

UNIT = paths.ROOT / "deploy/systemd/anyserve.service"
FILE = """applications:
- name: default
  import_path: echo:app
  working_dir: %s
"""

# --- in the background ---

def detached():
    env = home(USER)
    said = command(USER, env, "start", "--detach", *PYTHON)
    assert "in the background" in said
    kept = env["HOME"] + "/.local/state/anyserve/run/8000"
    assert os.path.exists(f"{kept}/control.sock") and os.stat(os.path.dirname(kept)).st_mode & 0o7777 == 0o700
    assert os.listdir(env["XDG_RUNTIME_DIR"]) == []
    for now in (env, logged_out(env), home(USER)):
        command(USER, now, "status")
        command(USER, now, "workers")
    assert "has ended" in command(USER, logged_out(env), "shutdown", "-y")
    assert not os.path.exists(kept)


def detached_of_root():
    env = home(0)
    command(0, env, "start", "--detach", *PYTHON)
    assert os.path.exists("/run/anyserve/8000/control.sock")
    for now in (env, logged_out(env), {}):
        command(0, now, "status")
    assert "has ended" in command(0, {}, "shutdown", "-y")


def both_places():
    """One in the login's folder, one in the background: commands see both."""
    env = home(USER)
    one = server(USER, env, 8100)
    assert os.path.exists(env["XDG_RUNTIME_DIR"] + "/anyserve/8100/control.sock")
    command(USER, env, "status")
    command(USER, env, "start", "--detach", *PYTHON)
    command(USER, env, "status", "--port", 8000)
    said = command(USER, env, "status", "--port", 8200, code=1)
    assert "8000" in said and "8100" in said, said
    assert command(USER, env, "status", "--port", 8100)
    assert "on port 8000 has ended" in command(USER, env, "shutdown", "-y", "--port", 8000)
    command(USER, env, "status")
    end(one)


def too_long():
    """A home too deep for the path of a socket (108 bytes) is said, and what to do."""
    env = {"HOME": folder("/var/lib/" + "h" * 70, USER)}
    said = command(USER, env, "start", "--detach", *PYTHON, code=78)
    assert "too long a path for a socket" in said and "--runtime-dir" in said
    command(USER, env, "start", "--detach", "--runtime-dir", folder("/run/short", USER), *PYTHON)
    assert "has ended" in command(USER, env, "shutdown", "-y", "--runtime-dir", "/run/short")


@pytest.mark.parametrize("test", [detached, detached_of_root, both_places, too_long], ids=lambda t: t.__name__)
def test_background(test):
    in_world(test)


# --- as a service ---

def unit():
    """The lines of [Service], with the command for a deployment file that the unit has in a comment."""
    text = UNIT.read_text()
    parser = configparser.ConfigParser(interpolation=None, strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str
    parser.read_string(text)
    start = re.search(r"^# +ExecStart=(.*)$", text, re.M)[1]
    return dict(parser["Service"]), shlex.split(start)


class Service:
    """What systemd does with the unit: its user, folders and environment, and the supervisor's own word READY=1."""

    def __init__(self):
        lines, start = unit()
        assert lines["User"] not in ("", "root") and lines["Type"] == "notify"
        env = {"USER": lines["User"], "LOGNAME": lines["User"], "HOME": "/nonexistent", "PWD": "/"}
        for key, below, name in (("RuntimeDirectory", "/run", "RUNTIME_DIRECTORY"),
                                 ("StateDirectory", "/var/lib", "STATE_DIRECTORY")):
            env[name] = folder(f"{below}/{lines[key]}", USER, int(lines[f"{key}Mode"], 8))
        env.update(pair.split("=", 1) for pair in shlex.split(lines.get("Environment", "")))
        self.process = spawn(USER, env, *start[1:], *PYTHON)
        self.log = Log(self.process.stdout.buffer)
        self.log.wait("^Ready: ")
        self.reload = shlex.split(lines["ExecReload"].replace("$MAINPID", str(self.process.pid)))

    def upgraded(self, times):
        """So many upgrades have ended well, as the log says."""
        wait.until(lambda: sum("event=upgraded" in line for line in self.log.lines) == times, "the upgrade")


ROOTS = {"sudo": {"HOME": "/root", "SUDO_USER": "x"}, "login": {"HOME": "/root", "XDG_RUNTIME_DIR": "/run/user/0"}}


def commands_of(uid, env):
    """Every documented command."""
    service = Service()
    file = "/var/lib/models.yaml"
    with open(file, "w") as f:
        f.write(FILE % paths.APPS)
    assert "echo" in command(uid, env, "deploy", file)
    said = command(uid, env, "status")
    assert re.search(r"^echo +1 +1 +1 .* HEALTHY$", said, re.M), said
    assert "echo-0" in command(uid, env, "workers", "--json")
    assert "worker_ready" in command(uid, env, "logs", "--replica", "dispatcher")
    assert "41" in command(uid, env, "infer", "echo", "--input", "x:INT32=41,42")
    assert "echo:app" in command(uid, env, "config")
    command(uid, env, "scale", "echo", 2)
    command(uid, env, "restart", "echo")
    said = command(uid, env, "doctor", "--json", "--state-dir", "/var/lib/anyserve", *PYTHON)
    assert re.search(r'"check": ?"server", ?"verdict": ?"ok"', said), said
    assert "upgraded" in command(uid, env, "upgrade")
    subprocess.run(service.reload, check=True)
    service.upgraded(2)
    command(uid, env, "delete", "default")
    assert "has ended" in command(uid, env, "shutdown", "-y")
    assert service.process.wait(wait.SECONDS) == 0


def nobody_else():
    """Another user finds no server, also with its folder named."""
    service = Service()
    env = home(ANOTHER)
    assert "no server" in command(ANOTHER, env, "status", code=1)
    assert "no server" in command(ANOTHER, env, "status", "--runtime-dir", "/run/anyserve", code=1)
    command(0, {}, "shutdown", "-y")
    assert service.process.wait(wait.SECONDS) == 0


@pytest.mark.parametrize("who", ["sudo", "login"])
def test_service_and_root(who):
    def test():
        if who == "login":
            folder("/run/user/0", 0)
        commands_of(0, ROOTS[who])
    in_world(test)


def test_service_and_its_user():
    """sudo -u anyserve: without a login's folder."""
    in_world(lambda: commands_of(USER, {"HOME": "/nonexistent"}))


def test_service_and_others():
    in_world(nobody_else)


# --- root and the servers of others ---

def of_others():
    one, two = home(USER), home(ANOTHER)
    first = server(USER, one, 8100)
    command(0, {}, "status")
    assert "8100" in command(0, {}, "status", "--port", 8200, code=1)
    second = server(ANOTHER, {"HOME": two["HOME"]}, 8200)
    assert os.path.exists(f"/tmp/anyserve-{ANOTHER}/8200/lock")
    said = command(0, {}, "status", code=2)
    assert f"/run/user/{USER}/anyserve" in said and f"/tmp/anyserve-{ANOTHER}" in said, said
    command(0, {}, "status", "--port", 8200)
    assert "has ended" in command(0, {}, "shutdown", "-y", "--port", 8200)
    assert second.wait(wait.SECONDS) == 0
    # one of root's own comes first, whoever else has some
    own = server(0, {}, 8300)
    assert "on port 8300" in command(0, {}, "shutdown", "-y")
    assert own.wait(wait.SECONDS) == 0
    end(first)


def of_an_impostor():
    """A folder in /tmp that is called as somebody's, and is another's, is nobody's."""
    fake = home(ANOTHER)
    one = server(ANOTHER, fake, 8100, "--runtime-dir", f"/tmp/anyserve-{USER}")
    assert "no server" in command(0, {}, "status", code=1)
    assert "no server" in command(USER, {"HOME": "/nonexistent"}, "status", code=1)
    command(ANOTHER, fake, "status", "--runtime-dir", f"/tmp/anyserve-{USER}")
    end(one)


@pytest.mark.parametrize("test", [of_others, of_an_impostor], ids=lambda t: t.__name__)
def test_root(test):
    in_world(test)
