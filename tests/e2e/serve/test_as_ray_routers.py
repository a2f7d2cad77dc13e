"""The two routers and applications of Ray's page on request routers of one's own (doc_code/custom_request_router.py and
custom_request_router_app.py): the same choices, the same parts of the interface, the same numbers of replicas, under as_ray."""

import pytest
from driver_world import Driver, World

from support import wait


@pytest.fixture
def world():
    w = World()
    yield w
    w.close()


ROUTERS = '''
import random
from typing import Dict, List, Optional

from ray.serve.request_router import (
    FIFOMixin,
    LocalityMixin,
    MultiplexMixin,
    PendingRequest,
    ReplicaID,
    ReplicaResult,
    RequestRouter,
    RunningReplica,
)


class UniformRequestRouter(RequestRouter):
    async def choose_replicas(
        self,
        candidate_replicas: List[RunningReplica],
        pending_request: Optional[PendingRequest] = None,
    ) -> List[List[RunningReplica]]:
        print("UniformRequestRouter routing request")
        index = random.randint(0, len(candidate_replicas) - 1)
        return [[candidate_replicas[index]]]

    def on_request_routed(
        self,
        pending_request: PendingRequest,
        replica_id: ReplicaID,
        result: ReplicaResult,
    ):
        print("on_request_routed callback is called!!")


class ThroughputAwareRequestRouter(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    async def choose_replicas(
        self,
        candidate_replicas: List[RunningReplica],
        pending_request: Optional[PendingRequest] = None,
    ) -> List[List[RunningReplica]]:
        top_ranked_replicas: Dict[ReplicaID, RunningReplica] = {}
        if pending_request is not None and pending_request.metadata.multiplexed_model_id:
            ranked_replicas_multiplex = self.rank_replicas_via_multiplex(
                replicas=candidate_replicas,
                multiplexed_model_id=pending_request.metadata.multiplexed_model_id,
            )[0]
            ranked_replicas_multiplex = self.select_available_replicas(candidates=ranked_replicas_multiplex)
            for replica in ranked_replicas_multiplex:
                top_ranked_replicas[replica.replica_id] = replica
        ranked_replicas_locality = self.rank_replicas_via_locality(replicas=candidate_replicas)[0]
        ranked_replicas_locality = self.select_available_replicas(candidates=ranked_replicas_locality)
        for replica in ranked_replicas_locality:
            top_ranked_replicas[replica.replica_id] = replica
        print("ThroughputAwareRequestRouter routing request")
        min_throughput_replicas = min(
            [replica for replica in top_ranked_replicas.values()],
            key=lambda r: r.routing_stats.get("throughput", 0),
        )
        return [[min_throughput_replicas]]
'''
APPS = '''
import time
from collections import defaultdict
from typing import Any, Dict

from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.context import _get_internal_replica_context
from ray.serve.request_router import ReplicaID


@serve.deployment(
    request_router_config=RequestRouterConfig(request_router_class="custom_request_router:UniformRequestRouter"),
    num_replicas=10,
    ray_actor_options={"num_cpus": 0},
)
class UniformRequestRouterApp:
    def __init__(self):
        context = _get_internal_replica_context()
        self.replica_id: ReplicaID = context.replica_id

    async def __call__(self):
        return self.replica_id


handle = serve.run(UniformRequestRouterApp.bind())
response = handle.remote().result()
print(f"Response from UniformRequestRouterApp: {response}")
seen = set()
while len(seen) < 10:
    seen.add(handle.remote().result())
print(type(response).__name__, len(seen))


def _time_ms() -> int:
    return int(time.time() * 1000)


@serve.deployment(
    request_router_config=RequestRouterConfig(
        request_router_class="custom_request_router:ThroughputAwareRequestRouter",
        request_routing_stats_period_s=1,
        request_routing_stats_timeout_s=1,
    ),
    num_replicas=3,
    ray_actor_options={"num_cpus": 0},
)
class ThroughputAwareRequestRouterApp:
    def __init__(self):
        self.throughput_buckets: Dict[int, int] = defaultdict(int)
        self.last_throughput_buckets = _time_ms()
        context = _get_internal_replica_context()
        self.replica_id: ReplicaID = context.replica_id

    def __call__(self):
        self.update_throughput()
        return self.replica_id

    def update_throughput(self):
        current_timestamp_ms = _time_ms()
        if current_timestamp_ms < self.last_throughput_buckets - 1000:
            return
        self.throughput_buckets[current_timestamp_ms] += 1
        self.last_throughput_buckets = current_timestamp_ms

    def record_routing_stats(self) -> Dict[str, Any]:
        current_timestamp_ms = _time_ms()
        throughput = 0
        for t, c in list(self.throughput_buckets.items()):
            if t < current_timestamp_ms - 1000:
                self.throughput_buckets.pop(t)
            else:
                throughput += c
        return {"throughput": throughput}


handle = serve.run(ThroughputAwareRequestRouterApp.bind())
response = handle.remote().result()
print(f"Response from ThroughputAwareRequestRouterApp: {response}")
seen = set()
while len(seen) < 3:  # the next one, when the statistics of the others say that they had more
    seen.add(handle.remote().result())
print(type(response).__name__, len(seen))
'''


def test_the_routers_of_rays_page(world):
    world.write("custom_request_router.py", ROUTERS)
    path = world.write("apps.py", APPS)
    driver = Driver(world, "-m", "anyserve.serve.as_ray", path)
    world.drivers.append(driver)
    driver.process.wait(4 * wait.SECONDS)
    lines = [line for line in driver.end(0).splitlines() if not line.startswith("(")]
    assert [line.partition(":")[0] for line in lines] == ["Response from UniformRequestRouterApp", "ReplicaID 10",
                                                          "Response from ThroughputAwareRequestRouterApp", "ReplicaID 3"]  # fmt: skip
    assert "UniformRequestRouter routing request" in driver.err and "on_request_routed callback is called!!" in driver.err
    assert "ThroughputAwareRequestRouter routing request" in driver.err
