"""Targets that name an application of anyserve.serve, or a function that builds one."""

from __future__ import annotations

import inspect
import json
import os
import sys
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, MutableMapping, Optional

from .deployments import Deployment, of_serve
from .serve_code import ServeCode

if TYPE_CHECKING:
    from ..serve.deployment import Application

ARGS = "ANYSERVE_APP_ARGS"  # a variable: the arguments of a builder, as a JSON object


def read_args(environ: MutableMapping[str, str]) -> Dict[str, Any]:
    args = json.loads(environ.get(ARGS) or "{}")
    if not isinstance(args, dict):
        raise ValueError("%s is no JSON object" % ARGS)
    return args


def _module_of_applications() -> Optional[ModuleType]:
    """Loaded only where it was used: an AnyServe application does not need it."""
    return sys.modules.get(__package__.rpartition(".")[0] + ".serve.deployment")


def is_application(value: Any) -> bool:
    module = _module_of_applications()
    return module is not None and isinstance(value, module.Application)


def may_be_application(value: Any) -> bool:
    """Whether it is an application, or a function where there are applications: it may build one."""
    return is_application(value) or (_module_of_applications() is not None and isinstance(value, FunctionType))


def is_deployment(value: Any) -> bool:
    module = _module_of_applications()
    return module is not None and isinstance(value, module.Deployment)


def _typed(builder: FunctionType, args: Mapping[str, Any]) -> Any:
    """The arguments as the builder's parameter is annotated: a model of pydantic (or like one), else a dict."""
    parameters = list(inspect.signature(builder).parameters.values())
    if len(parameters) != 1:
        raise TypeError("Application builder functions should take exactly one parameter, "
                        "a dictionary containing the passed arguments.")  # fmt: skip
    annotation = parameters[0].annotation
    if isinstance(annotation, str):  # from __future__ import annotations
        annotation = inspect.get_annotations(builder, eval_str=True).get(parameters[0].name)
    validate = getattr(annotation, "model_validate", None) or getattr(annotation, "parse_obj", None)
    return validate(dict(args)) if isinstance(annotation, type) and validate else dict(args)


def build_application(value: Any, args: Mapping[str, Any]) -> "Application":
    """The application that a target's value is, or makes of these arguments. ValueError, TypeError."""
    if is_application(value):
        if args:
            raise ValueError("Arguments can only be passed to an application builder function, "
                             "not an already built application.")  # fmt: skip
        app: "Application" = value
        return app
    if not isinstance(value, FunctionType):
        raise TypeError("Expected a built Serve application or an application builder function but got: %s." % type(value))
    app = value(_typed(value, args))
    if not is_application(app):
        raise TypeError("Application builder functions must return an `Application` returned "
                        "`from `Deployment.bind()`, but got: %s." % type(app))  # fmt: skip
    return app


def deployments_of(app: "Application", application: str, module: Optional[ModuleType]) -> List[Deployment]:
    """The deployments of an application of this name. Constructs nothing. ValueError, TypeError; Stop."""
    from ..serve.graph import build, keys_of, policies_of

    return [of_serve(ServeCode(application, b.name, b.deployment.func_or_class, b.init_args, b.init_kwargs, b.ingress,
                               keys_of(b), policies_of(b)))._replace(module=module)
            for b in build(app, application)]  # fmt: skip


def load(value: Any, application: str, module: Optional[ModuleType]) -> List[Deployment]:
    return deployments_of(build_application(value, read_args(os.environ)), application, module)
