"""anyserve run --debug: one replica whose terminal is the user's; nothing ends it while it stands."""

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time

import numpy as np
import pytest

from support import paths, wait
from support.protocol import oip

APP = """\
import numpy as np
from anyserve import AnyServe
app = AnyServe()
app.deployment({options})

@app.model("m")
{kind}def m(x):
    secret = int(x[0]) * 7
    breakpoint()
    return x + 1
"""


class Terminal:
    """A process with a terminal of its own."""

    def __init__(self, *command, cwd, env):
        self.fd, theirs = pty.openpty()
        self.text, self.at = "", 0

        def take_terminal():
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([str(c) for c in command], stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
                                        env=env, start_new_session=True, preexec_fn=take_terminal)
        os.close(theirs)

    def read(self, pattern):
        """Until it is shown, behind what was read before."""
        end = time.monotonic() + wait.SECONDS
        while not (found := re.search(pattern, self.text[self.at:])):
            left = end - time.monotonic()
            assert left > 0 and select.select([self.fd], [], [], left)[0], f"no {pattern!r} in:\n{self.text}"
            try:
                self.text += os.read(self.fd, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"it ended without {pattern!r}:\n{self.text}") from None
        self.at += found.end()
        return found

    def write(self, text):
        os.write(self.fd, text.encode())

    def drain(self):
        """What it still prints; nobody else would read it."""
        def read():
            with contextlib.suppress(OSError):
                while os.read(self.fd, 65536):
                    pass
        threading.Thread(target=read, daemon=True).start()

    def close(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.fd)


@pytest.fixture
def debug(tmp_path):
    opened = []
    folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")

    def debug(*options, source=None, kind="", code_options=""):
        (tmp_path / "app.py").write_text(source or APP.format(kind=kind, options=code_options))
        # readline changes the terminal's mode for each line, which a writer that is quicker than people can meet half way
        (tmp_path / "readline.py").write_text("raise ImportError\n")
        env = {**os.environ, "PYTHONPATH": str(paths.SDK), "TERM": "dumb"}
        t = Terminal(paths.BINARY, "run", "app.py", "--debug", "--port", "0", "--status-port", "off", "--runtime-dir", folder,
                     "--python", sys.executable, *options, cwd=tmp_path, env=env)
        opened.append(t)
        return t

    yield debug
    for t in opened:
        t.close()
    shutil.rmtree(folder)


def begin(terminal):
    """A request under way."""
    client = oip.Client(terminal.read(r"Ready: (\S+) ")[1])
    return client, client.begin("m", {"x": np.array([6])})


@pytest.mark.parametrize("kind", ["", "async "])
def test_a_breakpoint_is_at_the_terminal(debug, kind):
    """Longer than anything would wait that was asked for, in the command or the code."""
    short = "request_timeout_s=0.1, execution_timeout_s=0.1, health_check_period_s=0.1, health_check_timeout_s=0.1"
    terminal = debug("--ping-interval", "10ms", "--ping-timeout", "20ms", "--execution-timeout", "50ms",
                     "--request-timeout", "50ms", "--health-check-period", "20ms", "--health-check-timeout", "20ms",
                     "--health-check-failures", "1", kind=kind, code_options=short)
    client, call = begin(terminal)
    terminal.read(r"\(Pdb\) ")
    began = time.monotonic()
    for i in range(10_000):
        terminal.write(f"p secret + {i}\n")
        terminal.read(rf"\n{42 + i}\b")
        terminal.read(r"\(Pdb\) ")
        if time.monotonic() - began > 0.5:
            break
    terminal.write("c\n")
    assert oip.Answer(call.result(wait.SECONDS))["output0"].tolist() == [7]
    # the next one stops there, too
    call = client.begin("m", {"x": np.array([1])})
    terminal.read(r"\(Pdb\) ")
    terminal.write("c\n")
    assert oip.Answer(call.result(wait.SECONDS))["output0"].tolist() == [2]
    client.close()
    terminal.write("\x03")
    terminal.drain()
    assert terminal.process.wait(wait.SECONDS) == 0


def test_ctrl_c_ends_it_while_a_handler_stands(debug):
    terminal = debug()
    client, call = begin(terminal)
    terminal.read(r"\(Pdb\) ")
    terminal.write("\x03")
    terminal.drain()
    assert terminal.process.wait(wait.SECONDS) in (0, 1)
    assert call.exception(wait.SECONDS) is not None
    client.close()


def test_a_slow_start_is_waited_for(debug):
    """And who only asks what the file declares has no terminal, and does not stop."""
    source = "breakpoint()\n" + APP.format(kind="", options="")
    terminal = debug("--start-timeout", "50ms", "--max-start-failures", "1", source=source)
    terminal.read(r"\(Pdb\) ")
    began = time.monotonic()
    while time.monotonic() - began < 0.3:
        terminal.write("p 1 + 1\n")
        terminal.read(r"\(Pdb\) ")
    terminal.write("c\n")
    client, call = begin(terminal)
    terminal.read(r"\(Pdb\) ")
    terminal.write("c\n")
    assert oip.Answer(call.result(wait.SECONDS))["output0"].tolist() == [7]
    client.close()


TWO = "from anyserve import AnyServe\napp = AnyServe()\nfor d in 'ab':\n    app.model(d, deployment=d)(lambda: None)\n"


@pytest.mark.parametrize(("options", "source", "text"), [
    (["app.py", "--workers", "2"], None, "--debug has one replica, which uses your terminal: leave out --workers 2"),
    (["app.py", "--reload"], None, "--debug and --reload"),
    (["app.py", "--warm-spares", "1"], None, "--debug and --warm-spares"),
    ([], None, "--debug needs a FILE or MODULE to serve"),
    (["app.py"], TWO, "--debug has one replica, but app.py declares 2 deployments: a, b"),
    (["app.py", "--detach"], None, "unknown option --detach"),
])  # fmt: skip
def test_what_does_not_go_together(tmp_path, options, source, text):
    (tmp_path / "app.py").write_text(source or APP.format(kind="", options=""))
    env = {**os.environ, "PYTHONPATH": str(paths.SDK)}
    p = subprocess.run([paths.BINARY, "run", "--debug", "--port", "0", "--status-port", "off", "--runtime-dir", tmp_path,
                        "--python", sys.executable, *options], cwd=tmp_path, capture_output=True, text=True, timeout=60,
                       env=env)  # fmt: skip
    assert p.returncode == 2 and text in p.stderr
