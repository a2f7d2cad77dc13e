"""The two routers of Ray's page on request routers of one's own, with their applications as written there, run under as_ray."""

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
            for replica in ranked_replicas_multiplex:
                top_ranked_replicas[replica.replica_id] = replica
        ranked_replicas_locality = self.rank_replicas_via_locality(replicas=candidate_replicas)[0]
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
from typing import Dict

from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.context import _get_internal_replica_context
from ray.serve.request_router import ReplicaID


@serve.deployment(
    request_router_config=RequestRouterConfig(request_router_class="custom_request_router:UniformRequestRouter"),
    num_replicas=3,
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
seen = {handle.remote().result() for _ in range(40)}
print(type(response).__name__, len(seen))


def _time_ms() -> int:
    return int(time.time() * 1000)


@serve.deployment(
    request_router_config=RequestRouterConfig(
        request_router_class="custom_request_router:ThroughputAwareRequestRouter",
        request_routing_stats_period_s=1,
        request_routing_stats_timeout_s=1,
    ),
    num_replicas=2,
    ray_actor_options={"num_cpus": 0},
)
class ThroughputAwareRequestRouterApp:
    def __init__(self):
        self.throughput_buckets: Dict[int, int] = defaultdict(int)
        context = _get_internal_replica_context()
        self.replica_id: ReplicaID = context.replica_id

    def __call__(self):
        self.update_throughput()
        return self.replica_id

    def update_throughput(self):
        self.throughput_buckets[_time_ms()] += 1

    def record_routing_stats(self) -> Dict[str, float]:
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
while len(seen) < 2:  # the other one, when the statistics of the first say that it had more
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
    assert [line.partition(":")[0] for line in lines] == ["Response from UniformRequestRouterApp", "ReplicaID 3",
                                                          "Response from ThroughputAwareRequestRouterApp", "ReplicaID 2"]  # fmt: skip
    assert "UniformRequestRouter routing request" in driver.err and "on_request_routed callback is called!!" in driver.err
    assert "ThroughputAwareRequestRouter routing request" in driver.err
