"""ray.get_runtime_context(): what code can learn of where it runs."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Dict, Optional

from ...context import current_core
from .. import _hidden
from .._actors import default_namespace
from .._host import current_task
from .._listing import ReplicaHandle, node_id, replica_of_process
from .._job import job
from .._resources import get_gpu_ids

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
        """That of the actor, or of the replica, which is an actor in Ray. None in code of neither."""
        info, replica = self._actor(), _replica()
        return info.id if info is not None else replica._state.actor_id if replica is not None else None

    def get_actor_name(self) -> Optional[str]:
        """ "" of an actor without a name."""
        info, replica = self._actor(), _replica()
        return info.name if info is not None else replica._state.name if replica is not None else None

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
        """A handle of the actor, or of the replica, that runs this. RuntimeError: none does."""
        info, core, replica = self._actor(), current_core(), _replica()
        if replica is not None:
            return replica
        if info is None or core is None:
            raise RuntimeError("This method is only available in an actor.")
        from .._actors import ActorHandle

        return ActorHandle(core.context.application, core.context.deployment, info)

    def get_assigned_resources(self) -> Dict[str, float]:
        return {"CPU": 1.0}

    def get_accelerator_ids(self) -> Dict[str, Any]:
        return {"GPU": [str(d) for d in get_gpu_ids()]}


_found: Optional[ReplicaHandle] = None  # of this process: another one has another number of starts


def _replica() -> Optional[ReplicaHandle]:
    """The replica of a deployment that this process is."""
    global _found
    core = current_core()
    if core is None or _hidden.this() is not None:
        return None
    if _found is None or _found._state.pid != os.getpid():
        _found = replica_of_process(core.context.application, core.context.deployment, os.getpid())
    return _found


def get_runtime_context() -> RuntimeContext:
    return RuntimeContext()
