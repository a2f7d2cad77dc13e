"""A replica that `handle.choose_replica` has chosen, with a slot of it that is reserved."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ..replica import DeploymentID
from ._calls.transport import CallMeta, FailedReply, Reply, Reservation

__all__ = ["ReplicaSelection"]

_USED = "The selection of replica %s was dispatched already. A selection is for one request."
_LEFT = "The slot of replica %s was given back: `dispatch` must be called within the `async with` of `choose_replica`."


class ReplicaSelection:
    """What `async with handle.choose_replica() as selection` gives. Its slot is for one `handle.dispatch(selection, …)`.

    replica_id: the replica's name, as `serve.get_replica_context().replica_tag` has it. deployment_id: of which it is one."""

    def __init__(self, replica_id: str, deployment_id: DeploymentID, reservation: Reservation) -> None:
        self.replica_id = replica_id
        self.deployment_id = deployment_id
        self.node_ip = "127.0.0.1"  # all replicas are on this machine …
        self.port: Optional[int] = None  # … and have no ports of their own
        self.replica_metadata: Dict[str, Any] = {}
        self._reservation = reservation
        self._dispatched = self._left = False

    @property
    def address(self) -> Tuple[str, Optional[int]]:
        """(node_ip, port)."""
        return self.node_ip, self.port

    def to_dict(self) -> Dict[str, Any]:
        """What it says of the replica, of plain values."""
        return {"replica_id": self.replica_id, "deployment": self.deployment_id.name, "application": self.deployment_id.app_name,
                "node_ip": self.node_ip, "port": self.port, "replica_metadata": dict(self.replica_metadata)}  # fmt: skip

    def _dispatch(self, meta: CallMeta, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Reply:
        if self._dispatched or self._left:
            return FailedReply(RuntimeError((_USED if self._dispatched else _LEFT) % self.replica_id), meta.request_id)
        self._dispatched = True
        return self._reservation.dispatch(meta, args, kwargs)

    def _leave(self) -> None:
        """The end of the `async with`."""
        self._left = True
        if not self._dispatched:
            self._reservation.release()

    def __repr__(self) -> str:
        return "ReplicaSelection(replica_id=%r, deployment='%s')" % (self.replica_id, self.deployment_id.name)
