"""The code blocks of a page, and what to do with them. The words behind ``` say that:

    python NAME, yaml NAME, c NAME,
    proto NAME                        the block is the file NAME, for those that follow
    sh                                a reader pastes it; every command in it succeeds
    sh background                     the same, and its last command is a server: it is ready before the next block
    console                           lines that begin with `$ ` are commands, the others what they print
    python                            a program, run as it stands
    … fragment                        a part of something: it is well-formed, and not run
    nothing, text, json               not for a shell: output, or a document

A fence without one of these words is an error, so that nobody can add a block that no test looks at.
"""

import ast
import os
import re
import signal
import subprocess
import sys
from typing import NamedTuple

import yaml

from . import paths, wait
from .process.server import Log

FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
FILES = {"python": ".py", "yaml": ".yaml", "c": ".c", "proto": ".proto"}


class Block(NamedTuple):
    kind: str
    rest: str  # NAME, "background", "fragment" or nothing
    text: str
    line: int


def blocks(text):
    return [Block(*(m[1].split(" ", 1) + [""])[:2], m[2], text.count("\n", 0, m.start()) + 1) for m in FENCE.finditer(text)]


def check_fragment(kind, text):
    if kind == "python":
        ast.parse(text)
    elif kind == "yaml":
        yaml.safe_load(text)
    elif kind == "sh":
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    else:
        assert kind in ("c", "console"), f"a fragment of {kind}"


class Reader:
    """Someone who reads a page in a folder of their own and pastes what is there. `anyserve` and `python` are on PATH."""

    python = sys.executable

    def __init__(self, folder, env):
        self.folder, self.servers = folder, []
        (folder / "bin").mkdir()
        (folder / "bin/anyserve").symlink_to(paths.BINARY)
        (folder / "bin/python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (folder / "bin/python").chmod(0o755)
        for name in ("examples", "proto"):
            (folder / name).symlink_to(paths.ROOT / name)
        self.env = {**env, "PATH": f"{folder}/bin:{env['PATH']}", "PYTHONPATH": str(paths.SDK), "PYTHONUNBUFFERED": "1"}

    def paste(self, block):
        if block.rest == "fragment":
            check_fragment(block.kind, block.text)
        elif block.kind in FILES and block.rest:
            assert block.rest.endswith(FILES[block.kind]), block.rest
            (self.folder / block.rest).write_text(block.text)
        elif (block.kind, block.rest) == ("sh", "background"):
            self.start(block.text)
        elif block.kind == "sh" and not block.rest:
            self.run(["bash", "-ec", block.text])
        elif block.kind == "console" and not block.rest:
            commands = [line[2:] for line in block.text.splitlines() if line.startswith("$ ")]
            self.run(["bash", "-ec", "\n".join(commands)])
        elif block.kind == "python" and not block.rest:
            self.run([self.python, "-c", block.text])
        else:
            assert block.kind in ("", "text", "json") and not block.rest, f"what is to be done with it? ({block.kind} {block.rest})"

    def run(self, command):
        done = subprocess.run(command, cwd=self.folder, env=self.env, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=2 * wait.SECONDS, check=False)
        assert done.returncode == 0, f"ended with {done.returncode}:\n{done.stdout}"

    def start(self, text):
        lines = text.rstrip().split("\n")
        script = "\n".join([*lines[:-1], "exec " + lines[-1]])
        process = subprocess.Popen(["bash", "-ec", script], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        process.log = Log(process.stdout)
        self.servers.append(process)
        process.log.wait("^Ready: ")

    def leave(self):
        """Ends the servers, as Ctrl-C does."""
        for process in reversed(self.servers):
            process.send_signal(signal.SIGINT)
        codes = [process.wait(wait.SECONDS) for process in self.servers]
        assert not any(codes), (codes, [p.log.text() for p in self.servers])


def read(page, folder, env=None):
    """Does what the page says, block by block; a failure names the block's line."""
    text = page.read_text()
    reader = Reader(folder, {**os.environ, **(env or {})})
    try:
        for block in blocks(text):
            try:
                reader.paste(block)
            except Exception as e:
                raise AssertionError(f"{page.name}:{block.line}: {e}\n{block.text}") from e
    finally:
        reader.leave()
