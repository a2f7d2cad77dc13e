"""Local testing mode: an application in this process, without a server.

    handle = serve.run(app, _local_testing_mode=True)
    assert handle.remote("x").result() == …

Each deployment has one replica: the same code that a worker runs, on an event loop in a thread of its own, so that a debugger
can stop in it. Arguments and results are copies, as between processes; the arguments of constructors are not, so that tests
can bind what cannot be pickled. An exception of user code is raised as it is. Limits of queues, resources and environments do
not hold.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextvars
import logging
import threading
import time
import uuid
from collections import deque
from typing import Any, Callable, Coroutine, Deque, Dict, Generator, List, Optional, Set, Tuple

from .. import replica
from . import _payload
from ._calls.transport import CallMeta, Reply, current_request, local_transport
from ._replica.core import ReplicaCore
from .deployment import Application, Deployment
from .exceptions import RayServeException, RequestCancelledError
from .graph import BuiltDeployment, build
from .handle import DeploymentHandle

__all__ = ["delete", "find_handle", "run", "shutdown"]

logger = logging.getLogger("anyserve.serve")

AHEAD = 64  # results of a stream that wait for their caller
MAX_DEPTH = 16  # of calls that wait for one another
STOP_TIMEOUT = 5.0  # of calls that run when an application ends


def _copied(body: _payload.Body) -> _payload.Body:
    """As it arrives in another process."""
    return _payload.parse(_payload.pack(body))


def _set(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class _Call:
    """One call, from `remote()` to its end. Its fields change under `lock`."""

    def __init__(self, meta: CallMeta, request_id: str, parent: "Optional[_Call]") -> None:
        self.meta, self.request_id = meta, request_id
        self.parent = parent
        self.depth: int = 1 if parent is None else parent.depth + 1
        self.lock = threading.Condition()
        self.ended = False
        self.error: Optional[BaseException] = None
        self.answers: Deque[_payload.Body] = deque()  # of a stream: those that nobody took; else the answer, once
        self.callbacks: List[Callable[[], object]] = []  # for the end
        self.watchers: List[Callable[[], object]] = []  # for the next answer, or the end
        self.children: Set[_Call] = set()
        self.stop: Optional[Callable[[], object]] = None  # of what runs for it
        self.resume: Optional[Callable[[], object]] = None  # a stream that waits since AHEAD answers wait

    def targets(self) -> Set[Tuple[str, str]]:
        """The deployments that wait for this call, and its own."""
        found, call = set(), self
        while True:
            found.add((call.meta.application, call.meta.deployment))
            if call.parent is None:
                return found
            call = call.parent

    def add(self, body: _payload.Body) -> bool:
        """Gives an answer. False: there are so many that the stream should wait until `resume` is called."""
        with self.lock:
            if self.ended:
                return True
            self.answers.append(body)
            watchers = self._take_watchers()
            full = len(self.answers) >= AHEAD
        for call in watchers:
            call()
        return not full

    def take(self) -> _payload.Body:
        """The next answer of a stream; lock is held."""
        body = self.answers.popleft()
        resume, self.resume = self.resume, None
        if resume is not None:
            resume()
        return body

    def end(self, error: Optional[BaseException] = None) -> None:
        """A second end changes nothing."""
        with self.lock:
            if self.ended:
                return
            self.ended, self.error = True, error
            watchers = self._take_watchers() + self.callbacks
            self.callbacks = []
            children = list(self.children) if isinstance(error, RequestCancelledError) else []
            self.children.clear()
            stop = self.stop if error is not None else None
        if self.parent is not None:
            self.parent.children.discard(self)
        for call in watchers:
            call()
        if stop is not None:
            stop()
        for child in children:
            child.end(RequestCancelledError(child.request_id))

    def _take_watchers(self) -> List[Callable[[], object]]:
        watchers, self.watchers = self.watchers, []
        self.lock.notify_all()
        return watchers

    def on_end(self, fn: Callable[[], object]) -> None:
        with self.lock:
            if not self.ended:
                self.callbacks.append(fn)
                return
        fn()


class LocalReply:
    """See transport.Reply."""

    def __init__(self, call: _Call) -> None:
        self._call = call
        self.request_id = call.request_id
        self._value: Any = None
        self._decoded = False

    def __del__(self) -> None:
        if self._call.meta.stream:  # nobody takes what it gives
            self._call.end(RequestCancelledError(self.request_id))

    def done(self) -> bool:
        return self._call.ended

    def body(self) -> _payload.Body:
        """The answer of a call that has ended. Raises its error."""
        call = self._call
        if call.error is not None:
            raise call.error
        return call.answers[0]

    def _get(self) -> Any:
        body = self.body()
        if not self._decoded:
            self._value, self._decoded = _payload.decode_answer(body), True
        return self._value

    def result(self, timeout: Optional[float]) -> Any:
        call = self._call
        with call.lock:
            if not call.lock.wait_for(lambda: call.ended, timeout):
                raise TimeoutError("Timed out waiting for result.")
        return self._get()

    def __await__(self) -> Generator[Any, None, Any]:
        if not self._call.ended:
            yield from self._changed(lambda: self._call.ended).__await__()
        return self._get()

    async def _changed(self, there: Callable[[], bool]) -> None:
        """Waits in any event loop until something changes, if `there` is not true before."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()

        def wake() -> None:
            try:
                loop.call_soon_threadsafe(_set, future)
            except RuntimeError:  # the loop that waited has been closed
                pass

        with self._call.lock:
            if there():
                return
            self._call.watchers.append(wake)
        await future

    def add_done_callback(self, fn: Callable[[Reply], object]) -> None:
        self._call.on_end(lambda: fn(self))

    def cancel(self) -> None:
        self._call.end(RequestCancelledError(self.request_id))

    def _next(self) -> Any:
        """The next answer; None: there is none yet. Raises at the end; lock is held."""
        call = self._call
        if isinstance(call.error, RequestCancelledError):
            raise call.error
        if call.answers:
            return call.take()
        if not call.ended:
            return None
        raise call.error if call.error is not None else StopAsyncIteration

    def next(self, timeout: Optional[float]) -> Any:
        call = self._call
        with call.lock:
            if not call.lock.wait_for(lambda: call.answers or call.ended, timeout):
                raise TimeoutError("Timed out waiting for result.")
            try:
                body = self._next()
            except StopAsyncIteration:
                raise StopIteration from None
        return _payload.decode_answer(body)

    async def anext(self) -> Any:
        call = self._call
        while True:
            with call.lock:
                body = self._next()
            if body is not None:
                return _payload.decode_answer(body)
            await self._changed(lambda: bool(call.answers) or call.ended)


