"""Deployments and applications as objects: with the keys of a deployment file, and checked by the same schema.

The schema is the server's (`anyserve schema`); it is in the package as ``_schema.json``.
"""

from __future__ import annotations

import functools
import json
import operator
import os
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Tuple

from .errors import DeclarationError

__all__ = ["Application", "Deployment", "deployment_file", "schema"]

_TYPES: Dict[str, Callable[[Any], bool]] = {
    "null": lambda v: v is None,
    "boolean": lambda v: isinstance(v, bool),
    "integer": lambda v: not isinstance(v, bool) and (isinstance(v, int) or (isinstance(v, float) and v.is_integer())),
    "number": lambda v: not isinstance(v, bool) and isinstance(v, (int, float)),
    "string": lambda v: isinstance(v, str),
    "array": lambda v: isinstance(v, (list, tuple)),
    "object": lambda v: isinstance(v, Mapping),
}
_NOUNS = {"null": "None", "boolean": "True or False", "integer": "an integer", "number": "a number",
          "string": "a text", "array": "a list", "object": "a mapping"}  # fmt: skip


@functools.lru_cache(maxsize=None)
def _load() -> Any:
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "_schema.json"), encoding="utf-8") as f:
        return json.load(f)


def schema() -> Dict[str, Any]:
    """JSON Schema (draft 2020-12) of a deployment file."""
    copy: Dict[str, Any] = json.loads(json.dumps(_load()))
    return copy


def _refuse(where: str, why: str) -> None:
    raise DeclarationError("%s %s" % (where, why))


def _fits(rule: Any, value: Any, where: str) -> bool:
    try:
        _check(rule, value, where)
    except DeclarationError:
        return False
    return True


def _check_type(rule: Any, value: Any, where: str) -> None:
    names = rule if isinstance(rule, list) else [rule]
    if not any(_TYPES[n](value) for n in names):
        _refuse(where, "is %s, not %r" % (" or ".join(_NOUNS[n] for n in names if n != "null"), value))


def _check_enum(rule: Any, value: Any, where: str) -> None:
    if value not in rule:
        _refuse(where, "is one of %s, not %r" % (", ".join(str(w) for w in rule if w is not None), value))


def _bound(what: str, holds: Callable[[Any, Any], bool]) -> Callable[[Any, Any, str], None]:
    def check(rule: Any, value: Any, where: str) -> None:
        if _TYPES["number"](value) and not holds(value, rule):
            _refuse(where, "is at %s %s, not %r" % (what, rule, value))

    return check


def _size(kind: str, what: str, least: bool) -> Callable[[Any, Any, str], None]:
    def check(rule: Any, value: Any, where: str) -> None:
        if not _TYPES[kind](value):
            return
        # The server counts bytes; a schema cannot.
        n = len(value.encode("utf-8", "surrogatepass")) if kind == "string" else len(value)
        if n < rule if least else n > rule:
            _refuse(where, "has at %s %d %s, not %d" % ("least" if least else "most", rule, what, n))

    return check


def _check_pattern(rule: str, value: Any, where: str) -> None:
    # ECMA's $ is the very end, Python's is also before a last newline.
    if isinstance(value, str) and not re.search(re.sub(r"\$\Z", r"\\Z", rule), value):
        word = re.fullmatch(r"\^([a-z]+)\$", rule)
        if word:  # of a key that takes a number, too
            _refuse(where, "is a number or %r, not %r" % (word[1], value))
        _refuse(where, "is not of the form %s: %r" % (rule, value))


def _check_required(rule: List[str], value: Any, where: str) -> None:
    for name in rule if isinstance(value, Mapping) else ():
        if name not in value:
            _refuse(where, "needs %s" % name)


def _check_properties(rule: Mapping[str, Any], value: Any, where: str) -> None:
    for name, inner in rule.items() if isinstance(value, Mapping) else ():
        if name in value:
            _check(inner, value[name], "%s: %s" % (where, name))


def _check_items(rule: Any, value: Any, where: str) -> None:
    for i, item in enumerate(value if _TYPES["array"](value) else ()):
        _check(rule, item, "%s[%d]" % (where, i))


def _check_names(rule: Any, value: Any, where: str) -> None:
    for name in value if isinstance(value, Mapping) else ():
        _check(rule, name, "%s: the name" % where)


def _check_not(rule: Any, value: Any, where: str) -> None:
    if _fits(rule, value, where):
        _refuse(where, "is not allowed to be %r" % (value,))


def _check_any(rule: Any, value: Any, where: str) -> None:
    for inner in rule:
        if _fits(inner, value, where):
            return
    _check(rule[0], value, where)


def _check_all(rule: Any, value: Any, where: str) -> None:
    for inner in rule:
        _check(inner, value, where)


def _check_one(rule: Any, value: Any, where: str) -> None:
    n = sum(_fits(inner, value, where) for inner in rule)
    if n != 1:
        names = [" and ".join(inner["required"]) for inner in rule]
        _refuse(where, "has %s %s" % ("one of" if n == 0 else "only one of", ", ".join(names)))


