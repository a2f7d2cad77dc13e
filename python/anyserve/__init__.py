"""AnyServe: serve Python models over KServe v2 (Open Inference Protocol).

    from anyserve import AnyServe, Tensor

    app = AnyServe()

    @app.model("add", inputs={"a": Tensor("FP32", [-1]), "b": Tensor("FP32", [-1])},
               outputs={"sum": Tensor("FP32", [-1])})
    def add(a, b):
        return a + b

Run it with ``anyserve run file.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .app import AnyServe, deployment, model
from .batch import batch
from .batching import Batching
from .errors import DeclarationError, Error
from .replica import ReplicaContext, get_replica_context
from .signature import Response, Tensor
from .spec import Application, Deployment, deployment_file, schema

if TYPE_CHECKING:
    from ._native import Request

__version__ = "0.1.0"
__all__ = ["AnyServe", "Application", "Batching", "DeclarationError", "Deployment", "Error", "ReplicaContext", "Request",
           "Response", "Tensor", "batch", "deployment", "deployment_file", "get_replica_context", "model",
           "schema"]  # fmt: skip


def __getattr__(name: str) -> Any:
    # Request comes with the extension, which needs numpy: without it this module still imports,
    # so that the worker can say in plain words what is missing.
    if name == "Request":
        from ._native import Request

        return Request
    raise AttributeError("module 'anyserve' has no attribute %r" % name)
