"""Runs a program as Python itself would: as the module `__main__`, which stays that until the process ends."""

from __future__ import annotations

import os
import sys
import types
from typing import List, Optional, Type

__all__ = ["run_module", "run_program"]


def _new_main() -> types.ModuleType:
    module = types.ModuleType("__main__")
    vars(module)["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


def _without_ours(kind: Type[BaseException], error: BaseException, tb: Optional[types.TracebackType]) -> None:
    """Tracebacks begin in the program."""
    while tb is not None and tb.tb_frame.f_globals.get("__spec__") is not None:  # the program itself has none
        tb = tb.tb_next
    sys.__excepthook__(kind, error.with_traceback(tb), tb)


def run_program(path: str, args: List[str]) -> None:
    """Runs a file. SystemExit with status 66: it cannot be read."""
    try:
        with open(path, "rb") as f:
            text = f.read()
    except OSError as e:
        print("anyserve: %s cannot be read: %s" % (path, e.strerror), file=sys.stderr)
        sys.exit(66)
    code = compile(text, path, "exec", dont_inherit=True)  # it has __future__ imports of its own
    sys.argv[:] = [path, *args]
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = os.path.dirname(os.path.abspath(path))
    module = _new_main()
    vars(module).update(__file__=os.path.abspath(path), __spec__=None, __package__=None, __cached__=None)
    sys.excepthook = _without_ours
    exec(code, vars(module))


def run_module(name: str, args: List[str]) -> None:
    """Runs a module, as `python -m` does."""
    import runpy

    sys.argv[:] = [name, *args]
    _new_main()
    runpy._run_module_as_main(name)  # type: ignore[attr-defined]
