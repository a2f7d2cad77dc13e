"""autoscaling_config is kept; what there is at the start answers."""

import os

import httpx

from anyserve import serve
from anyserve.serve.config import AutoscalingConfig

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)


@serve.deployment(autoscaling_config={"min_replicas": 2, "max_replicas": 5, "target_ongoing_requests": 3, "upscale_delay_s": 600})
class Scaled:
    def __call__(self, request):
        return "scaled"


print(Scaled.num_replicas)
config = Scaled._deployment_config.autoscaling_config
print(config.min_replicas, config.initial_replicas, config.max_replicas, config.target_ongoing_requests, config.upscale_delay_s,
      config.downscale_delay_s, config.get_upscaling_factor())
auto = Scaled.options(num_replicas="auto", autoscaling_config=None)._deployment_config.autoscaling_config
print(auto.min_replicas, auto.max_replicas, auto.target_ongoing_requests)
for wrong in ({"min_replicas": 3, "max_replicas": 2}, {"initial_replicas": 9, "max_replicas": 2}):
    try:
        AutoscalingConfig(**wrong)
    except ValueError as e:
        print("refused", wrong)
try:
    Scaled.options(num_replicas=3, autoscaling_config={"min_replicas": 1})
except ValueError as e:
    print(e)
serve.run(Scaled.bind(), name="app")
print(client.get("/").text, serve.status().applications["app"].deployments["Scaled"].replica_states)
serve.shutdown()
