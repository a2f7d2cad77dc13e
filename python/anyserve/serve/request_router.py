"""Request routers of one's own: which replicas a request may go to, decided by a class of the program.

A deployment names its router in `request_router_config`. One object of the class runs in the deployment's policy process, beside
the replicas (docs/guide/routers.md); the dispatcher asks it for each request, and decides itself when the answer is late.
All methods are called on one event loop.
"""

from __future__ import annotations

import dataclasses
import random
import time
from typing import Any, Awaitable, Callable, Dict, Iterable, List, Optional, Set, Tuple

from ..replica import DeploymentID, ReplicaID

__all__ = ["FIFOMixin", "LocalityMixin", "MultiplexMixin", "PendingRequest", "ReplicaID", "RequestMetadata", "RequestRouter",
           "RunningReplica"]  # fmt: skip

MODEL_ID_TIMEOUT = 1.0  # seconds that MultiplexMixin looks for a replica with the model; drawn from one to two times as many


@dataclasses.dataclass
class RequestMetadata:
    """What is known of a request beside its arguments."""

    request_id: str = ""
    internal_request_id: str = ""  # unique among the requests of a router; `on_request_completed` gets it
    call_method: str = "__call__"
    multiplexed_model_id: str = ""
    session_id: str = ""
    is_http_request: bool = False
    app_name: str = ""


@dataclasses.dataclass
class RequestRoutingContext:
    """What the mixins have tried for a request."""

    multiplexed_start_matching_time: Optional[float] = None
    multiplexed_timeout: float = 0.0  # seconds from then
    tried_fewest_multiplexed_models: bool = False
    tried_first_multiplexed_models: bool = False
    tried_same_node: bool = False
    tried_same_az: bool = False
    should_backoff: bool = False


_Arguments = Tuple[Tuple[Any, ...], Dict[str, Any]]


class ArgumentsIncomplete(RuntimeError):
    """The arguments are longer than what comes with the question (64 KiB): `await pending_request.load_arguments()` first."""


class PendingRequest:
    """A request that waits for a replica.

    args and kwargs are decoded when they are first read. Those of a request of HTTP are empty; `body` has its first bytes.
    created_at: time.time() of its arrival.
    """

    def __init__(self, args: Iterable[Any] = (), kwargs: Optional[Dict[str, Any]] = None, metadata: Any = None,
                 created_at: Optional[float] = None) -> None:  # fmt: skip
        self.metadata: Any = RequestMetadata() if metadata is None else metadata
        self.created_at = time.time() if created_at is None else created_at
        self.routing_context = RequestRoutingContext()
        self.body = b""  # the first bytes of the body, as they came
        self.body_length = 0  # of the whole body
        self._arguments: Optional[_Arguments] = (tuple(args), kwargs or {})
        self._decode: Optional[Callable[[bytes], _Arguments]] = None
        self._fetch: Optional[Callable[[], Awaitable[bytes]]] = None

    def _set_body(self, body: bytes, length: int, decode: Callable[[bytes], _Arguments],
                  fetch: Callable[[], Awaitable[bytes]]) -> None:  # fmt: skip
        self.body, self.body_length = body, length
        self._arguments, self._decode, self._fetch = None, decode, fetch

    @property
    def args(self) -> Tuple[Any, ...]:
        return self._load()[0]

    @property
    def kwargs(self) -> Dict[str, Any]:
        return self._load()[1]

    def _load(self) -> _Arguments:
        if self._arguments is None:
            if len(self.body) < self.body_length:
                raise ArgumentsIncomplete("the arguments have %d bytes, of which %d came with the question: "
                                          "`await pending_request.load_arguments()` fetches the others"
                                          % (self.body_length, len(self.body)))  # fmt: skip
            assert self._decode is not None
            self._arguments = self._decode(self.body)
        return self._arguments

    async def load_arguments(self) -> None:
        """Fetches the rest of the body, if there is one. Then args and kwargs can be read. RuntimeError: the request does not
        wait any more."""
        if self._arguments is None and len(self.body) < self.body_length:
            assert self._fetch is not None
            self.body = await self._fetch()


