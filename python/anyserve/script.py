"""app.run(): the script that has the app becomes `anyserve run` of itself."""

from __future__ import annotations

import difflib
import os
import re
import subprocess
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Dict, List, NoReturn, Optional

if TYPE_CHECKING:
    from .app import AnyServe

BINARY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "_bin", "anyserve")


def _is_worker() -> bool:
    """Whether the worker program imports the script: as a replica, or to describe it."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == "anyserve.worker"


# --- what is served ---


def _variable(app: AnyServe, module: ModuleType) -> str:
    from .app import default_app

    names = [name for name, value in vars(module).items() if value is app]
    if not names and app is not default_app:
        raise RuntimeError("app.run() needs the app in a variable of its module, where replicas find it")
    return "" if not names or "app" in names else ":" + names[0]


def _file(module: ModuleType) -> str:
    path: Optional[str] = getattr(module, "__file__", None)
    if path is None or not os.path.isfile(path):
        raise RuntimeError("app.run() serves the file that the app is in, and %s has no file; app.test_client() calls"
                           " models without one" % module.__name__)  # fmt: skip
    path, near = os.path.abspath(path), os.path.relpath(path)
    return path if near.startswith("..") else near


def target_of(app: AnyServe) -> str:
    """The target for `anyserve run`."""
    module = app.home()
    if module is None:
        raise RuntimeError("app.run() does not know which module the app is in")
    spec = getattr(module, "__spec__", None)
    name: str = spec.name if spec is not None else module.__name__
    # a module of a package needs its full name for its relative imports
    where: str = name if "." in name else _file(module)
    return where + _variable(app, module)


# --- options ---


def _known() -> Dict[str, bool]:
    """The options of `anyserve run`, from its help: keyword, and whether it takes a value."""
    text = subprocess.run([BINARY, "run", "--help-all"], check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    rows = re.findall(r"^  --([a-z0-9-]+)( \S+)?  ", text, re.M)
    return {key.replace("-", "_"): bool(value.strip()) for key, value in rows}


def arguments(options: Dict[str, Any]) -> List[str]:
    """Turns keywords into command line options. TypeError."""
    known, found = _known() if options else {}, []
    for name, value in options.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise TypeError("app.run() has no option %r: %s" % (name, "did you mean %r?" % near[0] if near else
                            "`anyserve run --help-all` shows them, as --xyz-abc for xyz_abc"))  # fmt: skip
        key = "--" + name.replace("_", "-")
        for v in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(v, bool):
                if known[name]:
                    raise TypeError("%s is not a switch: it has a value" % name)
                found.append(key if v else "--no-" + key[2:])
            elif isinstance(v, (str, int, float, os.PathLike)):
                found.append("%s=%s" % (key, os.fspath(v) if isinstance(v, os.PathLike) else v))
            elif v is not None:
                raise TypeError("%s is a text, a number, True or False, not %s" % (name, type(v).__name__))
    return found


def run(app: AnyServe, options: Dict[str, Any]) -> None:
    """In a replica it does nothing; else the process becomes the server."""
    if _is_worker():
        return
    _exec_server(["run", target_of(app)] + arguments(options))


def _exec_server(args: List[str]) -> NoReturn:
    os.environ.setdefault("ANYSERVE_PYTHON", sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(BINARY, ["anyserve"] + args)
