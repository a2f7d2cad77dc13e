"""Sync methods of a replica, on threads beside its event loop.

At most `limit` run at once; further ones wait here in their order. A call that is admitted beyond that (a call on a cycle of
deployments) gets a thread of its own at once, so that what waits for it can go on. A call that was started is never
abandoned: its slot is in use until the user's code has ended, also when nobody waits for it any longer.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections import deque
from types import GeneratorType
from typing import Any, AsyncGenerator, Callable, Deque, Optional, Tuple

from ...runtime.pool import Pool

AHEAD = 16  # results of a generator that may wait until they are taken


def _outcome(context: contextvars.Context, call: Callable[[], Any]) -> Tuple[Any, Optional[BaseException]]:
    """The result, or what was raised, for the event loop."""
    try:
        return context.run(call), None
    except StopIteration as e:  # a future cannot have it
        error = RuntimeError("method raised StopIteration")
        error.__cause__ = e
        return None, error
    except BaseException as e:
        return None, e


class NotGenerator(Exception):
    """A call was no generator; `value` is its result."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


class _Job:
    __slots__ = ("call", "context", "future", "beyond", "started", "ended")

    def __init__(self, call: Callable[[], Any], future: "asyncio.Future[Any]", beyond: bool) -> None:
        self.call = call
        self.context = contextvars.copy_context()
        self.future = future  # of the result
        self.beyond = beyond
        self.started = False
        self.ended: Optional[asyncio.Future[None]] = None  # of the end, if it is awaited after a cancellation


class SyncCalls:
    """Use it on its event loop only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, name: str = "serve") -> None:
        self._loop = loop
        self._limit = limit
        self._pool = Pool(name, 0)
        self._running = self._beyond = 0
        self._waiting: Deque[_Job] = deque()
        self._ended: Deque[Tuple[_Job, Any, Optional[BaseException]]] = deque()  # in threads, not seen by the loop yet
        self._is_woken = False  # the loop will look at them

    @property
    def running(self) -> int:
        """How many calls have threads now."""
        return self._running + self._beyond

    def resize(self, limit: int) -> None:
        """Changes how many run at once. Calls that run go on."""
        self._limit = limit
        self._start_waiting()
        self._drop_threads()

    async def run(self, call: Callable[[], Any], beyond: bool = False) -> Any:
        """Runs it in a thread, with the context variables of the caller. Cancelled before it starts, it does not run;
        after that, CancelledError is raised when it has ended."""
        job = self._submit(call, beyond)
        try:
            return await job.future
        except asyncio.CancelledError:
            await self._end_of(job)
            raise
        finally:
            del job  # as in `_work`

    async def iterate(self, make: Callable[[], Any], beyond: bool = False) -> AsyncGenerator[Any, None]:
        """Runs the generator that `make` returns, in one thread, and gives its results; it runs at most AHEAD results
        further than they are taken. NotGenerator: `make` returned something else."""
        box = _Box(self._loop)
        job = self._submit(lambda: box.fill(make()), beyond)
        job.future.add_done_callback(box.wake)
        try:
            while True:
                for item in box.take():
                    yield item
                if job.future.done():
                    for item in box.take():
                        yield item
                    job.future.result()
                    return
                await box.wait()
        finally:
            box.close()
            if not job.future.cancel():
                job.future.exception()  # it was raised above, or nobody takes results any longer
            await self._end_of(job)
            del job

    def end(self, timeout: float) -> None:
        """Ends the threads. timeout: how many seconds to wait for calls that run."""
        self._pool.end(timeout)

    def _submit(self, call: Callable[[], Any], beyond: bool) -> _Job:
        job = _Job(call, self._loop.create_future(), beyond)
        if beyond or self._running < self._limit:
            self._start(job)
        else:
            self._waiting.append(job)
        return job

    async def _end_of(self, job: _Job) -> None:
        """Waits until the user's code has ended, whoever cancels this."""
        if job.started and job.ended is None:
            job.ended = self._loop.create_future()
        while job.ended is not None and not job.ended.done():
            try:
                await asyncio.wait([job.ended])
            except asyncio.CancelledError:
                pass

    def _start(self, job: _Job) -> None:
        """RuntimeError: there is no thread for it, and the system refuses another one."""
        if self.running >= len(self._pool):
            try:
                self._pool.add()
            except RuntimeError:
                if job.beyond or not len(self._pool):
                    raise  # else it waits for one of those that there are
        job.started = True
        if job.beyond:
            self._beyond += 1
        else:
            self._running += 1
        self._pool.submit(functools.partial(self._work, job))

    def _work(self, job: _Job) -> None:
        """In a thread."""
        self._ended.append((job, *_outcome(job.context, job.call)))
        del job  # what was raised has this frame: it shall not have what was raised, which only the collector would free
        if not self._is_woken:  # one wake for all that end meanwhile
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._see_ended)
            except RuntimeError:  # the loop has been closed
                pass

    def _see_ended(self) -> None:
        self._is_woken = False  # before it looks: what ends from now on wakes it again
        while self._ended:
            self._done(*self._ended.popleft())
        self._start_waiting()
        self._drop_threads()

    def _done(self, job: _Job, result: Any, error: Optional[BaseException]) -> None:
        if job.beyond:
            self._beyond -= 1
        else:
            self._running -= 1
        job.started = False
        if not job.future.done():
            if error is None:
                job.future.set_result(result)
            else:
                job.future.set_exception(error)
        if job.ended is not None and not job.ended.done():
            job.ended.set_result(None)

    def _start_waiting(self) -> None:
        while self._waiting and self._running < self._limit:
            job = self._waiting.popleft()
            if job.future.done():
                continue
            try:
                self._start(job)
            except RuntimeError as e:
                job.future.set_exception(e)

    def _drop_threads(self) -> None:
        """Threads stay for the next calls, but no more than `limit`."""
        while len(self._pool) > max(self._limit, self.running):
            self._pool.drop()


class _Box:
    """Results on their way from the thread of a generator to the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._items: Deque[Any] = deque()
        self._room = threading.Semaphore(AHEAD - 1)
        self._closed = False
        self._waiter: Optional[asyncio.Future[None]] = None

    def fill(self, made: Any) -> None:
        """In the thread: runs the generator."""
        if not isinstance(made, GeneratorType):
            raise NotGenerator(made)
        try:
            for item in made:
                self._items.append(item)
                del item
                if self._waiter is not None:
                    self._loop.call_soon_threadsafe(self.wake)
                self._room.acquire()
                if self._closed:
                    break
        finally:
            made.close()

    def take(self) -> Any:
        """What is there, one at a time: each makes room for another."""
        while self._items:
            self._room.release()
            yield self._items.popleft()

    def wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Until `wake` is called. An item that came before is not waited for."""
        self._waiter = self._loop.create_future()
        try:
            if not self._items:  # looked at after _waiter was set, as the thread looks at _waiter after it has added one
                await self._waiter
        finally:
            self._waiter = None

    def close(self) -> None:
        """Nobody takes results any longer: the generator is closed where it gives its next one."""
        self._closed = True
        self._room.release()
