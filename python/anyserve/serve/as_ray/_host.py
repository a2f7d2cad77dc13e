"""What runs in hidden replicas: the host of tasks, what actors have beside their own methods, and their end."""

from __future__ import annotations

import atexit
import contextvars
import functools
import os
import signal
import sys
import threading
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Tuple, Type

from .._driver.client import ControlClient, ControlError, NoServer
from . import _hidden
from ._job import wait_end

__all__ = ["ActorMethods", "Spec", "TaskHost", "begin", "current_task", "exit_actor", "starts_of_this"]


MAX_FUNCTIONS = 1000  # of tasks, that a host keeps; it loads others again


class Spec(NamedTuple):
    """A task, as it is sent."""

    code: bytes  # the pickled function
    id: str
    name: str
    retries: int = 0
    retry_exceptions: Any = None  # True: all; a list of classes; else none


current_task: "contextvars.ContextVar[Optional[Spec]]" = contextvars.ContextVar("anyserve_ray_task", default=None)


@functools.lru_cache(maxsize=MAX_FUNCTIONS)
def _load(code: bytes) -> Callable[..., Any]:
    import pickle

    found: Callable[..., Any] = pickle.loads(code)
    return found


class TaskHost:
    """The replica that runs the tasks of a program, each in a thread."""

    _anyserve_hooks = False

    def run(self, spec: Any, /, *args: Any, **kwargs: Any) -> Any:
        spec = Spec(*spec)
        current_task.set(spec)
        function = _load(spec.code)
        which = spec.retry_exceptions
        again: Tuple[Type[BaseException], ...] = (Exception,) if which is True else tuple(which or ())
        for left in range(spec.retries if again else 0, -1, -1):
            try:
                return function(*args, **kwargs)
            except again:
                if left == 0:
                    raise
        raise AssertionError  # the loop has returned or raised

    def stream(self, spec: Any, /, *args: Any, **kwargs: Any) -> Iterator[Any]:
        spec = Spec(*spec)
        current_task.set(spec)
        yield from _load(spec.code)(*args, **kwargs)

    def pick(self, values: Any, i: int, n: int) -> Any:
        """One of several results."""
        if not hasattr(values, "__len__") or len(values) != n:
            raise ValueError("Task returned %s objects, but num_returns=%d."
                             % (len(values) if hasattr(values, "__len__") else 1, n))  # fmt: skip
        return values[i]


class ActorMethods:
    """A base of the classes of actors."""

    _anyserve_hooks = False  # a method that is called check_health is an ordinary one; errors are the caller's to log

    def __ray_ready__(self) -> bool:
        return True

    def __ray_terminate__(self) -> None:
        exit_actor()

    def __ray_call__(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return fn(self, *args, **kwargs)


# --- the end ---


def _delete_this() -> None:
    """No other process takes the place of this one."""
    folder = os.path.dirname(os.environ["ANYSERVE_LINK"])
    application = _application()
    try:
        ControlClient(os.path.join(folder, "control.sock")).delete(application)
    except (ControlError, NoServer, OSError):
        pass


def _application() -> str:
    from ... import replica

    return replica.get_replica_context().application


def exit_actor() -> None:
    """Ends the actor whose method calls it. The call fails with ActorDiedError, as others that it has."""
    info = _hidden.this()
    if info is None or info.kind != "actor":
        raise TypeError("exit_actor API is called on a non-actor worker, %s. Call this API inside an actor methods"
                        "if you'd like to exit the actor gracefully." % os.getpid())  # fmt: skip
    _delete_this()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _watch(process: str) -> None:
    wait_end(process)
    _delete_this()


def starts_of_this() -> int:
    """Which process of this replica this is, from 1."""
    application = _application()
    folder = os.path.dirname(os.environ["ANYSERVE_LINK"])
    try:
        row = ControlClient(os.path.join(folder, "control.sock")).status(30.0)["applications"][application]
        return max(int(r["starts"]) for d in row["deployments"].values() for r in d["replicas"])
    except (NoServer, ControlError, TimeoutError, KeyError, ValueError):
        return 1


def begin() -> None:
    """A worker is about to be a hidden replica, if it is one: it ends with the process that it belongs to, and is not started
    again where its options say so."""
    info = _hidden.this()
    if info is None:
        return
    if 0 <= info.max_restarts < starts_of_this() - 1:
        _delete_this()
        while True:
            signal.pause()  # the server ends this process
    if info.end_with:
        threading.Thread(target=_watch, args=(info.end_with,), name="anyserve-owner", daemon=True).start()
