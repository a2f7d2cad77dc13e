"""ray.remote, and functions that it makes remote."""

from __future__ import annotations

import inspect
from typing import Any

from .._actors import ActorClass
from .._options import ACTOR, TASK, check
from .._tasks import RemoteFunction

__all__ = ["RemoteFunction", "remote"]

_USE = (
    "The @ray.remote decorator must be applied either with no arguments and no parentheses, for example '@ray.remote', or it "
    "must be applied using some of the arguments, for example '@ray.remote(num_returns=2)'."
)


def _make(what: Any, options: Any) -> Any:
    if isinstance(what, type):
        return ActorClass(what, check(options, ACTOR))
    if inspect.isfunction(what) or inspect.isbuiltin(what):
        return RemoteFunction(what, check(options, TASK))
    raise TypeError("The @ray.remote decorator must be applied to either a function or a class.")


def remote(*args: Any, **options: Any) -> Any:
    """Makes a function a task, or a class an actor."""
    if len(args) == 1 and not options and callable(args[0]):
        return _make(args[0], {})
    if args or not options:
        raise TypeError(_USE)
    return lambda what: _make(what, options)
