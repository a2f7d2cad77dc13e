#!/usr/bin/env python3
"""Writes the notices of the libraries that a wheel carries, as Debian keeps them with each package.

    tools/notices.py OUT PACKAGE…

PACKAGE is what brings a library to the machine that builds, libuv1-dev for example. Texts of licences that several of
them only refer to stand at the end, once.
"""

import re
import subprocess
import sys
from pathlib import Path

DOC = Path("/usr/share/doc")
COMMON = Path("/usr/share/common-licenses")
# Debian's files refer to other licences as well: of build scripts and packaging, which no wheel carries.
APPEND = ["Apache-2.0"]
HEAD = """AnyServe's wheel carries the libraries below, in part or as a whole. These are their notices, as Debian's packages
have them. They name every file of a library's sources, so also those that are not in the wheel: tests, build scripts
and packaging.
"""


def title(package):
    """Name and version of the sources that the package was made of."""
    done = subprocess.run(["dpkg-query", "-W", "-f", "${source:Package} ${source:Version}", package],
                          capture_output=True, text=True, check=False)  # fmt: skip
    if done.returncode:
        sys.exit(f"notices: dpkg does not know {package}: wheels with bundled libraries are built on Debian")
    return done.stdout


def notice(package):
    path = DOC / package / "copyright"
    try:
        return path.read_text()
    except OSError as e:
        sys.exit(f"notices: {path} cannot be read ({e.strerror}): was /usr/share/doc left out of this machine?")


def section(name, text):
    return f"{' ' + name + ' ':=^100}\n\n{text.strip()}\n"


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    out, packages = sys.argv[1], sys.argv[2:]
    parts = {title(p): notice(p) for p in sorted(packages)}
    sections = [section(name, text) for name, text in parts.items()]
    referred = {n.rstrip(".") for text in parts.values() for n in re.findall(r"common-licenses/([\w.-]+)", text)}
    sections += [section(name, (COMMON / name).read_text()) for name in APPEND if name in referred]
    Path(out).write_text("\n".join([HEAD, *sections]))


if __name__ == "__main__":
    main()
