"""ObjectRef, and ray.get, wait, put and cancel: a reference to the result of a call is a response of it.

References that are arguments are sent as their values, as responses are. Deeper within an argument, or in a result, they stay
references: with the value, if that is here; else the value goes to the program's store when it is there, and whoever has the
reference asks for it there.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import os
import threading
import time
import uuid
from collections import deque
from typing import Any, AsyncIterator, Callable, Deque, Dict, Generator, Iterator, List, Optional, Sequence, Tuple, Union

from .. import _payload
from .._calls.transport import CallMeta, FailedReply, Held, Reply
from ..exceptions import ActorDiedError, ActorUnavailableError, DeploymentUnavailableError, RayServeException, RayTaskError
from ..handle import DeploymentResponse, DeploymentResponseGenerator
from ._hidden import PREFIX, message_of
from ._leaving import is_on_loop, way_out

__all__ = ["ObjectRef", "ObjectRefGenerator", "call", "cancel", "get", "put", "wait"]

_ids = itertools.count(1)
_prefix = uuid.uuid4().hex


def _forked() -> None:
    global _prefix
    _prefix = uuid.uuid4().hex


os.register_at_fork(after_in_child=_forked)


class HeldReply(Held):
    """The reply of a value that is here: of ray.put, as bytes, since what is put is a copy; or a result."""

    request_id = ""
    __slots__ = ("_packed", "_value")

    def __init__(self, packed: Optional[bytes], value: Any = None) -> None:
        self._packed, self._value = packed, value

    def value(self) -> Any:
        return self._value if self._packed is None else _payload.decode_answer(_payload.parse(self._packed))

    def packed(self) -> bytes:
        return _payload.pack(_payload.encode_answer(self._value)) if self._packed is None else self._packed

    def done(self) -> bool:
        return True

    def result(self, timeout: Optional[float]) -> Any:
        return self.value()

    def exception(self) -> Optional[BaseException]:
        return None

    def __await__(self) -> Generator[Any, None, Any]:
        return self.value()
        yield  # a generator

    def add_done_callback(self, fn: Callable[[Any], object]) -> None:
        fn(self)

    def cancel(self) -> None:
        pass

    def next(self, timeout: Optional[float]) -> Any:
        raise TypeError("a value is no stream")

    async def anext(self) -> Any:
        raise TypeError("a value is no stream")


_OF_THE_SYSTEM = (ActorDiedError, ActorUnavailableError, DeploymentUnavailableError, RayServeException)
_LINK_LOST = "the link to the server was lost"
_GONE = "The actor died unexpectedly before finishing this task."


def _as_ray_says(error: BaseException, meta: Optional[CallMeta]) -> BaseException:
    """An error of a hidden deployment that is not of user code, as the error that Ray has for it."""
    if meta is None or not meta.application.startswith(PREFIX) or type(error) not in _OF_THE_SYSTEM:
        return error
    if meta.application.endswith(".tasks") or ".tasks." in meta.application:
        from .ray.exceptions import WorkerCrashedError

        return WorkerCrashedError("The worker died unexpectedly while executing this task. %s" % error)
    if _LINK_LOST in str(error):  # the dispatcher has died, and not the actor
        return ActorUnavailableError("%s. The task may or may not have been executed on the actor." % error)
    if isinstance(error, DeploymentUnavailableError):
        return ActorDiedError("The actor died because of an error raised in its creation task, %s" % message_of(meta.application))
    return ActorDiedError("%s\n\tclass_name: %s\n%s" % (_GONE, meta.deployment, error))


class ObjectRef(DeploymentResponse[Any]):
    """A result that may not be there yet: `ray.get(ref)`, `await ref`, or an argument of another call."""

    __slots__ = ("_beside", "_hex", "_watched", "_shared")

    def __init__(self, reply: Optional[Reply], meta: Optional[CallMeta] = None, hex: str = "", beside: bool = False) -> None:
        super().__init__(reply, meta)  # type: ignore[arg-type]
        self._hex, self._watched, self._shared = hex, False, False
        self._beside = beside  # a thread reads the answer, so that an event loop may be blocked until it is there

    @property
    def reply(self) -> Reply:
        if self._reply is None:  # it came from another process, which shares the value
            from ._store import fetch

            self._reply, self._beside = fetch(self._hex)
        return self._reply

    @property
    def request_id(self) -> str:
        return self.reply.request_id

    # --- the result ---

    def get(self, timeout: Optional[float]) -> Any:
        """Waits. TimeoutError that is no RayTaskError: it has not ended."""
        try:
            return self.reply.result(timeout)
        except _OF_THE_SYSTEM as e:
            other = _as_ray_says(e, self._meta)
            if other is e:
                raise
            raise other from None

    def result(self, *, timeout_s: Optional[float] = None, _skip_asyncio_check: bool = False) -> Any:
        return get(self, timeout=timeout_s)

    def __await__(self) -> Generator[Any, None, Any]:
        try:
            return (yield from self.reply.__await__())
        except _OF_THE_SYSTEM as e:
            other = _as_ray_says(e, self._meta)
            if other is e:
                raise
            raise other from None

    def done(self) -> bool:
        return self.reply.done()

    def future(self) -> "concurrent.futures.Future[Any]":
        """The same as a future of concurrent.futures."""
        made: "concurrent.futures.Future[Any]" = concurrent.futures.Future()

        def end(_: Any) -> None:
            try:
                value = self.get(0)
            except BaseException as e:
                made.set_exception(e)
            else:
                made.set_result(value)

        self.reply.add_done_callback(end)
        return made

    def as_future(self, _internal: bool = False) -> "asyncio.Future[Any]":
        return asyncio.wrap_future(self.future())

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self.reply.cancel()

    # --- identity ---

    def hex(self) -> str:
        if not self._hex:
            self._hex = "%s%024x" % (_prefix, next(_ids))
        return self._hex

    def binary(self) -> bytes:
        return bytes.fromhex(self.hex())

    def is_nil(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ObjectRef) and self.hex() == other.hex())

    def __hash__(self) -> int:
        return hash(self.hex())

    def __repr__(self) -> str:
        return "ObjectRef(%s)" % self.hex()

    # --- in other processes ---

    def __reduce__(self) -> Tuple[Any, ...]:
        reply = self._reply
        if self._shared or reply is None:
            return _shared_ref, (self.hex(),)
        if isinstance(reply, HeldReply):
            return _held_ref, (self.hex(), reply.packed())
        if reply.done():
            try:
                return _held_ref, (self.hex(), _payload.pack(_payload.encode_answer(self.get(0))))
            except BaseException as e:
                return _failed_ref, (self.hex(), e)
        from ._store import share

        self._shared = True
        share(self.hex(), self)
        return _shared_ref, (self.hex(),)


def _held_ref(hex: str, packed: bytes) -> ObjectRef:
    return ObjectRef(HeldReply(bytes(packed)), None, hex)


def _failed_ref(hex: str, error: BaseException) -> ObjectRef:
    return ObjectRef(FailedReply(error), None, hex)


def _shared_ref(hex: str) -> ObjectRef:
    made = ObjectRef(None, None, hex)
    made._shared = True
    return made


class ObjectRefGenerator:
    """The references of what a generator yields, as they come."""

    def __init__(self, reply: Reply, meta: CallMeta, beside: bool = False) -> None:
        self._reply, self._meta, self._failed, self._beside = reply, meta, False, beside

    def __iter__(self) -> Iterator[ObjectRef]:
        return self

    def __aiter__(self) -> AsyncIterator[ObjectRef]:
        return self

    def _fail(self, error: Exception) -> ObjectRef:
        self._failed = True
        return ObjectRef(FailedReply(_as_ray_says(error, self._meta)))

    def __next__(self) -> ObjectRef:
        _check_loop([self])
        if self._failed:
            raise StopIteration
        try:
            return ObjectRef(HeldReply(None, self._reply.next(None)))
        except StopIteration:
            raise
        except Exception as e:
            return self._fail(e)

    async def __anext__(self) -> ObjectRef:
        if self._failed:
            raise StopAsyncIteration
        try:
            return ObjectRef(HeldReply(None, await self._reply.anext()))
        except StopAsyncIteration:
            raise
        except Exception as e:
            return self._fail(e)

    def cancel(self) -> None:
        self._reply.cancel()


def of_response(response: DeploymentResponse[Any]) -> ObjectRef:
    """A reference to the result of a call of serve. Both are the same call: cancelling one cancels it."""
    return ObjectRef(response.reply, response._meta)


def of_stream(response: "DeploymentResponseGenerator[Any]") -> ObjectRefGenerator:
    """References to the results of a stream; the results that were read before are not among them."""
    return ObjectRefGenerator(response._reply, response._meta)


# --- calls ---

Returned = Union[ObjectRef, ObjectRefGenerator, List[ObjectRef], None]


def call(meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], num_returns: Any = 1, keep: Any = None) -> Returned:
    """Calls a hidden deployment, and never waits. keep: what must not end before the call has. Raises what is wrong with the
    arguments."""
    transport, parent, beside = way_out()
    reply = transport.call(meta, args, kwargs, parent)
    if keep is not None:
        reply.add_done_callback(lambda _, keep=keep: None)  # type: ignore[misc]
    if meta.stream:
        return ObjectRefGenerator(reply, meta, beside)
    ref = ObjectRef(reply, meta, beside=beside)
    if num_returns == 1:
        return ref
    from ._tasks import pick

    return [pick(ref, i, num_returns) for i in range(num_returns)] if num_returns else None


# --- get, wait, put, cancel ---


def _check_loop(refs: Sequence[Any]) -> None:
    """In a replica, answers of calls that serve has made are read by the loop that would be blocked."""
    if not all(getattr(r, "_beside", False) or (isinstance(r, DeploymentResponse) and r.reply.done()) for r in refs) and is_on_loop():
        raise RuntimeError("ray.get() and ray.wait() cannot wait for this call in an async method: `await ref` there instead.")


def _timeout_error() -> Exception:
    from .ray.exceptions import GetTimeoutError

    return GetTimeoutError("Get timed out: some object(s) not ready.")


def _get_one(ref: Any, until: Optional[float]) -> Any:
    left = None if until is None else max(until - time.monotonic(), 0)
    try:
        return ref.get(left) if isinstance(ref, ObjectRef) else ref.reply.result(left)
    except TimeoutError as e:
        if isinstance(e, RayTaskError):
            raise
        raise _timeout_error() from None


def get(object_refs: Any, *, timeout: Optional[float] = None, _use_object_store: bool = False) -> Any:
    """The value of a reference, or those of a list of them. Raises the exception of a call: of a list, of the first one that
    has failed, at once. GetTimeoutError: it is not there after `timeout` seconds, of which None is no limit."""
    if timeout is not None and timeout < 0:
        timeout = None if timeout == -1 else 0
    if isinstance(object_refs, (ObjectRefGenerator, DeploymentResponseGenerator)):
        return object_refs
    if isinstance(object_refs, DeploymentResponse):
        _check_loop([object_refs])
        return _get_one(object_refs, None if timeout is None else time.monotonic() + timeout)
    if not isinstance(object_refs, list):
        raise ValueError("Invalid type of object refs, %s, is given. 'object_refs' must either be an ObjectRef or a list of "
                         "ObjectRefs. " % type(object_refs))  # fmt: skip
    for ref in object_refs:
        if not isinstance(ref, DeploymentResponse):
            raise ValueError("Invalid type of object refs, %s, is given. 'object_refs' must either be an ObjectRef or a list of "
                             "ObjectRefs. " % type(ref))  # fmt: skip
    _check_loop(object_refs)
    return _get_all(object_refs, None if timeout is None else time.monotonic() + timeout)


_news = threading.Condition()  # a call has ended that somebody waits for, or has waited for
_listening: List[Deque[Any]] = []  # each gets the replies that end


def _tell(reply: Any) -> None:
    with _news:
        for ended in _listening:
            ended.append(reply)
        _news.notify_all()


def _get_all(refs: Sequence[Any], until: Optional[float]) -> List[Any]:
    ended: Deque[Any] = deque()
    values: Dict[int, Any] = {}  # by place
    places: Dict[int, List[int]] = {}  # by id of the reply
    with _news:
        _listening.append(ended)
    try:
        for i, ref in enumerate(refs):
            places.setdefault(id(ref.reply), []).append(i)
            if not ref.reply.done():
                _watch(ref)
            if ref.reply.done():
                values[i] = _get_one(ref, until)
        while len(values) < len(refs):
            with _news:
                while not ended:
                    left = None if until is None else until - time.monotonic()
                    if left is not None and left <= 0:
                        raise _timeout_error()
                    _news.wait(left)
                reply = ended.popleft()
            for i in places.get(id(reply), ()):
                if i not in values:
                    values[i] = _get_one(refs[i], until)
    finally:
        with _news:
            _listening[:] = [other for other in _listening if other is not ended]
    return [values[i] for i in range(len(refs))]


def _watch(ref: Any) -> None:
    """Once for each reference: programs wait for the same ones again and again."""
    if isinstance(ref, ObjectRef):
        if ref._watched:
            return
        ref._watched = True
    ref.reply.add_done_callback(_tell)


def _check_wait(refs: Any, num_returns: int, timeout: Optional[float]) -> None:
    if isinstance(refs, (DeploymentResponse, ObjectRefGenerator)):
        raise TypeError("wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got a single ray.ObjectRef or "
                        "ray.ObjectRefGenerator %s" % refs)  # fmt: skip
    if not isinstance(refs, list):
        raise TypeError("wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got %s" % type(refs))
    if timeout is not None and timeout < 0:
        raise ValueError("The 'timeout' argument must be nonnegative. Received %s" % timeout)
    for ref in refs:
        if not isinstance(ref, DeploymentResponse):
            raise TypeError("wait() expected a list of ray.ObjectRef or ray.ObjectRefGenerator, got list containing %s" % type(ref))
    if not refs:
        return
    if len(refs) != len(set(refs)):
        raise ValueError("Wait requires a list of unique ray_waitables.")
    if num_returns <= 0:
        raise ValueError("Invalid number of objects to return %d." % num_returns)
    if num_returns > len(refs):
        raise ValueError("num_returns cannot be greater than the number of ray_waitables provided to ray.wait.")


def wait_for(done: Sequence[Callable[[], bool]], count: int, timeout: Optional[float]) -> None:
    """Returns when `count` of them have ended, or after the timeout. Each tells `_news` of its end."""
    until = None if timeout is None else time.monotonic() + timeout
    with _news:
        while sum(is_done() for is_done in done) < count:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                return
            _news.wait(left)


def wait(ray_waitables: Any, *, num_returns: int = 1, timeout: Optional[float] = None,
         fetch_local: bool = True) -> Tuple[List[ObjectRef], List[ObjectRef]]:  # fmt: skip
    """Waits until `num_returns` of the references have a result or have failed, at most `timeout` seconds. Those, and the
    others; each list in the order of the argument."""
    refs = ray_waitables
    _check_wait(refs, num_returns, timeout)
    if timeout != 0 and sum(r.reply.done() for r in refs) < num_returns and refs:
        _check_loop(refs)
        for ref in refs:
            _watch(ref)
        wait_for([r.reply.done for r in refs], num_returns, timeout)
    return split(refs, [r.reply.done() for r in refs], num_returns)


def split(refs: Sequence[Any], done: Sequence[bool], num_returns: int) -> Tuple[List[Any], List[Any]]:
    ready: List[Any] = []
    rest: List[Any] = []
    for ref, is_done in zip(refs, done):
        (ready if is_done and len(ready) < num_returns else rest).append(ref)
    return ready, rest


def put(value: Any, *, _owner: Any = None, _tensor_transport: Any = None) -> ObjectRef:
    """A reference to a copy of the value."""
    if isinstance(value, ObjectRef):
        raise TypeError("Calling 'put' on an ray.ObjectRef is not allowed. If you really want to do this, you can wrap the "
                        "ray.ObjectRef in a list and call 'put' on it.")  # fmt: skip
    return ObjectRef(HeldReply(_payload.pack(_payload.encode_answer(value))))


def cancel(ray_waitable: Any, *, force: bool = False, recursive: bool = True) -> None:
    """Cancels a call, and those that it has made. A sync function that runs is not interrupted; its caller does not wait for
    it longer."""
    if not isinstance(ray_waitable, (DeploymentResponse, DeploymentResponseGenerator, ObjectRefGenerator)):
        raise TypeError("ray.cancel() only supported for object refs. For actors, try ray.kill(). Got: %s." % type(ray_waitable))
    ray_waitable.cancel()
