"""Bound graphs: an application that is bound to others becomes a list of deployments, whose arguments have handles instead."""

from __future__ import annotations

import io
import logging
import pickle
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from .deployment import Application, Deployment
from .handle import DeploymentHandle

__all__ = ["BuiltDeployment", "build", "keys_of", "policies_of"]

logger = logging.getLogger("anyserve.serve")

MAX_DEPTH = 100  # of applications that are bound into one another

_PLAIN = (type(None), bool, int, float, complex, str, bytes, bytearray, memoryview, types.BuiltinFunctionType, DeploymentHandle)


class BuiltDeployment(NamedTuple):
    name: str
    deployment: Deployment  # with its name in the application, and the arguments of below
    init_args: Tuple[Any, ...]
    init_kwargs: Dict[str, Any]
    ingress: bool


class _Scan:
    """Walks through arguments. `visit` is called with each application, in the order in which pickle would meet them, and
    gives what takes its place."""

    def __init__(self, visit: Callable[[Application], Any]) -> None:
        self.visit = visit
        self.active: Set[int] = set()  # containers that the walk is in
        self.done: Dict[int, Any] = {}  # what became of a container that occurs twice
        self.keep: List[Any] = []  # so that no id is used again

    def walk(self, value: Any) -> Any:
        """The value with applications replaced; itself, if there are none in it."""
        if isinstance(value, Application):
            return self.visit(value)
        if isinstance(value, _PLAIN):
            return value
        if id(value) in self.done:
            return self.done[id(value)]
        if id(value) in self.active:
            return value  # it contains itself
        self.active.add(id(value))
        new = self.rebuild(value)
        self.active.discard(id(value))
        self.keep.append(value)
        self.done[id(value)] = new
        return new

    def rebuild(self, value: Any) -> Any:
        kind = type(value)
        if kind is list or kind is tuple or kind is set or kind is frozenset:
            items = [self.walk(v) for v in value]
            return kind(items) if any(a is not b for a, b in zip(items, value)) else value
        if kind is dict:
            pairs = [(self.walk(k), self.walk(v)) for k, v in value.items()]
            changed = any(a is not k or b is not v for (a, b), (k, v) in zip(pairs, value.items()))
            return dict(pairs) if changed else value
        return self.replace_within(value)

    def replace_within(self, value: Any) -> Any:
        """Another object: a copy by pickle, if there are applications in it. As in Ray, a function or class that goes by
        value has them in its closure, its defaults, its attributes, and in those globals that it names."""
        from . import _pickler

        found: List[Any] = []
        buffers: List[Any] = []
        seen: Dict[int, int] = {}

        class Pickler(_pickler.Pickler):
            def persistent_id(_, obj: Any) -> Optional[int]:  # noqa: N805
                if not isinstance(obj, Application):
                    return None
                if id(obj) not in seen:
                    seen[id(obj)] = len(found)
                    found.append(self.visit(obj))
                return seen[id(obj)]

        out = io.BytesIO()
        try:
            Pickler(out, buffers.append).dump(value)
        except Exception:
            if not found:
                return value  # it says so itself where it is sent
            raise
        if not found:
            return value

        class Unpickler(pickle.Unpickler):
            def persistent_load(_, index: Any) -> Any:  # noqa: N805
                return found[index]

        out.seek(0)
        return Unpickler(out, buffers=buffers).load()


class _Builder:
    def __init__(self, app_name: str, make_handle: Callable[[Deployment, str], Any]) -> None:
        self.app_name, self.make_handle = app_name, make_handle
        self.handles: Dict[int, Any] = {}  # by the id of an application, all of which the graph keeps
        self.names: Set[str] = set()
        self.built: List[BuiltDeployment] = []
        self.depth = 0

    def add(self, app: Application, ingress: bool = False) -> Any:
        """The handle of an application, which is built once."""
        if id(app) in self.handles:
            return self.handles[id(app)]
        if self.depth == MAX_DEPTH:
            raise ValueError("applications are bound into one another more than %d deep" % MAX_DEPTH)
        self.depth += 1
        bound = app._bound_deployment
        args, kwargs = _Scan(self.add).walk((bound.init_args, bound.init_kwargs))
        self.depth -= 1
        final = bound._with({"name": self.unique(bound.name)}, init_args=args, init_kwargs=kwargs)
        self.built.append(BuiltDeployment(final.name, final, args, kwargs, ingress))
        handle = self.handles[id(app)] = self.make_handle(final, self.app_name)
        return handle

    def unique(self, name: str) -> str:
        """NAME, NAME_1, NAME_2 in the order of building: what is bound into a deployment comes before it."""
        found, n = name, 0
        while found in self.names:
            n += 1
            found = "%s_%d" % (name, n)
        if n:
            logger.warning("There are multiple deployments with the same name '%s'. Renaming one to '%s'.", name, found)
        self.names.add(found)
        return found


def make_handle(deployment: Deployment, app_name: str) -> DeploymentHandle[Any]:
    config = deployment.backpressure_config
    return DeploymentHandle(deployment.name, app_name, _refusal=(config.status_code, config.retry_after_s))


def build(app: Application, name: str, make_handle: Callable[[Deployment, str], Any] = make_handle) -> List[BuiltDeployment]:
    """The deployments of an application: each after those that are bound into it, the last one is its ingress.

    Bound applications become what `make_handle` makes of them: handles. ValueError, TypeError."""
    if not isinstance(app, Application):
        hint = "; it is a deployment: call its .bind()" if isinstance(app, Deployment) else ""
        raise TypeError("`serve.run` expects an Application, which is the return value of `Deployment.bind()`, not %s%s."
                        % (type(app).__name__, hint))  # fmt: skip
    builder = _Builder(name, make_handle)
    builder.add(app, ingress=True)
    return builder.built


def keys_of(built: BuiltDeployment) -> Dict[str, Any]:
    """The keys that a deployment file would have for it, without the name."""
    return {**built.deployment.keys(), **({"ingress": True} if built.ingress else {})}


def policies_of(built: BuiltDeployment) -> Tuple[Any, Any]:
    """Its router and its scaling policy, where the program gives a class or a function, not an import path."""
    config = built.deployment._deployment_config
    router = config.request_router_config.request_router_class
    scaling = config.autoscaling_config and config.autoscaling_config.policy.policy_function
    return (None if isinstance(router, str) else router), (None if isinstance(scaling, str) else scaling)