class RunningReplica:
    """A replica that a router may choose. What it says of itself is kept up to date while it runs."""

    def __init__(self, replica_id: ReplicaID, max_ongoing_requests: int = 5, multiplexed_model_ids: Iterable[str] = (),
                 routing_stats: Optional[Dict[str, Any]] = None, node_id: str = "",
                 availability_zone: Optional[str] = None, num_ongoing_requests: int = 0) -> None:  # fmt: skip
        self.replica_id = replica_id
        self.max_ongoing_requests = max_ongoing_requests
        self.multiplexed_model_ids: Set[str] = set(multiplexed_model_ids)
        self.routing_stats: Dict[str, Any] = {} if routing_stats is None else routing_stats
        self.node_id = node_id
        self.availability_zone = availability_zone
        self.num_ongoing_requests = num_ongoing_requests  # that the dispatcher has sent to it, as it said last

    @property
    def actor_id(self) -> str:
        return self.replica_id.to_full_id_str()

    async def get_queue_len(self, *, deadline_s: float = 0.0) -> int:
        """The number of its requests. The dispatcher counts them exactly, so no replica is asked."""
        return self.num_ongoing_requests

    def __repr__(self) -> str:
        return "RunningReplica(%s)" % (self.replica_id,)


class ReplicaResult:
    """What `on_request_routed` gets in Ray, for annotations. It cannot be made: the argument is None here."""

    def __init__(self) -> None:
        raise TypeError("a ReplicaResult is not made by programs")


class _QueueLengths:
    """`replica_queue_len_cache`: the counts of the dispatcher, which are never stale."""

    def __init__(self, router: "RequestRouter") -> None:
        self._router = router

    def get(self, replica_id: ReplicaID) -> Optional[int]:
        replica = self._router.curr_replicas.get(replica_id)
        return None if replica is None else replica.num_ongoing_requests

    def update(self, replica_id: ReplicaID, queue_len: int) -> None:
        replica = self._router.curr_replicas.get(replica_id)
        if replica is not None:
            replica.num_ongoing_requests = queue_len

    def invalidate_key(self, replica_id: ReplicaID) -> None:
        """Nothing: no count is stale."""


class RequestRouter:
    """Chooses replicas for requests. Derive from it, and define choose_replicas."""

    def __init__(self, deployment_id: Optional[DeploymentID] = None, *, self_node_id: str = "",
                 self_availability_zone: Optional[str] = None, **ignored: Any) -> None:  # fmt: skip
        self._deployment_id = deployment_id or DeploymentID("", "")
        self._self_node_id, self._self_availability_zone = self_node_id, self_availability_zone
        self._replicas: Dict[ReplicaID, RunningReplica] = {}
        self._pending = 0  # set by the policy process
        self.replica_queue_len_cache = _QueueLengths(self)

    def initialize_state(self, **kwargs: Any) -> None:
        """Gets request_router_kwargs, once, before anything else is called."""

    async def choose_replicas(
        self, candidate_replicas: List[RunningReplica], pending_request: Optional[PendingRequest] = None
    ) -> List[List[RunningReplica]]:
        """Groups of replicas, the best ones first. The dispatcher takes a replica of the first group that has a free slot. No
        replica: the dispatcher decides."""
        raise NotImplementedError("a router defines choose_replicas")

    @property
    def curr_replicas(self) -> Dict[ReplicaID, RunningReplica]:
        """All replicas of the deployment that may get requests."""
        return self._replicas

    @property
    def app_name(self) -> str:
        return self._deployment_id.app_name

    @property
    def num_pending_requests(self) -> int:
        """Requests for which choose_replicas runs."""
        return self._pending

    def update_replicas(self, replicas: List[RunningReplica]) -> None:
        """These are the replicas from now on. An override calls this one, too."""
        self._replicas = {r.replica_id: r for r in replicas}

    def select_available_replicas(self, candidates: Optional[List[RunningReplica]] = None) -> List[RunningReplica]:
        """Those that have fewer requests than max_ongoing_requests. None: of all replicas."""
        among = self._replicas.values() if candidates is None else candidates
        return [r for r in among if r.num_ongoing_requests < r.max_ongoing_requests]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """The request was sent to a replica; result is None. Also when the dispatcher chose the replica itself."""

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """The replica has ended a request."""

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """The process of a replica has died. update_replicas, without it, comes next."""

    def on_replica_actor_unavailable(self, replica_id: ReplicaID) -> None:
        """Not called: the dispatcher has a connection to each replica."""

    def on_new_queue_len_info(self, replica_id: ReplicaID, queue_len_info: Any) -> None:
        """Not called: the dispatcher's counts are exact."""

    def on_send_request(self, replica_id: ReplicaID) -> None:
        """Not called: see on_request_routed."""


