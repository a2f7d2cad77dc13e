"""Decorated functions that are methods of some object, or none: which it is, and a value for each such object."""

from __future__ import annotations

import types
import weakref
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

from . import context

T = TypeVar("T")
LOADER = "_anyserve_loads_models"  # the attribute of a function that `serve.multiplexed` has decorated
PLACE = "_anyserve_decorated"  # the attribute of an object that holds its values


def has_loader(kind: type) -> bool:
    """Whether a class has a method that `serve.multiplexed` has decorated."""
    return any(isinstance(v, types.FunctionType) and LOADER in v.__dict__ for base in kind.__mro__ for v in vars(base).values())


class Decorated:
    """The values of one decorated function. It is pickled with the function, without the values."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__setstate__(function)

    def __getstate__(self) -> Callable[..., Any]:
        return self._function

    def __setstate__(self, function: Callable[..., Any]) -> None:
        self._function = function  # what the decorator returned
        self._is_method: "weakref.WeakKeyDictionary[type, bool]" = weakref.WeakKeyDictionary()
        self._others: Dict[int, Tuple[Any, Any]] = {}  # of what has no __dict__, which then stays

    def owner(self, args: Tuple[Any, ...]) -> Optional[Any]:
        """The object that the function is called on as a method. None: it is called as a function."""
        if not args:
            return None
        kind = type(args[0])
        known = self._is_method.get(kind)
        if known is None:
            # also under another name, and where a subclass overrides it and calls it by super()
            known = any(v is self._function for base in kind.__mro__ for v in vars(base).values())
            self._is_method[kind] = known
        return args[0] if known else None

    def value(self, owner: Optional[Any], make: Callable[[], T]) -> T:
        """The value for this object, or for the function; made when it is first needed."""
        if owner is None:
            owner = context._core_here.get()  # one for each replica, where a process has several
        try:
            values = vars(owner)
        except TypeError:
            if id(owner) not in self._others:
                self._others[id(owner)] = (owner, make())
            return self._others[id(owner)][1]  # type: ignore[no-any-return]
        # a copy of an object has its __dict__, but values of its own
        if PLACE not in values or values[PLACE][0] != id(owner):
            values[PLACE] = (id(owner), {})
        mine: Dict[Callable[..., Any], Any] = values[PLACE][1]
        if self._function not in mine:
            mine[self._function] = make()
        return mine[self._function]  # type: ignore[no-any-return]
