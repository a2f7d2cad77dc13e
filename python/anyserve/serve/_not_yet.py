"""Names of Ray Serve's modules that are not there yet: importing one says so."""

from __future__ import annotations

from typing import Any, Callable

__all__ = ["NO_TASK_CONSUMERS", "refuse"]

NO_TASK_CONSUMERS = "there are no task consumers"


def refuse(module: str, why: str, *names: str) -> Callable[[str], Any]:
    """The `__getattr__` of a module of this package that lacks these names. They raise ImportError: in place of an AttributeError,
    `from module import name` would raise an error that does not say why."""

    def __getattr__(name: str) -> Any:
        if name in names:
            raise ImportError("serve.%s.%s is not supported yet: %s (docs/guide/from-ray.md)" % (module, name, why), name=name)
        raise AttributeError("module 'anyserve.serve.%s' has no attribute %r" % (module, name))

    return __getattr__
