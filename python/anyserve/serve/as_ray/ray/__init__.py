"""`ray`, where it is not installed: what programs for Ray Serve use of it, on AnyServe."""

from typing import Any

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .._actors import method
    from .._init import init, is_initialized, shutdown
    from .._listing import get_actor, kill
    from .._refs import ObjectRef, ObjectRefGenerator, cancel, get, put, wait
    from .._resources import available_resources, cluster_resources, get_gpu_ids, nodes
    from .remote_function import remote
    from .runtime_context import get_runtime_context

__version__ = "2.60.0"  # of the API
__commit__ = "anyserve"

__all__ = ["ObjectRef", "ObjectRefGenerator", "available_resources", "cancel", "cluster_resources", "get", "get_actor", "get_gpu_ids",
           "get_runtime_context", "init", "is_initialized", "kill", "method", "nodes", "put", "remote", "shutdown", "wait"]  # fmt: skip

# The module of each name is loaded when the name is first used.
_MODULES = {
    "ObjectRef": "_refs",
    "ObjectRefGenerator": "_refs",
    "available_resources": "_resources",
    "cancel": "_refs",
    "cluster_resources": "_resources",
    "get": "_refs",
    "get_actor": "_listing",
    "get_gpu_ids": "_resources",
    "get_runtime_context": "ray.runtime_context",
    "init": "_init",
    "is_initialized": "_init",
    "kill": "_listing",
    "method": "_actors",
    "nodes": "_resources",
    "put": "_refs",
    "remote": "ray.remote_function",
    "shutdown": "_init",
    "wait": "_refs",
}
_SUBMODULES = ("actor", "exceptions", "remote_function", "runtime_context", "serve", "util")

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name in _SUBMODULES:
            module = import_module("anyserve.serve" if name == "serve" else "." + name, __name__)
            return globals().setdefault(name, module)
        if name not in _MODULES:
            from .. import PAGE

            raise AttributeError("module 'ray' has no attribute %r: AnyServe does not have it (%s)" % (name, PAGE))
        value = globals()[name] = getattr(import_module("anyserve.serve.as_ray." + _MODULES[name]), name)
        return value

    def __dir__() -> Any:
        return sorted({*globals(), *__all__, *_SUBMODULES})


