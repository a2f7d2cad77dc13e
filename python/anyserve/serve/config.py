"""What deployments and servers are configured with: the models of Ray Serve, with its names, defaults and bounds."""

from __future__ import annotations

import json
import warnings
from enum import Enum
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple, Union

from ..replica import DeploymentID as DeploymentID  # policies name it in annotations; not a name of Ray's API pages
from ._declare.model import (REQUIRED, Model, anything, boolean, enum, integer, json_value, list_of, mapping, model, nullable,
                             number, one_of, option, text)  # fmt: skip

__all__ = ["AggregationFunction", "AutoscalingConfig", "AutoscalingContext", "AutoscalingPolicy", "BackpressureConfig",
           "ControllerOptions", "DeploymentActorConfig", "DeploymentConfig", "DeploymentMode", "GangPlacementStrategy",
           "GangRuntimeFailurePolicy", "GangSchedulingConfig", "HTTPOptions", "LoggingConfig", "ProxyLocation",
           "RequestRouterConfig", "TracingConfig", "gRPCOptions"]  # fmt: skip

DEFAULT_REQUEST_ROUTER = "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"
DEFAULT_POLICY = "ray.serve.autoscaling_policy:default_autoscaling_policy"


class AggregationFunction(str, Enum):
    MEAN = "mean"
    MAX = "max"
    MIN = "min"


class ProxyLocation(str, Enum):
    """Where proxies run. It has no effect here: there is one server on one machine."""

    Disabled = "Disabled"
    HeadOnly = "HeadOnly"
    EveryNode = "EveryNode"


DeploymentMode = ProxyLocation  # its former name


class EncodingType(str, Enum):
    TEXT = "TEXT"
    JSON = "JSON"


class GangPlacementStrategy(str, Enum):
    PACK = "PACK"
    SPREAD = "SPREAD"


class GangRuntimeFailurePolicy(str, Enum):
    RESTART_GANG = "RESTART_GANG"
    RESTART_REPLICA = "RESTART_REPLICA"


def _import_path_or_callable(value: Any) -> Any:
    if isinstance(value, str) or (callable(value) and hasattr(value, "__module__") and hasattr(value, "__qualname__")):
        return value
    raise ValueError("is an import path, a function or a class, not %r" % (value,))


def path_of(value: Any) -> str:
    """The import path of a function or class; a text is one."""
    return value if isinstance(value, str) else "%s:%s" % (value.__module__, value.__qualname__)


class RequestRouterConfig(Model):
    """Which replica gets a request: a built-in policy of the dispatcher by its name, with its arguments, or a class of the program."""

    request_router_class: Union[str, Callable[..., Any]] = option(DEFAULT_REQUEST_ROUTER, _import_path_or_callable)
    request_router_kwargs: Dict[str, Any] = option(dict, lambda v: json_value(mapping(v)))
    request_routing_stats_period_s: float = option(10.0, number(0, above=True))
    request_routing_stats_timeout_s: float = option(30.0, number(0, above=True))
    initial_backoff_s: float = option(0.025, number(0, above=True))
    backoff_multiplier: float = option(2.0, number(0, above=True))
    max_backoff_s: float = option(0.5, number(0, above=True))


class AutoscalingPolicy(Model):
    """A function that decides how many replicas there are."""

    policy_function: Union[str, Callable[..., Any]] = option(DEFAULT_POLICY, _import_path_or_callable)
    policy_kwargs: Dict[str, Any] = option(dict, lambda v: json_value(mapping(v)))


class BackpressureConfig(Model):
    """The HTTP answer to requests beyond `max_queued_requests`."""

    _ray_refuses_unknown = True

    status_code: int = option(503, one_of(503, 429))
    retry_after_s: Optional[float] = option(None, nullable(number(0, 86400)))


_POSITIVE = number(0, above=True)


