"""A request takes SERVICE seconds of sleep and a replica START seconds to start, so that neither needs the processor."""

import asyncio
import time

from anyserve import serve

SERVICE, START = 0.25, 1.0


@serve.deployment(max_ongoing_requests=2, graceful_shutdown_wait_loop_s=0.2, ray_actor_options={"num_cpus": 0.1})
class Scaled:
    def __init__(self):
        time.sleep(START)

    async def __call__(self, request):
        await asyncio.sleep(SERVICE)
        return await request.body()


def application(config):
    return Scaled.options(autoscaling_config=config).bind()
