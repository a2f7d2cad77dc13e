"""The installed ray: its functions deal with our objects, too, and its exceptions are bases of ours.

ray.init is as it was, and is never called from here: a program that uses only serve starts no Ray.
"""

from __future__ import annotations

import functools
import time
from importlib import import_module
from types import ModuleType
from typing import Any, Callable, List, Optional

from .. import exceptions as ours
from ..handle import DeploymentResponse, DeploymentResponseGenerator

__all__ = ["patch_exceptions", "patch_ray", "patch_state"]

_MARK = "_anyserve_patched"


# loaded when one of our objects is used: `import ray` is not to wait for them
def _refs() -> Any:
    return import_module("._refs", __package__)


def _listing() -> Any:
    return import_module("._listing", __package__)


def _is_ours(ref: Any) -> bool:
    return isinstance(ref, (DeploymentResponse, DeploymentResponseGenerator))


# --- functions of ray ---


def _get(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def get(object_refs: Any, *, timeout: Optional[float] = None, **options: Any) -> Any:
        if not isinstance(object_refs, list):
            return _refs().get(object_refs, timeout=timeout) if _is_ours(object_refs) else theirs(object_refs, timeout=timeout, **options)
        if not any(map(_is_ours, object_refs)):
            return theirs(object_refs, timeout=timeout, **options)
        until = None if timeout is None else time.monotonic() + timeout
        out: List[Any] = []
        for ref in object_refs:
            left = None if until is None else max(until - time.monotonic(), 0)
            out.append(_refs().get(ref, timeout=left) if _is_ours(ref) else theirs(ref, timeout=left, **options))
        return out

    return get


def _wait(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def wait(ray_waitables: Any, *, num_returns: int = 1, timeout: Optional[float] = None, fetch_local: bool = True) -> Any:
        refs = ray_waitables if isinstance(ray_waitables, list) else []
        which = [_is_ours(r) for r in refs]
        if not any(which):
            return theirs(ray_waitables, num_returns=num_returns, timeout=timeout, fetch_local=fetch_local)
        if all(which):
            return _refs().wait(refs, num_returns=num_returns, timeout=timeout)
        if not 0 < num_returns <= len(refs):
            raise ValueError("Invalid number of objects to return %d." % num_returns)
        done = [_watched(r) for r in refs]
        _refs().wait_for(done, num_returns, timeout)
        return _refs().split(refs, [is_done() for is_done in done], num_returns)

    return wait


def _watched(ref: Any) -> Callable[[], bool]:
    """Whether it has ended; its end is told to who waits."""
    if _is_ours(ref):
        _refs()._watch(ref)
        return ref.reply.done  # type: ignore[no-any-return]
    future = ref.future()  # ray's own
    future.add_done_callback(_refs()._tell)
    return future.done  # type: ignore[no-any-return]


def _cancel(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def cancel(ray_waitable: Any, **options: Any) -> Any:
        return _refs().cancel(ray_waitable) if _is_ours(ray_waitable) else theirs(ray_waitable, **options)

    return cancel


def _kill(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def kill(actor: Any, *, no_restart: bool = True) -> Any:
        mine = type(actor).__module__.startswith(__package__)
        return _listing().kill(actor) if mine else theirs(actor, no_restart=no_restart)

    return kill


def _get_actor(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def get_actor(name: str, namespace: Optional[str] = None) -> Any:
        if isinstance(name, str) and name.startswith("SERVE_REPLICA::"):
            return _listing().get_actor(name, namespace)
        return theirs(name, namespace)

    return get_actor


_FUNCTIONS = {"get": _get, "wait": _wait, "cancel": _cancel, "kill": _kill, "get_actor": _get_actor}


def patch_ray(ray: ModuleType) -> None:
    for name, make in _FUNCTIONS.items():
        theirs = getattr(ray, name)
        if not hasattr(theirs, _MARK):
            made = make(theirs)
            setattr(made, _MARK, True)
            setattr(ray, name, made)


# --- lists of actors ---


def _list_actors(theirs: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(theirs)
    def list_actors(address: Optional[str] = None, filters: Any = None, limit: int = 100, **options: Any) -> Any:
        import ray  # type: ignore[import-not-found, unused-ignore]

        found = list(_listing().list_actors(filters=filters, limit=limit))
        if (address is not None or ray.is_initialized()) and len(found) < limit:
            found += theirs(address, filters=filters, limit=limit - len(found), **options)
        return found

    return list_actors


def patch_state(state: ModuleType) -> None:
    """Of ray.util.state, or its module api."""
    theirs = getattr(state, "list_actors", None)
    if theirs is not None and not hasattr(theirs, _MARK):
        made = _list_actors(theirs)
        setattr(made, _MARK, True)
        state.list_actors = made  # type: ignore[attr-defined]


# --- exceptions ---

_ERRORS = ("RayError", "TaskCancelledError", "RayActorError", "ActorDiedError", "ActorUnavailableError", "RayTaskError")


def patch_exceptions(exceptions: ModuleType) -> None:
    """Makes the installed ray's exceptions bases of ours, so that `except` of either catches ours. What ours define counts."""
    for name in _ERRORS:
        cls, theirs = getattr(ours, name), getattr(exceptions, name, None)
        if theirs is None or issubclass(cls, theirs):
            continue
        for method in ("__init__", "__new__", "__str__", "__reduce__"):
            if method not in vars(cls):  # else theirs would be found before Exception's
                setattr(cls, method, getattr(cls, method))
        cls.__bases__ = (*cls.__bases__, theirs)
