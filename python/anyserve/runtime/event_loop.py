"""The event loop of a worker with async handlers: asyncio's loop, whose selector also waits for the link.

If the served module has set an event loop policy (uvloop's, for example), that loop watches the link with add_reader,
which costs a callback or two more for each request.
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
    """While `wait` is set, it waits in the place of epoll. The link's descriptor is among those that it waits for, and
    it handles what arrives there itself."""

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
            if key is None:  # a handler that ran during the wait has removed it
                continue
            # as the module selectors does: an error wakes readers and writers
            mask = (events & ~4 and selectors.EVENT_READ) | (events & ~1 and selectors.EVENT_WRITE)
            ready.append((key, mask & key.events))
        return ready


class Loop(_native.LoopBase, asyncio.SelectorEventLoop):
    """asyncio's event loop on a Selector."""

    def __init__(self) -> None:
        self.link_selector = Selector()
        super().__init__(self.link_selector)


def _has_policy() -> bool:
    """Whether user code has set an event loop policy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.14
        return type(asyncio.get_event_loop_policy()) is not asyncio.DefaultEventLoopPolicy


def run(main: Coroutine[Any, Any, None]) -> None:
    """Like asyncio.run, but SystemExit and KeyboardInterrupt of a task or a callback do not end this loop: they are
    logged, and reach whoever awaits the task. No signal raises them (worker_loop.py)."""
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


def can_start_eagerly(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether a task may start in the turn that creates it: not with a user's task factory, nor in debug mode."""
    if loop.get_task_factory() is not None or loop.get_debug():
        return False
    return sys.version_info >= (3, 12) or isinstance(loop, Loop)
