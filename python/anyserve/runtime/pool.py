"""Threads that run calls, beside the thread of the event loop."""

from __future__ import annotations

import contextvars
import functools
import queue
import threading
import time
from typing import Any, Callable, Optional, Set


class Pool:
    """Threads that run the calls they are given, in the order in which they are submitted."""

    def __init__(self, name: str, threads: int) -> None:
        calls: "queue.SimpleQueue[Optional[Callable[[], Any]]]" = queue.SimpleQueue()

        def work() -> None:
            while True:
                call = calls.get()
                if call is None:
                    self._threads.discard(threading.current_thread())
                    return
                call()
                del call  # so that its objects are freed while the thread waits

        self.submit = calls.put
        self._work = work
        self._name = name
        self._started = self._size = 0
        self._threads: Set[threading.Thread] = set()
        for _ in range(threads):
            self.add()

    def __len__(self) -> int:
        """How many threads it has, without those that `drop` ends."""
        return self._size

    def add(self) -> None:
        """Starts another thread. RuntimeError: the system refuses."""
        # replica.within, a context variable, may say which replica this is
        target = functools.partial(contextvars.copy_context().run, self._work)
        thread = threading.Thread(target=target, name="%s-%d" % (self._name, self._started), daemon=True)
        thread.start()
        self._started += 1
        self._size += 1
        self._threads.add(thread)

    def drop(self) -> None:
        """Ends one thread, when the calls that were submitted before have started."""
        self._size -= 1
        self.submit(None)

    def is_here(self) -> bool:
        """Whether the current thread is one of these."""
        return threading.current_thread() in self._threads

    def end(self, timeout: float) -> None:
        """Ends the threads after the calls that they have. timeout: how many seconds to wait for that."""
        threads = list(self._threads)
        while self._size:
            self.drop()
        until = time.monotonic() + timeout
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
