"""The copy of the code that this process loads (pin.py has made it), if there is one.

Files that user code writes belong to the original folder, and so do the paths that people read in errors.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import traceback
from typing import Optional

from . import search_path

TRACEBACK_LINES = 24

_copy: Optional[str] = None  # the folder of the copy that the code is loaded from
_original = ""  # the folder that was copied; set only while the code is described


def use_copy(working_dir: str, original: str, source: str, target: str) -> None:
    """The process was started in a copy of the code, and loads that. Entries of sys.path that name the original (source:
    see search_path.originals) are replaced. Its working directory becomes working_dir, so that files that it writes
    outlive the copy; if that folder is gone, it stays in the copy."""
    global _copy, _original
    _copy, _original = os.getcwd(), original
    if _copy not in sys.path:
        sys.path.insert(0, _copy)
    if source:
        head, _ = search_path.split(target)
        search_path.into_copy(sys.path, search_path.originals(source, head if search_path.is_file(head) else ""), _copy)
    try:
        os.chdir(working_dir)
    except OSError as e:
        print("anyserve: working_dir %s: %s; this process works in the copy of its code, %s"
              % (working_dir, e.strerror, _copy), file=sys.stderr)  # fmt: skip


def folder() -> str:
    """The folder that the code is loaded from: the copy, or else the current folder."""
    return _copy or os.getcwd()


def path_of(path: str) -> str:
    """A path of the target, in the copy if there is one."""
    return os.path.join(_copy, path) if _copy else path


def original_of(module: str) -> str:
    """The original folder, if a module of this name is in it; else ""."""
    return _original if _original and importlib.machinery.PathFinder.find_spec(module, [_original]) else ""


def user_traceback(exc: BaseException) -> str:
    """The traceback without the frames of this package and of the import system, cut to one screen."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tb = exc.__traceback__
    while tb is not None:
        name = tb.tb_frame.f_code.co_filename
        if not (name.startswith(here + os.sep) or "importlib" in name):
            break
        tb = tb.tb_next
    lines = "".join(traceback.format_exception(type(exc), exc, tb)).rstrip().splitlines()
    if len(lines) > TRACEBACK_LINES:
        lines = lines[:2] + ["  ..."] + lines[-(TRACEBACK_LINES - 3) :]
    text = "\n".join(lines)
    return text.replace(_copy + os.sep, os.path.join(_original, "")) if _copy and _original else text


def users_path(path: str) -> str:
    """The original path of a file of the copy; its path within the copied folder if the original is unknown."""
    inside = _copy is not None and path.startswith(_copy + os.sep)
    return os.path.join(_original, path[len(_copy or "") + 1 :]) if inside else path