class _Broadcast:
    """The answers of all replicas, of which there is one, as a stream of pairs."""

    def __init__(self, reply: LocalReply) -> None:
        self._reply, self._ended = reply, False
        self.request_id = reply.request_id

    def _once(self) -> bool:
        first, self._ended = not self._ended, True
        return first

    def done(self) -> bool:
        return self._reply.done()

    def add_done_callback(self, fn: Callable[[Reply], object]) -> None:
        self._reply.add_done_callback(lambda _: fn(self))

    def cancel(self) -> None:
        self._reply.cancel()

    def result(self, timeout: Optional[float]) -> Any:
        raise TypeError("a broadcast has many results")

    def __await__(self) -> Generator[Any, None, Any]:
        raise TypeError("a broadcast has many results")

    def next(self, timeout: Optional[float]) -> Any:
        if self._ended:
            raise StopIteration
        pair: Tuple[Any, Optional[BaseException]]
        try:
            pair = self._reply.result(timeout), None
        except Exception as e:
            if not self._reply.done():
                raise
            pair = None, e
        self._ended = True
        return pair

    async def anext(self) -> Any:
        if not self._once():
            raise StopAsyncIteration
        try:
            return await self._reply, None
        except Exception as e:
            return None, e


class _Reservation:
    """Local testing mode has one replica of each deployment, and no slots to reserve."""

    def __init__(self, transport: "LocalTransport", meta: CallMeta, parent: object) -> None:
        self._transport, self._meta, self._parent = transport, meta, parent

    async def reserved(self) -> str:
        meta = self._meta
        return self._transport.find(meta.application, meta.deployment).core.context.replica

    def dispatch(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Reply:
        return self._transport.call(meta, args, kwargs, self._parent)

    def release(self) -> None:
        pass


class LocalReplica:
    """A deployment's one replica, on an event loop in a thread."""

    def __init__(self, built: BuiltDeployment, app_name: str, transport: "LocalTransport") -> None:
        self.transport = transport
        context = replica.ReplicaContext(replica=built.name + "-0", deployment=built.name, application=app_name)
        self.core = ReplicaCore(built.deployment.func_or_class, built.init_args, built.init_kwargs,
                                config=built.deployment._deployment_config, context=context, shared=True)  # fmt: skip
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, name="local replica of " + built.name, daemon=True)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        self.loop.close()

    def submit(self, make: Callable[[], Coroutine[Any, Any, Any]], request: Optional[_Call] = None) -> "concurrent.futures.Future[Any]":
        """Runs a coroutine in the replica, whose context variables are those of no caller."""
        done: "concurrent.futures.Future[Any]" = concurrent.futures.Future()

        async def run() -> None:
            local_transport.set(self.transport)
            current_request.set(request)
            try:
                done.set_result(await make())
            except BaseException as e:
                done.set_exception(e)

        def begin() -> None:
            if request is not None and request.ended:  # cancelled before it began
                done.cancel()
                return
            task = self.loop.create_task(run())
            if request is not None:
                request.stop = lambda: self.call_soon(task.cancel)
                if request.error is not None:
                    task.cancel()

        self.call_soon(begin, contextvars.Context())
        return done

    def call_soon(self, fn: Callable[[], object], context: Optional[contextvars.Context] = None) -> None:
        try:
            self.loop.call_soon_threadsafe(fn, context=context)
        except RuntimeError:  # it has ended
            pass

    def start(self) -> None:
        """Constructs the object. Raises what that raises."""
        self.thread.start()
        self.submit(self.core.start).result()

    def serve(self, call: _Call, body: _payload.Body, beyond: bool) -> None:
        async def run() -> None:
            try:
                _, args, kwargs = _payload.decode_call(body)
                meta = call.meta._replace(request_id=call.request_id)
                if call.meta.stream:
                    await self._stream(call, meta, args, kwargs, beyond)
                else:
                    call.add(_copied(_payload.encode_answer(await self.core.call(meta, args, kwargs, beyond=beyond))))
            except asyncio.CancelledError:
                call.end(RequestCancelledError(call.request_id))
                return
            except BaseException as e:  # as it is, so that a test shows where it was raised
                call.end(e)
                return
            call.end()

        self.submit(run, call)

    async def _stream(self, call: _Call, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], beyond: bool) -> None:
        items = self.core.call_stream(meta, args, kwargs, beyond=beyond)
        try:
            async for item in items:
                if not call.add(_copied(_payload.encode_answer(item))):
                    await self._until_taken(call)
        finally:
            await items.aclose()

    async def _until_taken(self, call: _Call) -> None:
        future = self.loop.create_future()

        def resume() -> None:
            self.call_soon(lambda: _set(future))

        with call.lock:
            if len(call.answers) < AHEAD or call.ended:
                return
            call.resume = resume
        await future

    def stop(self) -> None:
        try:
            self.submit(lambda: self.core.stop(STOP_TIMEOUT)).result(STOP_TIMEOUT + 1)
        except Exception:
            logger.exception("the end of %s", self.core.context.deployment)
        self.call_soon(self.loop.stop)
        if threading.current_thread() is not self.thread:
            self.thread.join(1)


