"""Policy processes: the deployment NAME.policy runs the router and the scaling policy of the deployment NAME.

The server adds such a deployment where a deployment has one of its own (src/conf/spec/keys/spec_policy.c). No code declares it: its
worker loads the code of NAME, and finds the classes by what the options say.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Dict, Mapping, Optional, Tuple

from ..stop import EX_DECLARATION, EX_NOTFOUND, EX_RAISED, FAULTS, Stop, stop
from .copied import user_traceback
from .deployments import Deployment, of_serve
from .serve_code import ServeCode

SUFFIX = ".policy"
ROUTER, SCALING = "request_router_config", "autoscaling_config"  # options of the deployment
# names of Ray Serve's own, which the server has built in
_BUILT_IN = ("ray.serve._private.request_router", "ray.serve.autoscaling_policy",
             "anyserve.serve.autoscaling_policy")  # fmt: skip


def base_of(name: Optional[str]) -> Optional[str]:
    """The deployment for which this one would choose; None: it is no policy process's name."""
    return name[: -len(SUFFIX)] if name is not None and name.endswith(SUFFIX) and len(name) > len(SUFFIX) else None


def is_own(path: Any) -> bool:
    """Whether a class or function is the program's, not one that the server has built in."""
    if not isinstance(path, str):
        return path is not None
    return (":" in path or "." in path) and not path.startswith(_BUILT_IN)


def _import(module: str, path: str) -> ModuleType:
    """The module of an import path. Raises Stop."""
    try:
        return importlib.import_module(module)
    except Stop:
        raise
    except FAULTS as e:
        missing = e.name if isinstance(e, ModuleNotFoundError) else None
        if missing is not None and (module == missing or module.startswith(missing + ".")):
            stop(EX_NOTFOUND, "%s: %s" % (path, e))
        stop(EX_RAISED, "importing %s failed:\n\n%s" % (path, user_traceback(e)))  # the module's code has raised it


def load_object(path: str) -> Any:
    """What an import path names: "module:name" or "module.name". Raises Stop."""
    module, mark, name = path.partition(":")
    if not mark:
        module, _, name = path.rpartition(".")
    found: Any = _import(module, path)
    for part in name.split("."):
        try:
            found = getattr(found, part)
        except AttributeError as e:
            stop(EX_NOTFOUND, "%s: %s" % (path, e))
    return found


def _find(config: Mapping[str, Any], key: str, given: Any) -> Any:
    """The class or function; None: there is none of the program's own."""
    path = config.get(key)
    if not is_own(path):
        return None
    if given is not None and isinstance(path, str) and path == "%s:%s" % (given.__module__, given.__qualname__):
        return given  # what the code has given need not be importable
    return load_object(path) if isinstance(path, str) else path


def find_policies(base: ServeCode, options: Mapping[str, Any]) -> Tuple[Any, Dict[str, Any], Any, Dict[str, Any]]:
    """Router, its arguments, scaling policy, its arguments; of the options that the server has given, else of the code's. The
    server gives an empty autoscaling_config where no policy is asked."""
    router = options.get(ROUTER) or base.options.get(ROUTER) or {}
    scaling = (options.get(SCALING, base.options.get(SCALING)) or {}).get("policy") or {}
    if "policy_function" not in scaling and "name" in scaling:  # as Ray Serve called it before
        scaling = {**scaling, "policy_function": scaling["name"]}
    return (_find(router, "request_router_class", base.policies[0]), router.get("request_router_kwargs") or {},
            _find(scaling, "policy_function", base.policies[1]), scaling.get("policy_kwargs") or {})  # fmt: skip


def deployment_of(base: Deployment, name: str, options: Mapping[str, Any]) -> Deployment:
    """The deployment that is the policy process of `base`. options: what the server has given the worker. Raises Stop."""
    if base.serve is None:
        stop(EX_DECLARATION, "deployment %r has a router or an autoscaling policy of its own: only deployments of anyserve.serve"
             " can" % base.name)  # fmt: skip
    from ..serve._policy.process import PolicyProcess

    router, router_kwargs, scaling, scaling_kwargs = find_policies(base.serve, options)
    if router is None and scaling is None:
        stop(EX_DECLARATION, "deployment %r has neither a router nor an autoscaling policy of its own" % base.name)
    args = (base.serve.application, base.serve.name, router, router_kwargs, scaling, scaling_kwargs)
    return of_serve(ServeCode(base.serve.application, name, PolicyProcess, args, {}, False, {}, is_policy=True))
