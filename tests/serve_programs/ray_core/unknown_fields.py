"""Fields of configurations that Ray no longer has, or never had: most classes ignore them."""

from ray import serve
from ray.serve.config import AutoscalingConfig, BackpressureConfig, RequestRouterConfig
from ray.serve.schema import LoggingConfig


@serve.deployment(autoscaling_config={"min_replicas": 1, "max_replicas": 2, "target_num_ongoing_requests_per_replica": 7})
def scaled(x):
    return x + 1


print(scaled._deployment_config.autoscaling_config.max_replicas)
print(AutoscalingConfig(max_concurrent_queries=3).min_replicas, RequestRouterConfig(nothing=1).max_backoff_s)
for kind in LoggingConfig, BackpressureConfig:
    try:
        kind(nothing=1)
    except Exception:
        print(kind.__name__, "refuses")
print(serve.run(scaled.bind(), name="scaled", route_prefix=None).remote(1).result())
serve.shutdown()