class LocalTransport:
    """Calls of the applications in this process."""

    def __init__(self) -> None:
        self.apps: Dict[str, Dict[str, LocalReplica]] = {}
        self.ingress: Dict[str, str] = {}

    def __reduce__(self) -> str:
        return "_transport"  # handles are pickled with it; elsewhere it has no applications

    def call(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: object) -> LocalReply:
        above = parent if isinstance(parent, _Call) and not parent.ended else None
        body = _payload.encode_call(meta.method, args, kwargs)
        request_id = meta.request_id or (above.request_id if above else str(uuid.uuid4()))
        call = _Call(meta, request_id, above)
        reply = LocalReply(call)
        if above is not None:
            with above.lock:
                above.children.add(call)
        if call.depth > MAX_DEPTH:
            from .exceptions import error_of_status

            call.end(error_of_status(8, "calls are nested more than %d deep" % MAX_DEPTH))
        elif body.parts:
            self._after(list(body.parts), call, body)
        else:
            self._start(call, body)
        if meta.deadline is not None:
            self._end_at(call, meta.deadline)
        return reply

    def broadcast(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: object) -> _Broadcast:
        return _Broadcast(self.call(meta, args, kwargs, parent))

    def reserve(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any], parent: object) -> _Reservation:
        return _Reservation(self, meta, parent)

    def find(self, application: str, deployment: str) -> LocalReplica:
        found = self.apps.get(application, {}).get(deployment)
        if found is None:
            raise RayServeException("Deployment '%s' of application '%s' is not there." % (deployment, application))
        return found

    def _start(self, call: _Call, body: _payload.Body) -> None:
        try:
            found = self.find(call.meta.application, call.meta.deployment)
        except RayServeException as e:
            call.end(e)
            return
        # what waits for this call may hold the threads that it would wait for
        beyond = call.parent is not None and (call.meta.application, call.meta.deployment) in call.parent.targets()
        found.serve(call, _copied(body), beyond)

    def _after(self, replies: List[Any], call: _Call, body: _payload.Body) -> None:
        """Starts the call when those that are its arguments have their answers."""
        left = len(replies)
        lock = threading.Lock()

        def one_ended(_: object) -> None:
            nonlocal left
            with lock:
                left -= 1
                if left:
                    return
            parts = []
            for reply in replies:
                try:
                    answer = reply.body() if isinstance(reply, LocalReply) else _payload.encode_answer(reply.result(0))
                except BaseException as e:
                    call.end(e)
                    return
                parts.append(_payload.pack(answer))
            if not call.ended:
                self._start(call, body._replace(parts=parts))

        for reply in replies:
            reply.add_done_callback(one_ended)

    def _end_at(self, call: _Call, deadline: float) -> None:
        timer = threading.Timer(max(deadline - time.monotonic(), 0),
                                lambda: call.end(TimeoutError("Request %s timed out." % call.request_id)))  # fmt: skip
        timer.daemon = True
        timer.start()
        call.on_end(timer.cancel)