class FIFOMixin:
    """The oldest request gets the first free slot: that is so for every router here."""


def _groups(ranks: int) -> List[List[RunningReplica]]:
    return [[] for _ in range(ranks)]


def _context(pending_request: Optional[PendingRequest]) -> RequestRoutingContext:
    return RequestRoutingContext() if pending_request is None else pending_request.routing_context


class LocalityMixin:
    """Replicas near the caller come first. The caller is the dispatcher: on its node, in its zone, elsewhere."""

    curr_replicas: Dict[ReplicaID, RunningReplica]
    _self_node_id: str
    _self_availability_zone: Optional[str]

    def _distance(self, replica: RunningReplica) -> int:
        if replica.node_id == self._self_node_id:
            return 0
        zone = self._self_availability_zone
        return 1 if zone and replica.availability_zone == zone else 2

    def rank_replicas_via_locality(self, replicas: List[RunningReplica]) -> List[List[RunningReplica]]:
        """Three groups, which may be empty: on the same node, in the same zone, the others."""
        groups = _groups(3)
        for replica in replicas:
            groups[self._distance(replica)].append(replica)
        return groups

    def apply_locality_routing(self, pending_request: Optional[PendingRequest] = None) -> Set[ReplicaID]:
        """The replicas on the same node; when called again for the request, those in the same zone, too; then all."""
        context = _context(pending_request)
        distances = {i: self._distance(r) for i, r in self.curr_replicas.items()}
        same_node = {i for i, d in distances.items() if d == 0}
        if same_node and not context.tried_same_node:
            context.tried_same_node, context.should_backoff = True, False
            return same_node
        near = {i for i, d in distances.items() if d <= 1}
        if near and self._self_availability_zone and not context.tried_same_az:
            context.tried_same_az, context.should_backoff = True, False
            return near
        context.should_backoff = True
        return set(distances)


class MultiplexMixin:
    """Replicas that hold the request's model come first, then those that hold the fewest models."""

    curr_replicas: Dict[ReplicaID, RunningReplica]

    def rank_replicas_via_multiplex(self, replicas: List[RunningReplica], multiplexed_model_id: str) -> List[List[RunningReplica]]:
        """Three groups, which may be empty: replicas with the model; of the others those with the fewest models; the rest."""
        groups = _groups(3)
        groups[0] = [r for r in replicas if multiplexed_model_id in r.multiplexed_model_ids]
        others = [r for r in replicas if multiplexed_model_id not in r.multiplexed_model_ids]
        fewest = min((len(r.multiplexed_model_ids) for r in others), default=0)
        for replica in others:
            groups[1 if len(replica.multiplexed_model_ids) == fewest else 2].append(replica)
        return groups

    def apply_multiplex_routing(self, pending_request: Optional[PendingRequest] = None) -> Set[ReplicaID]:
        """The replicas with the request's model; those with the fewest models when none has it, or when holders were not
        free for one to two seconds; then all."""
        if pending_request is None or not pending_request.metadata.multiplexed_model_id:
            return set(self.curr_replicas)
        context, now = pending_request.routing_context, time.monotonic()
        if context.multiplexed_start_matching_time is None:
            context.multiplexed_start_matching_time = now
            context.multiplexed_timeout = MODEL_ID_TIMEOUT * random.uniform(1, 2)
        ranked = self.rank_replicas_via_multiplex(list(self.curr_replicas.values()), pending_request.metadata.multiplexed_model_id)
        late = now - context.multiplexed_start_matching_time >= context.multiplexed_timeout
        if ranked[0] and not late:
            context.tried_first_multiplexed_models, context.should_backoff = True, True
            return {r.replica_id for r in ranked[0]}
        if not context.tried_fewest_multiplexed_models:
            context.tried_fewest_multiplexed_models, context.should_backoff = True, False
            return {r.replica_id for r in ranked[1] or ranked[0]}
        context.should_backoff = True
        return set(self.curr_replicas)
