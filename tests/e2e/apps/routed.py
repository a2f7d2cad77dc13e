"""Deployments with request routers of their own; which one, the file's variable ROUTER says. Each answers with its replica."""

import asyncio
import collections
import os
import random
import time
from typing import Dict, List, Optional

from anyserve import serve
from anyserve.serve.request_router import (FIFOMixin, LocalityMixin, MultiplexMixin, PendingRequest, ReplicaID, RequestRouter,
                                           RunningReplica)


def name_of(replica):
    return replica.replica_id.unique_id


class Uniform(RequestRouter):
    """Any replica, whatever it has to do."""

    async def choose_replicas(self, candidate_replicas: List[RunningReplica],
                              pending_request: Optional[PendingRequest] = None) -> List[List[RunningReplica]]:
        random.shuffle(candidate_replicas)
        return [candidate_replicas]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result) -> None:
        print("routed", pending_request.metadata.request_id, replica_id.unique_id, flush=True)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        print("completed", replica_id.unique_id, flush=True)


class ByThroughput(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    """The free replica that has served the least in the last second, by its own statistics; holders of the model first."""

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        free: Dict[ReplicaID, RunningReplica] = {}
        model = pending_request.metadata.multiplexed_model_id if pending_request is not None else ""
        ranked = self.rank_replicas_via_multiplex(candidate_replicas, model)[0] if model else []
        for replica in self.select_available_replicas(ranked + self.rank_replicas_via_locality(candidate_replicas)[0]):
            free[replica.replica_id] = replica
        best = sorted(free.values(), key=lambda r: r.routing_stats.get("throughput", 0))
        return [[r] for r in best]


class Named(RequestRouter):
    """The replica that the first argument names, or does what else it says."""

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        await pending_request.load_arguments()
        what = pending_request.args[0]
        if what == "raise":
            raise ValueError("no replica is good enough")
        if what == "block":
            time.sleep(10)
        if what == "wait":
            await asyncio.sleep(10)
        if what == "die":
            os._exit(3)
        if what == "unknown":
            return [["Who-0"]]
        if what == "nothing":
            return []
        return [[r for r in candidate_replicas if name_of(r) == what]]


class Exits(Named):
    """Its hooks call sys.exit() for requests with this argument, and so does choose_replicas."""

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        self.exits = pending_request.args[0] == "exit"
        if self.exits:
            raise SystemExit("no replica")
        return await super().choose_replicas(candidate_replicas, pending_request)

    def on_request_routed(self, pending_request, replica_id, result):
        if self.exits:
            raise KeyboardInterrupt("routed")

    def on_request_completed(self, replica_id, internal_request_id):
        if self.exits:
            raise SystemExit("completed")


class Central(RequestRouter):
    """Asks a deployment, which all routers share, where the request should go."""

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        store = serve.get_deployment_handle("Store", "default")
        place = await store.next.remote(len(candidate_replicas))
        return [[sorted(candidate_replicas, key=name_of)[place]]]


ROUTER = {"uniform": Uniform, "throughput": ByThroughput, "named": Named, "central": Central, "exits": Exits}[os.environ.get("ROUTER", "named")]


# More slots than any test has calls at once: a call that waits for one is put to the router again, which would count.
@serve.deployment(num_replicas=3, max_ongoing_requests=60,
                  request_router_config={"request_router_class": ROUTER, "request_routing_stats_period_s": 0.1})
class Who:
    def __init__(self, store=None):
        self.times = collections.deque()

    async def __call__(self, what="", size=0):
        self.times.append(time.monotonic())
        return serve.get_replica_context().replica_id.unique_id

    def record_routing_stats(self):
        while self.times and self.times[0] < time.monotonic() - 1:
            self.times.popleft()
        return {"throughput": len(self.times), "filling": "x" * int(os.environ.get("STATS", "0"))}


@serve.deployment
class Store:
    def __init__(self):
        self.at = -1

    async def next(self, n):
        self.at += 1
        return self.at % n


@serve.deployment(max_ongoing_requests=100)
class Front:
    """Calls Who from a replica, with arguments that HTTP cannot have."""

    def __init__(self, who):
        self.who = who

    async def __call__(self, request):
        what, times = request.query_params.get("what", ""), int(request.query_params.get("times", "1"))
        size = int(request.query_params.get("size", "0"))
        options = self.who.options(multiplexed_model_id=request.query_params.get("model", ""))
        calls = [options.remote(what, "x" * size if size else 0) for _ in range(times)]
        return [await c for c in calls]


app = Front.bind(Who.bind(Store.bind()))
