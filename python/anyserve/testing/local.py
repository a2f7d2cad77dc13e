"""Deployments at work within the process that calls them: no server, no socket, no worker process.

A Local is what a replica is in a worker (serve.Replica), with requests of its own (link.local) in the place of those
that a server sends: they are checked by the code that the server checks with, and run by the code that a worker runs
them with. app.test_client (client.py) is made of it. Limits on how many requests run at once are the server's, and
there are none here.

Where requests run: a deployment with async handlers has an event loop in a thread of its own; one without runs them
in the thread that asks, one at a time, and generators in threads of their own.
"""

from __future__ import annotations

import contextlib
import contextvars
import sys
import threading
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from .. import replica
from ..code.target import EX_DECLARATION, Deployment, Stop
from ..errors import STATUS_NAMES, DeclarationError, Error
from ..runtime import lifecycle
from ..runtime.worker_loop import Pool, Replica, report

if TYPE_CHECKING:
    import asyncio

STREAM_INPUTS = (16, 1 << 20)  # messages and bytes; the defaults of a worker
INVALID, CANCELLED = (STATUS_NAMES.index(n) for n in ("INVALID_ARGUMENT", "CANCELLED"))
CLOSE_TIMEOUT = 10.0  # seconds for each generator, and for the threads of each model: their code may be busy
NOWHERE = "/nonexistent/anyserve"  # the link is never connected


class Message(NamedTuple):
    """One request, or one more message of it, as the extension takes them."""

    tensors: List[Tuple[Any, ...]]  # name, datatype, shape, bytes, and a dict of parameters if it has any
    parameters: Dict[str, Any]
    id: str
    metadata: Dict[str, Any]


class Answer(NamedTuple):
    """What comes of a request: parts with outputs, then one without, which says how it ended."""

    outputs: Optional[Dict[str, Any]]
    parameters: Dict[str, Any] = {}
    status: int = 0
    text: str = ""
    cause: Optional[BaseException] = None  # what the handler raised
    output_parameters: Dict[str, Dict[str, Any]] = {}


def error_of(end: Answer) -> BaseException:
    """As a client would see it, with what the handler raised as its cause. Ctrl-C is of who runs the program."""
    if isinstance(end.cause, KeyboardInterrupt):
        return end.cause
    error = Error(STATUS_NAMES[end.status], end.text)
    error.__cause__ = end.cause
    return error


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """What would end a worker is an exception here."""
    try:
        yield
    except Stop as e:
        kind = DeclarationError if e.code == EX_DECLARATION else RuntimeError
        raise kind(str(e)) from e.__context__


class Call:
    """One request that was made here. `put` gets its Answers, in whatever thread they are made."""

    def __init__(self, local: "Local", put: Callable[[Answer], Any]) -> None:
        self._local, self._put = local, put
        self.over = False
        self.inputs = threading.Semaphore(STREAM_INPUTS[0])  # messages that may wait for the handler
        self._native = local.link.local(self._part, self.inputs.release, self._done)

    def _part(self, outputs: Dict[str, Any], parameters: Dict[str, Any], of_outputs: Dict[str, Dict[str, Any]]) -> None:
        self._put(Answer(outputs, parameters, output_parameters=of_outputs))

    def _done(self, status: int, text: str) -> None:
        try:
            self._local.calls.remove(self)
        except KeyError:
            pass  # somebody was quicker, maybe in another thread
        else:
            self.over = True
            cause, text = self._local.take_raised(text) if status else (None, text)
            self._put(Answer(None, {}, status, text, cause))
        self.inputs.release()  # whoever waits with one more

    def stop(self) -> None:
        """The client is closed, and no event loop runs any more."""
        self._native.cancel()
        self.dropped()

    def dropped(self) -> None:
        """The client was closed before it came to its handler, or while that goes on."""
        self._done(CANCELLED, "the client is closed")

    def _refused(self, why: Optional[str]) -> None:
        if why is not None:
            self._done(INVALID, why)

    def _start(self, model: int, message: Message, more: bool, room: int) -> None:
        self._refused(self._native.start(model, *message, more, room))

    def _input(self, message: Message) -> None:
        why = self._native.input(*message)
        if why is not None:
            self._refused(why)
            self._native.cancel()

    # what the caller does; any thread

    def give(self, message: Message) -> None:
        self._local.do(self._input, message)

    def end(self) -> None:
        self._local.do(self._native.end)

    def room(self) -> None:
        """For one more part."""
        self._local.do(self._native.room, 1)

    def cancel(self) -> None:
        self._local.do(self._native.cancel)


