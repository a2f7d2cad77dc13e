"""Values that handlers return, as JSON: what FastAPI's encoder accepts, and arrays of numpy, frames of pandas and exceptions."""

from __future__ import annotations

import dataclasses
import datetime
import json
import sys
from collections import deque
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from re import Pattern
from types import GeneratorType
from typing import Any, Callable, Dict

import numpy as np

# Pydantic's and the standard library's types whose text is their value
_TEXTS = {"Color", "AnyUrl", "Url", "MultiHostUrl", "NameEmail", "SecretStr", "SecretBytes", "UUID", "IPv4Address",
          "IPv4Interface", "IPv4Network", "IPv6Address", "IPv6Interface", "IPv6Network"}  # fmt: skip
_TEXT_MODULES = ("pydantic", "ipaddress", "uuid")


def _array(value: Any) -> Any:
    return value.tolist()


def _decimal(value: Decimal) -> Any:
    exponent = value.as_tuple().exponent
    return int(value) if isinstance(exponent, int) and exponent >= 0 else float(value)


_ENCODERS: Dict[type, Callable[[Any], Any]] = {
    np.ndarray: _array,
    np.generic: lambda v: v.item(),
    Exception: str,
    Enum: lambda v: v.value,
    bytes: bytes.decode,
    datetime.date: lambda v: v.isoformat(),
    datetime.time: lambda v: v.isoformat(),
    datetime.timedelta: datetime.timedelta.total_seconds,
    Decimal: _decimal,
    PurePath: str,
    Pattern: lambda v: v.pattern,
    set: list,
    frozenset: list,
    deque: list,
    GeneratorType: list,
}


def _default(value: Any) -> Any:
    """A value that json.dumps does not know, as one that it may know. ValueError: there is none."""
    for kind, encode in _ENCODERS.items():
        if isinstance(value, kind):
            return encode(value)
    dump = getattr(value, "model_dump", None)
    if dump is not None and not isinstance(value, type):
        return dump(mode="json", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    for kind in type(value).__mro__:
        if kind.__name__ in _TEXTS and kind.__module__.split(".")[0].lstrip("_").startswith(_TEXT_MODULES):
            return str(value)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return value.to_dict(orient="records")
    errors = []
    for make in (dict, vars):
        try:
            return dict(make(value))
        except Exception as e:
            errors.append(e)
    raise ValueError(errors)


def _plain(value: Any) -> Any:
    """The same with keys of dicts that are texts, numbers or None; without the keys that SQLAlchemy adds to objects."""
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items() if not (isinstance(k, str) and k.startswith("_sa"))}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if value is None or (isinstance(value, (str, int, float)) and not isinstance(value, (Enum, np.generic))):
        return value
    return _plain(_default(value))


def dumps(value: Any) -> bytes:
    """As Ray Serve: without spaces; what is not ASCII is escaped; nan is NaN. ValueError or TypeError: it cannot be encoded."""
    try:
        text = json.dumps(value, separators=(",", ":"), default=_default)
        if '"_sa' not in text:
            return text.encode()
    except TypeError:  # a key that is no text
        pass
    return json.dumps(_plain(value), separators=(",", ":")).encode()
