"""`__del__` of served objects and of models: called when the server is done with them, once."""

from __future__ import annotations

import asyncio
import inspect
from typing import Any


def without_del(obj: Any) -> None:
    """`__del__` of obj was called: the collector shall not call it again."""
    kind = type(obj)
    try:
        obj.__class__ = type(kind.__name__, (kind,), {
            "__slots__": (), "__del__": lambda self: None,
            "__module__": kind.__module__, "__qualname__": kind.__qualname__})  # fmt: skip
    except Exception:  # implemented in C, final, or refused by its __init_subclass__ or metaclass
        pass


async def call_del(obj: Any, in_thread: bool = False) -> None:
    """Calls `__del__` of an object, sync or async, if it has one, so that it is called no second time. in_thread: a sync one
    runs in a thread beside the event loop."""
    method = getattr(obj, "__del__", None)
    if method is None:
        return
    try:
        is_sync = not inspect.iscoroutinefunction(method)
        outcome = await asyncio.to_thread(method) if in_thread and is_sync else method()
        if inspect.isawaitable(outcome):
            await outcome
    finally:
        without_del(obj)
