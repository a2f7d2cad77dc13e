"""Calls over a link to the dispatcher: that of a replica, or one of a driver's own.

A replica's calls leave by the link that brings its requests. Any other program is a *driver*: its first call makes a link, and
a thread that runs it, so that `.result()` also works where nothing else runs, such as in a cell of a notebook. The child of a
fork makes a link of its own when it first calls.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import threading
import time
import uuid
import weakref
from typing import Any, Dict, List, Optional, Tuple

from ... import __version__, _native
from .._payload import decode_answer, encode_call
from ..exceptions import ActorUnavailableError, ReplicaUnavailableError, error_of_status
from .transport import Argument, CallMeta, FailedReply, Reply, Reservation

STREAM_WINDOW = 64  # messages of a stream that may be here unread
CONNECT_TIMEOUT = 10.0  # seconds, for connecting
BACKOFF = (0.01, 0.02, 0.05, 0.1, 0.25)  # seconds between attempts; the last one repeats
GIVE_UP = 30.0  # seconds without a server, after which the calls that wait for one fail
ENDED = 0.5  # seconds for which the server's lock is free, after which it has ended: who restarts one takes less
LAST_CALLS = 2.0  # seconds that the end of a replica waits for what it has called in `__del__`
JOIN_TIMEOUT = 5.0  # seconds, for the thread at the end of the program
STARTED = 1  # AS_WORKER_OUT_STARTED
UNAVAILABLE = 14  # AS_STATUS_UNAVAILABLE


def _name_in_deployment(replica: str) -> str:
    """Of a replica that the server calls `application#deployment-number`."""
    return replica.rpartition("#")[2]


def _status_error(out: Any, status: int, flags: int, text: str) -> BaseException:
    application, deployment = out.target
    if out.replica is not None and status == UNAVAILABLE and not flags & STARTED:
        error = ReplicaUnavailableError(_name_in_deployment(out.replica))
        error.add_note(text)
        return error
    return error_of_status(status, text, request_id=out.request_id, application=application, deployment=deployment,
                           started=bool(flags & STARTED))  # fmt: skip


_native.set_body_hooks(decode_answer, decode_answer, _status_error)


def _encode(method: str, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Any, Any]:
    """The body of a call, and the calls whose results it has; or the first of those that could not be made."""
    body = encode_call(method, args, kwargs)
    if not body.parts:
        return body, None
    failed = next((reply for reply in body.parts if isinstance(reply, FailedReply)), None)
    return body, failed or list(body.parts)


def _for_routing(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """The arguments of a reservation, which are for routers: none, if some are results that must be waited for."""
    waits = any(isinstance(value, Argument) for value in (*args, *kwargs.values()))
    return ((), {}) if waits else (args, kwargs)


class NativeReservation:
    """A slot that was reserved over a link, or is to be."""

    def __init__(self, out: Any) -> None:
        self._out = out

    async def reserved(self) -> str:
        if isinstance(self._out, FailedReply):
            raise self._out.error
        return _name_in_deployment(await self._out.reserved())

    def dispatch(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Reply:
        out = self._out
        request_id = meta.request_id or out.request_id
        try:
            body, parts = _encode(meta.method, args, kwargs)
            if isinstance(parts, FailedReply):
                raise parts.error
            out.use(body.method or None, body.codec, body.data, body.buffers or None, parts, meta.deadline, request_id,
                    meta.multiplexed_model_id, meta.session_id, meta.priority, meta.tenant, STREAM_WINDOW if meta.stream else 0)  # fmt: skip
        except Exception as e:
            out.cancel()
            return FailedReply(e, request_id)
        return out  # type: ignore[no-any-return]

    def release(self) -> None:
        self._out.cancel()


class NativeTransport:
    """Calls over one link."""

    def __init__(self, link: _native.Link) -> None:
        self.link = link
        self.closed = False
        self._targets: Dict[Tuple[str, str], int] = {}

    def call(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any, every: bool = False,
             reserve: bool = False) -> Reply:  # fmt: skip
        application, deployment, method, stream, request_id, model_id, session_id, deadline = meta[:8]
        body, parts = _encode(method, args, kwargs)
        if isinstance(parts, FailedReply):
            return FailedReply(parts.error, request_id)
        target = self._targets.get((application, deployment))
        if target is None:
            target = self._targets[application, deployment] = self.link.target(application, deployment)
        if not request_id:
            request_id = (parent.id if parent is not None else "") or str(uuid.uuid4())
        return self.link.open(body.method or None, body.codec, body.data, body.buffers or None, parts, deadline, request_id, model_id,
                              session_id, meta.priority, meta.tenant, target, parent, STREAM_WINDOW if stream else 0, every,
                              reserve)  # fmt: skip

    def reserve(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reservation:
        return NativeReservation(self.call(meta._replace(stream=False), *_for_routing(args, kwargs), parent, False, True))

    def broadcast(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reply:
        return self.call(meta._replace(stream=True), args, kwargs, parent, True)


class ReplicaTransport:
    """The calls of a replica. Those that its `__init__` makes, before it is connected, go over a driver's link, and so do those of
    processes that it forks.

    path: the dispatcher's socket."""

    def __init__(self, path: str) -> None:
        self._driver = DriverTransport(path=path)
        self._own: Optional[NativeTransport] = None
        self.beside: Optional[DriverTransport] = self._driver  # for calls whose answers are to be read while the event loop is blocked
        self._last: List[Reply] = []
        self.call = self._call_early
        self.broadcast = self._broadcast_early
        self.reserve = self._reserve_early
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """The child is no replica: its calls go over the driver's link."""
        self._own = None
        self.call, self.broadcast, self.reserve = self._call_early, self._broadcast_early, self._reserve_early

    def use(self, link: _native.Link, connected: bool) -> None:
        """The replica has this link. Once it is connected, all calls leave by it; before that, those of its requests."""
        self._own = NativeTransport(link)
        if connected:
            self.call, self.broadcast, self.reserve = self._own.call, self._own.broadcast, self._own.reserve

    def _early(self, parent: Any) -> Any:
        return self._driver if parent is None or self._own is None else self._own

    def _call_early(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reply:
        return self._early(parent).call(meta, args, kwargs, parent)  # type: ignore[no-any-return]

    def _broadcast_early(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reply:
        return self._early(parent).broadcast(meta, args, kwargs, parent)  # type: ignore[no-any-return]

    def _reserve_early(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reservation:
        return self._early(parent).reserve(meta, args, kwargs, parent)  # type: ignore[no-any-return]

    def end(self) -> None:
        """The replica's link is over. What `__del__` calls goes over the driver's link, and `close` waits for it: nobody else does."""
        self.beside = None
        self.call, self.broadcast, self.reserve = self._call_last, self._broadcast_last, self._driver.reserve

    def _call_last(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reply:
        self._last.append(self._driver.call(meta, args, kwargs, None))
        return self._last[-1]

    def _broadcast_last(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reply:
        return self._driver.broadcast(meta, args, kwargs, None)

    def close(self) -> None:
        """Ends the driver's link, after the last calls or LAST_CALLS seconds. Blocks."""
        until = time.monotonic() + LAST_CALLS
        for reply in self._last:
            ended = threading.Event()
            reply.add_done_callback(lambda _, ended=ended: ended.set())  # type: ignore[misc]
            ended.wait(max(until - time.monotonic(), 0))
        self._driver.close()


class DriverTransport:
    """The calls of a program that is no replica, to one server.

    path: the dispatcher's socket; the driver's token stands in a file beside it. None: the server is looked up by its
    runtime directory and its port (0: the only one there is) at each connection, so that one that was started again is
    found. May be used by any thread."""

    def __init__(self, *, path: Optional[str] = None, runtime_dir: Optional[str] = None, port: int = 0) -> None:
        self._where = path, runtime_dir, port
        self._lock = threading.Lock()
        self._transport: Optional[NativeTransport] = None
        self._thread: Optional[threading.Thread] = None
        _drivers.add(self)

    def call(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any, every: bool = False,
             reserve: bool = False) -> Reply:  # fmt: skip
        while True:
            transport = self._transport or self._open()
            try:
                return transport.call(meta, args, kwargs, None, every, reserve)
            except ValueError:
                if not transport.closed:
                    raise

    def broadcast(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reply:
        return self.call(meta._replace(stream=True), args, kwargs, None, True)

    def reserve(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: Any) -> Reservation:
        return NativeReservation(self.call(meta._replace(stream=False), *_for_routing(args, kwargs), None, False, True))

    def close(self) -> None:
        """Ends the link; calls that have not ended fail. A later call makes another one."""
        with self._lock:
            transport, thread = self._transport, self._thread
            self._transport = self._thread = None
        if transport is None:
            return
        transport.closed = True
        try:
            transport.link.stop_calls()
        except ValueError:  # the thread has closed it
            pass
        if thread is not None and thread is not threading.current_thread():
            thread.join(JOIN_TIMEOUT)

    def _open(self) -> NativeTransport:
        with self._lock:
            if self._transport is None:
                path, runtime_dir, port = self._where
                token = _token_beside(path) if path is not None else None
                link = _native.Link.driver(path, token, runtime_dir, port, "anyserve-python " + __version__)
                transport = NativeTransport(link)
                self._thread = threading.Thread(target=self._run, args=(transport,), name="anyserve-calls", daemon=True)
                self._thread.start()
                self._transport = transport
            return self._transport

    def _run(self, transport: NativeTransport) -> None:
        """The thread: connects, and reads answers, until it is closed or there has been no server for a while."""
        link, path = transport.link, self._where[0]
        ended = False
        try:
            while not transport.closed and _connect(transport, path):
                link.run_calls()
            ended = not transport.closed and path is not None and _is_free(_lock_beside(path))
        finally:
            with self._lock:
                transport.closed = True
                if self._transport is transport:
                    self._transport = self._thread = None
            link.close(_has_ended(path or "") if ended else None)

    def _forked(self) -> None:
        """In the child of a fork: the thread is not there, and the link belongs to the parent process."""
        transport = self._transport
        self._lock = threading.Lock()
        self._transport = self._thread = None
        if transport is not None:
            transport.closed = True
            try:
                transport.link.forked()
            except ValueError:
                pass


def _connect(transport: NativeTransport, path: Optional[str]) -> bool:
    """Tries until it is connected. False: it was closed, the server refuses or has ended, or there was none for GIVE_UP
    seconds. path: of the server's socket, if it is known; while its dispatcher is replaced the server has its lock."""
    until = time.monotonic() + GIVE_UP
    attempt, free_since = 0, None
    while not transport.closed:
        error = transport.link.connect(CONNECT_TIMEOUT)
        if error is None:
            return True
        now = time.monotonic()
        if error[0] in ("EDENIED", "EINVALID", "EEXISTS") or now > until:
            return False
        if path is None or not _is_free(_lock_beside(path)):
            free_since = None
        elif free_since is None:
            free_since = now
        elif now - free_since >= ENDED:
            return False
        time.sleep(BACKOFF[min(attempt, len(BACKOFF) - 1)])
        attempt += 1
    return False


def _lock_beside(path: str) -> str:
    return os.path.join(os.path.dirname(path), "lock")


def _has_ended(path: str) -> str:
    return "the server of %s has ended" % os.path.dirname(path)


def _is_free(lock: str) -> bool:
    """Whether no server has the lock. The kernel frees it however a server ends; one that ends by itself removes the file."""
    try:
        fd = os.open(lock, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others who look do not meet it
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(fd)


def _token_beside(path: str) -> str:
    """The driver's token of the server whose socket this is. RuntimeError: there is none."""
    file = os.path.join(os.path.dirname(path), "driver-token")
    try:
        with open(file, encoding="ascii") as f:
            return f.read().strip()
    except OSError as e:
        if isinstance(e, FileNotFoundError) and _is_free(_lock_beside(path)):
            raise ActorUnavailableError(_has_ended(path)) from None
        raise RuntimeError("%s cannot be read, so this process cannot call deployments: %s" % (file, e)) from None


_drivers: "weakref.WeakSet[DriverTransport]" = weakref.WeakSet()


def _close_all() -> None:
    for driver in list(_drivers):
        driver.close()


def _forked() -> None:
    for driver in list(_drivers):
        driver._forked()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_forked)
