"""A real server: `anyserve run FILE` in a session of its own, its output read, its state asked over status.sock.

Server.settle and Server.stop check what a server must leave behind: nothing. Counters return to zero, descriptors are
closed, processes end, sockets vanish, and the log holds no error that the test did not expect.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from .. import paths, wait
from . import procs

READY = re.compile(r"^Ready: (\S+):(\d+) ")
# What Python says of a worker that a test has let crash is no alarm.
ALARMS = re.compile(r"^(?!.*Fatal Python error: ).*("
                    r"Sanitizer|runtime error:|assertion|AS_ASSERT|stack smashing|double free|Segmentation)", re.I | re.M)


class Log:
    """Lines of a pipe, as they come, and when (CLOCK_MONOTONIC)."""

    def __init__(self, pipe):
        self.lines, self.times = [], []
        self._news = threading.Condition()
        self._ended = False
        self._may_read, self._waits = threading.Event(), threading.Event()
        self._may_read.set()
        self._pipe = pipe
        self._thread = threading.Thread(target=self._read, args=(pipe,), daemon=True)
        self._thread.start()

    def _read(self, pipe):
        with pipe:
            for line in pipe:
                if not self._may_read.is_set():
                    self._waits.set()
                    self._may_read.wait()
                now = time.monotonic()
                with self._news:
                    self.times.append(now)
                    self.lines.append(line.decode(errors="replace").rstrip("\n"))
                    self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()

    def find(self, pattern, since=0):
        return next((m for m in (re.search(pattern, line) for line in self.lines[since:]) if m), None)

    def wait(self, pattern, since=0, seconds=wait.SECONDS):
        """The match in the first line that has one."""
        with self._news:
            self._news.wait_for(lambda: self.find(pattern, since) or self._ended, seconds)
            found = self.find(pattern, since)
        assert found, f"no line matches {pattern!r} in:\n{self.text(since)}"
        return found

    def join(self):
        self._thread.join(wait.SECONDS)

    @contextlib.contextmanager
    def unread(self):
        """Nobody reads the pipe, and it is full."""
        self._waits.clear()
        self._may_read.clear()
        try:
            with open(f"/proc/self/fd/{self._pipe.fileno()}", "wb", buffering=0,
                      opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as there:
                def fill():
                    for size in 4096, 1:
                        while there.write(b"\n" * size):
                            pass
                    return self._waits.is_set()  # what it still had taken has been replaced since
                wait.until(fill, "the pipe is read")
                fill()
            yield
        finally:
            self._may_read.set()

    def text(self, since=0):
        return "\n".join(self.lines[since:])


class Server:
    """target None: a server without models of its own. verb: "start", then it is a deployment file. binary: another path
    of the program."""

    def __init__(self, target, *options, env=None, cwd=paths.APPS, wait_ready=True, verb="run", binary=None):
        self.folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")  # short: the limit of a socket's path is 108
        self.runtime = os.path.join(self.folder, "run")
        self.mark = f"ANYSERVE_TEST={uuid.uuid4().hex}"
        self.expected = []  # patterns of error lines that the test wants
        self.exit_code = None
        self.is_spoiled = False  # was not at rest after a test, which has said so
        self._fds = {}  # dispatcher pid: its number of descriptors without a client
        name, _, value = self.mark.partition("=")
        python_path = os.pathsep.join([str(paths.SDK), str(paths.APPS)])
        self.env = {**os.environ, "PYTHONPATH": python_path, name: value, **(env or {})}
        self.env.pop("VIRTUAL_ENV", None)
        command = [binary or paths.BINARY, verb, *([target] if target else []), "--port", "0", "--status-port", "0", "--runtime-dir",
                   self.runtime, "--python", sys.executable, *options]
        self.process = subprocess.Popen([str(c) for c in command], stdin=subprocess.DEVNULL, env=self.env, cwd=cwd,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.began = procs.began(self.process.pid)
        self.log = Log(self.process.stdout)
        if wait_ready:
            self.wait_ready()

    # --- being there ---

    def wait_ready(self):
        try:
            found = self.log.wait(READY.pattern)
        except BaseException:
            self.kill()
            raise
        self.host, self.port = found[1].strip("[]"), int(found[2])
        self.address = f"{self.host}:{self.port}"
        self.note_fds()

    def folder_of_port(self):
        return os.path.join(self.runtime, str(self.port))

    def link_path(self):
        return os.path.join(self.folder_of_port(), "link.sock")

    def join_token(self):
        with open(os.path.join(self.folder_of_port(), "join-token")) as f:
            return f.read().strip()

    def get(self, target, host="localhost"):
        """(status, body) of a GET on the status socket."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(wait.SECONDS)
            s.connect(os.path.join(self.folder_of_port(), "status.sock"))
            return http_get(s, target, host)

    def status(self):
        code, body = self.get("/status")
        assert code == 200, body
        return json.loads(body)

    def metrics(self):
        code, body = self.get("/metrics")
        assert code == 200, body
        return body

    @property
    def supervisor(self):
        return self.process.pid

    @property
    def dispatcher(self):
        return self.status()["server"]["pid"]

    def wait_new_dispatcher(self, old):
        """Until another process than `old` answers as the dispatcher."""
        def is_new():
            try:
                return self.dispatcher not in (0, None, old)
            except (OSError, IndexError, ValueError):
                return False  # the question went to the dead one
        wait.until(is_new, self.log.text)

    def replace_dispatcher(self):
        """Kills it, and waits until another one answers."""
        old = self.dispatcher
        procs.kill(old)
        self.wait_new_dispatcher(old)

    @property
    def controller(self):
        """None while there is none."""
        with open(f"/proc/{self.supervisor}/task/{self.supervisor}/children") as f:
            found = [int(pid) for pid in f.read().split() if " controller " in procs.command(int(pid))]
        return found[0] if found else None

    def workers(self):
        """Replica name → pid, of those that are ready."""
        return {r["name"]: r["pid"] for r in self.status()["replicas"] if r["state"] == "ready"}

    def worker_pids(self):
        """As the kernel has them, in whatever state: children of the supervisor that run the worker's program."""
        try:
            children = Path(f"/proc/{self.supervisor}/task/{self.supervisor}/children").read_text().split()
        except OSError:
            return []
        return [int(p) for p in children if "anyserve.worker" in procs.command(p) and procs.alive(p)]

    def all_ready(self):
        """Every process that the supervisor has is ready, and so is the server."""
        try:
            state = self.status()
        except ConnectionError:  # of a dispatcher that dies; another one follows
            return False
        return state["server"]["ready"] and all(p["state"] == "ready" for p in state["processes"]) \
            and sum(r["state"] == "ready" for r in state["replicas"]) == len(state["processes"]) > 0

    def wait_all_ready(self):
        wait.until(self.all_ready, lambda: f"not ready: {self.status()}")

    def worker(self):
        """The pid of the only ready one. A replica that was reconfigured serves before its state is ready again."""
        return wait.until(lambda: len(pids := list(self.workers().values())) == 1 and pids[0], self.status)

    def deployment(self, name=None):
        found = [d for d in self.status()["deployments"] if name in (None, d["name"])]
        assert len(found) == 1, found
        return found[0]

    def counts(self, name=None):
        return self.deployment(name)["counts"]

    # --- hygiene ---

    def note_fds(self):
        """Remembers how many descriptors this dispatcher has while nobody is connected."""
        pid = self.dispatcher
        if pid not in self._fds:
            # the kernel may still be closing the connection of our own question, and a listing is no snapshot: loops that
            # take their listeners over while it is read can hide one. Two listings that are the same are true.
            seen = [procs.fds(pid) for _ in range(20)]
            same = [len(a) for a, b in zip(seen, seen[1:]) if a == b]
            self._fds[pid] = min(same, default=max(map(len, seen)))

    def forget_fds(self):
        """It has more replicas at rest than before, and a link each."""
        self._fds.clear()

    def unsettled(self):
        """What is not back at rest yet, as text; empty when everything is."""
        state = self.status()
        server = state["server"]
        left = [f"{key}={server[key]}" for key in ("connections", "inflight_bytes", "unanswered") if server[key]]
        for d in state["deployments"]:
            left += [f"{d['name']}: {key}={d[key]}" for key in ("queued", "prefetched", "ongoing", "beyond") if d[key]]
        for r in state["replicas"]:
            left += [f"{r['name']}: {key}={r[key]}" for key in ("ongoing", "beyond", "unanswered") if r[key]]
        at_rest = self._fds.get(server["pid"])
        if at_rest is not None and not self._has_few_fds(server["pid"], at_rest):
            left.append(f"more than {at_rest} descriptors: {procs.describe_fds(server['pid'])}")
        return ", ".join(left)

    @staticmethod
    def _has_few_fds(pid, most):
        """Now or soon: the server waits a few ms for the end of the connection by which it was asked for its state, so a
        listing that always follows a question at once would always find it."""
        for _ in range(20):
            if len(procs.fds(pid)) <= most:
                return True
            time.sleep(0.002)
        return False

    def settle(self):
        """Waits until nothing of what the test did is left in the server; call it when its clients are closed."""
        if self.process.poll() is None:
            wait.until(lambda: not self.unsettled(), lambda: f"the server is not at rest: {self.unsettled()}")
        self.check_log()

    def expect_error(self, pattern):
        self.expected.append(pattern)

    def check_log(self):
        for line in self.log.lines:
            assert not ALARMS.search(line), f"alarm in the log:\n{self.log.text()}"
            if "level=error" in line:
                assert any(re.search(p, line) for p in self.expected), f"unexpected error in the log:\n{line}"

    def stop(self, code=0, signum=signal.SIGTERM):
        """Ends the server and checks that nothing of it stays."""
        if self.process.poll() is None:
            self.process.send_signal(signum)
        self.ended(code)

    def ended(self, code=0):
        """Waits until the server has ended by itself, or by a signal that it was sent; checks as stop does."""
        try:
            self.wait_exit(code)
            self.check_gone()
            self.check_log()
        finally:
            self.kill()

    def wait_exit(self, code):
        try:
            self.exit_code = self.process.wait(wait.SECONDS)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server does not end:\n{self.log.text()}") from None
        self.log.join()
        assert self.exit_code == code, f"exit code {self.exit_code}, not {code}:\n{self.log.text()}"

    def family(self):
        return procs.family(self.process.pid, self.began, self.mark)

    def check_gone(self):
        # a killed grandchild may still be on its way out; one that was forgotten would stay for ever
        wait.until(lambda: not self.family(),
                   lambda: f"outlive the server: {[(p, procs.command(p)) for p in self.family()]}", 5)
        # what a worker that was killed leaves in its folder is its own
        sockets = [os.path.join(d, f) for d, _, files in os.walk(self.runtime) for f in files
                   if f != "lock" and os.path.basename(d) != "workers"]
        assert not sockets, f"files outlive the server: {sockets}"

    def kill(self):
        """Whatever is left, without a word."""
        for pid in self.family():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.process.wait()
        self.log.join()
        shutil.rmtree(self.folder, ignore_errors=True)


def http_get(s, target, host):
    """One HTTP/1.1 GET on a connected socket: (status, body). OSError: it ends before the answer does, as the connections of
    a dispatcher that dies."""
    s.sendall(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    data = b""
    while chunk := s.recv(65536):
        data += chunk
    head, end, body = data.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\ncontent-length: (\d+)", head)
    if not end or (length and len(body) < int(length[1])):
        raise ConnectionResetError(f"{target}: the connection ended after {len(data)} bytes")
    return int(head.split()[1]), body.decode()
