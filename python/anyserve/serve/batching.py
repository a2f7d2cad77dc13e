"""``serve.batch``: concurrent calls of an async function in a replica share one call of it, which gets lists.

It is ``anyserve.batch`` (batch_calls.py) with Ray's arguments, errors and metrics, and generators. Batches of a whole model, which
the dispatcher makes, are ``anyserve.Batching``.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
from collections import deque
from typing import Any, AsyncGenerator, Callable, Deque, Dict, List, Optional, Sequence, Tuple

from ..batch_calls import Call, Queue
from ..runtime.log import log_event
from . import context
from ._calls.transport import current_request
from ._decorated import Decorated
from .exceptions import RayServeException
from .metrics import LATENCY_BUCKETS_MS, Counter, Gauge, Histogram

__all__ = ["batch"]

SIZE_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
PERCENT_BUCKETS = (5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 100)
_ENDS = (StopIteration, StopAsyncIteration)  # a caller of a generator gets no more results


# --- options ---


def _check_size(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        raise TypeError("max_batch_size must be integer >= 1, got %s" % (value,))
    if value < 1:
        raise ValueError("max_batch_size must be an integer >= 1, got %s" % (value,))
    return value


def _check_wait(value: Any) -> float:
    if not isinstance(value, (float, int)):
        raise TypeError("batch_wait_timeout_s must be a float >= 0, got %s" % (value,))
    if not value >= 0:
        raise ValueError("batch_wait_timeout_s must be a float >= 0, got %s" % (value,))
    return value


class _Options:
    """As those of batch_calls.py; `size_of` computes the size of a list of items."""

    def __init__(self, size: Any, wait: Any, concurrent: Any, size_of: Any) -> None:
        self.size, self.wait = _check_size(size), _check_wait(wait)
        if not isinstance(concurrent, int) or concurrent < 1:
            raise TypeError("max_concurrent_batches must be an integer >= 1, got %s" % (concurrent,))
        if size_of is not None and not callable(size_of):
            raise TypeError("batch_size_fn must be a callable or None, got %s" % type(size_of))
        self.concurrent, self.size_of = concurrent, size_of


# --- calls ---


class _Call(Call):
    """One caller. For a generator, `future` ends when the caller needs no more results."""

    __slots__ = ("request", "items", "ended", "error", "waiter")

    def __init__(self, arguments: Dict[Any, Any], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(arguments, loop)
        self.request = context._serve_request_context.get()
        self.items: Deque[Any] = deque()  # results of a generator that were not taken yet
        self.ended = False
        self.error: Optional[BaseException] = None
        self.waiter: Optional[asyncio.Future[None]] = None

    def add(self, item: Any) -> None:
        if not self.future.done():
            self.items.append(item)
            self._wake()

    def end(self, error: Optional[BaseException] = None) -> None:
        if not self.ended:
            self.ended, self.error = True, error
            self._wake()
            if not self.future.done():
                self.future.set_result(None)

    def _wake(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    async def results(self) -> AsyncGenerator[Any, None]:
        """What the caller of a generator gets."""
        try:
            while True:
                while self.items:
                    yield self.items.popleft()
                if self.ended:
                    error, self.error = self.error, None
                    if error is None:
                        return
                    try:
                        raise error
                    finally:
                        del error
                self.waiter = asyncio.get_running_loop().create_future()
                await self.waiter
        finally:
            self.future.cancel()  # without an effect if it has ended


class _Metrics:
    """Of one function, under Ray's names."""

    def __init__(self, function: str) -> None:
        keys, tags = ("function_name",), {"function_name": function}

        def histogram(name: str, text: str, boundaries: Sequence[float]) -> Histogram:
            return Histogram(name, text, boundaries, keys).set_default_tags(tags)

        self.wait_ms = histogram("serve_batch_wait_time_ms", "Time requests waited for batch to fill (in milliseconds).",
                                 LATENCY_BUCKETS_MS)  # fmt: skip
        self.execution_ms = histogram("serve_batch_execution_time_ms", "Time to execute the batch function (in milliseconds).",
                                      LATENCY_BUCKETS_MS)  # fmt: skip
        self.percent = histogram(
            "serve_batch_utilization_percent",
            "Batch utilization as percentage (actual_batch_size / max_batch_size * 100).", PERCENT_BUCKETS)  # fmt: skip
        self.size = histogram("serve_actual_batch_size", "The actual number of requests in each batch.", SIZE_BUCKETS)
        self.queued = Gauge("serve_batch_queue_length", "Number of requests waiting in the batch queue.",
                            keys).set_default_tags(tags)  # fmt: skip
        self.batches = Counter("serve_batches_processed", "Counter of batches executed.", keys).set_default_tags(tags)


