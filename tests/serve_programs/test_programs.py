"""Each program prints under AnyServe what it printed under Ray Serve 2.60 (NAME.txt, written by record.py).

Each runs as the text that Ray was given, which imports `ray.serve` or ray, through `python -m anyserve.serve.as_ray`. Those that
import `anyserve.serve` also run as they are: the first of each folder always, the others in `pytest tests/serve_programs` (long).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from record import needs_ray, through_as_ray, under_ray
from support import paths, ports

HERE = Path(__file__).parent
PROGRAMS = sorted(HERE.glob("*/*.py"))
LONGEST = 120  # seconds


def name_of(program):
    return str(program.relative_to(HERE).with_suffix(""))


def cases():
    folders = set()
    for program in PROGRAMS:
        text = program.read_text()
        if not needs_ray(program):
            marks = [pytest.mark.long] if program.parent in folders else []
            folders.add(program.parent)
            yield pytest.param(program, False, id=name_of(program), marks=marks)
        if needs_ray(program) or under_ray(text) != text:
            yield pytest.param(program, True, id=name_of(program) + "-as_ray")


@pytest.mark.parametrize("program, as_ray", cases())
def test_prints_what_it_prints_under_ray(program, as_ray, tmp_path):
    port = str(ports.free())
    environ = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [paths.SDK, *sorted(HERE.glob("*/stubs"))])),
        "PORT": port,
        "ANYSERVE_PORT": port,
        "GRPC_PORT": str(ports.free()),
        "ANYSERVE_RUNTIME_DIR": str(tmp_path / "run"),
        "ANYSERVE_STATE_DIR": str(tmp_path / "state"),
    }
    try:
        arguments = through_as_ray(program, tmp_path) if as_ray else [program]
        ran = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=LONGEST, env=environ,
                             cwd=tmp_path, check=False)  # fmt: skip
    except subprocess.TimeoutExpired as e:
        pytest.fail("not ended after %d s; stdout:\n%s\nstderr:\n%s"
                    % (LONGEST, (e.stdout or b"").decode(), (e.stderr or b"").decode()))  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == program.with_suffix(".txt").read_text(), ran.stderr
