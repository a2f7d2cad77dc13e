"""The program's store: where a value goes to which another process has a reference before it is there.

It is a hidden deployment, which is started when it is first needed, and keeps values until the program ends.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Dict, Tuple

from .._calls.transport import CallMeta, Reply
from . import _hidden
from ._job import job
from ._leaving import way_out

__all__ = ["Store", "fetch", "share"]

LIMIT = 65535  # calls at once: each reference that is waited for is one


class Store:
    """What runs in its replica."""

    def __init__(self) -> None:
        self._values: "Dict[str, asyncio.Future[Any]]" = {}

    def _future(self, key: str) -> "asyncio.Future[Any]":
        if key not in self._values:
            self._values[key] = asyncio.get_running_loop().create_future()
        return self._values[key]

    async def set(self, key: str, value: Any) -> None:
        future = self._future(key)
        if not future.done():
            future.set_result(value)

    async def fail(self, key: str, error: BaseException) -> None:
        future = self._future(key)
        if not future.done():
            future.set_exception(error)
            future.exception()  # nobody needs to ask

    async def get(self, key: str) -> Any:
        return await asyncio.shield(self._future(key))


_lock = threading.Lock()
_known: set[str] = set()  # applications that exist


def _call(method: str, *args: Any) -> Tuple[Reply, bool]:
    """The call, and whether a thread reads its answer."""
    application = _hidden.job_application("store")
    with _lock:
        if application not in _known:
            with _hidden.locked() as server:
                if not _hidden.exists(server, application):
                    info = _hidden.Info(application, "store", "Store", end_with=job())
                    _hidden.create(application, info, Store, options={"max_ongoing_requests": LIMIT})
            _known.add(application)
    meta = CallMeta(application, "Store", method)
    transport, parent, beside = way_out()
    return transport.call(meta, args, {}, parent), beside


def forget() -> None:
    """After ray.shutdown()."""
    with _lock:
        _known.clear()


def share(key: str, ref: Any) -> None:
    """The value goes to the store when it is there; or the exception."""

    def check(reply: Any) -> None:
        error = reply.exception()
        if error is not None:
            _call("fail", key, error)

    _call("set", key, ref)[0].add_done_callback(check)


def fetch(key: str) -> Tuple[Reply, bool]:
    """The call that ends with the value, and whether a thread reads its answer."""
    return _call("get", key)
