"""Runs deployments within the calling process, without a server, a socket or a worker process.

A Local is a worker_loop.Replica whose requests are made here (link.local) instead of being sent by a server. They are
checked by the code that the server uses, and run by the code that a worker uses. app.test_client (client.py) is built on
it. Only the server limits how many requests run at once, so there is no limit here.

A deployment with async handlers has an event loop in a thread of its own. Without async handlers, requests run in the
calling thread, one at a time, and generators in threads of their own.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .. import replica
from ..arrays import Message
from ..code.deployments import Deployment
from ..errors import STATUS_NAMES, DeclarationError, Error
from ..runtime import lifecycle
from ..runtime.pool import Pool
from ..runtime.worker_loop import Replica, report
from ..stop import EX_DECLARATION, Stop

if TYPE_CHECKING:
    import asyncio

STREAM_INPUTS = (16, 1 << 20)  # messages and bytes; the defaults of the worker program
INVALID, CANCELLED = (STATUS_NAMES.index(n) for n in ("INVALID_ARGUMENT", "CANCELLED"))
CLOSE_TIMEOUT = 10.0  # seconds to wait for each generator, and for the threads of each model
NOWHERE = "/nonexistent/anyserve"  # the link is never connected


class Answer(NamedTuple):
    """An answer to a request. Answers have outputs, except for the last, which has the status."""

    outputs: Optional[Dict[str, Any]]
    parameters: Dict[str, Any] = {}
    status: int = 0
    text: str = ""
    cause: Optional[BaseException] = None  # what the handler raised
    output_parameters: Dict[str, Dict[str, Any]] = {}


def error_of(end: Answer) -> BaseException:
    """The error that a client would get, caused by the handler's exception; a KeyboardInterrupt as it is."""
    if isinstance(end.cause, KeyboardInterrupt):
        return end.cause
    error = Error(STATUS_NAMES[end.status], end.text)
    error.__cause__ = end.cause
    return error


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Turns Stop, which would end a worker, into an exception for the caller."""
    try:
        yield
    except Stop as e:
        kind = DeclarationError if e.code == EX_DECLARATION else RuntimeError
        raise kind(str(e)) from e.__context__


class Call:
    """One request that was made here. `put` is called with each Answer, in any thread."""

    def __init__(self, local: "Local", put: Callable[[Answer], Any]) -> None:
        self._local, self._put = local, put
        self.over = False
        self.inputs = threading.Semaphore(STREAM_INPUTS[0])  # room for messages that wait for the handler
        self._native = local.link.local(self._part, self.inputs.release, self._done)

    def _part(self, outputs: Dict[str, Any], parameters: Dict[str, Any], of_outputs: Dict[str, Dict[str, Any]]) -> None:
        self._put(Answer(outputs, parameters, output_parameters=of_outputs))

    def _done(self, status: int, text: str) -> None:
        try:
            self._local.calls.remove(self)
        except KeyError:
            pass  # it has ended already, maybe in another thread
        else:
            self.over = True
            cause, text = self._local.take_raised(text) if status else (None, text)
            self._put(Answer(None, {}, status, text, cause))
        self.inputs.release()  # wakes a thread that waits to send one more

    def stop(self) -> None:
        """The client is closed, and no event loop runs any more."""
        self._native.cancel()
        self.on_client_closed()

    def on_client_closed(self) -> None:
        """Ends the call with CANCELLED, since the client was closed."""
        self._done(CANCELLED, "the client is closed")

    def _refused(self, why: Optional[str]) -> None:
        if why is not None:
            self._done(INVALID, why)

    def _start(self, model: int, message: Message, more: bool, room: int) -> None:
        self._refused(self._native.start(model, message, more, room))

    def _input(self, message: Message) -> None:
        why = self._native.input(message)
        if why is not None:
            self._refused(why)
            self._native.cancel()

    # --- for the caller, in any thread ---

    def send(self, message: Message) -> None:
        self._local.run_in_link_thread(self._input, message)

    def end(self) -> None:
        self._local.run_in_link_thread(self._native.end)

    def room(self) -> None:
        """Gives room for one more part."""
        self._local.run_in_link_thread(self._native.room, 1)

    def cancel(self) -> None:
        self._local.run_in_link_thread(self._native.cancel)


class Local(Replica):
    """One deployment. The constructor starts it, and raises what its code raises."""

    def __init__(self, deployment: Deployment, user_config: Any = None, debug_errors: bool = False) -> None:
        name = deployment.name
        self.context = replica.ReplicaContext(replica=name + "-0", deployment=name)
        self.models = deployment.models
        self._debug = debug_errors
        self._raised = threading.local()
        self._sync_lock = threading.RLock()  # sync handlers run one at a time
        self._loop: Optional["asyncio.AbstractEventLoop"] = None
        self._sync_pool: Optional[Pool] = None
        self._closed = False
        self.calls: Set[Call] = set()  # calls that have not ended
        self._threads: Set[threading.Thread] = set()  # each runs one call
        with self._within(), plain_errors():
            super().__init__(deployment, replica.Given(self.context, user_config, {}), None, NOWHERE, "", name + "-0",
                             STREAM_INPUTS, self._on_error)  # fmt: skip
            self.lifecycle.enter = self._enter
            if self.needs_loop:
                self._start_loop()
            else:
                self._hooks = lifecycle.HookRunner(self.lifecycle)
                _without_loop(self._hooks.run, self.lifecycle.begin())

    # --- the replica context, and errors ---

    @contextlib.contextmanager
    def _within(self) -> Iterator[None]:
        token = replica.within.set(lambda: self.context)
        try:
            yield
        finally:
            replica.within.reset(token)

    def _enter(self, context: replica.ReplicaContext) -> None:
        self.context = context

    def _on_error(self, model: str, where: str, exc: BaseException) -> Tuple[int, str]:
        # the extension reports the failure to the Call from this thread, before it returns
        reported = report(self._debug, model, where, exc)
        self._raised.last = (exc, reported[1])
        return reported

    def take_raised(self, text: str) -> Tuple[Optional[BaseException], str]:
        """The exception of a handler, and its whole text, which the extension cuts."""
        exc, whole = getattr(self._raised, "last", None) or (None, text)
        self._raised.last = None
        return (exc, whole) if whole.startswith(text) else (None, text)

    # --- the event loop ---

    def _start_loop(self) -> None:
        ready, failed = threading.Event(), []

        def work() -> None:
            from ..runtime import event_loop

            try:
                event_loop.run(self._run(ready))
            except BaseException as e:
                failed.append(e)
            finally:
                ready.set()

        target = contextvars.copy_context().run
        self._thread = threading.Thread(target=target, args=(work,), name="anyserve-" + self.context.deployment,
                                        daemon=True)  # fmt: skip
        self._thread.start()
        ready.wait()
        if failed:
            self._end()
            raise failed[0]

    async def _run(self, ready: threading.Event) -> None:
        import asyncio

        self._stopping = asyncio.Event()
        await self.lifecycle.begin()
        if self.has_sync:
            self._sync_pool = Pool("handlers", 1)
        loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # for handlers, instead of the context of the caller
        self.use_loop(loop, lambda news: None, self._sync_pool.submit if self._sync_pool else None)
        self._loop = loop
        ready.set()
        await self._stopping.wait()
        self._loop = None
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def run_in_link_thread(self, function: Callable[..., Any], *args: Any) -> None:
        """Calls a function that uses the link: in the event loop's thread, soon; without a loop, here and now."""
        loop = self._loop
        if not self.needs_loop:
            function(*args)
        elif loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(function, *args, context=self._context)

    def is_here(self) -> bool:
        """Whether this is the thread of the event loop, in which waiting for an answer would never end."""
        return self.needs_loop and threading.current_thread() is self._thread

    def is_within(self) -> bool:
        """Whether this is a thread that runs handlers. close() waits for those."""
        pools = [self._sync_pool, *(b.pool for b in self.bindings)]
        return self.is_here() or threading.current_thread() in self._threads or any(p and p.is_here() for p in pools)

    # --- requests ---

    def begin(self, model: int, message: Message, put: Callable[[Answer], Any], stream: bool = False,
              more: bool = False) -> Call:  # fmt: skip
        """Starts a request to models[model]. stream: each further part comes only after Call.room. more: further messages
        follow by Call.send, and then Call.end."""
        if self._closed:
            raise RuntimeError("the client is closed")
        call = Call(self, put)
        start = (model, message, more, 1 if stream else 0)
        self.calls.add(call)
        if self.needs_loop:
            self.run_in_link_thread(call._start, *start)
        elif stream or _has_loop():
            # a generator blocks until its answers are read, and sync handlers must not see a running event loop
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(self._begin_in_thread, call, start), daemon=True)
            self._threads.add(thread)
            thread.start()
        else:
            self._begin_here(call, start)
        if self._closed:  # it was closed meanwhile
            call.on_client_closed()
        return call

    def _begin_here(self, call: Call, start: Tuple[Any, ...]) -> None:
        is_stream = start[3] != 0
        try:
            with self._within(), contextlib.nullcontext() if is_stream else self._sync_lock:
                call._start(*start)
        except (KeyboardInterrupt, SystemExit):
            if threading.current_thread() is threading.main_thread():
                raise
            traceback.print_exc()  # in a thread of ours: the caller gets an Error

    def _begin_in_thread(self, call: Call, start: Tuple[Any, ...]) -> None:
        try:
            self._begin_here(call, start)
        finally:
            self._threads.discard(threading.current_thread())

    # --- hooks ---

    def ask(self, op: int, text: str) -> Tuple[int, str]:
        """Runs hooks as for a CONTROL of the server (Lifecycle.answer)."""
        if not self.needs_loop:
            with self._within(), self._sync_lock:
                outcome: Tuple[int, str] = _without_loop(self._hooks.run, self.lifecycle.answer(op, text))
                return outcome
        import asyncio
        from concurrent.futures import Future

        answer: "Future[Tuple[int, str]]" = Future()

        async def work() -> None:
            try:
                answer.set_result(await self.lifecycle.answer(op, text))
            except BaseException as e:
                answer.set_exception(e)

        tasks = []  # the loop refers to tasks weakly
        self.run_in_link_thread(lambda: tasks.append(asyncio.ensure_future(work())))
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                return answer.result(0.1)
        raise RuntimeError("the client is closed")

    # --- the end ---

    def close(self) -> None:
        """Cancels all running requests. May be repeated."""
        if self._closed:
            return
        self._closed = True
        if self._loop is not None and not self.is_here():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        # The event loop and its tasks have ended. The remaining calls are sync; a generator that waits for its client to
        # read ends at that point.
        for call in list(self.calls):
            call.stop()
        for thread in list(self._threads):
            thread.join(CLOSE_TIMEOUT)
        self._end()

    def _end(self) -> None:
        # a pool thread may still use the link after the caller has its answer
        for pool in (self._sync_pool, *(b.pool for b in self.bindings)):
            if pool is not None:
                pool.end(CLOSE_TIMEOUT)
        if not self.needs_loop:
            _without_loop(self._hooks.close)
        self.link.close()
        # drop the objects that were made of the models' classes
        self.bindings = []
        del self.lifecycle


def _without_loop(function: Callable[..., Any], *args: Any) -> Any:
    """Calls it here, or in another thread if an event loop runs in this one."""
    if not _has_loop():
        return function(*args)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, function, *args).result()


def _has_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
