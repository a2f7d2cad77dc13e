"""Tasks: functions with @ray.remote. Each call runs in a thread of the program's host of tasks, a hidden deployment."""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import threading
import uuid
from typing import Any, Callable, Dict, Optional, Tuple

from .._calls.transport import CallMeta
from .._driver.code import _dumps
from . import _hidden, _refs
from ._host import Spec, TaskHost
from ._job import job
from ._options import TASK, check

__all__ = ["RemoteFunction", "forget", "pick", "set_limit"]

DEFAULT_RETRIES = 3
LIMIT = 100  # tasks at once, if ray.init(num_cpus=) does not say otherwise

_lock = threading.Lock()
_known: set[str] = set()
_limit = LIMIT


def set_limit(tasks: Optional[float]) -> None:
    """How many tasks run at once in a host that is started later."""
    global _limit
    _limit = LIMIT if tasks is None else max(int(tasks), 1)


def forget() -> None:
    """After ray.shutdown()."""
    with _lock:
        _known.clear()


def _host(again: bool, runtime_env: Optional[Dict[str, Any]] = None) -> str:
    """The application that runs tasks, which is started if it does not exist. again: tasks whose process dies are run again.
    runtime_env: tasks with one of their own have a host of their own."""
    kind = "tasks" if again else "tasks.once"
    if runtime_env:
        kind += "." + hashlib.sha256(json.dumps(runtime_env, sort_keys=True, default=str).encode()).hexdigest()[:12]
    application = _hidden.job_application(kind)
    with _lock:
        if application not in _known:
            with _hidden.locked() as server:
                if not _hidden.exists(server, application):
                    info = _hidden.Info(application, "tasks", "TaskHost", end_with=job())
                    options = {"max_ongoing_requests": _limit, "idempotent": again}
                    _hidden.create(application, info, TaskHost, options=options, runtime_env=runtime_env)
            _known.add(application)
    return application


def pick(ref: _refs.ObjectRef, i: int, n: int) -> Any:
    """A reference to one of several results."""
    return _refs.call(CallMeta(_host(True), "TaskHost", "pick"), (ref, i, n), {})


class RemoteFunction:
    """A function that runs as a task: `f.remote(…)`."""

    def __init__(self, function: Callable[..., Any], options: Dict[str, Any]) -> None:
        if inspect.iscoroutinefunction(function):
            raise ValueError("'async def' should not be used for remote tasks. You can wrap the async function with "
                             "`asyncio.run(f())`. See more at:https://docs.ray.io/en/latest/ray-core/actors/async_api.html ")  # fmt: skip
        self._function, self._options = function, options
        self._code: Optional[bytes] = None
        functools.update_wrapper(self, function)
        del self.__dict__["__wrapped__"]  # it is not the function, which cannot be called by this

    def options(self, **options: Any) -> "RemoteFunction":
        """The same function with other options; those that are not given stay."""
        return RemoteFunction(self._function, {**self._options, **check(options, TASK)})

    def _num_returns(self) -> Any:
        given = self._options.get("num_returns")
        if given is None:
            return "streaming" if inspect.isgeneratorfunction(self._function) else 1
        return given

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Runs it. Never waits, but for the first task, whose host is started."""
        if self._code is None:
            self._code = _dumps(self._function)
        o = self._options
        retries = o.get("max_retries")
        retries = DEFAULT_RETRIES if retries is None else retries
        which = o.get("retry_exceptions")
        count = self._num_returns()
        stream = count in ("streaming", "dynamic")
        spec = Spec(self._code, uuid.uuid4().hex, o.get("name") or self._function.__name__, max(retries, 0), which)
        meta = CallMeta(_host(retries != 0, o.get("runtime_env")), "TaskHost", "stream" if stream else "run", stream)
        return _refs.call(meta, (tuple(spec), *args), kwargs, 1 if stream else count)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._function.__name__
        raise TypeError("Remote functions cannot be called directly. Instead of running '%s()', try '%s.remote()'."
                        % (name, name))  # fmt: skip

    def __reduce__(self) -> Tuple[Any, ...]:
        return _made, (), (self._function, self._options)

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return "RemoteFunction(%s)" % self._function.__qualname__


def _made() -> RemoteFunction:
    """Empty: a function may refer to itself, so it is unpickled after this."""
    return RemoteFunction.__new__(RemoteFunction)
