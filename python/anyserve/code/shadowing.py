"""Finds files beside a program that shadow modules: `./typing.py` replaces typing where the current directory comes first
in sys.path."""

from __future__ import annotations

import os
import sys
from typing import Iterable, Iterator, List, Optional

OTHERS = ("anyserve", "numpy")  # in addition to Python's own modules


def _name_of(path: str) -> str:
    """The name of the module that a file defines."""
    folder, name = os.path.split(os.path.splitext(path)[0])
    return os.path.basename(folder) if name == "__init__" else name


def _beside(path: Optional[str], folders: Iterable[str]) -> bool:
    """Whether the path is a file of these folders, or a package in one of them."""
    if not path or not path.endswith(".py"):
        return False
    path = os.path.abspath(path)
    if os.path.basename(path) == "__init__.py":
        path = os.path.dirname(path)
    return os.path.dirname(path) in folders


def _files(exc: BaseException) -> Iterator[Optional[str]]:
    """The files of modules that are loaded, and of those that failed to load."""
    for module in list(sys.modules.values()):
        yield getattr(module, "__file__", None)
    e: Optional[BaseException] = exc
    while e is not None:
        tb = e.__traceback__
        while tb is not None:
            yield tb.tb_frame.f_code.co_filename
            tb = tb.tb_next
        e = e.__cause__ or e.__context__


def advice(exc: BaseException, folders: Iterable[str]) -> str:
    """Text to append to an error of loading a program: which files of these folders shadow other modules."""
    folders = {os.path.abspath(f) for f in folders}
    own = set(sys.stdlib_module_names) | set(OTHERS)
    found: List[str] = []
    for path in _files(exc):
        if path is None or not _beside(path, folders) or _name_of(path) not in own:
            continue
        text = "%s was loaded in the place of %s module %r: rename it" % (
            os.path.abspath(path), "Python's own" if _name_of(path) not in OTHERS else "the", _name_of(path)
        )  # fmt: skip
        if text not in found:
            found.append(text)
    return "".join("\n\n" + text for text in found)
