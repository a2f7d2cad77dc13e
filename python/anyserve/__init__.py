"""AnyServe: serve Python models over KServe v2 (Open Inference Protocol).

    from anyserve import AnyServe, Tensor

    app = AnyServe()

    @app.model("add", inputs={"a": Tensor("FP32", [-1]), "b": Tensor("FP32", [-1])},
               outputs={"sum": Tensor("FP32", [-1])})
    def add(a, b):
        return a + b

Run it with ``anyserve run file.py``.
"""

TYPE_CHECKING = False  # as typing's, which need not be loaded for it
if TYPE_CHECKING:
    from ._native import Request
    from .app import AnyServe, deployment, model
    from .batch_calls import batch
    from .batching import Batching
    from .errors import DeclarationError, Error
    from .replica import ReplicaContext, get_replica_context
    from .signature import Response, Tensor
    from .spec import Application, Deployment, deployment_file, schema

__version__ = "0.1.0"
__all__ = ["AnyServe", "Application", "Batching", "DeclarationError", "Deployment", "Error", "ReplicaContext", "Request",
           "Response", "Tensor", "batch", "deployment", "deployment_file", "get_replica_context", "model",
           "schema"]  # fmt: skip

# The module of each public name is loaded when the name is first used: the command `anyserve` is started through this
# package and needs none, and Request comes with the extension, which needs numpy. Without numpy the worker still starts
# and says in plain words what is missing.
_MODULES = {
    "AnyServe": "app", "Application": "spec", "Batching": "batching", "DeclarationError": "errors", "Deployment": "spec",
    "Error": "errors", "ReplicaContext": "replica", "Request": "_native", "Response": "signature", "Tensor": "signature",
    "batch": "batch_calls", "deployment": "app", "deployment_file": "spec", "get_replica_context": "replica",
    "model": "app", "schema": "spec",
}  # fmt: skip

if not TYPE_CHECKING:  # to a type checker every name would be a known one

    def __getattr__(name):
        if name not in _MODULES:
            raise AttributeError("module 'anyserve' has no attribute %r" % name)
        from importlib import import_module

        value = globals()[name] = getattr(import_module("." + _MODULES[name], __name__), name)
        return value

    def __dir__():
        return sorted(set(globals()) | set(__all__))
