"""The code of an application, as `serve.run` uploads it: code/pickled.py says what it looks like.

What can be imported is pickled by reference; what a script, a notebook or a function defines, by value.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import io
import json
import os
import sys
import threading
import types
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Type

import cloudpickle  # type: ignore[import-untyped]

from ... import __version__
from ...code.pickled import FORMAT, python_version
from .._pickler import Pickler
from ..graph import BuiltDeployment, keys_of, policies_of

__all__ = ["Code", "pack"]

MAX_DEPTH = 20  # of the search for what cannot be pickled


class Code(NamedTuple):
    name: str  # SHA-256 of the content, in hex
    content: bytes

    @property
    def key(self) -> str:
        """The value of an application's key `code`."""
        return "pickle:" + self.name


# --- which modules replicas can import ---


def _file_of(path: Optional[str]) -> Optional[str]:
    return os.path.realpath(path) if path else None


def _is_importable(name: str) -> bool:
    """Whether `import name` in another process gives the module that this one has."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return True
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        try:
            spec: Optional[importlib.machinery.ModuleSpec] = find(top, None) if find else None
        except Exception:  # a finder that somebody has installed
            continue
        if spec is not None:
            here = _file_of(getattr(sys.modules.get(top), "__file__", None))
            return here is None or spec.origin is None or here == _file_of(spec.origin)
    return False


class _Pickler(Pickler):
    """Pickles by value, too, what belongs to a module that another process cannot import: one that was made by exec, or
    whose folder is on no search path."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self._seen: Set[str] = set()
        self._registered: List[types.ModuleType] = []

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, (type, types.FunctionType)):
            self._look_at(getattr(obj, "__module__", None))
        return super().reducer_override(obj)

    def _look_at(self, name: Any) -> None:
        if not isinstance(name, str) or name in self._seen:
            return
        self._seen.add(name)
        module = sys.modules.get(name)
        if module is not None and name != "__main__" and not _is_importable(name):
            cloudpickle.register_pickle_by_value(module)
            self._registered.append(module)

    def end(self) -> None:
        for module in self._registered:
            cloudpickle.unregister_pickle_by_value(module)


class _AppPickler(_Pickler):
    """Pickles what ASGI applications have, too: locks, each of which is a new one where it is loaded, and starlette's State."""

    def reducer_override(self, obj: Any) -> Any:
        datastructures = sys.modules.get("starlette.datastructures")
        if datastructures is not None and type(obj) is datastructures.State:
            return datastructures.State, (obj._state,)
        if isinstance(obj, (_LOCK, _RLOCK)):
            return threading.Lock if isinstance(obj, _LOCK) else threading.RLock, ()
        return super().reducer_override(obj)


_LOCK, _RLOCK = type(threading.Lock()), type(threading.RLock())


def _dumps(value: Any, kind: Type[_Pickler] = _Pickler) -> bytes:
    with io.BytesIO() as f:
        pickler = kind(f)
        try:
            pickler.dump(value)
        finally:
            pickler.end()
        return f.getvalue()


# --- what cannot be pickled, and where it is ---


def _globals_of(function: types.FunctionType) -> Iterator[Tuple[str, Any]]:
    codes = [function.__code__]
    names: Set[str] = set()
    while codes:  # functions inside it, too
        code = codes.pop()
        names.update(code.co_names)
        codes += [c for c in code.co_consts if isinstance(c, types.CodeType)]
    for name in sorted(names & function.__globals__.keys()):
        yield "global %s of %s" % (name, function.__qualname__), function.__globals__[name]


def _parts(value: Any, path: str) -> Iterator[Tuple[str, Any]]:
    """What pickling a value goes on to, each with where it is."""
    if isinstance(value, dict):
        yield from (("%s[%r]" % (path, k), v) for k, v in value.items())
    elif isinstance(value, (list, tuple)):
        yield from (("%s[%d]" % (path, i), v) for i, v in enumerate(value))
    elif isinstance(value, (set, frozenset)):
        yield from (("an item of " + path, v) for v in value)
    elif isinstance(value, types.MethodType):
        yield path + ".__self__", value.__self__
        yield path, value.__func__
    elif isinstance(value, types.FunctionType):
        cells = zip(value.__code__.co_freevars, value.__closure__ or ())
        yield from (("variable %s of %s" % (n, value.__qualname__), c.cell_contents) for n, c in cells if c != types.CellType())
        yield from (("a default of %s" % value.__qualname__, d) for d in value.__defaults__ or ())
        yield from _globals_of(value)
    elif isinstance(value, type):
        for name, v in vars(value).items():
            v = v.__func__ if isinstance(v, (staticmethod, classmethod)) else v
            if name not in ("__dict__", "__weakref__"):
                yield "%s.%s" % (value.__qualname__, name), v
    elif hasattr(value, "__dict__"):
        yield from (("%s.%s" % (path, k), v) for k, v in vars(value).items())


