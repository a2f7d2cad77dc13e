"""The base classes of request routers of one's own, so that programs which define some are served.

A router is kept with its deployment (`request_router_config`) and not called: the dispatcher, which counts the requests of every
replica exactly, gives each request to the least loaded one. serve says so once in the log.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, Optional, Set, Tuple

from ..replica import ReplicaID

__all__ = ["FIFOMixin", "LocalityMixin", "MultiplexMixin", "PendingRequest", "ReplicaID", "RequestRouter", "RunningReplica"]


@dataclasses.dataclass
class PendingRequest:
    """A request that waits for a replica."""

    args: Tuple[Any, ...] = ()
    kwargs: Dict[str, Any] = dataclasses.field(default_factory=dict)
    metadata: Any = None
    created_at: float = 0.0


@dataclasses.dataclass(frozen=True)
class RunningReplica:
    """A replica that a router may choose."""

    replica_id: ReplicaID
    max_ongoing_requests: int = 5
    multiplexed_model_ids: Set[str] = dataclasses.field(default_factory=set)
    routing_stats: Dict[str, Any] = dataclasses.field(default_factory=dict)
    node_id: str = ""
    availability_zone: Optional[str] = None


class ReplicaResult:
    """What `on_request_routed` gets in Ray, for annotations. It cannot be made: no router is called."""

    def __init__(self) -> None:
        raise TypeError("a ReplicaResult is not made by programs")


class RequestRouter:
    """Chooses replicas for requests."""

    def initialize_state(self, **kwargs: Any) -> None:
        """Gets request_router_kwargs."""

    async def choose_replicas(
        self, candidate_replicas: List[RunningReplica], pending_request: Optional[PendingRequest] = None
    ) -> List[List[RunningReplica]]:
        """Groups of replicas, the best ones first."""
        raise NotImplementedError("a router defines choose_replicas")

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """A replica was chosen."""

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """The replica has ended a request."""


class FIFOMixin:
    """The oldest request comes first: it always does here."""


class LocalityMixin:
    """Replicas near the caller come first: there is one machine, so all are."""

    def rank_replicas_via_locality(self, replicas: List[RunningReplica]) -> List[List[RunningReplica]]:
        return [list(replicas)]


class MultiplexMixin:
    """Replicas that hold the request's model come first."""

    def rank_replicas_via_multiplex(self, replicas: List[RunningReplica], multiplexed_model_id: str) -> List[List[RunningReplica]]:
        holders = [r for r in replicas if multiplexed_model_id in r.multiplexed_model_ids]
        others = sorted((r for r in replicas if r not in holders), key=lambda r: len(r.multiplexed_model_ids))
        return [group for group in (holders, others) if group]
