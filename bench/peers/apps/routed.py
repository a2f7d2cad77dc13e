"""The body comes back from 4 replicas, chosen by a router of routers.py."""

import collections
import os
import time

from anyserve import serve
from anyserve.serve.config import RequestRouterConfig


@serve.deployment(num_replicas=4, max_ongoing_requests=10, ray_actor_options={"num_cpus": 0.1})
class Echo:
    def __init__(self):
        self.ends = collections.deque()

    async def __call__(self, request):
        body = await request.body()
        self.ends.append(time.monotonic())
        return body

    def record_routing_stats(self):
        """Requests answered in the last second."""
        since = time.monotonic() - 1
        while self.ends and self.ends[0] < since:
            self.ends.popleft()
        return {"throughput": len(self.ends)}


def application(router):
    config = RequestRouterConfig(
        request_router_class="routers:" + router,
        request_router_kwargs={"counts": os.getcwd()},
        request_routing_stats_period_s=1,
        request_routing_stats_timeout_s=1,
    )
    return Echo.options(request_router_config=config).bind()
