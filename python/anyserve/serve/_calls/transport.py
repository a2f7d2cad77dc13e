"""How calls of handles leave this process: the protocol, and which transport there is.

A handle knows a `Transport`, nothing else: that of the replica whose code runs, that of local testing mode, or that of the
driver. A `Reply` is one call that was made; `DeploymentResponse` wraps it.
"""

from __future__ import annotations

import contextvars
from typing import Any, Callable, Dict, Generator, NamedTuple, Optional, Protocol, Tuple

__all__ = ["Argument", "CallMeta", "FailedReply", "Held", "Reply", "Reservation", "Transport", "current_request", "current_transport", "set_driver",
           "set_process_transport"]  # fmt: skip


class CallMeta(NamedTuple):
    """What a call says of itself beside its arguments."""

    application: str
    deployment: str
    method: str = "__call__"
    stream: bool = False  # the caller takes any number of results
    request_id: str = ""  # "": the parent's, else a new one
    multiplexed_model_id: str = ""
    session_id: str = ""
    deadline: Optional[float] = None  # of time.monotonic()
    priority: int = 0  # 1 (most urgent) to 3; 0: the parent's, else 2
    tenant: str = ""  # "": the parent's, else none

    @property
    def grpc_context(self) -> Any:
        """Of a call by a gRPC client: grpc_util.RayServegRPCContext."""
        return None


class Reply(Protocol):
    """One call. All methods may be called from any thread; `__await__` and `anext` in any event loop."""

    request_id: str

    def done(self) -> bool: ...

    def result(self, timeout: Optional[float]) -> Any:
        """Waits. TimeoutError, which does not cancel the call; else the exception of the call."""

    def __await__(self) -> Generator[Any, None, Any]: ...

    def add_done_callback(self, fn: Callable[["Reply"], object]) -> None:
        """Calls fn(self) when the call has ended, at once if it has; in any thread."""

    def cancel(self) -> None:
        """Never waits. A call that has ended stays as it is."""

    def next(self, timeout: Optional[float]) -> Any:
        """The next result of a stream. StopIteration at its end."""

    async def anext(self) -> Any:
        """The same; StopAsyncIteration at its end."""


class Transport(Protocol):
    def call(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: object) -> Reply:
        """Starts a call; never waits. Arguments are encoded before it returns. Those that are an `Argument` stand for
        the results of other calls. parent: the value of `current_request`, or None."""

    def broadcast(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: object) -> Reply:
        """One call to each replica there is now; never waits. The reply is a stream, each item of which is a replica's
        answer: a pair (result, None), or (None, exception)."""


    def reserve(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: object) -> "Reservation":
        """Asks for a slot of a replica; never waits. The arguments are for routers, and not executed."""


class Reservation(Protocol):
    """A slot of a replica, which was asked for."""

    async def reserved(self) -> str:
        """Waits for the slot, in any event loop: the name of the replica. Raises what a call would."""

    def dispatch(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Reply:
        """Starts a call in the slot, once; never waits. `meta` names the same deployment."""

    def release(self) -> None:
        """Gives the slot back, or stops waiting for it. Only before `dispatch`."""


class Argument:
    """An argument at the top level of a call that stands for the result of another call. `reply` is that call."""

    __slots__ = ()

    @property
    def reply(self) -> Reply:
        raise NotImplementedError


class FailedReply:
    """The reply of a call that could not be made, since its arguments cannot be sent for example."""

    def __init__(self, error: BaseException, request_id: str = "") -> None:
        self.error, self.request_id = error, request_id

    def done(self) -> bool:
        return True

    def result(self, timeout: Optional[float]) -> Any:
        raise self.error

    def __await__(self) -> Generator[Any, None, Any]:
        raise self.error
        yield  # a generator

    def add_done_callback(self, fn: Callable[[Reply], object]) -> None:
        fn(self)

    def cancel(self) -> None:
        pass

    def next(self, timeout: Optional[float]) -> Any:
        raise self.error

    async def anext(self) -> Any:
        raise self.error


class Held:
    """Base of the reply of a value that this process has: an argument that stands for it is sent as the value."""

    __slots__ = ()

    def value(self) -> Any:
        raise NotImplementedError


# The request in whose context code runs: the parent of the calls that it makes. The value is the transport's own.
current_request: "contextvars.ContextVar[Any]" = contextvars.ContextVar("anyserve_request", default=None)

# Local testing mode has several replicas, each with the transport of its application, in one process.
local_transport: "contextvars.ContextVar[Optional[Transport]]" = contextvars.ContextVar("anyserve_transport", default=None)

_process: Optional[Transport] = None  # a replica's
_find_driver: Optional[Callable[[], Transport]] = None


def set_process_transport(transport: Optional[Transport]) -> None:
    """A replica: all calls of this process leave by `transport`. None: no longer."""
    global _process
    _process = transport


def set_driver(find: Optional[Callable[[], Transport]]) -> None:
    """What finds, or makes, the driver's transport when it is first needed."""
    global _find_driver
    _find_driver = find


def current_transport() -> Transport:
    """That of local testing mode where its code runs, of the replica, or of the driver. RayServeException: there is none."""
    transport = local_transport.get() or _process
    if transport is not None:
        return transport
    if _find_driver is None:
        from importlib import import_module

        import_module("..api", __package__)  # it sets the driver
    if _find_driver is None:
        from ..exceptions import RayServeException

        raise RayServeException("There is no server to call: serve.run() or serve.start() come first.")
    return _find_driver()
