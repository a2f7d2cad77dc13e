"""cloudpickle's pickler, for what programs send to replicas and replicas to each other.

Code keeps the name of its file: tracebacks of a replica show the lines of the script that has defined a function.
cloudpickle 3.1.3 writes `<dynamic-code>` in its place; its other versions do not.
"""

from __future__ import annotations

import io
from collections import ChainMap
from types import CodeType
from typing import Any, Callable, Optional, Tuple

import cloudpickle  # type: ignore[import-untyped]

__all__ = ["Pickler", "dumps", "in_file"]

_reduce_code = cloudpickle.Pickler.dispatch_table[CodeType]


def in_file(make: Callable[..., CodeType], args: Tuple[Any, ...], file: str) -> CodeType:
    """The code of a pickle. Its name, module and arguments are part of what programs say to each other: they stay."""
    return make(*args).replace(co_filename=file)


def _reduce_code_in_file(code: CodeType) -> Tuple[Any, ...]:
    make, args = _reduce_code(code)
    return in_file, (make, args, code.co_filename)


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """As cloudpickle's, by protocol 5."""

    dispatch_table = ChainMap({CodeType: _reduce_code_in_file}, cloudpickle.Pickler.dispatch_table)

    def __init__(self, file: io.BytesIO, buffer_callback: Optional[Callable[[Any], Any]] = None) -> None:
        super().__init__(file, protocol=5, buffer_callback=buffer_callback)


def dumps(value: Any, buffer_callback: Optional[Callable[[Any], Any]] = None) -> bytes:
    """The pickle of a value."""
    with io.BytesIO() as out:
        Pickler(out, buffer_callback).dump(value)
        return out.getvalue()
