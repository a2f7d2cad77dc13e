"""A warm spare: a worker process that has loaded its code and waits until it becomes a replica.

The server starts it with ANYSERVE_SPARE in its environment. When the spare becomes a replica, the server writes the
rest of a worker's environment to its standard input (``NAME=value``, a NUL behind each), and closes it. If the input ends
without that, the spare ends.
"""

from __future__ import annotations

import os
import threading
from typing import Callable, MutableMapping, Optional

VARIABLE = "ANYSERVE_SPARE"


class Spare:
    """The wait for becoming a replica, which happens once: in the worker program, or in code that first needs its
    replica context."""

    def __init__(self, environ: MutableMapping[str, str], enter: Callable[[], None]) -> None:
        self._environ, self._enter = environ, enter
        self._lock = threading.Lock()
        self._fd: Optional[int] = os.dup(0)
        null = os.open(os.devnull, os.O_RDONLY)  # what other workers have there
        os.dup2(null, 0)
        os.close(null)

    def wait(self) -> None:
        """Returns when the process is a replica. Ends the process if it will not become one."""
        with self._lock:
            if self._fd is None:
                return
            with os.fdopen(self._fd, "rb") as f:
                message = f.read()
            self._fd = None
            if not message.endswith(b"\0"):  # nothing, or the server died while it wrote
                os._exit(0)
            for item in message[:-1].split(b"\0"):
                name, _, value = item.partition(b"=")
                self._environ[os.fsdecode(name)] = os.fsdecode(value)
            self._enter()


def is_spare(environ: MutableMapping[str, str]) -> bool:
    return environ.pop(VARIABLE, None) is not None
