"""Loads a target: finds and imports the code, and finds the application in it.

A target is ``file.py``, ``package.module``, or either with ``:attribute``. Errors here are mistakes of the user, so they
end the process with a text of at most one screen and an exit code.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import Any, Dict, List, NoReturn, Optional, Tuple

from ..app import AnyServe, default_app
from ..errors import DeclarationError
from ..stop import EX_DECLARATION, EX_NOTFOUND, EX_RAISED, EX_USAGE, Stop, stop
from . import copied, search_path
from .deployments import Deployment, deployments_of


def _split(target: str) -> Tuple[str, Optional[str]]:
    head, rest = search_path.split(target)
    if rest == ":" or target.startswith(":"):
        stop(EX_USAGE, "%r is no target; use file.py, file.py:attribute or module:attribute" % target)
    return head, rest[1:] or None


def _import_file(path: str) -> ModuleType:
    path = copied.path_of(path)
    if not os.path.isfile(path):
        what = "is a directory" if os.path.isdir(path) else "does not exist"
        stop(EX_NOTFOUND, "%s %s (in %s)" % (path, what, os.getcwd()))
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(1, folder)
    name = os.path.splitext(os.path.basename(path))[0]
    other = getattr(sys.modules.get(name), "__file__", None)
    if name in sys.modules and name != "__main__" and (other is None or not os.path.samefile(other, path)):
        stop(EX_DECLARATION, "%s has the name of the module %r, which is in use: rename the file" % (path, name))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        stop(EX_NOTFOUND, "%s is no Python file" % path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _import_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as e:
        if e.name is None or not (name == e.name or name.startswith(e.name + ".")):
            raise
        hint = "; did you mean %s.py?" % name if os.path.isfile(copied.path_of(name + ".py")) else ""
        stop(EX_NOTFOUND, "no module named %r (in %s)%s" % (e.name, os.getcwd(), hint))


def _import(head: str) -> ModuleType:
    if copied.folder() not in sys.path and "" not in sys.path:
        sys.path.insert(0, copied.folder())
    try:
        return _import_file(head) if search_path.is_file(head) else _import_module(head)
    except Stop:
        raise
    except DeclarationError as e:
        stop(EX_DECLARATION, "%s: %s\n\n%s" % (head, e, copied.user_traceback(e)))
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        from . import shadowing

        folders = [copied.folder()] + ([os.path.dirname(copied.path_of(head))] if search_path.is_file(head) else [])
        stop(EX_RAISED, "importing %s failed:\n\n%s%s%s"
             % (head, copied.user_traceback(e), shadowing.advice(e, folders), _not_copied(e)))  # fmt: skip


def _not_copied(e: BaseException) -> str:
    """Advice, if a module was not found that is beside the original and was not copied, as no source imports it."""
    top = (e.name or "").partition(".")[0] if isinstance(e, ModuleNotFoundError) else ""
    original = copied.original_of(top) if top else ""
    if not original:
        return ""
    return ("\n\n%s is in %s, but was not found to be imported by the code and so was not copied with it.\n"
            "Name the folder as `working_dir`, of which all is copied, or have the files used as they are with"
            " `code: live`." % (top, original))  # fmt: skip


def _candidates(module: ModuleType) -> Dict[str, AnyServe]:
    return {k: v for k, v in vars(module).items() if isinstance(v, AnyServe)}


def _refuse(module: ModuleType, why: str) -> NoReturn:
    """Stops, with what the module has instead of what was named."""
    rows = ["    %s (%d model%s)" % (k, len(v.models), "" if len(v.models) == 1 else "s")
            for k, v in _candidates(module).items()]  # fmt: skip
    if default_app.models:
        rows.append("    models of the decorator anyserve.model (no attribute needed)")
    found = "found there:\n" + "\n".join(rows) if rows else "there is no AnyServe object in it"
    stop(EX_NOTFOUND, "%s; %s" % (why, found))


def _attribute(module: ModuleType, head: str, attribute: str) -> AnyServe:
    value: Any = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            _refuse(module, "%s has no attribute %r" % (head, attribute))
    if not isinstance(value, AnyServe):
        kind = type(value).__name__
        article = "a" if kind[0] not in "aeiou" else "an"
        _refuse(module, "%s:%s is %s %r, not an AnyServe object" % (head, attribute, article, kind))
    return value


def _default(module: ModuleType, head: str) -> AnyServe:
    """The attribute `app`; else the only AnyServe object; else the default app, if it has models."""
    value = getattr(module, "app", None)
    if isinstance(value, AnyServe):
        return value
    found = list({id(v): v for v in _candidates(module).values()}.values())
    if len(found) == 1 and (found[0].models or not default_app.models):
        return found[0]
    if not found and default_app.models:
        return default_app
    _refuse(module, "%s has no attribute 'app'" % head)


def load(target: str) -> List[Deployment]:
    """Imports the target. Returns its deployments, in the order of their first models."""
    head, attribute = _split(target)
    module = _import(head)
    app = _attribute(module, head, attribute) if attribute else _default(module, head)
    if not app.models:
        stop(EX_DECLARATION, "%s declares no models" % target)
    if app is not default_app and default_app.models:
        names = ", ".join(m.name for m in default_app.models)
        print("anyserve: not served, because they are declared with anyserve.model and not with"
              " the app: %s" % names, file=sys.stderr)  # fmt: skip
    return deployments_of(app.models, app.deployments, head, module)
