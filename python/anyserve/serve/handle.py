"""Handles: calls of deployments from drivers and from other deployments, and their responses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from typing import (Any, AsyncIterator, Dict, Generator, Generic, Iterator, List, Optional, Tuple,
                    TypeVar, Union)  # fmt: skip

from ..replica import DeploymentID
from ._calls.transport import Argument, CallMeta, FailedReply, Reply, Transport, current_request, current_transport
from .exceptions import RayServeException, Refusal, note_refusal
from .selection import ReplicaSelection

__all__ = ["DeploymentBroadcastResponse", "DeploymentHandle", "DeploymentResponse", "DeploymentResponseGenerator", "ReplicaSelection"]

T = TypeVar("T")
R = TypeVar("R")

_SYNC_ON_LOOP = "Sync methods should not be called from within an `asyncio` event loop. Use `%s` instead."
_NESTED = (
    "`DeploymentResponse` is not serializable. If you are passing the `DeploymentResponse` in a nested object (e.g. a list or "
    "dictionary) to a downstream deployment handle call, that is no longer supported. Please only pass `DeploymentResponse` "
    "objects as top level arguments."
)
_STREAM_AS_ARGUMENT = (
    "Streaming deployment handle results cannot be passed to downstream handle calls. If you have a use case requiring this "
    "feature, please file a feature request on GitHub."
)
_STREAM_RESULT = (
    "`DeploymentResponseGenerator` doesn't support `.result()`. Use iteration instead: `for item in response` (outside "
    "deployments) or `async for item in response` (inside deployments)."
)
_STREAM_AWAIT = (
    "`DeploymentResponseGenerator` cannot be awaited directly. Use `async for` or `await response.__anext__()` instead."
)
_SERIALIZATIONS = ("cloudpickle", "pickle", "msgpack", "orjson")


def _check_no_loop(instead: str) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if not _is_in_cell():
        raise RuntimeError(_SYNC_ON_LOOP % instead)


def _is_in_cell() -> bool:
    """Whether a notebook's kernel runs this, on whose event loop cells are executed: there nobody else needs the loop."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None and os.environ.get("ANYSERVE_LINK") is None


def _references() -> Any:
    """Loaded when a program asks for references: programs of serve alone do not."""
    from .as_ray import _refs

    return _refs


class _Response(Generic[R]):
    __slots__ = ("_reply", "_meta", "_cancelled", "__weakref__")

    def __init__(self, reply: Reply, meta: CallMeta) -> None:
        self._reply, self._meta, self._cancelled = reply, meta, False

    @property
    def request_id(self) -> str:
        return self._reply.request_id

    def cancel(self) -> None:
        """Cancels the call, if it has not ended: who waits for it gets RequestCancelledError, and so do the calls that its
        handler made. Never waits."""
        if not self._cancelled:
            self._cancelled = True
            self._reply.cancel()

    def cancelled(self) -> bool:
        """Whether `cancel` was called. The call may have ended before."""
        return self._cancelled

    def __repr__(self) -> str:
        return "%s(deployment='%s', method='%s', request_id='%s')" % (
            type(self).__name__, self._meta.deployment, self._meta.method, self.request_id)  # fmt: skip


class DeploymentResponse(_Response[R], Argument):
    """The result of a call that is on its way. `await` it, or call `result()` outside of an event loop; or give it to
    another call, which then is made with the result when that is there."""

    __slots__ = ()

    @property
    def reply(self) -> Reply:
        return self._reply

    def __await__(self) -> Generator[Any, None, R]:
        return self._reply.__await__()

    def result(self, *, timeout_s: Optional[float] = None, _skip_asyncio_check: bool = False) -> R:
        """Waits for the result. TimeoutError does not cancel the call. RuntimeError on a thread that runs an event loop."""
        if not _skip_asyncio_check:
            _check_no_loop("await response")
        return self._reply.result(timeout_s if timeout_s is None or timeout_s >= 0 else None)  # type: ignore[no-any-return]

    async def _to_object_ref(self) -> Any:
        """A reference to the result, as tasks and actors of as_ray take it, also within a list. Does not wait for the result."""
        return _references().of_response(self)

    def _to_object_ref_sync(self, _timeout_s: Optional[float] = None, _allow_running_in_asyncio_loop: bool = False) -> Any:
        """The same outside of an event loop."""
        if not _allow_running_in_asyncio_loop:
            _check_no_loop("await response._to_object_ref()")
        return _references().of_response(self)

    def __reduce__(self) -> Tuple[Any, ...]:
        raise RayServeException(_NESTED)