class _Queue(Queue):
    """The waiting calls for one multiplexed model of one object."""

    options: _Options  # type: ignore[assignment]
    calls: Deque[_Call]  # type: ignore[assignment]

    def __init__(self, run: Callable[..., Any], options: _Options, on_idle: Callable[[], object], owner: "_Queues") -> None:
        super().__init__(run, options, on_idle)  # type: ignore[arg-type]
        self._owner = owner

    def may_be_full(self) -> bool:
        return self.options.size_of is not None or super().may_be_full()

    def next_batch(self) -> Tuple[int, bool]:
        size_of, size = self.options.size_of, self.options.size
        if size_of is None:
            return super().next_batch()
        items: List[Any] = []
        for call in self.calls:
            try:
                items.append(_item_of(call))
                now = size_of(items)
            except Exception as e:
                self._refuse(call, e)
                return 1, True
            if now > size and len(items) == 1:
                self._refuse(call, RuntimeError("Size of item is greater than max_batch_size. Please increase the max_batch_size"
                                                " or check the implementation of the batch_size_fn."))  # fmt: skip
                return 1, True
            if now > size:
                return len(items) - 1, True
            if now == size:
                return len(items), True
        return len(items), False

    def _refuse(self, call: _Call, error: BaseException) -> None:
        """The call alone is the next batch, and fails."""
        self.calls.remove(call)
        self.calls.appendleft(call)
        self._fail([call], error)

    async def run_batch(self, calls: List[_Call]) -> None:  # type: ignore[override]
        calls = [c for c in calls if not c.future.done()]
        if not calls:
            return
        # the batch belongs to none of its calls: none of them cancels the calls that it makes
        context._serve_request_context.set(context._NO_REQUEST)
        context._serve_batch_request_context.set([c.request for c in calls])
        current_request.set(None)
        self._watch(calls)
        metrics, began = self._owner.metrics, time.perf_counter()
        try:
            self._count(calls)
            lists = {name: [c.arguments[name] for c in calls] for name in calls[0].arguments}
            args = [v for k, v in lists.items() if isinstance(k, int)]
            kwargs = {k: v for k, v in lists.items() if not isinstance(k, int)}
            if self._owner.streams:
                await self._run_generator(calls, self.run(*args, **kwargs))
            else:
                results = await self.run(*args, **kwargs)
                _check_length(results, len(calls))
                _set_results(calls, results)
        except BaseException as e:
            self._fail(calls, e)
            if isinstance(e, (asyncio.CancelledError, GeneratorExit)):
                raise
        finally:
            calls = []  # what was raised has this frame, and the callers have what was raised
            metrics.execution_ms.observe((time.perf_counter() - began) * 1e3)

    def _fail(self, calls: List[_Call], error: BaseException) -> None:
        for call in calls:
            if self._owner.streams:
                call.end(error)
            elif not call.future.done():
                call.future.set_exception(error)

    def _watch(self, calls: List[_Call]) -> None:
        """The batch is cancelled when those of its callers who need more results are all cancelled."""
        task = asyncio.current_task()
        assert task is not None

        def on_done(future: "asyncio.Future[Any]") -> None:
            if future.cancelled() and all(c.future.done() for c in calls):
                task.cancel()

        for call in calls:
            call.future.add_done_callback(on_done)

    def _count(self, calls: List[_Call]) -> None:
        metrics, options = self._owner.metrics, self.options
        size = len(calls)
        if options.size_of is not None:
            size = options.size_of([_item_of(c) for c in calls])
        metrics.wait_ms.observe((self.loop.time() - calls[0].since) * 1e3)
        metrics.size.observe(size)
        metrics.percent.observe(size / options.size * 100)
        metrics.batches.inc()
        metrics.queued.set(self._owner.waiting())

    @staticmethod
    async def _run_generator(calls: List[_Call], generator: AsyncGenerator[Any, None]) -> None:
        try:
            async for results in generator:
                _check_length(results, len(calls))
                _add_results(calls, results)
            for call in calls:
                call.end()
        finally:
            calls = []
            await generator.aclose()


def _item_of(call: _Call) -> Any:
    """What batch_size_fn gets of a call: its first argument. TypeError: it has none."""
    for value in call.arguments.values():
        return value
    raise TypeError("batch_size_fn needs an argument, and the call has none")


def _set_results(calls: List[_Call], results: Any) -> None:
    for call, result in zip(calls, results):
        if not call.future.done():
            call.future.set_result(result)


def _add_results(calls: List[_Call], results: Any) -> None:
    for call, result in zip(calls, results):
        if result is StopIteration or result is StopAsyncIteration:
            call.end()
        elif not call.ended:
            call.add(result)


def _check_length(results: Any, count: int) -> None:
    if len(results) != count:
        raise RayServeException("Batched function doesn't preserve batch size. The input list has length %d but the returned "
                                "list has length %d." % (count, len(results)))  # fmt: skip


