"""Runs one router of the user's own on the event loop: keeps its replicas, asks it for each request, and answers the server.

There is a `_Peer` for each link by which questions come: a second one while another dispatcher takes over.
"""

from __future__ import annotations

import asyncio
import heapq
import json
import time
from typing import Any, Callable, Coroutine, Dict, Iterable, List, Optional, Set, Tuple

from ...code.copied import user_traceback
from ...replica import DeploymentID, ReplicaID
from ...runtime.log import log_event
from .._payload import decode_call, parse, text_of
from ..request_router import PendingRequest, RequestMetadata, RequestRouter, RequestRoutingContext, RunningReplica
from . import records

# Questions of one link for which choose_replicas waits, also late ones. No option: each has had --router-timeout already when
# so many wait. A further one is answered BUSY at once: the policy of the server decides.
MAX_OPEN = 256
MAX_KEPT = 4096  # questions of one link that were answered and not sent
READ_STEP = 256 << 10  # bytes of records after which the server is told that they were read
ROUTED_BYTES = 32 << 20  # of the bodies of those that were answered and not sent
MAX_LOGGED = 64  # kinds of errors that are logged, each once

_UNUSED = RequestRoutingContext()

Send = Callable[[int, bytes], Any]  # (origin, records)
Spawn = Callable[[Coroutine[Any, Any, None]], "asyncio.Task[None]"]


class RequestGone(RuntimeError):
    """The request does not wait any more: its client has left, or the server has decided."""


class _Question:
    """One for which choose_replicas runs."""

    def __init__(self, pending: PendingRequest) -> None:
        self.pending = pending
        self.task: Optional["asyncio.Task[None]"] = None
        self.is_routed = False  # the server did not wait for the answer


class _Peer:
    """A link: the numbers of replicas there, and its open questions."""

    def __init__(self) -> None:
        self.by_number: Dict[int, RunningReplica] = {}
        self.numbers: Dict[ReplicaID, int] = {}
        self.open: Dict[int, _Question] = {}
        self.routed: Dict[int, PendingRequest] = {}  # answered, and not sent yet, for on_request_routed
        self.routed_bytes = 0  # of their bodies
        self.contexts: Dict[int, RequestRoutingContext] = {}  # of those that may be asked again: what the mixins have tried
        self.fetching: Dict[int, Tuple[List[bytes], "asyncio.Future[bytes]"]] = {}
        self.bytes_read = self.bytes_told = 0
        self.out = bytearray()
        self.flushing = False

    def keep_routed(self, ident: int, pending: PendingRequest) -> None:
        """The server does not say which ones will never be sent, so the oldest ones go."""
        self.routed[ident] = pending
        self.routed_bytes += len(pending.body)
        while len(self.routed) > MAX_KEPT or (self.routed_bytes > ROUTED_BYTES and len(self.routed) > 1):
            self.take_routed(next(iter(self.routed)))

    def keep_context(self, ident: int, context: RequestRoutingContext) -> None:
        self.contexts[ident] = context
        if len(self.contexts) > MAX_KEPT:
            del self.contexts[next(iter(self.contexts))]

    def take_routed(self, ident: int) -> Optional[PendingRequest]:
        pending = self.routed.pop(ident, None)
        self.routed_bytes -= 0 if pending is None else len(pending.body)
        return pending


def _decode(kind: int) -> Callable[[bytes], Tuple[Tuple[Any, ...], Dict[str, Any]]]:
    def decode(body: bytes) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
        if kind != records.CALL:
            return (), {}
        _, args, kwargs = decode_call(parse(body))
        return args, kwargs

    return decode


def _overrides(router: RequestRouter, name: str) -> bool:
    return getattr(type(router), name, None) is not getattr(RequestRouter, name)


