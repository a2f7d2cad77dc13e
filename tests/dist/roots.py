#!/usr/bin/env python3
"""Takes the wheels of `make wheel` to bare Debian machines, and serves a request there; `make wheel-test` is this.

    tests/dist/roots.py [--dist dist] [--suite bookworm]…

Each machine is a root made by mmdebstrap with Python and nothing else: no compiler, no -dev package, none of the
libraries that AnyServe is built with. pip installs the wheel there without a network. Roots and the wheels of
numpy and cloudpickle are kept in build/roots. Needs root, for chroot.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CACHE = ROOT / "build/roots"
# The numpy of each: the oldest that the wheel says it takes, and the newest there is.
SUITES = {"bookworm": "numpy==1.24.*", "trixie": "numpy"}
PACKAGES = "python3,python3-venv"
NUMPY_PLATFORMS = ["manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]
USER = 1000
# What the root must not have, or the test would prove nothing.
BARE = """
if command -v gcc cc ld; then exit 1; fi
if dpkg-query -W -f '${Package}\\n' | grep -E -e '-dev$|^lib(nghttp2|uv1|protobuf-c|simdjson|wslay|yaml)'; then exit 1; fi
"""
INSTALL = "python3 -m venv /srv/venv && /srv/venv/bin/pip install -q --no-index --find-links /srv/wheels anyserve"
FIRST_USE = (f"HOME=/srv setpriv --reuid={USER} --regid={USER} --clear-groups "
             "/srv/venv/bin/python /srv/first_use.py /srv/venv/bin/anyserve")  # fmt: skip


def run(command, **kwargs):
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=1200, **kwargs)  # fmt: skip
    if done.returncode:
        sys.exit(f"{done.stdout}roots: this failed ({done.returncode}): {' '.join(map(str, command))}")
    return done.stdout


def tarball(suite):
    """Made once."""
    path = CACHE / f"{suite}.tar"
    if not path.exists():
        half = path.with_suffix(".half.tar")
        run(["mmdebstrap", "--variant=minbase", f"--include={PACKAGES}", suite, half])
        half.rename(path)
    return path


def within(root, script):
    """Runs a shell script in the root, in namespaces that end with it."""
    mounts = f"mount -t proc proc {root}/proc && mount --rbind /dev {root}/dev && mount -t tmpfs tmpfs {root}/dev/shm"
    inside = ["chroot", str(root), "env", "-i", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL=C.UTF-8", "sh", "-ec", script]
    return run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-ec", mounts + ' && exec "$@"', "sh", *inside])


def needs_for(version, requirement):
    """A folder with what the wheel needs for that Python: numpy, and cloudpickle in the oldest version that it says it takes."""
    folder = CACHE / f"needs-{version}"
    if not any(folder.glob("*.whl")):
        platforms = [word for p in NUMPY_PLATFORMS for word in ("--platform", p)]
        run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", version,
             *platforms, "--dest", folder, requirement, "cloudpickle==3.0.*"])  # fmt: skip
    return folder


def try_suite(suite, dist, folder):
    root = Path(folder) / suite
    root.mkdir()
    run(["tar", "-xf", tarball(suite), "-C", root, "--numeric-owner", "--exclude=./dev/*"])
    within(root, BARE)
    version = within(root, "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()
    tag = "cp" + version.replace(".", "")
    wheels = list(dist.glob(f"anyserve-*-{tag}-*.whl")) or list(dist.glob("anyserve-*-abi3-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"roots: {suite} has Python {version}, and {dist} holds {len(wheels)} wheels for it: run `make wheel`")
    srv = root / "srv"
    shutil.copytree(needs_for(version, SUITES[suite]), srv / "wheels")
    for path, name in (wheels[0], "wheels"), (HERE / "first_use.py", "."), (HERE / "app.py", "."), (HERE / "greet.py", "."):
        shutil.copy(path, srv / name)
    within(root, INSTALL)
    os.chown(srv, USER, USER)
    said = within(root, FIRST_USE).split("\n")
    numpy = within(root, "/srv/venv/bin/python -c 'import numpy; print(numpy.__version__)'").strip()
    size = int(within(root, "du -sk /srv/venv/lib/python3*/site-packages/anyserve*"
                            " | awk '{n += $1} END {print n}'"))  # fmt: skip
    print(f"{suite}: {wheels[0].name}, Python {version}, numpy {numpy}: {said[0]} served; "
          f"{size / 1000:.1f} MB installed", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    parser.add_argument("--suite", action="append", choices=sorted(SUITES))
    options = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("roots: chroot needs root: sudo make wheel-test")
    if not shutil.which("mmdebstrap"):
        sys.exit("roots: mmdebstrap is missing: apt-get install mmdebstrap")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="root-") as folder:
        for suite in options.suite or SUITES:
            try_suite(suite, options.dist.resolve(), folder)


if __name__ == "__main__":
    main()
