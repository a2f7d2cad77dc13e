"""A deployment of anyserve.serve as a worker gets it: the class or function, and what it is constructed with."""

from __future__ import annotations

import collections.abc
import re
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from ..declared_model import Model, check_name, model_of
from ..errors import DeclarationError
from ..signature import Signature, takes_arrays
from ..stop import EX_DECLARATION, stop

DEFAULT_APPLICATION = "default"
DEFAULT_ONGOING = 5  # max_ongoing_requests
_WHICH = re.compile(r"\bTensor\b")


class ServeCode(NamedTuple):
    """One deployment of an application. Its class was not constructed, and its function not called."""

    application: str
    name: str  # of the deployment, unique in its application
    func_or_class: Any
    init_args: Tuple[Any, ...]
    init_kwargs: Dict[str, Any]
    ingress: bool  # it is the one that the application's handle calls
    options: Dict[str, Any]  # with the names of a deployment file
    policies: Tuple[Any, Any] = (None, None)  # router and scaling policy that the code gives as objects, not as import paths
    is_policy: bool = False  # it is the policy process of another deployment


def takes_http(func_or_class: Any) -> bool:
    """Whether it can answer requests of HTTP: a function, or a class with `__call__`."""
    return not isinstance(func_or_class, type) or issubclass(func_or_class, collections.abc.Callable)  # type: ignore[arg-type]


def _call_target(code: ServeCode, ongoing: int) -> Model:
    """What handles call: any method, any arguments. Clients with tensors do not see it."""
    return Model(code.name, "1", code.func_or_class, Signature((), 0, False, None, None), True, ongoing, None, None, False,
                 False, None, False, None, opaque=True, http=takes_http(code.func_or_class))  # fmt: skip


def _declares_tensors(handler: Any) -> bool:
    """Whether an annotation of it is a Tensor, so that an error in one is the user's to know."""
    call = getattr(handler, "__call__", None) if isinstance(handler, type) else handler
    hints = getattr(call, "__annotations__", {}).values()
    return any(_WHICH.search(h if isinstance(h, str) else repr(h)) for h in hints)


def _tensor_model(code: ServeCode, ongoing: int) -> Optional[Model]:
    """The model of a deployment whose parameters or result are annotated with a Tensor, or whose parameters are all annotated
    with np.ndarray. The latter may be there for people only: what cannot be a model is none."""
    declared = _declares_tensors(code.func_or_class)
    if not declared and not takes_arrays(code.func_or_class):
        return None
    prefix = "" if code.application == DEFAULT_APPLICATION else code.application + "."
    try:
        return model_of(check_name(prefix + code.name), "1", code.func_or_class, inputs=None, outputs=None,
                        max_ongoing_requests=ongoing, deployment=None, threads=None, eager=False, idempotent=False,
                        max_queued_requests=None, batching=None)  # fmt: skip
    except DeclarationError as e:
        if not declared:
            return None
        stop(EX_DECLARATION, "deployment %r: %s" % (code.name, e))


def models_of(code: ServeCode) -> List[Model]:
    """What a replica of it registers. Raises Stop."""
    ongoing = code.options.get("max_ongoing_requests", DEFAULT_ONGOING)
    tensors = _tensor_model(code, ongoing)
    return [_call_target(code, ongoing)] + ([tensors] if tensors is not None else [])
