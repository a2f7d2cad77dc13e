"""initial_replicas, over HTTP and by handles."""

import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)


@serve.deployment(max_ongoing_requests=1,
                  autoscaling_config={"min_replicas": 1, "initial_replicas": 3, "max_replicas": 4, "downscale_delay_s": 600, "upscale_delay_s": 600})
class Who:
    async def __call__(self, request=None):
        import asyncio

        await asyncio.sleep(0.05)
        return serve.get_replica_context().rank.rank


handle = serve.run(Who.bind(), name="app")
deployment = serve.status().applications["app"].deployments["Who"]
print(deployment.status.value, deployment.replica_states)
ranks = {r.result() for r in [handle.remote() for _ in range(30)]}
print(sorted(ranks))
while len(ranks) < 3:
    ranks.add(client.get("/").json())
print(sorted(ranks), client.get("/").status_code)
serve.shutdown()
