"""Actors: classes with @ray.remote. Each object is a hidden deployment of one replica, which is its process."""

from __future__ import annotations

import inspect
import os
import queue
import re
import sys
import threading
import types
import uuid
from typing import Any, Callable, Dict, Optional, Tuple

from .._calls.transport import CallMeta
from . import NAMESPACE, _hidden, _refs
from ._host import ActorMethods
from ._job import job, this_process
from ._options import ACTOR, check

__all__ = ["ActorClass", "ActorHandle", "ActorMethod", "default_namespace", "method", "set_namespace"]

MARK = "__ray_num_returns__"  # of a method, by @ray.method
ASYNC_CONCURRENCY = 1000  # max_concurrency of actors with async methods


def default_namespace() -> str:
    """The namespace of named actors that say none."""
    return os.environ.get(NAMESPACE) or job()


def set_namespace(name: str) -> None:
    """ "": that of this program alone."""
    os.environ[NAMESPACE] = name


def method(*args: Any, **options: Any) -> Any:
    """Options of a method of an actor: num_returns. The others have no effect on one machine."""
    known = {"num_returns", "concurrency_group", "max_task_retries", "retry_exceptions", "enable_task_events", "tensor_transport",
             "_generator_backpressure_num_objects"}  # fmt: skip
    if args or not options or set(options) - known:
        raise ValueError("The @ray.method decorator must be applied using at least one of the arguments in the list %s, for "
                         "example '@ray.method(num_returns=2)'." % sorted(known))  # fmt: skip

    def decorate(function: Any) -> Any:
        if "num_returns" in options:
            check({"num_returns": options["num_returns"]}, ("num_returns",))
            setattr(function, MARK, options["num_returns"])
        return function

    return decorate


def _methods_of(cls: type) -> Dict[str, Any]:
    """The methods of an actor, and how many results each has."""
    found: Dict[str, Any] = {}
    for name, value in inspect.getmembers(cls, callable):
        if not inspect.isroutine(value) or (name.startswith("__") and getattr(object, name, None) is value):
            continue
        streams = inspect.isgeneratorfunction(value) or inspect.isasyncgenfunction(value)
        found[name] = getattr(value, MARK, None) or ("streaming" if streams else 1)
    return found


def _is_async(cls: type) -> bool:
    return any(inspect.iscoroutinefunction(v) or inspect.isasyncgenfunction(v) for _, v in inspect.getmembers(cls, inspect.isfunction))


# --- actors that nobody can reach any more ---

_unused: "queue.SimpleQueue[str]" = queue.SimpleQueue()
_collector: Optional[threading.Thread] = None


def _collect() -> None:
    while True:
        application = _unused.get()
        try:
            _hidden.delete(application)
        except (RuntimeError, OSError):
            pass  # the server has ended, and the actor with it


def _end_unused(application: str) -> None:
    global _collector
    if _collector is None or not _collector.is_alive():
        _collector = threading.Thread(target=_collect, name="anyserve-actors", daemon=True)
        _collector.start()
    _unused.put(application)


class _Owned:
    """That of the process that has created the actor: the actor ends with it, unless other processes may have a handle."""

    def __init__(self, application: str, lasts: bool) -> None:
        self.application, self.lasts, self.process = application, lasts, os.getpid()

    def __del__(self) -> None:
        if not self.lasts and not sys.is_finalizing() and self.process == os.getpid():  # no child of a fork
            _end_unused(self.application)


# --- handles ---


class ActorMethod:
    """A method of an actor: `.remote(…)`."""

    def __init__(self, handle: "ActorHandle", name: str, num_returns: Any) -> None:
        self._handle, self._name, self._num_returns = handle, name, num_returns

    def options(self, **options: Any) -> "ActorMethod":
        """The same method with another num_returns."""
        known = ("num_returns", "name", "concurrency_group", "enable_task_events", "_metadata", "tensor_transport")
        given = check(options, known)
        return ActorMethod(self._handle, self._name, given.get("num_returns", self._num_returns))

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        """Calls it, and never waits. Calls by one thread are executed in their order, if max_concurrency is 1."""
        h = self._handle
        stream = self._num_returns in ("streaming", "dynamic")
        meta = CallMeta(h._application, h._deployment, self._name, stream)
        return _refs.call(meta, args, kwargs, 1 if stream else self._num_returns, h._owned)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Actor methods cannot be called directly. Instead of running 'object.%s()', try 'object.%s.remote()'."
                        % (self._name, self._name))  # fmt: skip


class ActorHandle:
    """An actor, in any process."""

    def __init__(self, application: str, deployment: str, info: _hidden.Info, owned: Optional[_Owned] = None) -> None:
        self._application, self._deployment, self._info, self._owned = application, deployment, info, owned

    def __getattr__(self, name: str) -> ActorMethod:
        if name.startswith("_") and name in ("_application", "_deployment", "_info", "_owned"):
            raise AttributeError(name)
        methods = self._info.methods or {}
        if name not in methods:
            raise AttributeError("'ActorHandle' object has no attribute '%s'" % name)
        made = ActorMethod(self, name, methods[name])
        return made

    @property
    def _actor_id(self) -> Any:
        return ActorID(self._info.id)

    @property
    def _ray_actor_id(self) -> Any:
        return ActorID(self._info.id)

    def __dir__(self) -> Any:
        return [*(self._info.methods or {}), *object.__dir__(self)]

    def __reduce__(self) -> Tuple[Any, ...]:
        if self._owned is not None:
            self._owned.lasts = True  # until this process ends
        return _handle_of, (self._application, self._deployment, tuple(self._info))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._info.id == other._info.id

    def __hash__(self) -> int:
        return hash(self._info.id)

    def __repr__(self) -> str:
        return "Actor(%s, %s)" % (self._info.class_name, self._info.id)


