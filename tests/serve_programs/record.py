"""Records what the programs print under Ray Serve: `make ray-record` runs this with an interpreter that has Ray 2.60.

A program imports `anyserve.serve`; here the same text imports `ray.serve`. What it prints to stdout is written beside
it as NAME.txt. Usage: record.py [PROGRAM ...] (default: all).
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator

HERE = pathlib.Path(__file__).parent
STUBS = sorted(HERE.glob("*/stubs"))  # folders of modules that programs import
LONGEST = 180  # seconds for a program
IMPORT = re.compile(r"^(\s*from )anyserve(\.serve\S*)? import (.*)$", re.MULTILINE)


def under_ray(text: str) -> str:
    return IMPORT.sub(lambda m: "%sray%s import %s" % (m[1], m[2] or "", m[3]), text)


NEEDS_RAY = re.compile(r"^\s*(import|from) ray\b", re.MULTILINE)


def needs_ray(program: pathlib.Path) -> bool:
    """Whether it imports ray itself: under AnyServe, as_ray runs it."""
    return NEEDS_RAY.search(program.read_text()) is not None


def through_as_ray(program: pathlib.Path, folder: pathlib.Path) -> list[str]:
    """The arguments for Python that run the text which Ray is given, a copy in the folder, under AnyServe."""
    copy = folder / program.name
    copy.write_text(under_ray(program.read_text()))
    return ["-m", "anyserve.serve.as_ray", str(copy)]


def printed(program: pathlib.Path) -> str | None:
    """What a program prints under the Ray that runs. None: it has failed; why is on stdout."""
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, program.name)
        copy.write_text(under_ray(program.read_text()))
        environ = {**os.environ, "PORT": "8000", "RAY_ADDRESS": "auto", "RAY_SERVE_LOG_TO_STDERR": "0", "PYTHONWARNINGS": "ignore"}
        try:
            ran = subprocess.run([sys.executable, copy], capture_output=True, text=True, timeout=LONGEST, env=environ)
        except subprocess.TimeoutExpired as e:
            print("%s: not ended after %d s\n%s" % (program, LONGEST, (e.stderr or b"").decode()[-2000:]))
            return None
    if ran.returncode:
        print("%s: exit code %d\n%s" % (program, ran.returncode, ran.stderr[-3000:]))
        return None
    # Ray's log lines of replicas begin with the process's name
    lines = [line for line in ran.stdout.splitlines() if not re.match(r"\x1b|\((ServeReplica|ServeController|Proxy)", line)]
    return "\n".join(lines) + "\n"


def record(program: pathlib.Path) -> bool:
    text = printed(program)
    if text is None:
        return False
    program.with_suffix(".txt").write_text(text)
    print("%s: %d lines" % (program.relative_to(HERE), text.count("\n")), flush=True)
    return True


def ray(*arguments: str) -> None:
    command = [str(pathlib.Path(sys.executable).parent / "ray"), *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextlib.contextmanager
def cluster() -> Iterator[None]:
    """One Ray for all programs: it takes seconds to start. Each replica counts as a CPU, of which no more are used."""
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, STUBS))
    ray("start", "--head", "--num-cpus", "64", "--include-dashboard", "true", "--disable-usage-stats")
    try:
        yield
    finally:
        ray("stop", "--force")


def chosen(names: list[str]) -> list[pathlib.Path]:
    return [pathlib.Path(a).resolve() for a in names] or sorted(HERE.glob("*/*.py"))


def main() -> int:
    with cluster():
        failed = [p for p in chosen(sys.argv[1:]) if not record(p)]
    for p in failed:
        print("not recorded: %s" % p)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
