"""Deployments that hold keys, each with another router; and a caller that measures them (bench/python_router.py).

A replica holds the keys that it has seen last. `built_in` has no router of its own, `trivial` one that returns all candidates, `store`
one that asks a deployment which replica holds the key, `broadcast` one that has the replicas' statistics. The routers of the last two
append to a file how old a change of a replica is when they first decide by it: doubles, seconds.
"""

import asyncio
import collections
import os
import random
import struct
import time
from typing import Any, Dict, Iterable, List, Tuple

from anyserve import serve
from anyserve.serve.request_router import RequestRouter

HELD = 32  # keys of a replica
IDLE = 0.1  # seconds without a decision: the next one says nothing of ages
FOLDER = "AGES_FOLDER"  # an environment variable


class Trivial(RequestRouter):
    async def choose_replicas(self, candidate_replicas, pending_request=None):
        return [candidate_replicas]


class Ages:
    """Of what the router decides by: a replica's change is recorded at the first decision that knows of it."""

    def __init__(self, name: str) -> None:
        self.file = open(os.path.join(os.environ[FOLDER], name), "ab", buffering=0)
        self.newest: Dict[str, float] = {}
        self.decided = 0.0

    def add(self, known: Iterable[Tuple[str, float]]) -> None:
        """A decision. known: replicas, each with the time of its newest change that is known."""
        now = time.monotonic()
        for replica, changed in known:
            if changed > self.newest.get(replica, 0):
                self.newest[replica] = changed
                if now - self.decided < IDLE:
                    self.file.write(struct.pack("d", now - changed))
        self.decided = now


class ByStore(RequestRouter):
    """Asks the deployment that knows what each replica holds."""

    def initialize_state(self):
        self.ages, self.store = Ages("store"), None

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        if self.store is None:
            self.store = serve.get_deployment_handle("Store", "store")
        name, newest = await self.store.find.remote(pending_request.args[0])
        self.ages.add(newest)
        holders = [r for r in candidate_replicas if r.replica_id.unique_id == name]
        return [holders, candidate_replicas] if holders else [candidate_replicas]


class ByBroadcast(RequestRouter):
    """Looks the key up in what the replicas have said."""

    def initialize_state(self):
        self.ages = Ages("broadcast")

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        key, said = pending_request.args[0], [r for r in candidate_replicas if r.routing_stats]
        self.ages.add([(r.replica_id.unique_id, r.routing_stats["changed"]) for r in said])
        holders = [r for r in said if key in r.routing_stats["held"]]
        return [holders, candidate_replicas] if holders else [candidate_replicas]


@serve.deployment
class Store:
    """Which replica holds a key. `find` says also when the newest known change of each replica was."""

    def __init__(self) -> None:
        self.holder: Dict[str, str] = {}
        self.newest: Dict[str, float] = {}

    async def put(self, replica: str, changes: List[Tuple[str, str]], changed: float) -> None:
        """changes: keys that it holds, each with the one that it has dropped for it; changed: when the first of them was."""
        for key, dropped in changes:
            self.holder[key] = replica
            if self.holder.get(dropped) == replica:
                del self.holder[dropped]
        self.newest[replica] = changed

    async def find(self, key: str) -> Tuple[str, List[Tuple[str, float]]]:
        return self.holder.get(key, ""), list(self.newest.items())


class Holder:
    def __init__(self, store: Any = None) -> None:
        self.store, self.name = store, serve.get_replica_context().replica_id.unique_id
        self.held: "collections.OrderedDict[str, None]" = collections.OrderedDict()
        self.said = self.changed = 0.0  # changed: when it first changed since the last statistics
        self.changes: List[Tuple[str, str]] = []  # that the store is not told yet
        self.first = 0.0  # when the first of them was
        self.telling: Any = None

    async def __call__(self, key: str) -> bool:
        if key in self.held:
            self.held.move_to_end(key)
            return True
        self.held[key] = None
        dropped = self.held.popitem(last=False)[0] if len(self.held) > HELD else ""
        now = time.monotonic()
        if self.changed <= self.said:
            self.changed = now
        if self.store is not None:
            self.first = self.first if self.changes else now
            self.changes.append((key, dropped))
            if self.telling is None:
                self.telling = asyncio.create_task(self.tell())
        return False

    async def tell(self) -> None:
        """One call at a time, with all that has changed meanwhile: a call for each change would wait behind the others at a busy store."""
        try:
            while self.changes:
                changes, self.changes = self.changes, []
                await self.store.put.remote(self.name, changes, self.first)
        finally:
            self.telling = None

    def record_routing_stats(self) -> Dict[str, Any]:
        self.said = self.changed
        return {"held": list(self.held), "changed": self.changed}


@serve.deployment(max_ongoing_requests=64)
class Caller:
    def __init__(self, holder: Any) -> None:
        self.holder = holder

    async def load(self, clients: int, seconds: float, many: int) -> List[float]:
        """Latencies in seconds. `many`: so many keys, at random."""
        times: List[float] = []
        end = time.perf_counter() + seconds

        async def one(number: int) -> None:
            draw = random.Random(number)
            while True:
                begin = time.perf_counter()
                if begin >= end:
                    return
                await self.holder.remote("prompt %d" % draw.randrange(many))
                times.append(time.perf_counter() - begin)

        await asyncio.gather(*[one(i) for i in range(clients)])
        return times


def application(name: str, period: float) -> Any:
    """The caller of a deployment of 2 replicas. period: of the statistics, seconds."""
    routers = {"trivial": Trivial, "store": ByStore, "broadcast": ByBroadcast}
    config: Dict[str, Any] = {"request_routing_stats_period_s": period}
    if name in routers:
        config["request_router_class"] = "routed_model:" + routers[name].__name__
    holder = serve.deployment(num_replicas=2, max_ongoing_requests=64, request_router_config=config)(Holder)
    return Caller.bind(holder.bind(Store.bind()) if name == "store" else holder.bind())