def _check_reference(rule: str, value: Any, where: str) -> None:
    _check(_load()["$defs"][rule.rpartition("/")[2]], value, where)


def _ignored(rule: Any, value: Any, where: str) -> None:
    """For keywords that describe, and those that _check handles together with another one."""


_WORDS: Dict[str, Callable[[Any, Any, str], None]] = {
    "type": _check_type, "enum": _check_enum, "const": lambda rule, v, where: _check_enum([rule], v, where),
    "minimum": _bound("least", operator.ge), "maximum": _bound("most", operator.le), "pattern": _check_pattern,
    "minLength": _size("string", "bytes", True), "maxLength": _size("string", "bytes", False),
    "minItems": _size("array", "items", True), "maxItems": _size("array", "items", False),
    "minProperties": _size("object", "names", True), "maxProperties": _size("object", "names", False),
    "required": _check_required, "properties": _check_properties, "propertyNames": _check_names,
    "items": _check_items, "not": _check_not, "anyOf": _check_any, "allOf": _check_all, "oneOf": _check_one,
    "$ref": _check_reference, "additionalProperties": _ignored, "if": _ignored, "then": _ignored,
    "description": _ignored, "default": _ignored, "title": _ignored, "$schema": _ignored, "$defs": _ignored,
}  # fmt: skip


def _check_others(rule: Any, known: Iterable[str], value: Mapping[str, Any], where: str) -> None:
    for name in value:
        if name in known:
            continue
        if rule is False:
            import difflib  # only for a mistake: workers start without it

            near = difflib.get_close_matches(str(name), list(known), 1)
            _refuse(where, "has no option %s%s" % (name, "; did you mean %s?" % near[0] if near else ""))
        _check(rule, value[name], "%s: %s" % (where, name))


def _check(rules: Any, value: Any, where: str) -> None:
    """Checks a value by the part of JSON Schema that the server's schema uses. DeclarationError."""
    if "additionalProperties" in rules and isinstance(value, Mapping):
        _check_others(rules["additionalProperties"], rules.get("properties", {}), value, where)
    for word, rule in rules.items():
        _WORDS[word](rule, value, where)
    if "if" in rules and _fits(rules["if"], value, where):
        _check(rules["then"], value, where)


def _plain(value: Any, where: str) -> Any:
    """A copy as plain JSON values, which the caller cannot change."""
    try:
        copy = json.loads(json.dumps(value, allow_nan=False, default=_declared))
    except (TypeError, ValueError, RecursionError) as e:
        raise DeclarationError("%s cannot be written as JSON: %s" % (where, e)) from None
    return copy


def _declared(value: Any) -> Any:
    if isinstance(value, _Declared):
        return value.to_dict()
    raise TypeError("%r is no plain value" % (value,))


class _Declared:
    """Options of one level of a deployment file."""

    _level = ""
    _options: Dict[str, Any]

    def __init__(self, name: Optional[str], options: Mapping[str, Any]) -> None:
        where = self._level if name is None else "%s %r" % (self._level, name)
        given = {k: v for k, v in options.items() if v is not None}
        if name is not None:
            given = {"name": name, **given}
        given = _plain(given, where)
        _check(_load()["$defs"][self._level], given, where)
        self._options = given

    @property
    def name(self) -> str:
        return str(self._options["name"])

    def to_dict(self) -> Dict[str, Any]:
        """The options that were given, as a deployment file has them."""
        copy: Dict[str, Any] = json.loads(json.dumps(self._options))
        return copy

    def __getattr__(self, key: str) -> Any:
        rules = _load()["$defs"][self._level]["properties"]
        if key.startswith("_") or key not in rules:
            raise AttributeError("%s has no attribute %r" % (type(self).__name__, key))
        return self.to_dict().get(key, rules[key].get("default"))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, _Declared) and other._options == self._options

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%r" % o for o in self._options.items()))


class Deployment(_Declared):
    """Options of a deployment, as in a deployment file (docs/guide/deployment-file.md).

    ``Deployment("ranker", num_replicas=4, user_config={"top": 20})``. Wrong options raise DeclarationError.
    """

    _level = "deployment"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, options)


class Application(_Declared):
    """An application of a deployment file: ``Application("shop", import_path="shop.models:app",
    deployments=[Deployment("ranker", num_replicas=4)])``."""

    _level = "application"

    def __init__(self, name: str = "default", **options: Any) -> None:
        super().__init__(name, options)


def _twice(names: List[str]) -> Tuple[str, ...]:
    return tuple(sorted({n for n in names if names.count(n) > 1}))


def deployment_file(*applications: Application) -> str:
    """The text of a deployment file with these applications. It is JSON, which all commands accept."""
    for what, names in (
        ("application", [a.name for a in applications]),
        ("deployment", [d["name"] for a in applications for d in a.deployments or ()]),
    ):
        for name in _twice(names):
            raise DeclarationError("%s %r is there twice" % (what, name))
    return json.dumps({"applications": [a.to_dict() for a in applications]}, indent=2, ensure_ascii=False) + "\n"
