"""Finds the parameter of a handler that gets the request: annotated with Request, or called `request`.

With batching it gets the list of requests: annotated `list[Request]`, or called `requests`.
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import re
import sys
import types
import typing
from typing import Any, Dict, List, Optional

from .errors import DeclarationError

HINT = "to receive the request, call it `request` or annotate it with anyserve.Request"
_ONE = re.compile(r"(\w+\.)?Request")
_MANY = re.compile(r"(\w+\.)*([Ll]ist|Sequence)\[(\w+\.)?Request\]")
_LISTS = (list, collections.abc.Sequence)
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


def _globals_of(function: Any) -> Dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    found = getattr(inspect.unwrap(function), "__globals__", None)
    return found if isinstance(found, dict) else {}


def _kind_of_text(text: str, names: Dict[str, Any]) -> Optional[str]:
    try:
        hint = eval(text, dict(names))
    except Exception:  # for example a name that is imported only for type checkers
        return "request" if _ONE.fullmatch(text) else "requests" if _MANY.fullmatch(text) else None
    return None if isinstance(hint, str) else _kind(hint, names)


def _kind(hint: Any, names: Dict[str, Any]) -> Optional[str]:
    """ "request", "requests", or None: something else."""
    if isinstance(hint, str):
        return _kind_of_text(hint, names)
    # Request comes with the extension. If that is not loaded, no annotation can be Request.
    request = vars(sys.modules[__package__]).get("Request")
    if request is None:
        return None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is request or (origin in _UNIONS and request in args):
        return "request"
    return "requests" if origin in _LISTS and args[:1] == (request,) else None


def _check(name: str, kind: str, batched: bool) -> None:
    if kind == "requests" and not batched:
        raise DeclarationError(
            "parameter %r is annotated with a list of requests, which handlers with batching get; here it is `Request`" % name
        )
    if kind == "request" and batched:
        raise DeclarationError(
            "parameter %r is annotated with one request; a handler with batching gets `list[Request]`" % name
        )


def find(function: Any, annotations: Dict[str, Any], batched: bool) -> Optional[str]:
    """The name of the parameter that takes the request; None: there is none. DeclarationError: two of them."""
    wanted, names = "requests" if batched else "request", _globals_of(function)
    found: List[str] = [wanted] if wanted in annotations else []
    for name, hint in annotations.items():
        kind = _kind(hint, names)
        if kind:
            _check(name, kind, batched)
            if name not in found:
                found.append(name)
    if len(found) > 1:
        raise DeclarationError("parameters %r and %r would both take the request; it goes to one" % tuple(found[:2]))
    return found[0] if found else None