class DeploymentResponseGenerator(_Response[R]):
    """The results of a call with `stream=True`, as they come: an iterator, and an async one."""

    __slots__ = ()

    def __iter__(self) -> Iterator[R]:
        return self

    def __next__(self) -> R:
        _check_no_loop("async for` or `await response.__anext__()")
        return self._reply.next(None)  # type: ignore[no-any-return]

    def __aiter__(self) -> AsyncIterator[R]:
        return self

    async def __anext__(self) -> R:
        return await self._reply.anext()  # type: ignore[no-any-return]

    def __await__(self) -> Generator[Any, None, R]:
        raise TypeError(_STREAM_AWAIT)

    def result(self, *, timeout_s: Optional[float] = None, _skip_asyncio_check: bool = False) -> R:
        """TypeError: a stream has many results."""
        raise TypeError(_STREAM_RESULT)

    async def _to_object_ref_gen(self) -> Any:
        """References to the results, as they come."""
        return _references().of_stream(self)

    def _to_object_ref_gen_sync(self, _timeout_s: Optional[float] = None, _allow_running_in_asyncio_loop: bool = False) -> Any:
        """The same outside of an event loop."""
        if not _allow_running_in_asyncio_loop:
            _check_no_loop("await response._to_object_ref_gen()")
        return _references().of_stream(self)

    def __reduce__(self) -> Tuple[Any, ...]:
        raise RuntimeError(_STREAM_AS_ARGUMENT)


