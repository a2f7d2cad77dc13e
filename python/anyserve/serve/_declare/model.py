"""Models of configuration: classes of checked fields, made from keyword arguments.

    class Options(Model):
        port: int = option(8000, integer(1, 65535))

A wrong value is a ValueError that names the class, the field and the value; a field that does not exist is a TypeError.
Under as_ray a field that does not exist is ignored, with a warning, where Ray ignores it: programs have some of Ray's former versions.
"""

from __future__ import annotations

import copy
import json
import logging
import math
import sys
from enum import Enum
from typing import Any, Callable, ClassVar, Dict, Iterable, Mapping, Optional, Set, Type, TypeVar, dataclass_transform

__all__ = ["Model", "anything", "boolean", "enum", "integer", "json_value", "list_of", "mapping", "model", "nullable", "number",
           "one_of", "option", "text"]  # fmt: skip

logger = logging.getLogger("anyserve.serve")

Check = Callable[[Any], Any]  # gives the value to keep. ValueError: how its description goes on after the field's name
M = TypeVar("M", bound="Model")


class FieldError(ValueError):
    """A field of a model has a wrong value; the text says which."""


class Option:
    """A field: its default, or what makes it, and its check."""

    def __init__(self, default: Any, check: Check) -> None:
        self.default, self.check = default, check

    def make_default(self) -> Any:
        return self.default() if isinstance(self.default, type) else self.default


REQUIRED = object()


def option(default: Any, check: Optional[Check] = None) -> Any:
    """A field of a model. default: a value; a class, which is called for each model; or REQUIRED."""
    return Option(default, check or anything)


# --- checks ---


def anything(value: Any) -> Any:
    return value