def _find_culprit(value: Any, path: str, seen: Set[int], depth: int = 0,
                  kind: Type[_Pickler] = _Pickler) -> Optional[Tuple[str, Any, Exception]]:  # fmt: skip
    """The innermost part that cannot be pickled: where it is, what it is, and why. None: all of it can be."""
    if id(value) in seen or depth > MAX_DEPTH:
        return None
    seen.add(id(value))
    try:
        _dumps(value, kind)
        return None
    except Exception as e:
        error = e
    for where, part in _parts(value, path):
        found = _find_culprit(part, where, seen, depth + 1, kind)
        if found is not None:
            return found
    return path, value, error


def freeze(app: Any, name: str) -> bytes:
    """The pickle of an ASGI application; its locks are new ones where it is loaded. TypeError names what cannot be pickled."""
    try:
        return _dumps(app, _AppPickler)
    except Exception as e:
        # the user's endpoints first: all else in an application leads back to the whole of it
        own = type(app).__module__.partition(".")[0]
        ends = [r.endpoint for r in getattr(app, "routes", ()) if hasattr(r, "endpoint")]
        parts = [(getattr(f, "__qualname__", name), f) for f in ends if not str(f.__module__).startswith(own)]
        found = (_find_culprit(part, where, set(), 0, _AppPickler) for where, part in [*parts, (name, app)])
        where, culprit, error = next(filter(None, found), (name, app, e))
        raise TypeError("Failed to serialize the ASGI app: %s, a %s, cannot be pickled: %s"
                        % (where, type(culprit).__name__, error)) from e  # fmt: skip


def _refuse(b: BuiltDeployment, application: str, error: Exception) -> TypeError:
    seen: Set[int] = set()
    candidates = [("", b.deployment.func_or_class)] + [("argument %d of .bind()" % i, v) for i, v in enumerate(b.init_args)]
    candidates += [("argument %s of .bind()" % k, v) for k, v in b.init_kwargs.items()]
    for path, value in candidates:
        found = _find_culprit(value, path or getattr(value, "__qualname__", repr(value)), seen)
        if found is not None:
            where, culprit, error = found
            return TypeError("Could not serialize the deployment '%s' (application '%s'): %s, a %s, cannot be pickled: %s"
                             % (b.name, application, where, type(culprit).__name__, error))  # fmt: skip
    return TypeError("Could not serialize the deployment '%s' (application '%s'): %s" % (b.name, application, error))


# --- packing ---


def _dump_policies(b: BuiltDeployment, application: str) -> bytes:
    """Its router and its scaling policy; replicas do not load them."""
    try:
        return _dumps(policies_of(b))
    except Exception as e:
        for what, policy in zip(("router", "autoscaling policy"), policies_of(b)):
            found = _find_culprit(policy, getattr(policy, "__qualname__", repr(policy)), set())
            if found is not None:
                raise TypeError("Could not serialize the %s of deployment '%s' (application '%s'): %s, a %s, cannot be pickled: %s"
                                % (what, b.name, application, found[0], type(found[1]).__name__, found[2])) from None  # fmt: skip
        raise TypeError("Could not serialize the policies of deployment '%s' (application '%s'): %s"
                        % (b.name, application, e)) from None  # fmt: skip


def pack(application: str, built: Sequence[BuiltDeployment]) -> Code:
    """The code of an application. TypeError names what cannot be pickled, and where it is."""
    pickles: List[bytes] = []
    deployments: Dict[str, Any] = {}
    at = 0
    for b in built:
        try:
            data = _dumps((b.deployment.func_or_class, b.init_args, b.init_kwargs))
        except Exception as e:
            raise _refuse(b, application, e) from None
        pickles.append(data)
        deployments[b.name] = {"at": at, "size": len(data), "ingress": b.ingress, "options": keys_of(b)}
        at += len(data)
        if any(policies_of(b)):
            pickles.append(_dump_policies(b, application))
            deployments[b.name]["policies"] = {"at": at, "size": len(pickles[-1])}
            at += len(pickles[-1])
    header = {"format": FORMAT, "python": python_version(), "cloudpickle": cloudpickle.__version__, "anyserve": __version__,
              "application": application, "deployments": deployments}  # fmt: skip
    content = b"".join([json.dumps(header).encode(), b"\n", *pickles])
    return Code(hashlib.sha256(content).hexdigest(), content)