class RouterHost:
    def __init__(self, router_class: Any, kwargs: Dict[str, Any], deployment: DeploymentID, node: str = "",
                 zone: Optional[str] = None) -> None:  # fmt: skip
        """Constructs the router. Raises what its code raises, and TypeError."""
        if not (isinstance(router_class, type) and issubclass(router_class, RequestRouter)):
            raise TypeError("request_router_class of deployment %r is no class derived from RequestRouter: %r"
                            % (deployment.name, router_class))  # fmt: skip
        self.deployment = deployment
        self.router = router_class(deployment, self_node_id=node, self_availability_zone=zone)
        self.router.initialize_state(**kwargs)
        self._send: Send = lambda origin, data: None
        self._peers: Dict[int, _Peer] = {}
        self._replicas: Dict[ReplicaID, RunningReplica] = {}
        self._logged: Set[Tuple[str, str]] = set()
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        self._spawn: Spawn

    @property
    def wants(self) -> int:
        """The hooks that the router has."""
        return ((records.WANTS_ROUTED if _overrides(self.router, "on_request_routed") else 0)
                | (records.WANTS_COMPLETED if _overrides(self.router, "on_request_completed") else 0))  # fmt: skip

    def start(self, send: Send, spawn: Optional[Spawn] = None) -> None:
        """On the event loop, before the first `take`. spawn: makes the tasks of choose_replicas, and may run one up to its first
        suspension at once, so that its answer leaves with the others of `take`; None: the loop's own."""
        self._send, self._loop = send, asyncio.get_running_loop()
        self._spawn = spawn or self._loop.create_task

    # --- what comes ---

    def take(self, origin: int, data: bytes) -> None:
        """The records of one frame."""
        peer = self._peer(origin)
        changed = False
        died: List[ReplicaID] = []
        peer.flushing = True  # one answer for all
        for kind, at, end in records.split(data):
            if kind == records.ROUTE:
                if changed:
                    changed = self._update(died)
                self._on_route(origin, peer, records.route(data, at, end))
            elif kind == records.ONGOING:
                for number, ongoing in records.counts(data, at, end):
                    if number in peer.by_number:
                        peer.by_number[number].num_ongoing_requests = ongoing
            elif kind == records.REPLICA:
                changed = self._on_replica(peer, records.replica(data, at)) or changed
            elif kind == records.GONE:
                changed = self._on_gone(peer, records.event(data, at), died) or changed
            elif kind == records.BODY:
                self._on_body(peer, records.body(data, at, end))
            elif kind == records.ROUTED:
                self._on_routed(peer, records.event(data, at))
            elif kind == records.COMPLETED:
                self._on_completed(origin, peer, records.event(data, at))
            elif kind == records.WITHDRAWN:
                self._withdraw(peer, records.event(data, at).id)
        if changed:
            self._update(died)
        self._count_read(peer, len(data))
        peer.flushing = False
        if peer.out:
            self._flush(origin, peer)

    def _peer(self, origin: int) -> _Peer:
        peer = self._peers.get(origin)
        if peer is None:
            for old, ended in list(self._peers.items()):
                if not self._send(old, records.read(ended.bytes_read)):
                    self._drop(old)
            peer = self._peers[origin] = _Peer()
        return peer

    def _drop(self, origin: int) -> None:
        """The link has ended."""
        peer = self._peers.pop(origin, None)
        if peer is None:
            return
        for question in list(peer.open):
            self._withdraw(peer, question)
        for ident in peer.numbers:
            self._forget(ident)

    def _forget(self, ident: ReplicaID) -> None:
        if not any(ident in p.numbers for p in self._peers.values()):
            self._replicas.pop(ident, None)

    def _count_read(self, peer: _Peer, size: int) -> None:
        peer.bytes_read += size
        if peer.bytes_read - peer.bytes_told >= READ_STEP:
            peer.bytes_told = peer.bytes_read
            peer.out += records.read(peer.bytes_read)

    # --- replicas ---

    def _on_replica(self, peer: _Peer, said: records.Replica) -> bool:
        """True: it is new."""
        known = peer.by_number.get(said.number)
        replica = known
        if replica is None:
            name = said.name.rpartition("#")[2]
            ident = ReplicaID(name, self.deployment)
            replica = self._replicas.get(ident) or RunningReplica(ident)
            peer.by_number[said.number] = replica
            peer.numbers[ident] = said.number
            self._replicas[ident] = replica
        replica.max_ongoing_requests, replica.num_ongoing_requests = said.max_ongoing, said.ongoing
        replica.node_id, replica.availability_zone = said.node, said.zone or None
        if said.models is not None:
            replica.multiplexed_model_ids = set(json.loads(said.models)) if said.models else set()
        if said.stats is not None:
            replica.routing_stats = json.loads(said.stats) if said.stats else {}
        return known is None

    def _on_gone(self, peer: _Peer, said: records.Event, died: List[ReplicaID]) -> bool:
        replica = peer.by_number.pop(said.number, None)
        if replica is None:
            return False
        if peer.numbers.get(replica.replica_id) == said.number:
            del peer.numbers[replica.replica_id]
        if said.id:
            died.append(replica.replica_id)
        self._forget(replica.replica_id)
        return True

    def _update(self, died: List[ReplicaID]) -> bool:
        for ident in died:
            self._call("on_replica_actor_died", ident)
        died.clear()
        self._call("update_replicas", list(self._replicas.values()))
        return False

    # --- questions ---

    def _on_route(self, origin: int, peer: _Peer, q: records.Route) -> None:
        if len(peer.open) >= MAX_OPEN:
            self._answer(origin, peer, records.choice(q.id, records.BUSY))
            return
        metadata = RequestMetadata(q.request_id, "%d-%d" % (origin, q.id), q.method or "__call__", q.model_id, q.session_id,
                                   q.kind == records.HTTP, self.deployment.app_name)  # fmt: skip
        pending = PendingRequest(metadata=metadata, created_at=time.time() - max(time.monotonic_ns() - q.created, 0) / 1e9)
        pending._set_body(q.body, q.body_len, _decode(q.kind), lambda: self._fetch(origin, peer, q))
        if q.before:  # its replicas were busy: it is the same request
            peer.take_routed(q.before)
            pending.routing_context = peer.contexts.pop(q.before, pending.routing_context)
        question = peer.open[q.id] = _Question(pending)
        self.router._pending += 1
        question.task = self._spawn(self._ask(origin, peer, q.id, question))

    async def _ask(self, origin: int, peer: _Peer, ident: int, question: _Question) -> None:
        pending = question.pending
        try:
            groups: Any = self.router.choose_replicas(candidate_replicas=list(self.router.curr_replicas.values()),
                                                      pending_request=pending)  # fmt: skip
            if hasattr(groups, "__await__"):
                groups = await groups
            reason, chosen = self._ranked(peer, groups)
        except (RequestGone, GeneratorExit):
            return
        except BaseException as e:  # SystemExit too: in a task's first step it would end the process
            if isinstance(e, asyncio.CancelledError) and ident not in peer.open:  # withdrawn; else the router has raised it
                return
            self._log_once("router_raised", text_of(e), user_traceback(e))
            reason, chosen = records.RAISED, []
        finally:
            if peer.open.pop(ident, None) is not None:
                self.router._pending -= 1
        if pending.routing_context != _UNUSED:
            peer.keep_context(ident, pending.routing_context)
        if self.wants & records.WANTS_ROUTED and not question.is_routed:
            peer.keep_routed(ident, pending)
        self._answer(origin, peer, records.choice(ident, reason, chosen))

    def _ranked(self, peer: _Peer, groups: Iterable[Any]) -> Tuple[int, List[Tuple[int, int]]]:
        """The answer for what choose_replicas has returned: numbers of replicas with their ranks."""
        chosen: List[Tuple[int, int]] = []
        seen: Set[int] = set()
        unknown: Any = None
        for rank, group in enumerate(groups):
            found = []
            for replica in group:
                number = peer.numbers.get(replica.replica_id) if isinstance(replica, RunningReplica) else None
                if number is None:
                    unknown = replica
                elif number not in seen:
                    seen.add(number)
                    found.append((replica.num_ongoing_requests, number))
            room = records.MAX_CHOICES - len(chosen)
            if len(found) > room:
                found = heapq.nsmallest(room, found)
            chosen.extend((number, rank) for _, number in found)
            if len(chosen) == records.MAX_CHOICES:
                break
        if chosen:
            return records.CHOSEN, chosen
        if unknown is None:
            return records.NONE, []
        if not isinstance(unknown, RunningReplica) or unknown.replica_id.deployment_id != self.deployment:
            self._log_once("router_unknown_replica", "choose_replicas has returned %r, which is no replica of the deployment"
                           % (unknown,))  # fmt: skip
        return records.UNKNOWN, []

    def _withdraw(self, peer: _Peer, ident: int) -> None:
        asked = peer.open.pop(ident, None)
        if asked is not None:
            self.router._pending -= 1
            assert asked.task is not None
            asked.task.cancel()
        peer.take_routed(ident)
        peer.contexts.pop(ident, None)
        fetching = peer.fetching.pop(ident, None)
        if fetching is not None and not fetching[1].done():
            fetching[1].set_exception(RequestGone("the request does not wait any more"))

    # --- bodies ---

    async def _fetch(self, origin: int, peer: _Peer, q: records.Route) -> bytes:
        assert self._loop is not None
        if q.id not in peer.fetching:
            peer.fetching[q.id] = [q.body], self._loop.create_future()
            self._answer(origin, peer, records.more(q.id))
        return await asyncio.shield(peer.fetching[q.id][1])

    def _on_body(self, peer: _Peer, said: records.Body) -> None:
        fetching = peer.fetching.get(said.id)
        asked = peer.open.get(said.id)
        if fetching is None or asked is None:
            return
        parts, future = fetching
        if said.gone:
            self._withdraw(peer, said.id)
            return
        parts.append(said.data)
        if sum(map(len, parts)) >= asked.pending.body_length:
            del peer.fetching[said.id]
            if not future.done():
                future.set_result(b"".join(parts))

    # --- hooks ---

    def _on_routed(self, peer: _Peer, said: records.Event) -> None:
        asked = peer.open.get(said.id)
        if asked is not None:
            asked.is_routed = True
        pending = asked.pending if asked is not None else peer.take_routed(said.id)
        replica = peer.by_number.get(said.number)
        if pending is not None and replica is not None:
            self._call("on_request_routed", pending, replica.replica_id, None)

    def _on_completed(self, origin: int, peer: _Peer, said: records.Event) -> None:
        replica = peer.by_number.get(said.number)
        if replica is not None:
            self._call("on_request_completed", replica.replica_id, "%d-%d" % (origin, said.id))

    def _call(self, hook: str, *args: Any) -> None:
        try:
            getattr(self.router, hook)(*args)
        except BaseException as e:  # SystemExit too: it would end the turn, with no answer to the frame's questions
            self._log_once("router_raised", "%s: %s" % (hook, text_of(e)), user_traceback(e))

    # --- answers ---

    def _answer(self, origin: int, peer: _Peer, record: bytes) -> None:
        peer.out += record
        if not peer.flushing:
            peer.flushing = True
            assert self._loop is not None
            self._loop.call_soon(self._flush, origin, peer)

    def _flush(self, origin: int, peer: _Peer) -> None:
        peer.flushing = False
        data, peer.out = peer.out, bytearray()
        if data and not self._send(origin, bytes(data)):
            self._drop(origin)

    def _log_once(self, event: str, text: str, trace: str = "") -> None:
        key = event, text[:200]
        if key not in self._logged and len(self._logged) < MAX_LOGGED:
            self._logged.add(key)
            log_event("warn", event, trace + "\n" if trace else "", deployment=self.deployment.name, error=text)
