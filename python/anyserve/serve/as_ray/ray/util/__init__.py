"""ray.util: what is said about actors, and metrics."""

from typing import Any


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("metrics", "state"):
        return import_module("." + name, __name__)
    from ... import PAGE

    raise AttributeError("module 'ray.util' has no attribute %r: AnyServe does not have it (%s)" % (name, PAGE))
