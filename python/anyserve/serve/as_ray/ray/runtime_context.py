"""ray.get_runtime_context(): what code can learn of where it runs."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Optional

from ...context import current_core
from .. import _hidden
from .._actors import default_namespace
from .._host import current_task
from .._listing import node_id
from .._job import job

__all__ = ["RuntimeContext", "get_runtime_context"]


class RuntimeContext:
    """Ids are texts in hex."""

    def get_job_id(self) -> str:
        return hashlib.sha256(job().encode()).hexdigest()[:8]

    def get_node_id(self) -> str:
        return node_id()

    def get_worker_id(self) -> str:
        return hashlib.sha256(("%s %d" % (job(), os.getpid())).encode()).hexdigest()[:56]

    def get_task_id(self) -> Optional[str]:
        """None in code that is no task's."""
        task = current_task.get()
        return None if task is None else task.id

    def get_task_name(self) -> Optional[str]:
        task = current_task.get()
        return None if task is None else task.name

    def get_actor_id(self) -> Optional[str]:
        """None in code that is no actor's."""
        info = self._actor()
        return None if info is None else info.id

    def get_actor_name(self) -> Optional[str]:
        """ "" of an actor without a name."""
        info = self._actor()
        return None if info is None else info.name

    @staticmethod
    def _actor() -> Optional[_hidden.Info]:
        info = _hidden.this()
        return info if info is not None and info.kind == "actor" else None

    @property
    def namespace(self) -> str:
        return default_namespace()

    @property
    def was_current_actor_reconstructed(self) -> bool:
        """Whether its process was started again."""
        from .._host import starts_of_this

        return self._actor() is not None and starts_of_this() > 1

    @property
    def current_actor(self) -> Any:
        """A handle of the actor that runs this. RuntimeError: none does."""
        info, core = self._actor(), current_core()
        if info is None or core is None:
            raise RuntimeError("This method is only available in an actor.")
        from .._actors import ActorHandle

        return ActorHandle(core.context.application, core.context.deployment, info)

    def get_assigned_resources(self) -> Dict[str, float]:
        return {"CPU": 1.0}

    def get_accelerator_ids(self) -> Dict[str, Any]:
        devices = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return {"GPU": devices.split(",") if devices else []}


def get_runtime_context() -> RuntimeContext:
    return RuntimeContext()