class _Queues:
    """The queues of one object, by multiplexed model id."""

    def __init__(self, function: Callable[..., Any], options: _Options, owner: Tuple[Any, ...]) -> None:
        self.run = functools.partial(function, *owner)
        self.options = options
        self.streams = inspect.isasyncgenfunction(function)
        self.metrics = _Metrics(function.__name__)
        self.queues: Dict[str, _Queue] = {}
        warn_of_size(options)

    def add(self, arguments: Dict[Any, Any]) -> _Call:
        """A call, which waits. It starts nothing before the next turn of the event loop."""
        loop = asyncio.get_running_loop()
        call = _Call(arguments, loop)
        model_id = call.request.multiplexed_model_id
        queue = self.queues.get(model_id)
        if queue is None or queue.loop is not loop:
            queue = self.queues[model_id] = _Queue(self.run, self.options, lambda: self.queues.pop(model_id, None), self)
        queue.add(call)
        return call

    def waiting(self) -> int:
        return sum(len(q.calls) for q in self.queues.values())


def warn_of_size(options: _Options) -> None:
    core = context.current_core()
    if core is not None and core.max_ongoing_requests < options.size * options.concurrent:
        log_event("warn", "batches_stay_small", error=(
            "`max_batch_size` (%d) * `max_concurrent_batches` (%d) is larger than `max_ongoing_requests` (%d). This means the "
            "replica will never achieve the configured `max_batch_size` concurrently. Please update `max_ongoing_requests` to "
            "be >= `max_batch_size` * `max_concurrent_batches`."
            % (options.size, options.concurrent, core.max_ongoing_requests)))  # fmt: skip


def _binder(function: Callable[..., Any]) -> Callable[[Tuple[Any, ...], Dict[str, Any], int], Dict[Any, Any]]:
    """Makes, of the arguments of a call, a value for each place (a number) and each keyword, without `self`."""
    signature = inspect.signature(function)
    plain = all(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in signature.parameters.values())
    count = len(signature.parameters)

    def bind(args: Tuple[Any, ...], kwargs: Dict[str, Any], skip: int) -> Dict[Any, Any]:
        if not (plain and not kwargs and len(args) == count):
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
        return {**dict(enumerate(args[skip:])), **kwargs}

    return bind


def batch(
    _func: Optional[Callable[..., Any]] = None,
    /,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    batch_size_fn: Optional[Callable[[List[Any]], int]] = None,
) -> Any:
    """Decorates an async function or method, or an async generator, that takes a list and gives a list of the same length.

    Each caller passes one item and gets one result. An exception that the function raises goes to all callers of the batch; an
    exception in the returned list is a result. A generator gives lists; `StopIteration` (the class) in one ends the stream of that
    caller, which gets no more results. A call that is cancelled before its batch starts is left out; a batch whose callers are
    all cancelled is cancelled.

    max_batch_size: most calls in one batch; with batch_size_fn, the largest size.
    batch_wait_timeout_s: how long the first call of a batch waits for others.
    max_concurrent_batches: how many batches of an object, and of one multiplexed model, run at once. Calls that come meanwhile
        wait and are batched.
    batch_size_fn: computes the size of a list of items.

    The decorated function has ``set_max_batch_size`` and ``set_batch_wait_timeout_s``. Calls with different multiplexed model
    ids do not share a batch. Other than in Ray Serve, each object has queues of its own; a call that does not fit stays first in
    line; an async generator may be decorated without arguments, too; a sync function is refused also with arguments.
    """
    options = _Options(max_batch_size, batch_wait_timeout_s, max_concurrent_batches, batch_size_fn)
    if _func is not None and not callable(_func):
        raise TypeError("@serve.batch can only be used to decorate functions or methods.")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        streams = inspect.isasyncgenfunction(function)
        if not streams and not inspect.iscoroutinefunction(function):
            raise TypeError("Functions decorated with @serve.batch must be 'async def'")
        bind = _binder(function)

        def enqueue(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> _Call:
            owner = decorated.owner(args)
            selfs = () if owner is None else (owner,)
            queues = decorated.value(owner, lambda: _Queues(function, options, selfs))
            return queues.add(bind(args, kwargs, len(selfs)))

        async def call(*args: Any, **kwargs: Any) -> Any:
            return await enqueue(args, kwargs).future

        def call_generator(*args: Any, **kwargs: Any) -> Any:
            return enqueue(args, kwargs).results()

        def set_max_batch_size(new_max_batch_size: int) -> None:
            options.size = _check_size(new_max_batch_size)
            warn_of_size(options)

        def set_batch_wait_timeout_s(new_batch_wait_timeout_s: float) -> None:
            options.wait = _check_wait(new_batch_wait_timeout_s)

        wrapper: Any = functools.wraps(function)(call_generator if streams else call)
        decorated = Decorated(wrapper)
        if streams:
            wrapper._anyserve_kind = "async generator"  # for _replica/core.py: calling it makes one
        wrapper.set_max_batch_size = set_max_batch_size
        wrapper.set_batch_wait_timeout_s = set_batch_wait_timeout_s
        wrapper._get_max_batch_size = lambda: options.size
        wrapper._get_batch_wait_timeout_s = lambda: options.wait
        return wrapper  # type: ignore[no-any-return]

    return decorate if _func is None else decorate(_func)
