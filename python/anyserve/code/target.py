"""Loads a target, and finds the deployments that it declares.

A target is ``file.py``, ``package.module``, or either with ``:attribute``. Errors here are mistakes of the user, so they
end the process with a text of at most one screen and an exit code.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import traceback
from types import ModuleType
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Tuple

from ..app import AnyServe, Model, check_deployment, default_app
from ..errors import DeclarationError
from . import search_path

EX_USAGE = 64
EX_NOTFOUND = 66  # file, module or attribute not found
EX_INTERPRETER = 69  # this Python cannot run workers
EX_RAISED = 70  # the user's code raised
EX_DENIED = 77  # the dispatcher refuses this worker
EX_DECLARATION = 78  # models that cannot be served

QUEUED_NOT_SET = 0  # the server's --max-queued-requests decides
TRACEBACK_LINES = 24
# what user code may raise: sys.exit() ends only the call that it is in
FAULTS = (Exception, SystemExit, KeyboardInterrupt)


_copy: Optional[str] = None  # the folder of the copy that the code is loaded from
_original = ""  # the folder that was copied; set only while the code is described


class Stop(Exception):
    """Ends the worker, with an exit code and a text for the user."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class Deployment(NamedTuple):
    """What one worker process serves."""

    name: str
    models: List[Model]
    budget: int
    max_queued_requests: int
    options: Dict[str, Any] = {}  # options as in a deployment file, set by the code
    module: Optional[ModuleType] = None


def use_copy(working_dir: str, original: str, source: str, target: str) -> None:
    """The process was started in a copy of the code, and loads that. Entries of sys.path that name the original (source:
    see search_path.originals) are replaced. Its working directory becomes working_dir, so that files that it writes
    outlive the copy; if that folder is gone, it stays in the copy."""
    global _copy, _original
    _copy, _original = os.getcwd(), original
    if _copy not in sys.path:
        sys.path.insert(0, _copy)
    if source:
        head = target.rpartition(":")[0] or target
        search_path.into_copy(sys.path, search_path.originals(source, head if _is_file(head) else ""), _copy)
    try:
        os.chdir(working_dir)
    except OSError as e:
        print("anyserve: working_dir %s: %s; this process works in the copy of its code, %s"
              % (working_dir, e.strerror, _copy), file=sys.stderr)  # fmt: skip


def stop(code: int, text: str) -> NoReturn:
    raise Stop(code, text)


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


def _split(target: str) -> Tuple[str, Optional[str]]:
    head, colon, attribute = target.rpartition(":")
    if not colon:
        return target, None
    if not head or not attribute:
        stop(EX_USAGE, "%r is no target; use file.py, file.py:attribute or module:attribute" % target)
    return head, attribute


def _is_file(head: str) -> bool:
    return head.endswith(".py") or os.sep in head


def _import_file(path: str) -> ModuleType:
    path = os.path.join(_copy, path) if _copy else path
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
        hint = "; did you mean %s.py?" % name if os.path.isfile(os.path.join(_copy or "", name + ".py")) else ""
        stop(EX_NOTFOUND, "no module named %r (in %s)%s" % (e.name, os.getcwd(), hint))


def _import(head: str) -> ModuleType:
    if not _copy and os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return _import_file(head) if _is_file(head) else _import_module(head)
    except Stop:
        raise
    except DeclarationError as e:
        stop(EX_DECLARATION, "%s: %s\n\n%s" % (head, e, user_traceback(e)))
    except BaseException as e:
        if isinstance(e, KeyboardInterrupt):
            raise
        from . import shadowing

        folders = [_copy or os.getcwd()] + ([os.path.dirname(os.path.join(_copy or "", head))] if _is_file(head) else [])
        stop(EX_RAISED, "importing %s failed:\n\n%s%s%s"
             % (head, user_traceback(e), shadowing.advice(e, folders), _not_copied(e)))  # fmt: skip


def _not_copied(e: BaseException) -> str:
    """Advice, if a module was not found that is beside the original and was not copied, as no source imports it."""
    top = (e.name or "").partition(".")[0] if isinstance(e, ModuleNotFoundError) else ""
    if not _original or not top or importlib.machinery.PathFinder.find_spec(top, [_original]) is None:
        return ""
    return ("\n\n%s is in %s, but was not found to be imported by the code and so was not copied with it.\n"
            "Name the folder as `working_dir`, of which all is copied, or have the files used as they are with"
            " `code: live`." % (top, _original))  # fmt: skip


def _candidates(module: ModuleType) -> Dict[str, AnyServe]:
    return {k: v for k, v in vars(module).items() if isinstance(v, AnyServe)}


def _describe_candidates(found: Dict[str, AnyServe]) -> str:
    rows = ["    %s (%d model%s)" % (k, len(v.models), "" if len(v.models) == 1 else "s") for k, v in found.items()]
    if default_app.models:
        rows.append("    models of the decorator anyserve.model (no attribute needed)")
    return "found there:\n" + "\n".join(rows) if rows else "there is no AnyServe object in it"


