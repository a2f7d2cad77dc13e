"""A server as process 1 of PID, network, mount, IPC, UTS and user namespaces of its own, as a container's runtime starts it:
not root, no capability, no new privileges, a read-only root, and folders in memory for what is written. Its network is
the other end of a veth pair.

Needs root, as a container's runtime does; can_be_made says why not."""

import functools
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

from .. import paths, wait
from .server import Log

UID = 10001  # inside; the image's
OUTSIDE = 54321  # the same user, as the machine has it
ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "PYTHONPATH": str(paths.SDK), "PYTHONDONTWRITEBYTECODE": "1",
       "XDG_RUNTIME_DIR": "/run/anyserve", "XDG_STATE_HOME": "/var/lib/anyserve"}
FOLDERS = {"/run/anyserve": "mode=1777,size=16m", "/var/lib/anyserve": "mode=1777,size=64m"}
SHM = "mode=1777,size=64m"


def _ip(*args):
    subprocess.run(["ip", *map(str, args)], check=True, capture_output=True, text=True, timeout=wait.SECONDS)


@functools.cache
def can_be_made():
    """"": yes; else the reason why there is no pod on this machine."""
    if os.geteuid():
        return "only root can map users and make a veth pair"
    try:
        name = f"as-try{os.getpid()}"
        _ip("link", "add", name, "type", "veth", "peer", "name", f"{name}b")
        _ip("link", "delete", name)
        subprocess.run(["unshare", "--user", "--map-root-user", "--pid", "--fork", "--net", "--mount", "--mount-proc", "true"],
                       check=True, capture_output=True, text=True, timeout=wait.SECONDS)
    except (OSError, subprocess.CalledProcessError) as e:
        return f"no namespaces or veth pairs can be made here: {e} {getattr(e, 'stderr', '')}"
    return ""


def namespace(pid, kind):
    return os.readlink(f"/proc/{pid}/ns/{kind}")


class Pod:
    """command: behind the program's name. Its log is read; its address is `host`, that of the other end `outside`."""

    def __init__(self, *command, ready="^Ready: "):
        self._mounts = set(Path("/proc/self/mountinfo").read_text().splitlines())
        self._link = f"as{os.getpid()}"
        block = os.getpid() % 16384 * 4  # of 198.18.0.0/16, for tests of networks: RFC 2544
        self.outside, self.host = (f"198.18.{(block + n) >> 8}.{(block + n) & 255}" for n in (1, 2))
        spec = {"uid": UID, "folders": FOLDERS, "shm": SHM, "env": ENV, "command": [str(paths.BINARY), *map(str, command)]}
        self._control, theirs = socket.socketpair()
        self._control.settimeout(wait.SECONDS)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "support.process.pod_start", str(theirs.fileno()), json.dumps(spec)],
                cwd=paths.ROOT / "tests/e2e", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()])
        self.log = Log(self.process.stdout)
        self.pid = None
        try:
            self._make(ready)
        except BaseException:
            self.kill()
            raise

    def _hear(self):
        said = self._control.recv(100)
        assert said, self.log.text()
        return said.decode().strip()

    def _make(self, ready):
        first = self.process.pid
        assert self._hear() == "namespaces"
        for kind in "uid", "gid":
            Path(f"/proc/{first}/{kind}_map").write_text(f"0 0 1\n{UID} {OUTSIDE} 1\n")
        _ip("link", "add", self._link, "type", "veth", "peer", "name", "eth0", "netns", first)
        _ip("address", "add", f"{self.outside}/30", "dev", self._link)
        _ip("link", "set", self._link, "up")
        within = ["nsenter", "--target", str(first), "--net", "ip"]
        for words in (["address", "add", f"{self.host}/30", "dev", "eth0"], ["link", "set", "eth0", "up"], ["link", "set", "lo", "up"]):
            subprocess.run([*within, *words], check=True, timeout=wait.SECONDS)
        self._control.sendall(b"go\n")
        self.pid = int(self._hear())
        self.pids = namespace(first, "pid_for_children")
        self.log.wait(ready)

    def file(self, path):
        """A file as it is in the pod."""
        return Path(f"/proc/{self.pid}/root{path}")

    def processes(self):
        """pid outside → pid inside, of all that are in the pod, those that have ended and were not reaped included."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if namespace(pid, "pid") == self.pids:
                    found[int(pid)] = int(re.search(r"^NSpid:.*\t(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)[1])
            except (OSError, TypeError):  # it has ended meanwhile
                pass
        return found

    def begin(self, *command):
        """A command of the pod's user, as `docker exec` and Kubernetes' hooks run it."""
        enter = ["nsenter", "--target", str(self.pid), "--user", "--mount", "--pid", "--net", "--ipc", "--uts",
                 "--setuid", str(UID), "--setgid", str(UID), "--wd=/"]
        return subprocess.Popen([*enter, str(paths.BINARY), *command], env=ENV, stdin=subprocess.DEVNULL, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, *command):
        """What it says."""
        process = self.begin(*command)
        said, _ = process.communicate(timeout=wait.SECONDS)
        assert process.returncode == 0, f"{command}: {process.returncode}\n{said}"
        return said

    def signal(self, signum):
        os.kill(self.pid, signum)

    def ended(self, code=0):
        """It has ended with this code by itself, and nothing is left."""
        assert self.process.wait(wait.SECONDS) == code, self.log.text()
        self._check_gone()

    def _check_gone(self):
        self._control.close()
        self.log.join()
        assert not self.processes()
        wait.until(lambda: not Path(f"/sys/class/net/{self._link}").exists(), "the network to vanish")
        new = set(Path("/proc/self/mountinfo").read_text().splitlines()) - self._mounts
        assert not [line for line in new if line.split()[4] in (*FOLDERS, *map(os.path.dirname, FOLDERS), "/dev/shm", "/proc")]

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()  # process 1 gets SIGKILL then, and the kernel ends all others
            self.process.wait(wait.SECONDS)
        self._control.close()
        subprocess.run(["ip", "link", "delete", self._link], capture_output=True, check=False)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind or self.process.poll() is None:
            self.kill()
        assert kind or self.process.returncode != -signal.SIGKILL, "the test has not ended its pod"
