"""docs/guide/workers.md, run as it stands: its commands in their order, and what they print."""

import os
import re
import signal
import subprocess
import sys

import pytest

from support import paths, wait
from support.process.server import READY, Log

TEXT = (paths.ROOT / "docs/guide/workers.md").read_text()
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```\n", re.M | re.S)
BLOCKS = [(m[1], m[2]) for m in BLOCK.finditer(TEXT)]
SHELL = [text for kind, text in BLOCKS if kind == "sh"]
CALLS = [(text, BLOCKS[i + 1][1] if i + 1 < len(BLOCKS) and BLOCKS[i + 1][0] == "json" else None)
         for i, (kind, text) in enumerate(BLOCKS) if kind == "sh" and text.startswith("curl")]


class Shell:
    """Commands of the page, in a folder that looks like the sources, with `anyserve` and `python` on the PATH. Port 8000
    may be taken on this machine: the page's is led to a free one."""

    def __init__(self, folder):
        self.folder, self.port, self.running = folder, "0", []
        for name in ("proto", "examples"):
            (folder / name).symlink_to(paths.ROOT / name)
        (folder / "build").mkdir()
        (folder / "bin").mkdir()
        (folder / "bin/anyserve").symlink_to(paths.BINARY)
        (folder / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (folder / "bin/python").chmod(0o755)
        self.env = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}", "XDG_RUNTIME_DIR": str(folder),
                    "RUN": f"{folder}/anyserve-demo", "PYTHONUNBUFFERED": "1"}

    def start(self, text):
        command = text.replace("8000", self.port)
        process = subprocess.Popen(["bash", "-ec", command.rstrip().rsplit("\n", 1)[0] + "\nexec env " +
                                    command.rstrip().rsplit("\n", 1)[1]], cwd=self.folder, env=self.env,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.running.append(process)
        return Log(process.stdout)

    def run(self, text):
        return subprocess.run(["bash", "-c", text.replace("8000", self.port)], cwd=self.folder, env=self.env, text=True,
                              stdout=subprocess.PIPE, timeout=wait.SECONDS, check=True).stdout

    def stop(self):
        codes = []
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
            codes.append(process.wait(wait.SECONDS))
        return codes


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    import pathlib
    import tempfile
    with tempfile.TemporaryDirectory(prefix="as-", dir="/tmp") as folder:  # short: the limit of a socket's path
        shell = Shell(pathlib.Path(folder))
        try:
            shell.port = shell.start(SHELL[0].replace("run --port 8000", "run --port 0 --status-port 0")).wait(READY.pattern)[2]
            shell.start(SHELL[1]).wait("registered")
            yield shell
            assert shell.stop() == [0, 0]
        finally:
            for process in shell.running:
                process.kill()
                process.wait()


def test_the_page(shell):
    assert len(CALLS) == 5
    for command, printed in CALLS:
        got = shell.run(command)
        if printed:
            epoch = r'"epoch":"\d+"'  # by the time
            assert re.sub(epoch, "", got.strip()) == re.sub(epoch, "", printed.strip()), command
        else:
            assert re.fullmatch(r'\{"error":"worker_address.*/etc/passwd.*"\}', got.strip()), got


def test_its_list_of_workers(shell):
    (command,) = re.findall(r"`(anyserve workers [^`]*)`", TEXT)
    assert re.search(r"^.*\bone\b.*$", shell.run(command), re.M)
