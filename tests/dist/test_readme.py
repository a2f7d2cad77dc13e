"""README, and the page about installing, pasted as they stand by someone who has a wheel and an empty folder.

In folders and a network of its own: the ports that README names are free. Needs root, as the tests of the guide do.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest
from conftest import ROOT
from support import guide, wait
from support.process import world

PAGES = ["README.md", "docs/guide/install.md"]
# rest.md and workers.md stand for a checkout's files; they have tests of their own in tests/e2e
OTHERS = sorted(p for p in (ROOT / "docs/guide").glob("*.md") if p.name not in ("install.md", "rest.md", "workers.md"))


def environment(folder):
    """A new virtual environment. It also sees what is installed beside pytest, after its own: pip, numpy and cloudpickle,
    so that pip needs no network."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    (folder / "bin/pip").write_text(f'#!/bin/sh\nexec {folder}/bin/python -m pip "$@"\n')
    (folder / "bin/pip").chmod(0o755)
    return site


class Newcomer(guide.Reader):
    """`pip`, `python` and what is installed are those of a new environment."""

    def __init__(self, folder, env, wheel):
        self.folder, self.servers = folder / "first", []
        self.folder.mkdir()
        self.venv = folder / "venv"
        shutil.copy(wheel, self.folder)
        environment(self.venv)
        self.python = self.venv / "bin/python"
        self.env = {**env, "PATH": f"{self.venv}/bin:/usr/bin:/bin", "PYTHONUNBUFFERED": "1", "PIP_NO_INDEX": "1"}


def read(page, wheel, install=False):
    def test():
        env = {**world.home(0), "LANG": "C.UTF-8"}
        reader = Newcomer(Path(tempfile.mkdtemp(dir="/var/lib")), env, wheel)
        try:
            if install:
                reader.run(["bash", "-ec", "pip install ./anyserve-*.whl"])
            for block in guide.blocks(page.read_text()):
                try:
                    reader.paste(block)
                except Exception as e:
                    raise AssertionError(f"{page.name}:{block.line}: {e}\n{block.text}") from e
        finally:
            reader.leave()
        where = subprocess.run([reader.venv / "bin/python", "-c", "import anyserve; print(anyserve.__file__)"],
                               capture_output=True, text=True, check=True).stdout  # fmt: skip
        assert where.startswith(str(reader.venv)), where
    world.in_world(test)


@pytest.mark.parametrize("page", PAGES)
def test_pasted(page, wheel):
    read(ROOT / page, wheel)


@pytest.mark.long
@pytest.mark.parametrize("page", OTHERS, ids=lambda p: p.stem)
def test_the_guide(page, wheel):
    """From the first page to the last, by someone who has installed the wheel."""
    read(page, wheel, install=True)


def test_readme_installs_serves_and_deploys():
    """So that the test above is about something."""
    blocks = guide.blocks((ROOT / "README.md").read_text())
    run = "\n".join(b.text for b in blocks if b.kind == "sh" and b.rest != "fragment")
    for command in "pip install", "anyserve run", "anyserve start", "anyserve deploy", "anyserve infer", "curl":
        assert re.search(rf"^{command}\b", run, re.M), command
    assert [b.rest for b in blocks if b.kind == "yaml"] == ["anyserve.yaml"]
    assert "in another terminal" in (ROOT / "README.md").read_text().lower()


@pytest.mark.parametrize("args", [["--version"], ["status", "--runtime-dir", "/nonexistent"]], ids=["version", "status"])
def test_the_installed_command_imports_little(wheel, tmp_path, args):
    """The script that pip writes imports `re`; beside that it is the interpreter's own start and two small modules."""
    venv = tmp_path / "venv"
    site = environment(venv)
    subprocess.run([venv / "bin/pip", "install", "-q", "--no-index", "--no-deps", wheel], check=True, timeout=wait.SECONDS)
    # sys.modules at the exec that ends the script's interpreter; not in sitecustomize.py, of which Debian's Python has its own
    (site / "seen.pth").write_text("import seen_at_exec\n")
    (site / "seen_at_exec.py").write_text(
        "import os, sys\nbefore = set(sys.modules)\nreal = os.execv\n"
        "def execv(path, argv):\n"
        "    new = sorted(set(sys.modules) - before)\n"
        "    import json\n"
        "    open(os.environ['SEEN'], 'w').write(json.dumps([path, new]))\n"
        "    real(path, argv)\n"
        "os.execv = execv\n")  # fmt: skip
    seen = tmp_path / "seen"
    p = subprocess.run([venv / "bin/anyserve", *args], capture_output=True, text=True, timeout=wait.SECONDS,
                       env={"PATH": os.environ["PATH"], "SEEN": str(seen)})  # fmt: skip
    path, new = json.loads(seen.read_text())
    assert path == str(site / "anyserve/_bin/anyserve") and (p.stdout or p.stderr)
    assert {"anyserve", "anyserve._cli"} <= set(new)
    of_re = {"re", "enum", "types", "operator", "functools", "collections", "itertools", "keyword", "reprlib", "copyreg"}
    of_site = {"sitecustomize", "usercustomize", "pwd"}
    assert {n.split(".")[0].lstrip("_") for n in new} - of_re - of_site <= {"anyserve", "sre"}
