"""What `serve.deployment` takes, for editors and type checkers. Made by tools/gen_serve_options.py from options.py."""

from __future__ import annotations

from typing import Any, Dict, List, Literal, Optional, TypedDict, Union

from ..config import AutoscalingConfig, BackpressureConfig, LoggingConfig, RequestRouterConfig

__all__ = ["DeploymentOptions", "RayActorOptions"]


class RayActorOptions(TypedDict, total=False):
    """Resources and environment of a replica."""

    # threads of numerical libraries (OMP_NUM_THREADS, …)
    num_cpus: Optional[float]
    # devices in CUDA_VISIBLE_DEVICES, or a part of one
    num_gpus: Optional[float]
    # bytes; a replica that uses more is killed
    memory: Optional[float]
    # env_vars, working_dir and py_modules; another key is an error
    runtime_env: Dict[str, Any]
    # custom resources of a cluster's nodes
    resources: Dict[str, float]
    # which nodes of a cluster
    accelerator_type: Optional[str]
    # which nodes of a cluster
    label_selector: Optional[Dict[str, str]]
    # which nodes of a cluster
    fallback_strategy: Optional[List[Dict[str, Any]]]


class DeploymentOptions(TypedDict, total=False):
    """The options of `serve.deployment` and of `Deployment.options`."""

    # name of the deployment, unique in its application; default: that of the class or function
    name: str
    # processes that serve it; `auto`: by autoscaling_config
    num_replicas: Union[int, Literal['auto'], None]
    # resources and environment of each replica
    ray_actor_options: Union[RayActorOptions, Dict[str, Any], None]
    # where replicas run in a cluster
    placement_group_bundles: Optional[List[Dict[str, float]]]
    # where replicas run in a cluster
    placement_group_strategy: Optional[str]
    # where replicas run in a cluster
    placement_group_bundle_label_selector: Optional[List[Dict[str, str]]]
    # where replicas run in a cluster
    max_replicas_per_node: Optional[int]
    # what `reconfigure` of the class gets; anything JSON has
    user_config: Any
    # requests that one replica executes at once
    max_ongoing_requests: int
    # requests that may wait for the deployment; -1: no limit
    max_queued_requests: int
    # the HTTP answer to requests beyond max_queued_requests
    backpressure_config: Union[BackpressureConfig, Dict[str, Any], None]
    # the number of replicas follows the load
    autoscaling_config: Union[AutoscalingConfig, Dict[str, Any], None]
    # time between two checks whether a replica that ends is idle
    graceful_shutdown_wait_loop_s: float
    # time that a replica has to finish its requests
    graceful_shutdown_timeout_s: float
    # how often `check_health` of the class is called
    health_check_period_s: float
    # time in which `check_health` must return
    health_check_timeout_s: float
    # logs of the replicas
    logging_config: Union[LoggingConfig, Dict[str, Any], None]
    # which replica gets a request: a policy by name, or a router of the program
    request_router_config: Union[RequestRouterConfig, Dict[str, Any], None]
    # how often a constructor that fails is called again
    max_constructor_retry_count: int
    # replicas that start together
    gang_scheduling_config: None
    # actors that replicas share
    deployment_actors: None
    # part of the replicas that an update replaces at once, up to 1
    rolling_update_percentage: float
    # replicas beyond num_replicas in an update, in percent
    max_surge_percent: int
    # max_queued_requests is for each caller, as in Ray, not for the deployment
    max_queued_requests_per_caller: bool
    # of so many calls one is for a lower priority
    priority_share: int
    # `tenant`: equal shares for tenants
    fairness: str
    # what tenants have equal shares of: `requests`, `items` or `header`
    fairness_cost: str
    # waiting time beyond which requests are shed under overload; 0: off
    codel_target_s: float
    # how long an overload lasts before requests are shed
    codel_interval_s: float
    # time in which a new replica gets all of its slots; 0: off
    slow_start_s: float
    # fewer requests at once while more only make them slower
    adaptive_concurrency: bool
    # a request that runs for longer than this part of them goes to a second replica, too; 0: off
    hedge_quantile: float
    # the part of the requests that do so, at most
    hedge_budget: float
    # how long a request runs before it does so, at least
    hedge_min_delay_s: float
    # requests may be executed again when a replica dies
    idempotent: bool
    # deadline of a request that has none; 0: none
    request_timeout_s: float
    # a replica that executes one request for longer is replaced; 0: off
    execution_timeout_s: float
    # failures in a row after which a replica is replaced
    health_check_failure_threshold: int
    # deployment that gets tensor requests which this one cannot serve now
    fallback: str
    # part of the tensor requests without a version that it gets
    canary_percent: float
    # part of the tensor requests of which it gets copies
    mirror_percent: float
    # how often a replica that fails to start is started again at once
    max_restarts: int
    # processes that wait to replace a dead replica
    warm_spares: int
    # processes beyond num_replicas in an update: a number or `25%`
    max_surge: Union[int, str]
    # replicas that may be missing in an update: a number or `25%`
    max_unavailable: Union[int, str]
    # CPUs on which replicas run: `0-3,8` or `auto`
    cpu_affinity: str
    # tensor requests that a new replica executes first
    warmup_requests: List[Dict[str, Any]]