def _attribute(module: ModuleType, head: str, attribute: str) -> AnyServe:
    value: Any = module
    for part in attribute.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            stop(
                EX_NOTFOUND,
                "%s has no attribute %r; %s"
                % (head, attribute, _describe_candidates(_candidates(module))),
            )
    if not isinstance(value, AnyServe):
        stop(
            EX_NOTFOUND,
            "%s:%s is %s %r, not an AnyServe object; %s"
            % (
                head,
                attribute,
                "a" if type(value).__name__[0] not in "aeiou" else "an",
                type(value).__name__,
                _describe_candidates(_candidates(module)),
            ),
        )
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
    stop(
        EX_NOTFOUND,
        "%s has no attribute 'app'; %s" % (head, _describe_candidates(_candidates(module))),
    )


def _deployment(name: str, models: List[Model], options: Dict[str, Any], module: Optional[ModuleType]) -> Deployment:
    queued = {m.max_queued_requests for m in models if m.max_queued_requests is not None}
    if len(queued) > 1:
        stop(
            EX_DECLARATION,
            "deployment %r: its models disagree on max_queued_requests: %s"
            % (name, ", ".join(str(q) for q in sorted(queued))),
        )
    budget = max(m.max_ongoing_requests for m in models)
    return Deployment(name, models, budget, queued.pop() if queued else QUEUED_NOT_SET, options, module)


def _options(app: AnyServe, default: str, names: List[str]) -> Dict[str, Dict[str, Any]]:
    """The options that the app sets, by deployment; without their names."""
    found: Dict[str, Dict[str, Any]] = {}
    for key, declared in app.deployments.items():
        name = default if key is None else key
        if name in found:
            raise DeclarationError("the options of deployment %r are set twice, once without its name" % name)
        if name not in names:
            raise DeclarationError(
                "deployment %r has options, but no model is in it; there is %s" % (name, ", ".join(names))
            )
        found[name] = {k: v for k, v in declared.to_dict().items() if k != "name"}
    return found


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
    return deployments_of(app, head, module)


def deployments_of(app: AnyServe, head: str, module: Optional[ModuleType]) -> List[Deployment]:
    """The deployments of an app, in the order of their first models. head: the file or module, after which the default
    deployment is named. Raises Stop."""
    stem = os.path.splitext(os.path.basename(head))[0] if _is_file(head) else head
    default = re.sub(r"[^A-Za-z0-9._-]", "-", stem)[:128]
    groups: Dict[str, List[Model]] = {}
    for m in app.models:
        groups.setdefault(m.deployment or default, []).append(m)
    try:
        options = _options(app, default, list(groups))
        return [_deployment(check_deployment(name), models, options.get(name, {}), module)
                for name, models in groups.items()]  # fmt: skip
    except DeclarationError as e:
        stop(EX_DECLARATION, str(e))


MAX_FILES = 4096  # AS_DECLARED_FILES_MAX


def files_beside(module: Optional[ModuleType]) -> List[str]:
    """The files of all loaded modules in the folder of this module (for a module of a package: of the outermost package).
    The module itself is the first."""
    path = getattr(module, "__file__", None)
    if module is None or not path:
        return []
    spec = getattr(module, "__spec__", None)
    name = (spec.name if spec is not None else module.__name__) + (".__init__" if hasattr(module, "__path__") else "")
    base = os.path.abspath(path)
    for _ in name.split("."):
        base = os.path.dirname(base)
    found = {}
    for m in list(sys.modules.values()):
        file = getattr(m, "__dict__", {}).get("__file__")  # a lazy module's __getattr__ may raise anything
        file = os.path.abspath(file) if isinstance(file, str) else ""
        if file.startswith(os.path.join(base, "")) and "site-packages" not in file and "\t" not in file \
                and "\n" not in file:  # fmt: skip
            found[file] = True
    found.pop(os.path.abspath(path), None)
    return [os.path.abspath(path), *found][:MAX_FILES]


def describe(deployments: List[Deployment]) -> Dict[str, Any]:
    """The description of deployments for the controller, as values for JSON."""

    def side(m: Model, tensors: Any) -> Any:
        if tensors is None:
            return None
        rows = []
        for n, t in tensors.items():
            shape = t.served_shape(m.batching is not None)
            row = {"name": n, "datatype": t.datatype, "shape": None if shape is None else list(shape)}
            rows.append(row)
        return rows

    return {
        "deployments": [
            {
                "name": d.name,
                "budget": d.budget,
                "max_queued_requests": d.max_queued_requests,
                "options": d.options,
                "models": [
                    {
                        "name": m.name,
                        "version": m.version,
                        "max_ongoing_requests": m.max_ongoing_requests,
                        "async": m.is_async,
                        "idempotent": m.idempotent,
                        "decoupled": m.decoupled,
                        "inputs": side(m, m.signature.inputs),
                        "outputs": side(m, m.signature.outputs),
                    }
                    for m in d.models
                ],
            }
            for d in deployments
        ]
    }
