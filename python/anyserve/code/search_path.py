"""Which entries of sys.path are part of an application's code, and where they are in a copy of it.

The same questions are asked where a copy is made (pin.py) and where it is loaded (target.py): what the one looks for in
an entry the other finds in the copy. Folders without a link in them are called real.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from typing import Iterable, List, Optional


def beneath(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def inside(path: str, folder: str) -> Optional[str]:
    """The path from the folder to an absolute path at or beneath it, by its name or by the real ones; None: it is not."""
    for p, f in ((os.path.normpath(path), os.path.normpath(folder)), (os.path.realpath(path), os.path.realpath(folder))):
        if p == f or beneath(p, f):
            return os.path.relpath(p, f)
    return None


def installed() -> List[str]:
    """The folders of the interpreter and of packages that are installed; they are used as they are."""
    paths = sysconfig.get_paths()
    found = [paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib") if k in paths]
    # site's functions are missing where an old virtualenv has a site module of its own
    found += getattr(site, "getsitepackages", lambda: [])()
    found += [getattr(site, "getusersitepackages", lambda: "")()]
    # of the prefixes nothing else: with Python in /usr an application may be in /usr/src or /usr/lib
    zipped = "python%d%d.zip" % sys.version_info[:2]
    found += [os.path.join(p, "lib", zipped) for p in {sys.prefix, sys.base_prefix}]
    return [p for p in found if p]


def is_installed(path: str, folders: Iterable[str]) -> bool:
    """Whether an absolute entry of sys.path is one of the folders `installed`, or beneath."""
    named = os.path.basename(os.path.normpath(path)) in ("site-packages", "dist-packages")
    return named or any(inside(path, f) is not None for f in folders)


def originals(source: str, file: str) -> List[str]:
    """The folder that a copy was made of, by the names that it has: `source` is that folder or, of a target that is a
    file (its path in the copy), the file as the user wrote it."""
    if not file:
        return [source]
    real = os.path.join(os.path.realpath(os.path.dirname(source)), os.path.basename(source))
    return [name[: -len(file)] for name in (os.path.normpath(source), real) if name.endswith(os.sep + file)]


def into_copy(path: List[str], folders: Iterable[str], copy: str) -> None:
    """The entries of sys.path in the folders (all of one copy) become those of the copy, where it has them. Entries
    that are relative are in the copy already: the process was started there."""
    packages = installed()
    for i, entry in enumerate(path):
        if not os.path.isabs(entry) or is_installed(entry, packages):
            continue
        for rel in (inside(entry, f) for f in folders):
            if rel is not None and os.path.exists(os.path.join(copy, rel)):
                path[i] = os.path.normpath(os.path.join(copy, rel))
                break