class ActorID:
    def __init__(self, text: str) -> None:
        self._text = text

    def hex(self) -> str:
        return self._text

    def binary(self) -> bytes:
        return bytes.fromhex(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorID) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "ActorID(%s)" % self._text


def _handle_of(application: str, deployment: str, info: Tuple[Any, ...]) -> ActorHandle:
    return ActorHandle(application, deployment, _hidden.Info(*info))


def handle_of_row(row: _hidden.Row) -> ActorHandle:
    assert row.info is not None
    return ActorHandle(row.application, row.deployment, row.info)


# --- classes ---


def _value_of(argument: Any) -> Any:
    """Arguments of constructors are values when the actor is created."""
    return _refs.get(argument) if isinstance(argument, _refs.ObjectRef) else argument


class ActorClass:
    """A class whose objects are actors: `A.remote(…)` creates one."""

    def __init__(self, cls: type, options: Dict[str, Any]) -> None:
        self._class, self._options = cls, options
        self.__name__, self.__doc__ = cls.__name__, cls.__doc__
        self.__module__, self.__qualname__ = cls.__module__, cls.__qualname__

    def options(self, **options: Any) -> "ActorClass":
        """The same class with other options; those that are not given stay."""
        return ActorClass(self._class, {**self._options, **check(options, ACTOR)})

    def remote(self, *args: Any, **kwargs: Any) -> ActorHandle:
        """Creates an actor. Calls of it wait until it runs. ValueError: there is one of this name."""
        args, kwargs = tuple(map(_value_of, args)), {k: _value_of(v) for k, v in kwargs.items()}
        name, namespace = self._options.get("name"), self._options.get("namespace") or default_namespace()
        if not name:
            if self._options.get("get_if_exists"):
                raise ValueError("The actor name must be specified to use `get_if_exists`.")
            return self._create(args, kwargs, "", namespace)
        with _hidden.locked():
            found = _hidden.find(name, namespace)
            if found is None:
                return self._create(args, kwargs, name, namespace)
        if self._options.get("get_if_exists"):
            return handle_of_row(found)
        from .ray.exceptions import ActorAlreadyExistsError

        raise ActorAlreadyExistsError("The name %s (namespace=%s) is already taken. Please use a different name or get the existing "
                                      "actor using ray.get_actor('%s', namespace='%s')" % (name, namespace, name, namespace))  # fmt: skip

    def _deployment_options(self) -> Dict[str, Any]:
        o, is_async = self._options, _is_async(self._class)
        limit = o.get("max_concurrency") or (ASYNC_CONCURRENCY if is_async else 1)
        actor_options = {k: o[k] for k in ("num_gpus", "memory") if o.get(k)}
        return {"max_ongoing_requests": int(limit), "ray_actor_options": actor_options}

    def _create(self, args: Tuple[Any, ...], kwargs: Dict[str, Any], name: str, namespace: str) -> ActorHandle:
        o, cls = self._options, self._class
        detached = o.get("lifetime") == "detached"
        made = types.new_class(cls.__name__, (cls, ActorMethods), {}, lambda ns: ns.update(__module__=cls.__module__, __doc__=cls.__doc__))
        made.__qualname__ = cls.__qualname__ + " (actor)"  # the class itself is found under its own name
        restarts = o.get("max_restarts") or 0
        info = _hidden.Info(uuid.uuid4().hex, "actor", cls.__name__, name, namespace, "" if detached else this_process(), int(restarts),
                            _methods_of(made))  # fmt: skip
        application = "%sactor.%s" % (_hidden.PREFIX, info.id)
        env = dict(o.get("runtime_env") or {}) or None
        if _is_async(cls):  # its sync methods run on the event loop, one at a time
            env = {**(env or {}), "env_vars": {"RAY_SERVE_RUN_SYNC_IN_THREADPOOL": "0", **((env or {}).get("env_vars") or {})}}
        deployment = _hidden.create(application, info, made, args, kwargs, self._deployment_options(), env)
        return ActorHandle(application, deployment, info, _Owned(application, detached))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Actors cannot be instantiated directly. Instead of '%s()', use '%s.remote()'."
                        % (self.__name__, self.__name__))  # fmt: skip

    def __mro_entries__(self, bases: Any) -> Any:
        raise TypeError("Inheriting from actor classes is not currently supported. You can instead inherit from a non-actor base "
                        "class and make the derived class an actor class (with @ray.remote).")  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._class, name)

    def __reduce__(self) -> Tuple[Any, ...]:
        return _made, (), (self._class, self._options)

    def __setstate__(self, state: Any) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __repr__(self) -> str:
        return "ActorClass(%s)" % self.__name__


def _made() -> ActorClass:
    """Empty: a class may refer to itself, so it is unpickled after this."""
    return ActorClass.__new__(ActorClass)


def is_actor_name(name: Any) -> bool:
    return isinstance(name, str) and re.match(r"\S", name) is not None


Decorated = Callable[[Any], Any]
