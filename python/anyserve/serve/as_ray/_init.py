"""ray.init and ray.shutdown."""

from __future__ import annotations

import sys
from typing import Any, Dict, Optional

from .._declare.options import check_runtime_env
from .._driver.current import driver, no_effect
from . import _actors, _hidden, _resources, _runtime_env, _store, _tasks

__all__ = ["Context", "init", "is_initialized", "shutdown"]

_initialized = False


class Context(Dict[str, Any]):
    """What ray.init returns; with `with`, the end of the block is ray.shutdown()."""

    dashboard_url = ""
    python_version = "%d.%d.%d" % sys.version_info[:3]
    ray_version = "2.60.0"

    @property
    def address_info(self) -> Dict[str, Any]:
        return dict(self)

    def __enter__(self) -> "Context":
        return self

    def __exit__(self, *_: Any) -> None:
        shutdown()

    def disconnect(self) -> None:
        shutdown()

    def __repr__(self) -> str:
        return "RayContext(dashboard_url='', python_version='%s', ray_version='%s')" % (self.python_version, self.ray_version)


# what is known of ray.init beside what has a meaning here
_NO_EFFECT = {
    "num_gpus", "resources", "labels", "object_store_memory", "local_mode", "include_dashboard", "dashboard_host", "dashboard_port",
    "job_config", "configure_logging", "logging_level", "logging_format", "logging_config", "log_to_driver", "storage",
    "enable_resource_isolation", "system_reserved_cpu", "system_reserved_memory", "allow_multiple",
}  # fmt: skip


def init(address: Optional[str] = None, *, num_cpus: Optional[int] = None, ignore_reinit_error: bool = False,
         namespace: Optional[str] = None, runtime_env: Optional[Dict[str, Any]] = None, **options: Any) -> Context:  # fmt: skip
    """Sets what tasks and actors have by default. The server is found, or started, when it is first needed.

    num_cpus: tasks that run at once. namespace: of named actors. runtime_env: of tasks, actors and deployments that have none.
    RuntimeError: it was called before."""
    unknown = sorted(k for k in options if k not in _NO_EFFECT and not k.startswith("_"))
    if unknown:
        raise RuntimeError("Unknown keyword argument(s): %s" % ", ".join(unknown))
    if _initialized or driver.server is not None:
        if not ignore_reinit_error:
            raise RuntimeError("Maybe you called ray.init twice by accident? This error can be suppressed by passing in "
                               "'ignore_reinit_error=True' or by calling 'ray.shutdown()' prior to 'ray.init()'.")  # fmt: skip
        return _context()
    if address not in (None, "auto", "local"):
        no_effect("address=%r" % address, True)
    if runtime_env:
        _runtime_env.update(check_runtime_env(runtime_env, "runtime_env"))
    _tasks.set_limit(num_cpus)
    _resources.set_resources(num_cpus=num_cpus, num_gpus=options.get("num_gpus"), resources=options.get("resources"))
    _actors.set_namespace(namespace or "")
    _begin()
    return _context()


def _begin() -> None:
    global _initialized
    _initialized = True


def _context() -> Context:
    return Context(address="local", node_id="", node_ip_address="127.0.0.1", namespace=_actors.default_namespace(), webui_url="")


def is_initialized() -> bool:
    """Whether ray.init() was called, or this process uses a server without."""
    return _initialized or driver.server is not None or _hidden.this() is not None


def shutdown(_exiting_interpreter: bool = False) -> None:
    """Ends the actors and tasks of this program, and the server, if it is this program's own."""
    global _initialized
    _initialized = False
    _runtime_env.clear()
    _tasks.set_limit(None)
    _resources.set_resources()
    _tasks.forget()
    _store.forget()
    _actors.set_namespace("")
    _hidden.delete_all()
    if _hidden.this() is not None:
        return
    server = driver.server
    if server is not None and server.is_own:
        driver.forget()
        server.end()