class Local(Replica):
    """One deployment. Started when it is made; raises what its code raises then."""

    def __init__(self, deployment: Deployment, user_config: Any = None, debug_errors: bool = False) -> None:
        name = deployment.name
        self.context = replica.ReplicaContext(replica=name + "-0", deployment=name)
        self.models = deployment.models
        self._debug = debug_errors
        self._raised = threading.local()
        self._alone = threading.RLock()  # handlers that are not async, one at a time
        self._loop: Optional["asyncio.AbstractEventLoop"] = None
        self._beside: Optional[Pool] = None
        self._closed = False
        self.calls: Set[Call] = set()  # not ended
        self._threads: Set[threading.Thread] = set()  # of one call each
        with self._within(), plain_errors():
            super().__init__(deployment, replica.Given(self.context, user_config, {}), None, NOWHERE, "", name + "-0",
                             STREAM_INPUTS, self._on_error)  # fmt: skip
            self.care.enter = self._enter
            if self.needs_loop:
                self._start_loop()
            else:
                self._hooks = lifecycle.Alone(self.care)
                _apart(self._hooks.run, self.care.begin())

    # --- whose code runs ---

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
        # who asked hears of it within the same call of the extension, in this thread
        said = report(self._debug, model, where, exc)
        self._raised.last = (exc, said[1])
        return said

    def take_raised(self, text: str) -> Tuple[Optional[BaseException], str]:
        """What a handler has raised, and all of its text: the extension cuts it."""
        exc, whole = getattr(self._raised, "last", None) or (None, text)
        self._raised.last = None
        return (exc, whole) if whole.startswith(text) else (None, text)

    # --- an event loop ---

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
        await self.care.begin()
        if self.has_sync:
            self._beside = Pool("handlers", 1)
        loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # of what runs here, in the place of the caller's
        self.use_loop(loop, lambda news: None, self._beside.submit if self._beside else None)
        self._loop = loop
        ready.set()
        await self._stopping.wait()
        self._loop = None
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    def do(self, function: Callable[..., Any], *args: Any) -> None:
        """Where the link belongs: in the event loop's thread, soon; or here."""
        loop = self._loop
        if not self.needs_loop:
            function(*args)
        elif loop is not None:
            with contextlib.suppress(RuntimeError):  # it has just been closed
                loop.call_soon_threadsafe(function, *args, context=self._context)

    def is_here(self) -> bool:
        """Is this the thread of the event loop? Waiting in it would be for ever."""
        return self.needs_loop and threading.current_thread() is self._thread

    def is_within(self) -> bool:
        """Is this a thread that runs handlers? close() waits for those."""
        pools = [self._beside, *(b.pool for b in self.bindings)]
        return self.is_here() or threading.current_thread() in self._threads or any(p and p.is_here() for p in pools)

    # --- requests ---

    def begin(self, model: int, message: Message, put: Callable[[Answer], Any], stream: bool = False,
              more: bool = False) -> Call:  # fmt: skip
        """A request is on its way to the handler of models[model]. stream: its parts come one at a time, each after
        Call.room; more: Call.give and Call.end follow."""
        if self._closed:
            raise RuntimeError("the client is closed")
        call = Call(self, put)
        start = (model, message, more, 1 if stream else 0)
        self.calls.add(call)
        if self.needs_loop:
            self.do(call._start, *start)
        elif stream or _has_loop():
            # A generator stands still until somebody reads; and handlers that are not async see no running loop.
            run = contextvars.copy_context().run
            thread = threading.Thread(target=run, args=(self._begin_apart, call, start), daemon=True)
            self._threads.add(thread)
            thread.start()
        else:
            self._begin_here(call, start)
        if self._closed:  # meanwhile
            call.dropped()
        return call

    def _begin_here(self, call: Call, start: Tuple[Any, ...]) -> None:
        is_stream = start[3] != 0
        try:
            with self._within(), contextlib.nullcontext() if is_stream else self._alone:
                call._start(*start)
        except (KeyboardInterrupt, SystemExit):
            if threading.current_thread() is threading.main_thread():
                raise
            traceback.print_exc()  # a thread of ours: who asked has an Error

    def _begin_apart(self, call: Call, start: Tuple[Any, ...]) -> None:
        try:
            self._begin_here(call, start)
        finally:
            self._threads.discard(threading.current_thread())

    # --- questions to the replica ---

    def ask(self, op: int, text: str) -> Tuple[int, str]:
        """As the server asks (lifecycle.Care.answer)."""
        if not self.needs_loop:
            with self._within(), self._alone:
                outcome: Tuple[int, str] = _apart(self._hooks.run, self.care.answer(op, text))
                return outcome
        import asyncio
        from concurrent.futures import Future

        answer: "Future[Tuple[int, str]]" = Future()

        async def work() -> None:
            try:
                answer.set_result(await self.care.answer(op, text))
            except BaseException as e:
                answer.set_exception(e)

        tasks = []  # the loop refers to tasks weakly
        self.do(lambda: tasks.append(asyncio.ensure_future(work())))
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                return answer.result(0.1)
        raise RuntimeError("the client is closed")

    # --- the end ---

    def close(self) -> None:
        """What runs is cancelled. Twice is fine."""
        if self._closed:
            return
        self._closed = True
        if self._loop is not None and not self.is_here():
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        # The loop has ended, if there was one, and with it its tasks. What is left is not async: a generator that
        # waits for its client to read ends where it stands.
        for call in list(self.calls):
            call.stop()
        for thread in list(self._threads):
            thread.join(CLOSE_TIMEOUT)
        self._end()

    def _end(self) -> None:
        # A thread is not through with a request when who asked has its answer; the link must outlive that.
        for pool in (self._beside, *(b.pool for b in self.bindings)):
            if pool is not None:
                pool.end(CLOSE_TIMEOUT)
        if not self.needs_loop:
            _apart(self._hooks.close)
        self.link.close()
        # the objects that were made of the models' classes end with the replica
        self.bindings = []
        del self.care


def _apart(function: Callable[..., Any], *args: Any) -> Any:
    """Calls it where no event loop runs."""
    if not _has_loop():
        return function(*args)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, function, *args).result()


def _has_loop() -> bool:
    asyncio = sys.modules.get("asyncio")
    return asyncio is not None and asyncio._get_running_loop() is not None
