"""What a wheel of `make wheel` carries and says of itself. `make wheel-test` takes the real ones to machines that have
nothing."""

import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# What every Linux with glibc and numpy has: numpy's own wheels need them.
SYSTEM = {"libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2", "libpthread.so.0"}
NEWEST_GLIBC = 36  # Debian 12
BUNDLED = ["libuv", "nghttp2", "protobuf-c", "zlib", "sqlite", "libyaml", "simdjson", "xxhash", "wslay"]


@pytest.fixture(scope="module")
def site(wheel, tmp_path_factory):
    """The wheel as pip installs it, alone in a folder."""
    folder = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", folder, wheel],
                   check=True, timeout=120)
    return folder


def elf_files(site):
    return [p for p in sorted(site.rglob("*")) if p.is_file() and p.open("rb").read(4) == b"\x7fELF"]


def readelf(option, path):
    return subprocess.run(["readelf", "-W", option, path], check=True, capture_output=True, text=True).stdout


def test_the_name_says_where_it_runs(wheel):
    version = f"cp3{sys.version_info.minor}"
    found = re.fullmatch(rf"anyserve-[\d.]+-{version}-{version}-(manylinux\S+)_x86_64\.whl", wheel.name)
    assert found, wheel.name
    assert min(int(n) for n in re.findall(r"manylinux_2_(\d+)", found[1])) <= NEWEST_GLIBC


def test_nothing_is_needed_of_the_machine(site):
    """Each library that a binary is linked to is the system's, or in the wheel where the binary looks for it."""
    binaries = elf_files(site)
    assert {"anyserve", "_native"} <= {p.name.split(".")[0] for p in binaries}
    for path in binaries:
        dynamic = readelf("-d", path)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        places = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic)
        folders = [Path(p.replace("$ORIGIN", str(path.parent))) for place in places for p in place.split(":")]
        assert needed, path
        missing = {n for n in needed - SYSTEM if not any((f / n).exists() for f in folders)}
        assert not missing, path


def test_no_binary_has_symbols_for_debuggers(site):
    for path in elf_files(site):
        sections = set(re.findall(r"\] (\.\w+)", readelf("-S", path)))
        assert ".dynamic" in sections and not sections & {".symtab", ".debug_info", ".debug_line"}, path


def test_metadata(wheel):
    with zipfile.ZipFile(wheel) as z:
        (name,) = [n for n in z.namelist() if n.endswith(".dist-info/METADATA")]
        said = message_from_bytes(z.read(name))
        (licence,) = [n for n in z.namelist() if re.search(r"dist-info/licenses/LICENSE$", n)]
        assert b"Apache License" in z.read(licence) and b"Version 2.0, January 2004" in z.read(licence)
    assert said["License-Expression"] == "Apache-2.0"
    assert said["Requires-Python"] == ">=3.11" and said["Author"] == "AnyServe"
    needed = [r for r in said.get_all("Requires-Dist") if "extra ==" not in r]
    assert sorted(re.match(r"[\w-]+", r)[0] for r in needed) == ["cloudpickle", "numpy"]
    assert said["Description-Content-Type"] == "text/markdown"
    assert said.get_payload().strip() == (ROOT / "README.md").read_text().strip()
    assert f"Programming Language :: Python :: 3.{sys.version_info.minor}" in said.get_all("Classifier")


def test_the_notices_of_what_is_bundled(site):
    text = (site / "anyserve/THIRD_PARTY_NOTICES.txt").read_text()
    titles = re.findall(r"^=+ (.*?) =+$", text, re.M)
    for library in BUNDLED:
        assert any(library in title for title in titles), (library, titles)
    # each with its own text, and with the one that several refer to
    assert text.count("Copyright") > len(BUNDLED)
    assert "Permission is hereby granted" in text and "Version 2.0, January 2004" in text


def test_the_sdist_is_what_is_committed(made):
    (path,) = made.glob("*.tar.gz")
    with tarfile.open(path) as t:
        packed = {n.split("/", 1)[1] for n in t.getnames() if "/" in n}
    listed = subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=ROOT, check=True,
                            capture_output=True, text=True).stdout.split("\n")  # fmt: skip
    files = {n for n in listed if n}
    assert files and files <= packed
    assert {n for n in packed if n.startswith("build/")} == set() and "PKG-INFO" in packed


def test_it_serves(site, tmp_path):
    """Installed, with nothing else than numpy, cloudpickle and what is in the wheel."""
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path), "PYTHONPATH": str(site)}
    p = subprocess.run([sys.executable, ROOT / "tests/dist/first_use.py", sys.executable, "-m", "anyserve"],
                       cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)  # fmt: skip
    assert p.returncode == 0, p.stdout + p.stderr
    assert p.stdout.splitlines()[-1] == str(site / "anyserve/_bin/anyserve")


def tool(name, *args):
    return subprocess.run([sys.executable, ROOT / "tools" / name, *args], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("python", ["/bin/false", "/nonexistent/python3"])
def test_a_python_that_is_none(tmp_path, python):
    (tmp_path / "anyserve-0.0.1-py3-none-any.whl").touch()
    p = tool("make_wheel.py", "--quick", "--python", python, "--into", tmp_path)
    assert p.returncode and p.stderr == f"make_wheel: {python} is no CPython from 3.11 on, or does not run\n"
    assert len(list(tmp_path.iterdir())) == 1  # what was there stays


def test_a_library_without_notices(tmp_path):
    p = tool("notices.py", tmp_path / "out", "zlib1g-dev", "libnosuchthing-dev")
    assert p.returncode and "libnosuchthing-dev" in p.stderr and not (tmp_path / "out").exists()