_transport = LocalTransport()


def _warn_of_options(deployment: Deployment, app_name: str) -> None:
    name = replica.DeploymentID(deployment.name, app_name)
    options = deployment.ray_actor_options
    if "num_gpus" in options:
        logger.warning("%s has num_gpus configured. CUDA_VISIBLE_DEVICES is not managed in local testing mode.", name)
    if "runtime_env" in options:
        logger.warning("%s has runtime_env configured. It is ignored in local testing mode.", name)


def run(app: Application, name: str = "default", route_prefix: Optional[str] = "/", logging_config: Any = None) -> DeploymentHandle[Any]:
    """Starts an application in this process and gives the handle of its ingress deployment; one that has the name ends
    before. Raises what a constructor raises. route_prefix and logging_config are not used: there is no server."""
    built = build(app, name, lambda d, app_name: DeploymentHandle(d.name, app_name, _transport=_transport))
    delete(name)
    replicas: Dict[str, LocalReplica] = {}
    _transport.apps[name] = replicas
    _transport.ingress[name] = built[-1].name
    for one in built:
        _warn_of_options(one.deployment, name)
        here = LocalReplica(one, name, _transport)
        replicas[one.name] = here
        try:
            here.start()
        except BaseException:
            delete(name)
            raise
    handle = find_handle(name)
    assert handle is not None
    return handle


def find_handle(app_name: str, deployment_name: Optional[str] = None) -> Optional[DeploymentHandle[Any]]:
    """A handle of a deployment that runs in this process: of the application's ingress, if no name is given. None: there is
    none."""
    name = deployment_name or _transport.ingress.get(app_name, "")
    if name not in _transport.apps.get(app_name, {}):
        return None
    return DeploymentHandle(name, app_name, _transport=_transport)


def delete(name: str) -> None:
    """Ends an application: running calls end, then its objects do. Nothing happens, if there is none."""
    replicas = _transport.apps.pop(name, {})
    _transport.ingress.pop(name, None)
    for one in reversed(list(replicas.values())):
        one.stop()


def shutdown() -> None:
    """Ends all applications."""
    for name in list(_transport.apps):
        delete(name)


atexit.register(shutdown)
