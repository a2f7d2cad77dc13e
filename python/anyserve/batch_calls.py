"""@batch: combines concurrent calls of an async function inside a replica into calls with lists."""

from __future__ import annotations

import collections
import collections.abc
import functools
import inspect
import weakref
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Set, Tuple

from .batching import MAX_BATCH
from .errors import check_int, is_int

if TYPE_CHECKING:
    import asyncio  # imported where it is used, since not every program has an event loop

__all__ = ["batch"]


def _check_size(value: Any, what: str) -> int:
    return check_int(value, what, 1, MAX_BATCH, ValueError)


def _check_wait(value: Any) -> Any:
    if not (is_int(value) or isinstance(value, float)) or not 0 <= value <= 3600:
        raise ValueError("batch_wait_timeout_s is a number of seconds from 0 to 3600, not %r" % (value,))
    return value


class Options:
    """Changed by the setters of a decorated function."""

    def __init__(self, size: int, wait: float, concurrent: int) -> None:
        self.size = _check_size(size, "max_batch_size")
        self.wait = _check_wait(wait)
        self.concurrent = _check_size(concurrent, "max_concurrent_batches")


class Call:
    """One caller: its arguments, and the future of its result."""

    __slots__ = ("arguments", "future", "since")

    def __init__(self, arguments: Dict[Any, Any], loop: asyncio.AbstractEventLoop) -> None:
        self.arguments = arguments
        self.future: "asyncio.Future[Any]" = loop.create_future()
        self.since = loop.time()


class Queue:
    """The waiting calls for one key of one object."""

    def __init__(self, run: Callable[..., Any], options: Options, on_idle: Callable[[], object]) -> None:
        import asyncio

        self.run, self.options, self.on_idle = run, options, on_idle
        self.loop = asyncio.get_running_loop()
        self.calls: Deque[Call] = collections.deque()
        self.running: Set["asyncio.Task[None]"] = set()
        self.timer: Optional[asyncio.Handle] = None

    def add(self, call: Call) -> None:
        self.calls.append(call)
        if self.timer is None or self.may_be_full():
            self.schedule_check(0)

    def may_be_full(self) -> bool:
        """False: the calls that wait are not enough for a whole batch."""
        return len(self.calls) >= self.options.size

    def next_batch(self) -> Tuple[int, bool]:
        """How many of the calls that wait fit into the next batch, and whether that batch is full."""
        return min(len(self.calls), self.options.size), len(self.calls) >= self.options.size

    def schedule_check(self, after: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
        # 0: in the next turn, so that all calls of this turn share the batch
        self.timer = self.loop.call_later(after, self.start_batches) if after else self.loop.call_soon(self.start_batches)

    def start_batches(self) -> None:
        """Starts batches that are full or whose first call has waited long enough."""
        self.timer = None
        self.calls = collections.deque(c for c in self.calls if not c.future.done())
        while self.calls and len(self.running) < self.options.concurrent:
            left = self.calls[0].since + self.options.wait - self.loop.time()
            count, is_full = self.next_batch()
            if not is_full and left > 0:
                self.schedule_check(left)
                return
            batch_calls = [self.calls.popleft() for _ in range(count)]
            task = self.loop.create_task(self.run_batch(batch_calls))
            self.running.add(task)
            task.add_done_callback(self.on_ended)
        if not self.calls and not self.running:
            self.on_idle()

    def on_ended(self, task: "asyncio.Task[None]") -> None:
        self.running.discard(task)
        self.schedule_check(0)

    async def run_batch(self, calls: List[Call]) -> None:
        import asyncio

        try:
            lists = {name: [c.arguments[name] for c in calls] for name in calls[0].arguments}
            results = await self.run(**lists)
            if not isinstance(results, collections.abc.Sequence) and not hasattr(results, "__array__"):
                raise TypeError("a function with @batch returns a list, not %s" % type(results).__name__)
            if len(results) != len(calls):
                raise ValueError(
                    "a function with @batch returned %d results for %d calls" % (len(results), len(calls))
                )
        except BaseException as e:
            for call in calls:
                self.set_outcome(call, e)
            if isinstance(e, (asyncio.CancelledError, GeneratorExit)):
                raise
            return  # the callers get it; SystemExit from a task would end the event loop
        for call, result in zip(calls, results):
            self.set_outcome(call, result)

    @staticmethod
    def set_outcome(call: Call, result: Any) -> None:
        import asyncio

        if call.future.done():
            return
        if isinstance(result, asyncio.CancelledError):
            call.future.cancel()
        elif isinstance(result, BaseException):
            call.future.set_exception(result)
        else:
            call.future.set_result(result)


_Queues = Dict[Any, Queue]


def batch(
    function: Optional[Callable[..., Any]] = None,
    /,
    *,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    key: Optional[Callable[..., Any]] = None,
) -> Any:
    """Decorates an async function or method that takes lists and returns a list.

    Each caller passes one value for each parameter and gets one result; concurrent calls are combined
    into one call of the function. An exception that the function raises goes to all callers; an
    exception in the returned list goes to one. Callers that were cancelled are left out.

    max_batch_size: most calls in one batch.
    batch_wait_timeout_s: how long the first call of a batch waits for others.
    max_concurrent_batches: how many batches run at once; later calls wait and are batched.
    key: a function that gets the arguments of a call (without self). Only calls with equal keys share
        a batch, and each key has a queue of its own. Default: all calls share.

    The decorated function has the methods ``set_max_batch_size`` and ``set_batch_wait_timeout_s``.
    """
    options = Options(max_batch_size, batch_wait_timeout_s, max_concurrent_batches)

    def decorate(fn: Callable[..., Any]) -> Callable[..., Any]:
        import asyncio

        if not inspect.iscoroutinefunction(fn):
            raise TypeError("@batch is for async functions; %r is none" % (fn,))
        signature = inspect.signature(fn)
        queues_of_objects: "weakref.WeakKeyDictionary[Any, _Queues]" = weakref.WeakKeyDictionary()
        queues_of_function: _Queues = {}

        def find_queues(args: Tuple[Any, ...]) -> Tuple[_Queues, Tuple[Any, ...]]:
            """The queues of the object that the method belongs to, or of the function."""
            if args and getattr(type(args[0]), fn.__name__, None) is wrapper:
                return queues_of_objects.setdefault(args[0], {}), args[:1]
            return queues_of_function, ()

        @functools.wraps(fn)
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            queues, owner = find_queues(args)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            arguments = dict(list(bound.arguments.items())[len(owner) :])
            kind = key(*args[len(owner) :], **kwargs) if key else None
            queue = queues.get(kind)
            if queue is None or queue.loop is not asyncio.get_running_loop():
                run = functools.partial(fn, *owner)
                queue = queues[kind] = Queue(run, options, lambda: queues.pop(kind, None))
            call = Call(arguments, queue.loop)
            queue.add(call)
            return await call.future

        def set_max_batch_size(value: int) -> None:
            options.size = _check_size(value, "max_batch_size")

        def set_batch_wait_timeout_s(value: float) -> None:
            options.wait = _check_wait(value)

        wrapper.set_max_batch_size = set_max_batch_size  # type: ignore[attr-defined]
        wrapper.set_batch_wait_timeout_s = set_batch_wait_timeout_s  # type: ignore[attr-defined]
        return wrapper

    return decorate if function is None else decorate(function)
