"""ray.util: what is said about actors, metrics, and the address of this machine."""

from typing import Any


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("metrics", "state"):
        return import_module("." + name, __name__)
    if name == "get_node_ip_address":
        from ..._resources import get_node_ip_address

        return get_node_ip_address
    from ... import PAGE

    raise AttributeError("module 'ray.util' has no attribute %r: AnyServe does not have it (%s)" % (name, PAGE))
