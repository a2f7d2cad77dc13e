"""The server of this program: one that runs already for the runtime directory and port, or a child that is started here.

A child ends with this process, however that ends: it watches us by a pidfd (`--end-with`). `serve.start(detached=True)` starts
one in the background instead, which nobody ends but `serve.shutdown()` or `anyserve shutdown`.
"""

from __future__ import annotations

import atexit
import os
import re
import signal
import subprocess
import sys
import threading
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional

from ...script import BINARY
from .client import ControlClient, NoServer

__all__ = ["Server", "ServerOptions", "find", "start"]

DEFAULT_PORT = 8000
DETACHED = "ANYSERVE_DETACHED"  # a variable of servers that serve.start(detached=True) has started
# Of a server that ends with its program, beside what the caller chooses. A version that is ready counts at once; what is under
# way when the program ends has a few seconds.
OPTIONS = ("--update-min-ready=0s", "--drain-timeout=5s", "--stop-timeout=5s")
END_TIMEOUT = 20.0  # seconds from the request to end until it is killed: drain and stop, and some more
FIND_TIMEOUT = 5.0
_READY = re.compile(r"^Ready: \[?(\S+?)\]?:(\d+) ")
_HIDDEN = re.compile(r"^\[__ray__\.[^#\]]*#([^\]]*)-\d+\] (.*)$")  # what an actor or a task has printed (as_ray)
_LINE = re.compile(r"^\[([^\]]+)\] (.*)$")
_EVENT = re.compile(r"time=\S+ level=(\S+) event=(\S+) ?(.*)$")


class ServerOptions(NamedTuple):
    host: Optional[str] = None  # None: the server's default, as of all
    port: Optional[int] = None
    grpc_port: Optional[int] = None
    request_timeout_s: Optional[float] = None
    log_level: Optional[str] = None
    idle_timeout_s: Optional[float] = None  # of a connection
    root_path: Optional[str] = None
    grpc_reflection: Optional[str] = None  # "off"
    tls_cert: Optional[str] = None
    tls_key: Optional[str] = None
    tls_client_ca: Optional[str] = None

    def scheme(self) -> str:
        return "https" if self.tls_cert else "http"

    def arguments(self) -> List[str]:
        found = [("--host", self.host), ("--grpc-port", self.grpc_port), ("--log-level", self.log_level),
                 ("--root-path", self.root_path), ("--grpc-reflection", self.grpc_reflection), ("--tls-cert", self.tls_cert),
                 ("--tls-key", self.tls_key), ("--tls-client-ca", self.tls_client_ca)]
        for key, seconds in (("--request-timeout", self.request_timeout_s), ("--idle-timeout", self.idle_timeout_s)):
            if seconds is not None:
                found.append((key, "%dus" % round(seconds * 1e6)))  # times of options have no fractions
        return ["%s=%s" % (key, value) for key, value in found if value is not None]


# --- where servers are ---


def _folder(variable: str, otherwise: str) -> str:
    """$variable/anyserve by the XDG base directory specification."""
    base = os.environ.get(variable, "")
    return os.path.join(base, "anyserve") if base.startswith("/") else otherwise


def runtime_dir() -> str:
    """The runtime directory of a server that is started here (io/process/runtime.h)."""
    given = os.environ.get("ANYSERVE_RUNTIME_DIR")
    if given:
        return os.path.abspath(given)
    return _folder("XDG_RUNTIME_DIR", "/run/anyserve" if os.geteuid() == 0 else "/tmp/anyserve-%d" % os.geteuid())


def _lasting_dir() -> str:
    """That of a server in the background."""
    given = os.environ.get("ANYSERVE_RUNTIME_DIR")
    if given:
        return os.path.abspath(given)
    if os.geteuid() == 0:
        return "/run/anyserve"
    state = _folder("XDG_STATE_HOME", os.path.expanduser("~/.local/state/anyserve"))
    return os.path.join(state, "run")


