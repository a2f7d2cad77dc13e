"""Files beside a program that are called as modules of Python: `./typing.py` stands for typing wherever the current
directory comes first in sys.path."""

from __future__ import annotations

import os
import sys
from typing import Iterable, Iterator, List, Optional

OTHERS = ("anyserve", "numpy")  # beside Python's own


def _name_of(path: str) -> str:
    """The module that a file is: its name, or its folder's."""
    folder, name = os.path.split(os.path.splitext(path)[0])
    return os.path.basename(folder) if name == "__init__" else name


def _beside(path: Optional[str], folders: Iterable[str]) -> bool:
    """Is it a file of these folders, or a package in one of them?"""
    if not path or not path.endswith(".py"):
        return False
    path = os.path.abspath(path)
    if os.path.basename(path) == "__init__.py":
        path = os.path.dirname(path)
    return os.path.dirname(path) in folders


def _files(exc: BaseException) -> Iterator[Optional[str]]:
    """Those of modules that are loaded, and of those whose loading has failed."""
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
    """To be put behind what says that loading a program failed: which files of these folders stand for others."""
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
