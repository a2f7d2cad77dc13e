"""What code of a replica can learn: which replica it is, and which call it answers.

The names with an underscore are Ray's; programs read ``_serve_request_context.get().request_id``.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

from ..replica import ReplicaContext, ReplicaID, ReplicaRank
from ..replica import get_replica_context as _get
from ._calls.transport import CallMeta

if TYPE_CHECKING:
    from ._replica.core import ReplicaCore

__all__ = ["ReplicaContext", "ReplicaID", "ReplicaRank", "get_replica_context"]


class _RequestContext:
    """What is known of a call. Do not change it; outside a call its texts are empty."""

    __slots__ = ("_meta", "route", "grpc_context", "is_http_request")

    def __init__(self, route: str = "", request_id: str = "", _internal_request_id: str = "", app_name: str = "",
                 multiplexed_model_id: str = "", session_id: str = "", grpc_context: Any = None,
                 is_http_request: bool = False) -> None:  # fmt: skip
        self._meta = CallMeta(app_name, "", "", False, request_id, multiplexed_model_id, session_id)
        self.route = route  # the path below which the application is reachable; of handle calls ""
        self.is_http_request = is_http_request
        self.grpc_context = grpc_context

    @property
    def request_id(self) -> str:
        return self._meta.request_id

    @property
    def _internal_request_id(self) -> str:
        return self._meta.request_id

    @property
    def app_name(self) -> str:
        return self._meta.application

    @property
    def multiplexed_model_id(self) -> str:
        return self._meta.multiplexed_model_id

    @property
    def session_id(self) -> str:
        return self._meta.session_id

    def access(self, error: Optional[BaseException]) -> Tuple[str, str, int]:
        """Of a request of HTTP: (method, route, status) for the access log."""
        raise NotImplementedError

    def __repr__(self) -> str:
        names = "route", "request_id", "app_name", "multiplexed_model_id", "session_id", "is_http_request"
        return "_RequestContext(%s)" % ", ".join("%s=%r" % (n, getattr(self, n)) for n in names)


class CallContext(_RequestContext):
    """That of a call of a handle; making it is cheap."""

    __slots__ = ()

    route = ""
    is_http_request = False

    def __init__(self, meta: CallMeta) -> None:
        self._meta = meta

    @property
    def grpc_context(self) -> Any:
        return self._meta.grpc_context


_NO_REQUEST = _RequestContext()
_serve_request_context: "ContextVar[_RequestContext]" = ContextVar("anyserve_serve_request", default=_NO_REQUEST)
# in a batch: the context of each of its calls
_serve_batch_request_context: "ContextVar[Sequence[_RequestContext]]" = ContextVar("anyserve_serve_batch", default=())

_process_core: "Optional[ReplicaCore]" = None  # of a process that is one replica
# with several replicas in one process (local testing): the one whose code runs
_core_here: "ContextVar[Optional[ReplicaCore]]" = ContextVar("anyserve_serve_replica", default=None)


def current_core() -> "Optional[ReplicaCore]":
    """The replica whose code runs here. None: this is no replica's code."""
    return _core_here.get() or _process_core


def set_process_core(core: "Optional[ReplicaCore]") -> None:
    """From now on this process is the replica `core`."""
    global _process_core
    _process_core = core


def _get_internal_replica_context() -> Optional[ReplicaContext]:
    try:
        return _get()
    except RuntimeError:
        return None


def get_replica_context() -> ReplicaContext:
    """The replica that runs this code: its rank, its names, and the object that it serves. RayServeException in code
    that no replica runs."""
    context = _get_internal_replica_context()
    if context is None:
        from .exceptions import RayServeException

        raise RayServeException(
            "`serve.get_replica_context()` may only be called from within a Ray Serve deployment."
        )
    return context


def _get_serve_request_context() -> _RequestContext:
    return _serve_request_context.get()


def _get_serve_batch_request_context() -> List[_RequestContext]:
    return list(_serve_batch_request_context.get())


def _set_request_context(route: str = "", request_id: str = "", _internal_request_id: str = "", app_name: str = "",
                         multiplexed_model_id: str = "") -> None:  # fmt: skip
    """Changes what is given, for the code that runs in this context."""
    old = _serve_request_context.get()
    _serve_request_context.set(_RequestContext(
        route or old.route, request_id or old.request_id, "", app_name or old.app_name,
        multiplexed_model_id or old.multiplexed_model_id, old.session_id, old.grpc_context, old.is_http_request))  # fmt: skip


def _unset_request_context() -> None:
    _serve_request_context.set(_NO_REQUEST)


def _set_batch_request_context(request_contexts: Sequence[_RequestContext]) -> None:
    _serve_batch_request_context.set(request_contexts)