def default_port() -> int:
    given = os.environ.get("ANYSERVE_PORT")
    if not given:
        return DEFAULT_PORT
    if not given.isdigit() or int(given) > 65535:
        raise ValueError("ANYSERVE_PORT=%r is no port" % given)
    return int(given)


# --- a server ---


class Server:
    """A server that runs. Any thread."""

    def __init__(self, folder: str, port: int, host: str = "127.0.0.1", process: Optional["subprocess.Popen[bytes]"] = None,
                 log: Optional["_Log"] = None, scheme: str = "http") -> None:  # fmt: skip
        self.scheme = scheme
        self.folder, self.port, self.host = folder, port, host  # folder: runtime directory and port
        self.process, self._log = process, log
        self.owner = os.getpid() if process is not None else 0
        self.client = ControlClient(os.path.join(folder, "control.sock"))

    @property
    def is_own(self) -> bool:
        """This process has started it, and it ends with this process."""
        return self.owner == os.getpid()

    @property
    def url(self) -> str:
        return "%s://%s:%d" % (self.scheme, "[%s]" % self.host if ":" in self.host else self.host, self.port)

    def is_alive(self) -> bool:
        if self.is_own and self.process is not None and self.process.poll() is not None:
            return False
        try:
            self.client.status(FIND_TIMEOUT)
            return True
        except (NoServer, TimeoutError):
            return False

    def supervisor(self) -> Optional[int]:
        """Its pid."""
        try:
            with open(os.path.join(self.folder, "lock")) as f:
                return int(f.read().split()[0])
        except (OSError, ValueError, IndexError):
            return None

    def is_detached(self) -> bool:
        """serve.start(detached=True) has started it, of whichever program."""
        try:
            with open("/proc/%d/environ" % (self.supervisor() or 0), "rb") as f:
                return (DETACHED + "=").encode() in f.read()
        except OSError:
            return False

    def end(self) -> None:
        """Ends it, and waits until all its processes have ended."""
        if self.is_own and self.process is not None:
            _end_child(self.process, self._log)
            return
        pid = self.supervisor()
        try:
            fd = os.pidfd_open(pid) if pid else -1
        except OSError:
            return
        if fd >= 0:
            try:
                _end_other(fd)
            finally:
                os.close(fd)


def _end_other(fd: int) -> None:
    import select

    try:
        signal.pidfd_send_signal(fd, signal.SIGTERM)
    except ProcessLookupError:
        return
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    poll.poll(END_TIMEOUT * 1000)


def _end_child(process: "subprocess.Popen[bytes]", log: Optional["_Log"]) -> None:
    try:
        _wait_end(process)
    except KeyboardInterrupt:  # whoever asks again does not want to wait
        process.terminate()
        _wait_end(process)
    if log is not None:
        log.join()


