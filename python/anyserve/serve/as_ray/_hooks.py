"""The import hooks: what `import ray`, `import ray.serve` and their submodules find, and `import starlette`.

`ray.serve` and its submodules are the modules of anyserve.serve themselves, under a second name. Where ray is not installed,
`ray` is the package of the same name in this folder; where it is, it is the installed one, whose functions are taught to deal
with our objects (_dispatch.py).
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Callable, Optional, Sequence

from . import PAGE

__all__ = ["install_hooks"]

SERVE, OURS = "anyserve.serve", __package__ + ".ray"
# of the installed ray, the modules that are changed after they were loaded
PATCHES = {"ray": "patch_ray", "ray.exceptions": "patch_exceptions", "ray.util.state": "patch_state", "ray.util.state.api": "patch_state"}
STARLETTE = "starlette"


class _Alias:
    """A loader. Gives a module that has another name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self.module = importlib.import_module(self.name)
        self.spec = self.module.__spec__
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has replaced it
        if self.name == SERVE:
            # `import ray.serve.deployment` must not replace the function of that name in the package
            for name, loaded in list(sys.modules.items()):
                if name.startswith(SERVE + ".") and "._" not in name:
                    sys.modules.setdefault("ray.serve" + name[len(SERVE) :], loaded)


class _Patched:
    """A loader. Loads a module of the installed ray, and then changes it."""

    def __init__(self, loader: Any, patch: Callable[[ModuleType], None]) -> None:
        self._loader, self._patch = loader, patch

    def create_module(self, spec: ModuleSpec) -> Optional[ModuleType]:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._patch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def _patch_of(name: str) -> Callable[[ModuleType], None]:
    def patch(module: ModuleType) -> None:
        from . import _dispatch

        getattr(_dispatch, PATCHES[name])(module)

    return patch


def _load_submodules_when_used(module: ModuleType) -> None:
    """Importing ray.serve loads the modules of starlette under Ray, so programs write `import starlette` and then
    `starlette.requests.Request`. Here a module is loaded when it is named: not every program needs them."""

    def find(name: str) -> Any:
        full = "%s.%s" % (module.__name__, name)
        if name.startswith("_") or importlib.util.find_spec(full) is None:
            raise AttributeError("module %r has no attribute %r" % (module.__name__, name))
        return importlib.import_module(full)

    module.__dict__.setdefault("__getattr__", find)


def _missing(name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError("No module named %r: AnyServe does not have it (%s)" % (name, PAGE), name=name)


def _alias(name: str, real: str) -> ModuleSpec:
    last = real.rpartition(".")[2]
    if last.startswith("_") or (real not in sys.modules and importlib.util.find_spec(real) is None):
        raise _missing(name)
    return ModuleSpec(name, _Alias(real), is_package=real in (SERVE, OURS) or None)  # type: ignore[arg-type]  # importlib.abc is slow to load


def _find_installed(name: str, path: Optional[Sequence[str]] = None) -> Optional[ModuleSpec]:
    spec = PathFinder.find_spec(name, path)
    return spec if spec is not None and spec.loader is not None else None  # a folder without __init__.py is no ray


class Finder:
    """On sys.meta_path, before all others."""

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None, target: Any = None) -> Optional[ModuleSpec]:
        if name == STARLETTE:
            spec = PathFinder.find_spec(name, path)
            return None if spec is None else self._patched(spec, _load_submodules_when_used)
        if not name.startswith("ray") or (name != "ray" and name[3] != "."):
            return None
        if name == "ray.serve" or name.startswith("ray.serve."):
            return _alias(name, SERVE + name[9:])
        if name == "ray":
            spec = _find_installed(name)
            return _alias(name, OURS) if spec is None else self._patched(spec, _patch_of(name))
        if sys.modules["ray"].__name__ == OURS:
            return _alias(name, OURS + name[3:])
        if name in PATCHES:
            spec = _find_installed(name, path)
            return None if spec is None else self._patched(spec, _patch_of(name))
        return None

    @staticmethod
    def _patched(spec: ModuleSpec, patch: Callable[[ModuleType], None]) -> ModuleSpec:
        spec.loader = _Patched(spec.loader, patch)  # type: ignore[assignment]
        return spec


def install_hooks() -> None:
    if "ray.serve" in sys.modules and sys.modules["ray.serve"].__name__ != SERVE:
        raise RuntimeError("ray.serve has been imported already: anyserve.serve.as_ray comes before the first `import ray`")
    sys.meta_path.insert(0, Finder())
    for name in PATCHES:  # that ray was imported for something else
        module = sys.modules.get(name)
        if module is not None:
            _patch_of(name)(module)
    if STARLETTE in sys.modules:
        _load_submodules_when_used(sys.modules[STARLETTE])
