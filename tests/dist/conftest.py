"""One wheel for all tests here, built as quickly as can be: no optimizer, for this interpreter only."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))  # the reader of pages
INTO = ROOT / "build/wheel-quick/dist"  # some tests have a /tmp of their own


@pytest.fixture(scope="session")
def made():
    """The folder with the sdist and the wheel."""
    p = subprocess.run([sys.executable, ROOT / "tools/make_wheel.py", "--quick", "--into", INTO], cwd="/",
                       capture_output=True, text=True, timeout=600)  # fmt: skip
    assert p.returncode == 0, p.stdout[-5000:] + p.stderr[-5000:]
    return INTO


@pytest.fixture(scope="session")
def wheel(made):
    (path,) = made.glob("*.whl")
    return path