def _wait_end(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(END_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


# --- its output ---


def short_line(line: str) -> Optional[str]:
    """A line of the server's log for people who read the program's output. None: it is of no interest to them."""
    found = _LINE.match(line)
    if found is None:
        return None  # the server's banner
    event = _EVENT.match(found[2])
    if event is None:
        hidden = _HIDDEN.match(line)
        return "(%s) %s" % hidden.groups() if hidden is not None else line  # a replica's output
    level, name, rest = event.groups()
    return None if level in ("info", "debug") else "anyserve: %s: %s %s" % (level, name, rest)


class _Log:
    """Reads the server's output, and writes what is of interest to sys.stderr."""

    def __init__(self, pipe: Any) -> None:
        self.ready: Optional["re.Match[str]"] = None
        self.first: List[str] = []  # until it is ready
        self._news = threading.Condition()
        self._ended = False
        self._thread = threading.Thread(target=self._read, args=(pipe,), name="anyserve-log", daemon=True)
        self._thread.start()

    def _read(self, pipe: Any) -> None:
        with pipe:
            for raw in pipe:
                line = raw.decode(errors="replace").rstrip("\n")
                if self.ready is None:
                    self._begin(line)
                else:
                    self._show(short_line(line))
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _begin(self, line: str) -> None:
        with self._news:
            self.first.append(line)
            self.ready = _READY.match(line)
            self._news.notify_all()

    @staticmethod
    def _show(line: Optional[str]) -> None:
        if line is None:
            return
        try:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
        except (ValueError, OSError, AttributeError):
            pass  # it is closed, or there is none

    def wait_ready(self) -> Optional["re.Match[str]"]:
        with self._news:
            self._news.wait_for(lambda: self.ready is not None or self._ended)
            return self.ready

    def join(self) -> None:
        self._thread.join(5.0)


# --- finding and starting ---


def find(port: int) -> Optional[Server]:
    """The server that runs on this port, for the runtime directory of this user. None: there is none."""
    for base in dict.fromkeys([runtime_dir(), _lasting_dir()]):
        folder = os.path.join(base, str(port))
        if not os.path.exists(os.path.join(folder, "control.sock")):
            continue
        server = Server(folder, port)
        if server.is_alive():
            return server
    return None


def _interpreter() -> str:
    if not sys.executable:
        raise RuntimeError("Python does not know its interpreter (sys.executable), which runs the replicas; start a server by"
                           " `anyserve run --python PATH` first")  # fmt: skip
    return sys.executable


def _refuse(lines: List[str], code: Optional[int]) -> NoReturn:
    said = "\n".join(line for line in lines if line.strip()) or "exit code %s" % code
    raise RuntimeError("The server could not be started:\n%s" % said)


def start(options: ServerOptions) -> Server:
    """Starts a server as a child of this process. RuntimeError with what it has said."""
    command = [BINARY, "run", "--port=%d" % (default_port() if options.port is None else options.port),
               "--runtime-dir=" + runtime_dir(), "--python=" + _interpreter(), "--end-with=%d" % os.getpid(), *OPTIONS,
               *options.arguments()]  # fmt: skip
    # a session of its own: Ctrl-C is meant for the program, which decides what becomes of its server
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               start_new_session=True)  # fmt: skip
    log = _Log(process.stderr)
    try:
        ready = log.wait_ready()
    except BaseException:
        process.kill()
        process.wait()
        raise
    if ready is None:
        log.join()
        _refuse(log.first, process.wait())
    server = Server(os.path.join(runtime_dir(), ready[2]), int(ready[2]), ready[1], process, log, options.scheme())
    _end_at_exit(server)
    return server


def start_detached(options: ServerOptions) -> Server:
    """Starts a server in the background, with its state and its log in a state folder ($ANYSERVE_STATE_DIR)."""
    port = default_port() if options.port is None else options.port
    if port == 0:
        raise ValueError("a detached server needs a port: later programs find it by that")
    command = [BINARY, "start", "--detach", "--port=%d" % port, "--runtime-dir=" + _lasting_dir(), "--python=" + _interpreter(),
               *OPTIONS, *options.arguments()]  # fmt: skip
    if os.environ.get("ANYSERVE_STATE_DIR"):
        command.append("--state-dir=" + os.path.abspath(os.environ["ANYSERVE_STATE_DIR"]))
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                          env={**os.environ, DETACHED: "1"}, start_new_session=True)  # fmt: skip
    if done.returncode != 0:
        _refuse(done.stderr.decode(errors="replace").splitlines(), done.returncode)
    return Server(os.path.join(_lasting_dir(), str(port)), port, options.host or "127.0.0.1", scheme=options.scheme())


# --- the end of this process ---

_own: Dict[int, Server] = {}  # by pid: a forked child does not end its parent's


def _end_at_exit(server: Server) -> None:
    if not _own:
        atexit.register(_end_own)
    assert server.process is not None
    _own[server.process.pid] = server


def _end_own() -> None:
    for server in list(_own.values()):
        if server.is_own:
            server.end()


os.register_at_fork(after_in_child=_own.clear)
