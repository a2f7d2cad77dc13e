"""Programs that call serve.run, as a user starts them: `python script.py`, each world with a server of its own.

When a world ends, nothing may be left: no process of the programs or of their servers, no file in the runtime folder.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import uuid
from pathlib import Path

from support import paths, ports, wait
from support.process import procs


class Driver:
    """A program that runs. Its output is read as it comes."""

    def __init__(self, world, path, *args, env=None, python=sys.executable, **popen):
        self.lines = {"out": [], "err": []}
        self.process = subprocess.Popen([str(python), str(path), *args], env={**world.env, **(env or {})}, cwd=world.folder,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True, **popen)  # fmt: skip
        self._readers = [threading.Thread(target=self._read, args=(name, pipe), daemon=True)
                         for name, pipe in (("out", self.process.stdout), ("err", self.process.stderr))]  # fmt: skip
        for reader in self._readers:
            reader.start()

    def _read(self, name, pipe):
        with pipe:
            for line in pipe:
                self.lines[name].append(line.decode(errors="replace").rstrip("\n"))

    @property
    def out(self):
        return "\n".join(self.lines["out"])

    @property
    def err(self):
        return "\n".join(self.lines["err"])

    @property
    def said(self):
        return f"stdout:\n{self.out}\nstderr:\n{self.err}"

    def wait_for(self, text):
        """Until it has printed a line with this text."""
        def find():
            for line in self.lines["out"]:
                if text in line:
                    return line
            assert self.process.poll() is None or any(r.is_alive() for r in self._readers), f"ended without {text!r}\n{self.said}"
        return wait.until(find, lambda: f"{text!r} in {self.said}")

    def tell(self, line="go"):
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end(self, code=0):
        """Waits for its end, and returns what it has printed."""
        self.process.wait(wait.SECONDS)
        for reader in self._readers:
            reader.join(wait.SECONDS)
        self.process.stdin.close()
        assert self.process.returncode == code, f"exit code {self.process.returncode}\n{self.said}"
        return self.out


class World:
    def __init__(self):
        self.folder = Path(tempfile.mkdtemp(prefix="as-", dir="/tmp"))  # short: it has sockets
        self.runtime = self.folder / "run"
        self.port = ports.free()
        self.mark = f"ANYSERVE_TEST={uuid.uuid4().hex}"
        name, _, value = self.mark.partition("=")
        self.env = {**os.environ, "PYTHONPATH": str(paths.SDK), "ANYSERVE_PORT": str(self.port), name: value,
                    "ANYSERVE_RUNTIME_DIR": str(self.runtime), "ANYSERVE_STATE_DIR": str(self.folder / "state")}  # fmt: skip
        self.env.pop("VIRTUAL_ENV", None)
        self.drivers = []

    def write(self, name, source):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))
        return path

    def start(self, source, *args, name="script.py", **kwargs):
        """Runs a program. source: its text, or the path of one that was written."""
        path = source if isinstance(source, Path) else self.write(name, source)
        self.drivers.append(Driver(self, path, *args, **kwargs))
        return self.drivers[-1]

    def run(self, source, *args, code=0, **kwargs):
        """Runs a program to its end. What it has printed."""
        return self.start(source, *args, **kwargs).end(code)

    def command(self, *args, code=0):
        """Runs `anyserve ARGS`."""
        done = subprocess.run([paths.BINARY, *map(str, args)], env=self.env, cwd=self.folder, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=2 * wait.SECONDS)  # fmt: skip
        text = (done.stdout + done.stderr).decode(errors="replace")
        assert done.returncode == code, text
        return text

    def processes(self):
        return procs.family(-1, -1, self.mark)

    def is_gone(self):
        return not self.processes() and not (self.runtime.exists() and os.listdir(self.runtime))

    def wait_gone(self):
        """Until no process and no file of a server is left."""
        wait.until(self.is_gone, lambda: f"left: {[procs.command(p) for p in self.processes()]}, "
                   f"{list(self.runtime.rglob('*')) if self.runtime.exists() else []}")  # fmt: skip

    def close(self):
        for driver in self.drivers:
            if driver.process.poll() is None:
                driver.process.kill()
                driver.process.wait()
        try:
            self.wait_gone()
        finally:
            for pid in self.processes():
                os.kill(pid, signal.SIGKILL)
            shutil.rmtree(self.folder, ignore_errors=True)
