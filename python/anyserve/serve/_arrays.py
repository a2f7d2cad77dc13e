"""Arrays of numpy as arguments and results, pickled in fewer steps than by numpy's own way.

Numpy pickles the type of the elements as an object with a state, and makes the array by a function in Python. For arrays of
plain numbers the name of the type is enough. Both ways put the elements beside the pickle, and both give a read-only view.
"""

from __future__ import annotations

import pickle
import sys
from typing import Any, Dict, Tuple

__all__ = ["array_of", "lighten", "lighten_call"]

_types: Dict[Any, str] = {}  # the plain types of elements, by numpy's object; filled when numpy is there
_named: Dict[str, Any] = {}
_ndarray: Any = None


def _find_numpy() -> bool:
    global _ndarray
    numpy = sys.modules.get("numpy")
    if numpy is None or not hasattr(numpy, "ndarray"):  # it is being imported
        return False
    for name in ("b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8", "c8", "c16"):
        _named[name] = numpy.dtype(name)
        _types[_named[name]] = name
    _ndarray = numpy.ndarray
    return True


def array_of(buffer: Any, dtype: str, shape: Tuple[int, ...]) -> Any:
    """The array of a pickle. Its name, module and arguments are part of what programs say to each other: they stay."""
    if _ndarray is None:
        import numpy  # noqa: F401

        _find_numpy()
    return _ndarray(shape, _named[dtype], buffer)


class _Light:
    """Stands for an array while it is pickled."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __reduce__(self) -> Tuple[Any, ...]:
        array = self.array
        return array_of, (pickle.PickleBuffer(array), _types[array.dtype], array.shape)


def lighten(value: Any) -> Any:
    """What to pickle in the place of a value: itself, unless it is an array of plain numbers, contiguous and not empty."""
    if _ndarray is None and not _find_numpy():
        return value
    if type(value) is _ndarray and value.dtype in _types and value.size and value.flags.c_contiguous:
        return _Light(value)
    return value


def lighten_call(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """The same for the arguments of a call. If an array is there twice all are left alone: it arrives as one object."""
    if _ndarray is None and not _find_numpy():
        return args, kwargs
    found = [id(value) for value in args if type(value) is _ndarray]
    if kwargs:
        found += [id(value) for value in kwargs.values() if type(value) is _ndarray]
    if not found or len(set(found)) != len(found):
        return args, kwargs
    return tuple([lighten(value) for value in args]), {key: lighten(value) for key, value in kwargs.items()}
