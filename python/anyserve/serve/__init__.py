"""Ray Serve's API on AnyServe.

    from anyserve import serve

    @serve.deployment
    class Greeter:
        def __call__(self, name):
            return "Hello " + name

    handle = serve.run(Greeter.bind())
    print(handle.remote("world").result())
"""

from .deployment import Application, Deployment, deployment  # now: the module of that name would take its place later

TYPE_CHECKING = False  # as typing's, which need not be loaded for it
if TYPE_CHECKING:
    from .api import (RunTarget, delete, get_app_handle, get_deployment_handle, run, run_many, shutdown, shutdown_async, start,
                      status)  # fmt: skip
    from .batching import batch
    from .config import ControllerOptions, HTTPOptions, TracingConfig
    from .context import get_replica_context
    from ._http.ingress import ingress
    from .multiplex import get_multiplexed_model_id, multiplexed
    from .utils import get_trace_context

__all__ = ["Application", "ControllerOptions", "Deployment", "HTTPOptions", "RunTarget", "TracingConfig", "batch", "delete",
           "deployment", "get_app_handle", "get_deployment_handle", "get_multiplexed_model_id", "get_replica_context",
           "get_trace_context", "ingress", "multiplexed", "run", "run_many", "shutdown", "shutdown_async", "start", "status"]  # fmt: skip

# The module of each public name is loaded when the name is first used.
_MODULES = {
    "ControllerOptions": "config",
    "HTTPOptions": "config",
    "RunTarget": "api",
    "TracingConfig": "config",
    "_run": "api",
    "_run_many": "api",
    "batch": "batching",
    "delete": "api",
    "get_app_handle": "api",
    "get_deployment_handle": "api",
    "get_multiplexed_model_id": "multiplex",
    "get_replica_context": "context",
    "get_trace_context": "utils",
    "ingress": "_http.ingress",
    "multiplexed": "multiplex",
    "run": "api",
    "run_many": "api",
    "shutdown": "api",
    "shutdown_async": "api",
    "start": "api",
    "status": "api",
}

# Names of Ray Serve that are not there yet.
_NOT_YET = {
    "get_deployment_actor": "there are no actors beside replicas",
    "get_deployment_actor_context": "there are no actors beside replicas",
    "task_consumer": "there are no task consumers",  # Ray's module: _not_yet.py
}

# So is a module: `serve.metrics.Counter` works after `from anyserve import serve`.
_SUBMODULES = ("config", "context", "exceptions", "handle", "metrics", "schema")

if not TYPE_CHECKING:  # to a type checker every name would be a known one

    def __getattr__(name):
        if name in _NOT_YET:
            raise AttributeError("serve.%s is not supported yet: %s (docs/guide/from-ray.md)" % (name, _NOT_YET[name]))
        from importlib import import_module

        if name in _SUBMODULES:
            return import_module("." + name, __name__)
        if name not in _MODULES:
            raise AttributeError("module 'anyserve.serve' has no attribute %r" % name)
        value = globals()[name] = getattr(import_module("." + _MODULES[name], __name__), name)
        return value

    def __dir__():
        return sorted(set(globals()) | set(__all__))