class DeploymentBroadcastResponse:
    """The results of a call of every replica. Their order says nothing."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self._pairs: List[Tuple[Any, Optional[BaseException]]] = []
        self._ended = False

    def results(self, *, timeout_s: Optional[float] = None, return_exceptions: bool = False) -> List[Any]:
        """Waits for all. return_exceptions: an exception is a result, not raised. TimeoutError."""
        _check_no_loop("await response.results_async()")
        end = None if timeout_s is None else time.monotonic() + _not_negative(timeout_s)
        while not self._ended and (return_exceptions or self._first_error() is None):
            try:
                self._pairs.append(self._reply.next(None if end is None else max(end - time.monotonic(), 0)))
            except StopIteration:
                self._ended = True
            except TimeoutError:
                raise TimeoutError("Timed out waiting for broadcast results.") from None
        return self._give(return_exceptions)

    async def results_async(self, *, timeout_s: Optional[float] = None, return_exceptions: bool = False) -> List[Any]:
        """The same in an event loop."""
        try:
            async with asyncio.timeout(None if timeout_s is None else _not_negative(timeout_s)):
                while not self._ended and (return_exceptions or self._first_error() is None):
                    try:
                        self._pairs.append(await self._reply.anext())
                    except StopAsyncIteration:
                        self._ended = True
        except TimeoutError:
            raise TimeoutError("Timed out waiting for broadcast results.") from None
        return self._give(return_exceptions)

    def _first_error(self) -> Optional[BaseException]:
        return next((error for _, error in self._pairs if error is not None), None)

    def _give(self, return_exceptions: bool) -> List[Any]:
        error = self._first_error()
        if error is not None and not return_exceptions:
            raise error
        return [value if error is None else error for value, error in self._pairs]

    def __repr__(self) -> str:
        return "DeploymentBroadcastResponse()"


def _not_negative(timeout_s: float) -> float:
    if timeout_s < 0:
        raise ValueError("timeout_s must be None or non-negative.")
    return timeout_s


class _Default:
    """Not given."""

    def __repr__(self) -> str:
        return "<as it is>"


_KEEP: Any = _Default()


def _check(name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError("%s is a %s, not %r" % (name, "text" if kind is str else kind.__name__, value))
    return value


class DeploymentHandle(Generic[T]):
    """Calls of a deployment: `handle.remote(…)` of its `__call__`, `handle.method.remote(…)` of another method.

    A handle is immutable and may be used from any thread and event loop, pickled and compared. What an application is bound
    to gets handles of the deployments that are bound into it.
    """

    def __init__(self, deployment_name: str, app_name: str = "default", *, _meta: Optional[CallMeta] = None,
                 _transport: Optional[Transport] = None, _refusal: Optional[Refusal] = None) -> None:  # fmt: skip
        self._meta = _meta or CallMeta(app_name, deployment_name)
        self._transport = _transport  # of local testing mode
        self._refusal = _refusal  # None: made by name; what another handle of the deployment has brought counts
        if _refusal is not None:
            note_refusal(self._meta.application, self._meta.deployment, _refusal)
        self._used = False

    @property
    def deployment_name(self) -> str:
        return self._meta.deployment

    @property
    def app_name(self) -> str:
        return self._meta.application

    @property
    def deployment_id(self) -> DeploymentID:
        return DeploymentID(self._meta.deployment, self._meta.application)

    @property
    def is_initialized(self) -> bool:
        """Whether the handle was used: `.options()`, a method, or `.remote()`."""
        return self._used

    def _init(self, **options: Any) -> None:
        """Ray's options of routing, which have no effect on one machine. Before the handle is used."""
        if self._used:
            raise RuntimeError("Handle has already been initialized. Note that a handle is implicitly initialized when you call "
                               "`.options()` or `.remote()`.")  # fmt: skip
        unknown = set(options) - {"_prefer_local_routing", "_source", "_run_router_in_separate_loop"}
        if unknown:
            raise TypeError("_init() got an unexpected keyword argument %r" % sorted(unknown)[0])
        self._used = True

    def running_replicas_populated(self) -> bool:
        return self._used

    def options(self, *, method_name: str = _KEEP, multiplexed_model_id: str = _KEEP, session_id: str = _KEEP,
                stream: bool = _KEEP, _prefer_local_routing: bool = _KEEP, _by_reference: bool = _KEEP,
                request_serialization: str = _KEEP, response_serialization: str = _KEEP,
                priority: int = _KEEP, tenant: str = _KEEP) -> "DeploymentHandle[T]":  # fmt: skip
        """A handle with other options; those that are not given stay.

        method_name: what `remote` calls. stream: the method is a generator, `remote` gives a DeploymentResponseGenerator.
        multiplexed_model_id: the model that the call is for. session_id: calls of one session go to one replica where they can.
        priority: 1 (most urgent) to 3; 0: that of the request in which the call is made, else 2. tenant: who pays for the call
        where the deployment has `fairness`; "": as in that request.
        """
        changes: Dict[str, Any] = {}
        if method_name is not _KEEP:
            changes["method"] = _check("method_name", method_name, str)
        if multiplexed_model_id is not _KEEP:
            changes["multiplexed_model_id"] = _check("multiplexed_model_id", multiplexed_model_id, str)
        if session_id is not _KEEP:
            changes["session_id"] = _check("session_id", session_id, str)
        if stream is not _KEEP:
            changes["stream"] = _check("stream", stream, bool)
        if priority is not _KEEP:
            changes["priority"] = _check("priority", priority, int)
            if not 0 <= priority <= 3:
                raise ValueError("priority is 0 to 3, not %d" % priority)
        if tenant is not _KEEP:
            changes["tenant"] = _check("tenant", tenant, str)
        for name, value in ("request_serialization", request_serialization), ("response_serialization", response_serialization):
            if value is not _KEEP and value not in _SERIALIZATIONS:
                raise ValueError("%s is one of %s, not %r" % (name, ", ".join(_SERIALIZATIONS), value))
        self._used = True
        new: DeploymentHandle[T] = DeploymentHandle(
            self.deployment_name, self.app_name, _meta=self._meta._replace(**changes), _transport=self._transport
        )
        new._refusal = self._refusal
        new._used = True
        return new

    def __getattr__(self, name: str) -> "DeploymentHandle[T]":
        # Python, copy, notebooks and numpy ask objects for names such as these
        if (name.startswith("__") and name.endswith("__") and name != "__call__") or name.startswith(("_repr_", "_ipython_")) or "_meta" == name:
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        method = self.options(method_name=name)
        self.__dict__[name] = method  # a handle never changes
        return method

    def remote(self, *args: Any, **kwargs: Any) -> Union[DeploymentResponse[Any], DeploymentResponseGenerator[Any]]:
        """Starts a call and never waits. Arguments are copied now; what is wrong with them is raised by the response."""
        meta = self._meta
        self._used = True
        transport = self._transport or current_transport()
        try:
            reply = transport.call(meta, args, kwargs, current_request.get())
        except Exception as e:
            reply = FailedReply(e, meta.request_id)
        return DeploymentResponseGenerator(reply, meta) if meta.stream else DeploymentResponse(reply, meta)

    def broadcast(self, method_name: str, *args: Any, **kwargs: Any) -> DeploymentBroadcastResponse:
        """Calls a method of all replicas that there are now. Limits of the queue do not hold for these calls."""
        meta = self._meta._replace(method=_check("method_name", method_name, str), stream=False)
        self._used = True
        transport = self._transport or current_transport()
        return DeploymentBroadcastResponse(transport.broadcast(meta, args, kwargs, current_request.get()))

    @contextlib.asynccontextmanager
    async def choose_replica(self, *args: Any, **kwargs: Any) -> AsyncIterator[ReplicaSelection]:
        """Waits until a replica has a free slot, as a call would, and reserves it: `async with handle.choose_replica() as
        selection`. Within that, `dispatch(selection, …)` executes one call there; leaving it without that gives the slot back.

        The arguments are for request routers. A slot that stays unused for --reserve-time (30 s) is given to others. Within the
        block other calls of the deployment wait for slots as ever, so with one slot in all they wait for this one."""
        self._used = True
        transport = self._transport or current_transport()
        reservation = transport.reserve(self._meta, args, kwargs, current_request.get())
        try:
            selection = ReplicaSelection(await reservation.reserved(), self.deployment_id, reservation)
        except BaseException:
            reservation.release()
            raise
        try:
            yield selection
        finally:
            selection._leave()

    def dispatch(
        self, selection: ReplicaSelection, *args: Any, **kwargs: Any
    ) -> Union[DeploymentResponse[Any], DeploymentResponseGenerator[Any]]:
        """Starts a call at the replica of the selection, in its slot; like `remote` it never waits. ValueError: the selection is
        one of another deployment. The response raises ReplicaUnavailableError if the replica, or the slot, is gone, and
        RuntimeError if the selection was dispatched, or left, before."""
        meta = self._meta
        if not isinstance(selection, ReplicaSelection):
            raise TypeError("selection is what `async with handle.choose_replica()` gives, not %r" % (selection,))
        if selection.deployment_id != self.deployment_id:
            raise ValueError("The selection is of %s, and this handle of %s." % (selection.deployment_id, self.deployment_id))
        self._used = True
        reply = selection._dispatch(meta, args, kwargs)
        return DeploymentResponseGenerator(reply, meta) if meta.stream else DeploymentResponse(reply, meta)

    def shutdown(self) -> None:
        """Nothing: handles share the connection of their process."""

    async def shutdown_async(self) -> None:
        """Nothing, as shutdown."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeploymentHandle):
            return NotImplemented
        return self._meta == other._meta and self._transport is other._transport

    def __hash__(self) -> int:
        return hash(self._meta)

    def __repr__(self) -> str:
        return "DeploymentHandle(deployment='%s')" % self.deployment_name

    def __reduce__(self) -> Tuple[Any, ...]:
        return _handle_of, (tuple(self._meta), self._transport, self._refusal)


def _handle_of(fields: Tuple[Any, ...], transport: Optional[Transport] = None,
               refusal: Optional[Refusal] = None) -> DeploymentHandle[Any]:  # fmt: skip
    meta = CallMeta(*fields)
    return DeploymentHandle(meta.deployment, meta.application, _meta=meta, _transport=transport, _refusal=refusal)
