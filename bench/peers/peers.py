"""The servers that are measured: how each starts and ends."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
APPS = HERE / "apps"
RAY_PYTHON = ROOT / "build/ray/bin/python"
START_SECONDS = 180
IMPORT = re.compile(r"^(\s*from )anyserve(\.serve\S*)? import (.*)$", re.MULTILINE)


class Failed(Exception):
    """A peer did not start, or answered wrongly."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Peer:
    """A server in a session of its own, which start() starts and stop() ends."""

    launcher = "launch.py"  # the program of apps/ that serves the others

    def __init__(self, name, python, env=None):
        self.name, self.python, self.env = name, python, env or {}

    def command(self, app, port):
        """What is started; its working folder is `folder`."""
        raise NotImplementedError

    def start(self, app):
        self.folder = Path(tempfile.mkdtemp(prefix="peer-", dir="/tmp"))
        self.port = free_port()
        self.log = open(self.folder / "log", "wb")  # noqa: SIM115
        env = {**os.environ, "ANYSERVE_RUNTIME_DIR": str(self.folder / "run"), **self.env}
        env.pop("RAY_ADDRESS", None)
        try:
            command = self.command(app, self.port)
            self.process = subprocess.Popen(list(map(str, command)), cwd=self.folder, env=env, stdin=subprocess.PIPE,
                                            stdout=self.log, stderr=self.log, start_new_session=True)  # fmt: skip
        except OSError as e:
            raise Failed(f"{self.name}: {e}") from None
        self.wait_ready()

    def wait_ready(self):
        """Until it gives a body back: it may listen before its application is there."""
        until = time.monotonic() + START_SECONDS
        request = urllib.request.Request(self.url, b"ready?", {"Content-Type": "application/octet-stream"})
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        last = "nothing"
        while time.monotonic() < until and self.process.poll() is None:
            try:
                with opener.open(request, timeout=5) as r:
                    last = r.read()
                    if last == b"ready?":
                        return
            except OSError as e:
                last = e
            time.sleep(0.1)
        raise Failed(f"{self.name}: not ready ({last}); its log:\n{self.tail()}")

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def tail(self):
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def stop(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            pass
        for sig in (signal.SIGTERM, signal.SIGKILL):  # its session: what it has left
            try:
                os.killpg(self.process.pid, sig)
            except ProcessLookupError:
                break
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                continue
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class AnyServe(Peer):
    def __init__(self, build):
        super().__init__("anyserve", sys.executable, {"PYTHONPATH": str(build / "python")})

    def command(self, app, port):
        for path in APPS.glob("*.py"):
            shutil.copy(path, self.folder)
        return [self.python, self.launcher, app, port]


class Ray(Peer):
    def __init__(self, name, **env):
        super().__init__(name, RAY_PYTHON, {"RAY_SERVE_LOG_TO_STDERR": "0", "RAY_USAGE_STATS_ENABLED": "0", **env})

    def command(self, app, port):
        for path in APPS.glob("*.py"):
            text = IMPORT.sub(lambda m: f"{m[1]}ray{m[2] or ''} import {m[3]}", path.read_text())
            (self.folder / path.name).write_text(text)
        return [self.python, self.launcher, app, port]


class Asgi(Peer):
    """An ASGI server in process: one worker."""

    def command(self, app, port):
        if app != "fastapi_echo":
            raise Failed(f"{self.name} serves the FastAPI application only")
        shutil.copy(APPS / "asgi_echo.py", self.folder)
        if self.name == "uvicorn":
            return [self.python, "-m", "uvicorn", "asgi_echo:app", "--port", port, "--no-access-log", "--log-level", "warning"]
        return [self.python, "-m", "granian", "--interface", "asgi", "--port", port, "--workers", 1, "asgi_echo:app"]


def all_peers(build):
    return [
        AnyServe(build),
        Ray("ray"),
        Ray("ray throughput", RAY_SERVE_THROUGHPUT_OPTIMIZED="1"),
        Ray("ray haproxy", RAY_SERVE_ENABLE_HA_PROXY="1", RAY_SERVE_EXPERIMENTAL_PIP_HAPROXY="1",
            RAY_SERVE_THROUGHPUT_OPTIMIZED="1"),
        Asgi("uvicorn", RAY_PYTHON),
        Asgi("granian", RAY_PYTHON),
    ]
