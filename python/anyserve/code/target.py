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
from ..stop import EX_DECLARATION, EX_NOTFOUND, EX_RAISED, EX_USAGE, FAULTS, Stop, stop
from . import copied, pickled, search_path, serve_target
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


def _applications(module: ModuleType) -> Dict[str, Any]:
    return {k: v for k, v in vars(module).items() if serve_target.is_application(v)}


def _refuse(module: ModuleType, why: str) -> NoReturn:
    """Stops, with what the module has instead of what was named."""
    rows = ["    %s (%d model%s)" % (k, len(v.models), "" if len(v.models) == 1 else "s")
            for k, v in _candidates(module).items()]  # fmt: skip
    if default_app.models:
        rows.append("    models of the decorator anyserve.model (no attribute needed)")
    rows += ["    %s (%r)" % (k, v) for k, v in _applications(module).items()]
    found = "found there:\n" + "\n".join(rows) if rows else "there is no AnyServe object in it, and no application"
    stop(EX_NOTFOUND, "%s; %s" % (why, found))


def _attribute(module: ModuleType, head: str, attribute: str) -> Any:
    """An AnyServe object, an application of anyserve.serve, or a function that may build one."""
    value: Any = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            _refuse(module, "%s has no attribute %r" % (head, attribute))
    if serve_target.is_deployment(value):
        _refuse(module, "%s:%s is a deployment; what is served is an application, the value of its .bind()"
                % (head, attribute))  # fmt: skip
    if not isinstance(value, AnyServe) and not serve_target.may_be_application(value):
        kind = type(value).__name__
        article = "a" if kind[0] not in "aeiou" else "an"
        _refuse(module, "%s:%s is %s %r, not an AnyServe object" % (head, attribute, article, kind))
    return value


def _default(module: ModuleType, head: str) -> Any:
    """The attribute `app`; else the only AnyServe object, or the only application of anyserve.serve; else the default app,
    if it has models."""
    value = getattr(module, "app", None)
    if isinstance(value, AnyServe) or serve_target.is_application(value):
        return value
    found = list({id(v): v for v in _candidates(module).values()}.values())
    if len(found) == 1 and (found[0].models or not default_app.models):
        return found[0]
    applications = list({id(v): v for v in _applications(module).values()}.values())
    if not found and len(applications) == 1 and not default_app.models:
        return applications[0]
    if not found and not applications and default_app.models:
        return default_app
    _refuse(module, "%s has no attribute 'app'" % head)


def _load_application(value: Any, target: str, application: str, module: ModuleType) -> List[Deployment]:
    try:
        return serve_target.load(value, application, module)
    except Stop:
        raise
    except FAULTS as e:
        stop(EX_DECLARATION if isinstance(e, (TypeError, ValueError)) else EX_RAISED,
             "%s cannot be served: %s\n\n%s" % (target, e, copied.user_traceback(e)))  # fmt: skip


def load(target: str, only: Optional[str] = None, application: str = "default", policies: bool = False) -> List[Deployment]:
    """Imports the target, which belongs to this application. Returns its deployments, in the order of their first models;
    only: of pickled code, the one to load. policies: also routers and scaling policies, which pickled code has apart."""
    if pickled.is_pickled(target):
        return pickled.load(target, only, policies)
    head, attribute = _split(target)
    module = _import(head)
    app = _attribute(module, head, attribute) if attribute else _default(module, head)
    if not isinstance(app, AnyServe):
        return _load_application(app, target, application, module)
    if serve_target.read_args(os.environ):
        stop(EX_USAGE, "%s is an AnyServe object: arguments are for a function that builds an application" % target)
    if not app.models:
        stop(EX_DECLARATION, "%s declares no models" % target)
    if app is not default_app and default_app.models:
        names = ", ".join(m.name for m in default_app.models)
        print("anyserve: not served, because they are declared with anyserve.model and not with"
              " the app: %s" % names, file=sys.stderr)  # fmt: skip
    return deployments_of(app.models, app.deployments, head, module)
