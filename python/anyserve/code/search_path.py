"""What a target names; which entries of sys.path belong to an application's code, and where they are in a copy of it.

Used where a copy is made (pin.py) and where it is loaded (target.py), so that both agree. A real path has no symbolic
link in it.
"""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from typing import Iterable, List, Optional, Tuple


def split(target: str) -> Tuple[str, str]:
    """Splits a target: the file or module, and ":attribute" or nothing."""
    head = target.rpartition(":")[0] or target
    return head, target[len(head) :]


def is_file(head: str) -> bool:
    """Whether the first part of a target is a file, not a module."""
    return head.endswith(".py") or os.sep in head


def beneath(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def inside(path: str, folder: str) -> Optional[str]:
    """The path relative to the folder, if it is the folder or beneath it, by names or by real paths; else None."""
    for p, f in ((os.path.normpath(path), os.path.normpath(folder)), (os.path.realpath(path), os.path.realpath(folder))):
        if p == f or beneath(p, f):
            return os.path.relpath(p, f)
    return None


def installed() -> List[str]:
    """The folders of the interpreter and of installed packages, which are never copied."""
    paths = sysconfig.get_paths()
    found = [paths[k] for k in ("stdlib", "platstdlib", "purelib", "platlib") if k in paths]
    # an old virtualenv has a site module without these functions
    found += getattr(site, "getsitepackages", lambda: [])()
    found += [getattr(site, "getusersitepackages", lambda: "")()]
    # nothing else of the prefixes: with Python in /usr, an application may be in /usr/src or /usr/lib
    zipped = "python%d%d.zip" % sys.version_info[:2]
    found += [os.path.join(p, "lib", zipped) for p in {sys.prefix, sys.base_prefix}]
    return [p for p in found if p]


def is_installed(path: str, folders: Iterable[str]) -> bool:
    """Whether an absolute entry of sys.path is in one of the folders from installed()."""
    named = os.path.basename(os.path.normpath(path)) in ("site-packages", "dist-packages")
    return named or any(inside(path, f) is not None for f in folders)


def of_program() -> List[str]:
    """The entries of sys.path that another process of the same interpreter would not have by itself."""
    folders = installed()
    entries = [os.path.abspath(p) for p in sys.path]
    return [p for p in dict.fromkeys(entries) if not any(inside(p, f) is not None for f in folders)]


def originals(source: str, file: str) -> List[str]:
    """The possible names of the folder that was copied. source: that folder; or, if the target is a file (file: its path
    in the copy), the file as the user wrote it."""
    if not file:
        return [source]
    real = os.path.join(os.path.realpath(os.path.dirname(source)), os.path.basename(source))
    return [name[: -len(file)] for name in (os.path.normpath(source), real) if name.endswith(os.sep + file)]


def into_copy(path: List[str], folders: Iterable[str], copy: str) -> None:
    """Replaces entries of sys.path in the folders (names of one original) by those in the copy, if it has them. Relative
    entries are in the copy already, since the process was started there."""
    packages = installed()
    for i, entry in enumerate(path):
        if not os.path.isabs(entry) or is_installed(entry, packages):
            continue
        for rel in (inside(entry, f) for f in folders):
            if rel is not None and os.path.exists(os.path.join(copy, rel)):
                path[i] = os.path.normpath(os.path.join(copy, rel))
                break
