"""A machine of one's own for a test: its /run, /tmp, /var/lib and network are empty, and there are several users.

Needs root. What runs there are servers and commands as people start them, with nothing in their environment but what is
given."""

import os
import signal
import subprocess
import sys

from .. import paths, wait
from . import procs, users
from .server import Log

USER, ANOTHER = users.OTHER, users.OTHER + 1
INSTALLED = {"PATH": os.environ["PATH"], "PYTHONPATH": str(paths.SDK), "LANG": "C.UTF-8"}  # as an installed package is there
PYTHON = ("--python", sys.executable)


def spawn(uid, env, *args, **more):
    who = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
    return subprocess.Popen([str(paths.BINARY), *map(str, args)], env={**INSTALLED, **env}, stdin=subprocess.DEVNULL, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/", **who, **more)


def command(uid, env, *args, code=0):
    """What a command of a user says, with nothing in its environment but this."""
    process = spawn(uid, env, *args)
    said, _ = process.communicate(timeout=wait.SECONDS)
    assert process.returncode == code, f"{args}: exit code {process.returncode}\n{said}"
    return said


def folder(path, uid, mode=0o700):
    os.makedirs(path, exist_ok=True)
    os.chown(path, uid, uid)
    os.chmod(path, mode)
    return path


def home(uid):
    """HOME and the folder that a login makes, as `login` gives them."""
    return {"HOME": folder(f"/var/lib/home-{uid}", uid), "XDG_RUNTIME_DIR": folder(f"/run/user/{uid}", uid)}


def logged_out(env):
    """The login's folder vanishes with the session; a later command has another one, or none."""
    subprocess.run(["rm", "-rf", env["XDG_RUNTIME_DIR"]], check=True)
    return {k: v for k, v in env.items() if k != "XDG_RUNTIME_DIR"}


def world(address="10.9.8.7"):
    users.enter_folders("/run", "/var/lib", "/tmp")
    os.chmod("/tmp", 0o1777)
    os.makedirs("/run/user")
    users.enter_network(address)


def ours():
    """Processes of this mount namespace but for this one: what a test has started, whoever their parent is now."""
    here = os.readlink("/proc/self/ns/mnt")
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and os.readlink(f"/proc/{pid}/ns/mnt") == here:
                yield int(pid)
        except OSError:  # it has ended, or is the machine's own
            pass


def in_world(test):
    """test() in folders and a network of its own; every process that it leaves behind is ended, and is a failure."""
    def run():
        try:
            test()
        finally:
            left = {pid: procs.command(pid) for pid in ours()}
            for pid in left:
                os.kill(pid, signal.SIGKILL)
        assert not left, left
    users.in_child(world, run)


def server(uid, env, port, *args):
    """A server that is ready."""
    process = spawn(uid, env, "run", "--port", port, "--status-port", "off", *args, *PYTHON)
    process.log = Log(process.stdout.buffer)
    process.log.wait("^Ready: ")
    return process


def end(process):
    process.send_signal(signal.SIGTERM)
    assert process.wait(wait.SECONDS) == 0, process.log.text()