def nullable(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _range(low: Optional[float], high: Optional[float], above: bool) -> str:
    if low is not None and high is not None:
        return "from %s to %s" % (low, high)
    if high is not None:
        return "up to %s" % high
    return "above %s" % low if above else "of %s or more" % low


def integer(low: Optional[int] = None, high: Optional[int] = None) -> Check:
    what = "an integer" if low is None and high is None else "an integer %s" % _range(low, high, False)

    def check(value: Any) -> int:
        ok = not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
        if not ok or (low is not None and value < low) or (high is not None and value > high):
            raise ValueError("is %s, not %r" % (what, value))
        return int(value)

    return check


def number(low: Optional[float] = None, high: Optional[float] = None, above: bool = False) -> Check:
    """above: the lower bound itself is not allowed."""
    what = "a number" if low is None and high is None else "a number %s" % _range(low, high, above)

    def check(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or (
            low is not None and (value <= low if above else value < low)) or (high is not None and value > high):  # fmt: skip
            raise ValueError("is %s, not %r" % (what, value))
        return float(value)

    return check


def boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("is True or False, not %r" % (value,))
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("is a text, not %r" % (value,))
    return value


def one_of(*words: Any) -> Check:
    def check(value: Any) -> Any:
        if isinstance(value, bool) or value not in words:
            raise ValueError("is %s, not %r" % (" or ".join(repr(w) for w in words), value))
        return value

    return check


def enum(kind: Type[Enum], ignore_case: bool = False) -> Check:
    def check(value: Any) -> Enum:
        try:
            return kind(value.lower() if ignore_case and type(value) is str else value)
        except ValueError:
            raise ValueError("is one of %s, not %r" % (", ".join(str(m.value) for m in kind), value)) from None

    return check


def list_of(check_item: Check) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise ValueError("is a list, not %r" % (value,))
        try:
            return [check_item(v) for v in value]
        except ValueError as e:
            raise ValueError("has an item that %s" % e) from None

    return check


def mapping(value: Any) -> Dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise ValueError("is a dict with texts as keys, not %r" % (value,))
    return dict(value)


def json_value(value: Any) -> Any:
    try:
        json.dumps(value)
    except (TypeError, ValueError) as e:
        raise ValueError("is not JSON-serializable: %s" % e) from None
    return value


def model(kind: Type[M]) -> Check:
    """A model, or the dict of its fields."""

    def check(value: Any) -> M:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise ValueError("is a %s or a dict, not %r" % (kind.__name__, value))
        return kind(**value)

    return check


# --- models ---

_warned: Set[str] = set()


def _is_as_ray() -> bool:
    as_ray = sys.modules.get("anyserve.serve.as_ray")
    return as_ray is not None and as_ray.is_installed()


@dataclass_transform(kw_only_default=True)
class Model:
    """See the module. Two models are equal if they are of the same class and their fields are equal."""

    _options: ClassVar[Dict[str, Option]] = {}
    _ray_refuses_unknown: ClassVar[bool] = False  # Ray's class of this name does not ignore a field that it does not have
    model_fields_set: Set[str]  # those that were given

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        own = {k: v for k, v in vars(cls).items() if isinstance(v, Option)}
        for name in own:
            delattr(cls, name)
        cls._options = {**cls._options, **own}

    def __init__(self, **given: Any) -> None:
        for name in sorted(set(given) - set(self._options)):
            self._on_unknown(name)
        object.__setattr__(self, "model_fields_set", set())
        for name, field in self._options.items():
            if name in given:
                setattr(self, name, given[name])
            elif field.default is REQUIRED:
                raise TypeError("%s needs the field %r" % (type(self).__name__, name))
            else:
                object.__setattr__(self, name, field.make_default())
        self._validate()

    def _on_unknown(self, name: str) -> None:
        text = "%s has no field %r" % (type(self).__name__, name)
        if self._ray_refuses_unknown or not _is_as_ray():
            raise TypeError("%s; its fields are %s" % (text, ", ".join(self._options)))
        if text not in _warned:
            _warned.add(text)
            logger.warning("%s: it is ignored, as in Ray.", text)

    def _validate(self) -> None:
        """Checks fields against each other. ValueError."""

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._options.get(name)
        if field is None:
            raise AttributeError("%s has no field %r" % (type(self).__name__, name))
        try:
            value = field.check(value)
        except FieldError:  # of a model that is the value: it names the field there
            raise
        except ValueError as e:
            raise FieldError("%s.%s %s" % (type(self).__name__, name, e)) from None
        object.__setattr__(self, name, value)
        self.model_fields_set.add(name)

    def model_dump(self, *, exclude_unset: bool = False, exclude_none: bool = False,
                   exclude: Iterable[str] = (), mode: str = "python") -> Dict[str, Any]:  # fmt: skip
        """The fields as a dict; models in it, too. exclude_unset: those only that were given. mode "json": what JSON has."""
        out: Dict[str, Any] = {}
        for name in self._options:
            value = getattr(self, name)
            if name in exclude or (exclude_unset and name not in self.model_fields_set) or (exclude_none and value is None):
                continue
            out[name] = _plain(value, exclude_unset, mode)
        return out

    def dict(self, **options: Any) -> Dict[str, Any]:
        return self.model_dump(**options)

    def model_dump_json(self, **options: Any) -> str:
        return json.dumps(self.model_dump(mode="json", **options))

    def json(self, **options: Any) -> str:
        return self.model_dump_json(**options)

    @classmethod
    def model_validate(cls: Type[M], value: Any) -> M:
        return model(cls)(value)  # type: ignore[no-any-return]

    @classmethod
    def parse_obj(cls: Type[M], value: Any) -> M:
        return cls.model_validate(value)

    def model_copy(self: M, *, update: Optional[Mapping[str, Any]] = None, deep: bool = False) -> M:
        new = copy.deepcopy(self) if deep else copy.copy(self)
        object.__setattr__(new, "model_fields_set", set(self.model_fields_set))
        for name, value in (update or {}).items():
            setattr(new, name, value)
        return new

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in self._options)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % (n, getattr(self, n)) for n in self._options))


def _plain(value: Any, exclude_unset: bool, mode: str) -> Any:
    if isinstance(value, Model):
        return value.model_dump(exclude_unset=exclude_unset, mode=mode)
    if isinstance(value, (list, tuple)):
        items = [_plain(v, exclude_unset, mode) for v in value]
        return items if mode == "json" or isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {k: _plain(v, exclude_unset, mode) for k, v in value.items()}
    if mode == "json" and isinstance(value, Enum):
        return value.value
    return value