class AutoscalingConfig(Model):
    """How many replicas a deployment has under load: docs/guide/autoscaling.md. Beside Ray's fields there are
    target_latency_ms, the latency below which 95 % of the requests shall be (milliseconds), and schedule, minimums by
    time of day: a list of {"days": "mon-fri", "start": "08:00", "end": "18:00", "min_replicas": 4}."""

    min_replicas: int = option(1, integer(0))
    initial_replicas: Optional[int] = option(None, nullable(integer(0)))
    max_replicas: int = option(1, integer(1))
    target_ongoing_requests: Optional[float] = option(2.0, nullable(_POSITIVE))
    metrics_interval_s: float = option(10.0, _POSITIVE)
    look_back_period_s: float = option(30.0, _POSITIVE)
    smoothing_factor: float = option(1.0, _POSITIVE)
    upscale_smoothing_factor: Optional[float] = option(None, nullable(_POSITIVE))
    downscale_smoothing_factor: Optional[float] = option(None, nullable(_POSITIVE))
    upscaling_factor: Optional[float] = option(None, nullable(_POSITIVE))
    downscaling_factor: Optional[float] = option(None, nullable(_POSITIVE))
    downscale_delay_s: float = option(600.0, number(0))
    downscale_to_zero_delay_s: Optional[float] = option(None, nullable(number(0)))
    upscale_delay_s: float = option(30.0, number(0))
    aggregation_function: Union[str, AggregationFunction] = option(AggregationFunction.MEAN, enum(AggregationFunction, True))
    policy: AutoscalingPolicy = option(AutoscalingPolicy, model(AutoscalingPolicy))
    target_latency_ms: Optional[float] = option(None, nullable(_POSITIVE))
    schedule: List[Dict[str, Any]] = option(list, list_of(lambda v: json_value(mapping(v))))

    def _validate(self) -> None:
        low, high, first = self.min_replicas, self.max_replicas, self.initial_replicas
        if high < low:
            raise ValueError("max_replicas (%d) must be greater than or equal to min_replicas (%d)!" % (high, low))
        if first is not None and first < low:
            raise ValueError("min_replicas (%d) must be less than or equal to initial_replicas (%d)!" % (low, first))
        if first is not None and first > high:
            raise ValueError("max_replicas (%d) must be greater than or equal to initial_replicas (%d)!" % (high, first))
        if self.look_back_period_s <= self.metrics_interval_s:
            warnings.warn("`look_back_period_s` (%s) must be greater than `metrics_interval_s` (%s)."
                          % (self.look_back_period_s, self.metrics_interval_s), FutureWarning, stacklevel=4)  # fmt: skip

    @classmethod
    def default(cls) -> "AutoscalingConfig":
        """That of num_replicas="auto"."""
        return cls(target_ongoing_requests=2, min_replicas=1, max_replicas=100)

    def get_upscaling_factor(self) -> float:
        return self.upscaling_factor or self.upscale_smoothing_factor or self.smoothing_factor

    def get_downscaling_factor(self) -> float:
        return self.downscaling_factor or self.downscale_smoothing_factor or self.smoothing_factor

    def get_target_ongoing_requests(self) -> Optional[float]:
        return self.target_ongoing_requests


def _location(value: Any) -> ProxyLocation:
    location: ProxyLocation = enum(ProxyLocation)("Disabled" if value == "NoServer" else value)
    return location


