"""Runs programs under Ray Serve and under AnyServe, now, and compares what they print: `make ray`.

Runs with an interpreter that has Ray 2.60. Usage: compare.py --python PYTHON --package FOLDER [PROGRAM ...] (default: all).
PYTHON: an interpreter for AnyServe, whose package is in FOLDER. The recorded output is not looked at: `make test` does that.
"""

from __future__ import annotations

import argparse
import difflib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import record


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def ours(program: pathlib.Path, python: str, package: str) -> str | None:
    with tempfile.TemporaryDirectory(prefix="as-") as folder:
        port = str(free_port())
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join([package, *map(str, record.STUBS)]),
                   "PORT": port, "ANYSERVE_PORT": port, "GRPC_PORT": str(free_port()),
                   "ANYSERVE_RUNTIME_DIR": folder + "/run", "ANYSERVE_STATE_DIR": folder + "/state"}  # fmt: skip
        try:
            arguments = record.through_as_ray(program, pathlib.Path(folder)) if record.needs_ray(program) else [str(program)]
            ran = subprocess.run([python, *arguments], capture_output=True, text=True, timeout=record.LONGEST, env=environ, cwd=folder)
        except subprocess.TimeoutExpired:
            print("%s: not ended after %d s under AnyServe" % (program, record.LONGEST))
            return None
    if ran.returncode:
        print("%s: exit code %d under AnyServe\n%s" % (program, ran.returncode, ran.stderr[-3000:]))
        return None
    return ran.stdout


def compare(program: pathlib.Path, python: str, package: str) -> bool:
    name = str(program.relative_to(record.HERE).with_suffix(""))
    theirs, mine = record.printed(program), ours(program, python, package)
    if theirs is None or mine is None:
        print("failed   %s" % name, flush=True)
        return False
    if theirs == mine:
        print("same     %s (%d lines)" % (name, mine.count("\n")), flush=True)
        return True
    print("differs  %s" % name)
    print("".join(difflib.unified_diff(theirs.splitlines(True), mine.splitlines(True), "Ray", "AnyServe")), flush=True)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True)
    parser.add_argument("--package", required=True)
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    programs = record.chosen(options.programs)
    python, package = map(os.path.abspath, (options.python, options.package))
    with record.cluster():
        same = sum(compare(p, python, package) for p in programs)
    print("%d of %d programs print the same" % (same, len(programs)))
    return same != len(programs)


if __name__ == "__main__":
    sys.exit(main())
