"""The deployments that an application's code declares, and their description for the controller."""

from __future__ import annotations

import os
import re
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, NamedTuple, Optional

from .. import spec
from ..errors import DeclarationError
from ..declared_model import Model, check_deployment
from ..stop import EX_DECLARATION, stop
from . import search_path

if TYPE_CHECKING:
    from .serve_code import ServeCode

QUEUED_NOT_SET = 0  # the server's --max-queued-requests decides
MAX_FILES = 4096  # AS_DECLARED_FILES_MAX

Declared = Mapping[Optional[str], spec.Deployment]  # options by deployment; None: the default one


class Deployment(NamedTuple):
    """What one worker process serves."""

    name: str
    models: List[Model]
    budget: int
    max_queued_requests: int
    options: Dict[str, Any] = {}  # options as in a deployment file, set by the code
    module: Optional[ModuleType] = None
    serve: "Optional[ServeCode]" = None  # a deployment of anyserve.serve; its first model is the call target


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


def _options(declared_options: Declared, default: str, names: List[str]) -> Dict[str, Dict[str, Any]]:
    """The options that the code sets, by deployment; without their names."""
    found: Dict[str, Dict[str, Any]] = {}
    for key, declared in declared_options.items():
        name = default if key is None else key
        if name in found:
            raise DeclarationError("the options of deployment %r are set twice, once without its name" % name)
        if name not in names:
            raise DeclarationError(
                "deployment %r has options, but no model is in it; there is %s" % (name, ", ".join(names))
            )
        found[name] = {k: v for k, v in declared.to_dict().items() if k != "name"}
    return found


def deployments_of(models: List[Model], declared_options: Declared, head: str,
                   module: Optional[ModuleType]) -> List[Deployment]:  # fmt: skip
    """The deployments of an app, in the order of their first models. head: the file or module, after which the default
    deployment is named. Raises Stop."""
    stem = os.path.splitext(os.path.basename(head))[0] if search_path.is_file(head) else head
    default = re.sub(r"[^A-Za-z0-9._-]", "-", stem)[:128]
    groups: Dict[str, List[Model]] = {}
    for m in models:
        groups.setdefault(m.deployment or default, []).append(m)
    try:
        options = _options(declared_options, default, list(groups))
        return [_deployment(check_deployment(name), group, options.get(name, {}), module)
                for name, group in groups.items()]  # fmt: skip
    except DeclarationError as e:
        stop(EX_DECLARATION, str(e))


def of_serve(code: "ServeCode") -> Deployment:
    """A deployment of anyserve.serve. Raises Stop."""
    from .serve_code import models_of

    models = models_of(code)
    # not in the registration, in which all replicas must agree, those of the next version, too: it goes with the options
    return Deployment(code.name, models, models[0].max_ongoing_requests, QUEUED_NOT_SET, code.options, None, code)


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