def _nothing(what: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if value:
            raise ValueError("is not supported: %s" % what)
        return value

    return check


class HTTPOptions(Model):
    """The server's HTTP side, for serve.start(http_options=…)."""

    host: Optional[str] = option("127.0.0.1", nullable(text))
    port: int = option(8000, integer(0, 65535))
    middlewares: List[Any] = option(list, _nothing("add middlewares to the FastAPI application of the ingress deployment"))
    location: Optional[ProxyLocation] = option(None, nullable(_location))
    num_cpus: int = option(0, _nothing("the dispatcher reserves no CPUs"))
    root_url: str = option("", text)
    root_path: str = option("", text)
    request_timeout_s: Optional[float] = option(None, nullable(number(0)))
    keep_alive_timeout_s: int = option(90, integer(0))
    ssl_keyfile: Optional[str] = option(None, nullable(text))
    ssl_certfile: Optional[str] = option(None, nullable(text))
    ssl_keyfile_password: Optional[str] = option(None, nullable(text))
    ssl_ca_certs: Optional[str] = option(None, nullable(text))

    def _validate(self) -> None:
        if (self.ssl_keyfile is None) != (self.ssl_certfile is None):
            raise ValueError("Both ssl_keyfile and ssl_certfile must be provided together.")


class gRPCOptions(Model):
    """The server's gRPC side, for serve.start(grpc_options=…)."""

    port: int = option(9000, integer(0, 65535))
    grpc_servicer_functions: List[str] = option(list, list_of(_import_path_or_callable))
    request_timeout_s: Optional[float] = option(None, nullable(number(0)))
    enable_reflection: bool = option(True, boolean)


class ControllerOptions(Model):
    _ray_refuses_unknown = True
    runtime_env: Optional[Dict[str, Any]] = option(None, nullable(mapping))


class TracingConfig(Model):
    _ray_refuses_unknown = True
    enabled: bool = option(False, boolean)
    exporter_import_path: str = option("", text)
    sampling_ratio: float = option(0.01, number(0, 1))


_LEVELS = {50: "CRITICAL", 40: "ERROR", 30: "WARNING", 20: "INFO", 10: "DEBUG"}


def _level(value: Any) -> str:
    name = _LEVELS.get(value) if isinstance(value, int) and not isinstance(value, bool) else value
    name = {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(str(name).upper(), str(name).upper())
    if name not in _LEVELS.values():
        raise ValueError("is one of %s, or its number, not %r" % (", ".join(_LEVELS.values()), value))
    return name


def _encoding(value: Any) -> EncodingType:
    encoding: EncodingType = enum(EncodingType)(value.upper() if type(value) is str else value)
    return encoding


class LoggingConfig(Model):
    """The logs of a deployment's replicas."""

    _ray_refuses_unknown = True

    encoding: Union[str, EncodingType] = option(EncodingType.TEXT, _encoding)
    log_level: Union[int, str] = option("INFO", _level)
    logs_dir: Optional[str] = option(None, nullable(text))
    enable_access_log: bool = option(True, boolean)
    additional_log_standard_attrs: List[str] = option(list, list_of(text))


class GangSchedulingConfig(Model):
    """Replicas that start and stop together: not yet supported by deployments."""

    gang_size: int = option(REQUIRED, integer(1))
    gang_placement_strategy: GangPlacementStrategy = option(GangPlacementStrategy.PACK, enum(GangPlacementStrategy))
    runtime_failure_policy: GangRuntimeFailurePolicy = option(
        GangRuntimeFailurePolicy.RESTART_GANG, enum(GangRuntimeFailurePolicy)
    )


class DeploymentActorConfig(Model):
    """An actor that a deployment's replicas share: not yet supported by deployments."""

    name: str = option(REQUIRED, text)
    actor_class: Any = option(REQUIRED, anything)
    init_args: Tuple[Any, ...] = option((), lambda v: tuple(v))
    init_kwargs: Dict[str, Any] = option(dict, mapping)
    actor_options: Dict[str, Any] = option(dict, mapping)


class TimeStampedValue(NamedTuple):
    """One value of a metric."""

    timestamp: float  # seconds since the epoch
    value: float


_AUTOSCALING_FIELDS = (
    "deployment_id", "deployment_name", "app_name", "current_num_replicas", "target_num_replicas", "running_replicas",
    "total_num_requests", "total_queued_requests", "aggregated_metrics", "raw_metrics", "capacity_adjusted_min_replicas",
    "capacity_adjusted_max_replicas", "policy_state", "last_scale_up_time", "last_scale_down_time", "current_time", "config",
    "total_pending_async_requests",
)  # fmt: skip


class AutoscalingContext:
    """What an autoscaling policy is given of one deployment; its attributes are Ray Serve's.

    A value may be given as a function without parameters, which is called when the attribute is first read."""

    total_num_requests: float
    total_queued_requests: Optional[float]
    aggregated_metrics: Any
    raw_metrics: Any

    def __init__(self, **fields: Any) -> None:
        unknown = sorted(set(fields) - set(_AUTOSCALING_FIELDS))
        if unknown:
            raise TypeError("AutoscalingContext has no %s" % ", ".join(unknown))
        self._fields: Dict[str, Any] = {**dict.fromkeys(_AUTOSCALING_FIELDS), "total_pending_async_requests": 0, **fields}

    def __getattr__(self, name: str) -> Any:
        if name not in _AUTOSCALING_FIELDS:
            raise AttributeError("AutoscalingContext has no %r" % name)
        value = self._fields[name]
        if callable(value):
            value = self._fields[name] = value()
        return value

    @property
    def total_running_requests(self) -> float:
        return float(self.total_num_requests - (self.total_queued_requests or 0))


def _queue_limit(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("is -1 (no limit) or a positive integer, not %r" % (value,))
    if value < 1 and value != -1:
        raise ValueError("must be -1 (no limit) or a positive integer, not %r" % value)
    if value > 10000000:
        raise ValueError("is at most 10000000, or -1 (no limit), not %r" % value)
    return value


def _user_config(value: Any) -> Any:
    if value is not None:
        try:
            json.dumps(value)
        except (TypeError, ValueError) as e:
            raise ValueError("is not JSON-serializable: %s" % e) from None
    return value


def not_yet(what: str) -> Callable[[Any], Any]:
    """The check of an option that is known and not supported: None only."""

    def check(value: Any) -> Any:
        if value is not None:
            raise ValueError("is not supported yet: %s" % what)
        return None

    return check


class DeploymentConfig(Model):
    """The options of a deployment that a replica, or the dispatcher, acts on."""

    num_replicas: Optional[int] = option(1, nullable(integer(0, 1024)))
    max_ongoing_requests: int = option(5, integer(1, 65535))
    max_queued_requests: int = option(-1, _queue_limit)
    max_queued_requests_per_caller: bool = option(False, boolean)
    backpressure_config: BackpressureConfig = option(BackpressureConfig, model(BackpressureConfig))
    user_config: Any = option(None, _user_config)
    graceful_shutdown_timeout_s: float = option(20.0, number(0, 86400))
    graceful_shutdown_wait_loop_s: float = option(2.0, number(0, 86400))
    health_check_period_s: float = option(10.0, number(0.1, 86400))
    health_check_timeout_s: float = option(30.0, number(0.01, 86400))
    autoscaling_config: Optional[AutoscalingConfig] = option(None, nullable(model(AutoscalingConfig)))
    request_router_config: RequestRouterConfig = option(RequestRouterConfig, model(RequestRouterConfig))
    logging_config: Optional[LoggingConfig] = option(None, nullable(model(LoggingConfig)))
    max_constructor_retry_count: int = option(20, integer(1, 1000000))
    rolling_update_percentage: float = option(0.2, number(0.001, 1))
    max_surge_percent: int = option(0, integer(0, 100))
    gang_scheduling_config: None = option(None, not_yet("replicas are scheduled one by one"))
    deployment_actors: None = option(None, not_yet("there are no actors beside replicas"))

    @property
    def user_configured_option_names(self) -> Set[str]:
        """The options that the program set."""
        return self.model_fields_set
