"""A warm spare: a worker process that has loaded its code, and waits to be told which replica it is.

The server starts it with ANYSERVE_SPARE in its environment and writes to its standard input, when it takes a place,
the rest of what a worker is started with (``NAME=value``, a NUL behind each), and closes it. Without a word, it ends.
"""

from __future__ import annotations

import os
import threading
from typing import Callable, MutableMapping, Optional

VARIABLE = "ANYSERVE_SPARE"


class Spare:
    """Waits once, whoever asks first: the worker, or code that wants its replica context."""

    def __init__(self, environ: MutableMapping[str, str], enter: Callable[[], None]) -> None:
        self._environ, self._enter = environ, enter
        self._lock = threading.Lock()
        self._fd: Optional[int] = os.dup(0)
        null = os.open(os.devnull, os.O_RDONLY)  # what a worker has there
        os.dup2(null, 0)
        os.close(null)

    def become(self) -> None:
        """Blocks until it is a replica. Ends the process where it is to be none."""
        with self._lock:
            if self._fd is None:
                return
            with os.fdopen(self._fd, "rb") as f:
                said = f.read()
            self._fd = None
            if not said.endswith(b"\0"):  # none, or the server died while it wrote
                os._exit(0)
            for item in said[:-1].split(b"\0"):
                name, _, value = item.partition(b"=")
                self._environ[os.fsdecode(name)] = os.fsdecode(value)
            self._enter()


def is_spare(environ: MutableMapping[str, str]) -> bool:
    return environ.pop(VARIABLE, None) is not None
