"""The event loop of a worker with async handlers: asyncio's, whose selector waits for the link as well.

A loop of another kind, because the served module has set an event loop policy (uvloop's, for
example), is told of the link by add_reader; then each request costs it a callback or two more.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
import traceback
import warnings
from typing import Any, Callable, Coroutine, List, Optional, Tuple

from .. import _native
from .log import log_event

Ready = List[Tuple[selectors.SelectorKey, int]]


class Selector(selectors.EpollSelector):
    """`wait`, while there is one, waits in the place of epoll; the link's descriptor is in the set, and
    what comes there is seen to within the wait."""

    wait: Optional[Callable[[Optional[float]], List[Tuple[int, int]]]] = None

    def select(self, timeout: Optional[float] = None) -> Ready:
        if self.wait is None:
            return super().select(timeout)
        came = self.wait(timeout)
        return self._keys(came) if came else []

    def _keys(self, came: List[Tuple[int, int]]) -> Ready:
        keys = self.get_map()
        ready = []
        for fd, events in came:
            key = keys.get(fd)
            if key is None:  # it was taken out by what ran within the wait
                continue
            # as selectors means it: an error wakes readers and writers
            mask = (events & ~4 and selectors.EVENT_READ) | (events & ~1 and selectors.EVENT_WRITE)
            ready.append((key, mask & key.events))
        return ready


class Loop(_native.LoopBase, asyncio.SelectorEventLoop):
    """asyncio's event loop on a Selector."""

    def __init__(self) -> None:
        self.waits = Selector()
        super().__init__(self.waits)


def _has_policy() -> bool:
    """Whether somebody asked for event loops of another kind."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14
        return type(asyncio.get_event_loop_policy()) is not asyncio.DefaultEventLoopPolicy


def run(main: Coroutine[Any, Any, None]) -> None:
    """As asyncio.run, but SystemExit and KeyboardInterrupt of a task or a callback, which end an event loop, do
    not end this one: who waits for the task gets them, and the log has them. No signal raises them (worker_loop.py)."""
    with asyncio.Runner(loop_factory=None if _has_policy() else Loop) as runner:
        loop = runner.get_loop()
        task = loop.create_task(main)
        while not task.done():
            try:
                loop.run_until_complete(task)
            except (SystemExit, KeyboardInterrupt) as e:
                trace = "".join(traceback.format_exception(e))
                log_event("warn", "task_raised", trace, error="%s: %s" % (type(e).__name__, e))
        task.result()


def begins_at_once(loop: asyncio.AbstractEventLoop) -> bool:
    """May a task begin within the turn that makes it? Not where somebody else makes the tasks, or looks
    closely at them."""
    if loop.get_task_factory() is not None or loop.get_debug():
        return False
    return sys.version_info >= (3, 12) or isinstance(loop, Loop)
