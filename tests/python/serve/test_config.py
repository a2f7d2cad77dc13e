"""Models of configuration: defaults of Ray 2.60 (recorded by introspection), bounds at N and N+1, texts of errors."""

import sys

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.serve import config  # noqa: E402
from anyserve.serve.config import AutoscalingConfig, DeploymentConfig  # noqa: E402

DEFAULTS = {
    "RequestRouterConfig": {
        "request_router_class": "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter",
        "request_router_kwargs": {}, "request_routing_stats_period_s": 10, "request_routing_stats_timeout_s": 30,
        "initial_backoff_s": 0.025, "backoff_multiplier": 2, "max_backoff_s": 0.5},
    "AutoscalingPolicy": {"policy_function": "ray.serve.autoscaling_policy:default_autoscaling_policy", "policy_kwargs": {}},
    "BackpressureConfig": {"status_code": 503, "retry_after_s": None},
    "AutoscalingConfig": {
        "min_replicas": 1, "initial_replicas": None, "max_replicas": 1, "target_ongoing_requests": 2, "metrics_interval_s": 10.0,
        "look_back_period_s": 30.0, "smoothing_factor": 1.0, "upscale_smoothing_factor": None, "downscale_smoothing_factor": None,
        "upscaling_factor": None, "downscaling_factor": None, "downscale_delay_s": 600.0, "downscale_to_zero_delay_s": None,
        "upscale_delay_s": 30.0, "aggregation_function": "mean",
        "policy": {"policy_function": "ray.serve.autoscaling_policy:default_autoscaling_policy", "policy_kwargs": {}}},
    "HTTPOptions": {
        "host": "127.0.0.1", "port": 8000, "middlewares": [], "location": None, "num_cpus": 0, "root_url": "", "root_path": "",
        "request_timeout_s": None, "keep_alive_timeout_s": 90, "ssl_keyfile": None, "ssl_certfile": None,
        "ssl_keyfile_password": None, "ssl_ca_certs": None},
    "gRPCOptions": {"port": 9000, "grpc_servicer_functions": [], "request_timeout_s": None, "enable_reflection": True},
    "ControllerOptions": {"runtime_env": None},
    "LoggingConfig": {"encoding": "TEXT", "log_level": "INFO", "logs_dir": None, "enable_access_log": True,
                      "additional_log_standard_attrs": []},
    "TracingConfig": {"enabled": False, "exporter_import_path": "", "sampling_ratio": 0.01},
}  # fmt: skip


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_are_those_of_ray(name):
    own = {"target_latency_ms": None, "schedule": []} if name == "AutoscalingConfig" else {}
    assert getattr(config, name)().model_dump(mode="json") == {**DEFAULTS[name], **own}


def test_defaults_of_a_deployment():
    said = DeploymentConfig()
    assert (said.num_replicas, said.max_ongoing_requests, said.max_queued_requests) == (1, 5, -1)
    assert (said.graceful_shutdown_wait_loop_s, said.graceful_shutdown_timeout_s) == (2, 20)
    assert (said.health_check_period_s, said.health_check_timeout_s) == (10, 30)
    assert (said.max_constructor_retry_count, said.rolling_update_percentage, said.max_surge_percent) == (20, 0.2, 0)
    assert said.user_configured_option_names == set()


BOUNDS = [
    ("AutoscalingConfig", "min_replicas", 0, -1), ("AutoscalingConfig", "target_ongoing_requests", 0.1, 0),
    ("AutoscalingConfig", "upscale_delay_s", 0, -0.1), ("AutoscalingConfig", "aggregation_function", "MAX", "median"),
    ("BackpressureConfig", "status_code", 429, 500), ("BackpressureConfig", "retry_after_s", 0, -1),
    ("BackpressureConfig", "retry_after_s", 1.5, float("inf")),
    ("HTTPOptions", "port", 65535, 65536), ("HTTPOptions", "location", "NoServer", "Everywhere"),
    ("HTTPOptions", "middlewares", [], ["x"]), ("HTTPOptions", "num_cpus", 0, 1), ("gRPCOptions", "port", 0, -1),
    ("gRPCOptions", "grpc_servicer_functions", ["a.b"], [3]), ("LoggingConfig", "encoding", "json", "XML"),
    ("LoggingConfig", "log_level", 30, 31), ("LoggingConfig", "log_level", "warn", "LOUD"),
    ("LoggingConfig", "enable_access_log", False, 1), ("RequestRouterConfig", "request_routing_stats_period_s", 0.1, 0),
    ("RequestRouterConfig", "request_router_kwargs", {"a": 1}, {"a": object}),
    ("DeploymentConfig", "max_ongoing_requests", 1, 0), ("DeploymentConfig", "max_ongoing_requests", 65535, 65536),
    ("DeploymentConfig", "max_queued_requests", 1, 0), ("DeploymentConfig", "max_queued_requests", -1, -2),
    ("DeploymentConfig", "max_queued_requests", 5, 5.5), ("DeploymentConfig", "num_replicas", 1024, 1025),
    ("DeploymentConfig", "health_check_period_s", 0.1, 0), ("DeploymentConfig", "graceful_shutdown_timeout_s", 0, -1),
    ("DeploymentConfig", "max_surge_percent", 100, 101), ("DeploymentConfig", "rolling_update_percentage", 1, 1.1),
    ("DeploymentConfig", "rolling_update_percentage", 0.01, 0), ("DeploymentConfig", "max_constructor_retry_count", 1, 0),
    ("DeploymentConfig", "user_config", [1], {1j}), ("DeploymentConfig", "gang_scheduling_config", None, {"gang_size": 2}),
    ("DeploymentConfig", "deployment_actors", None, []), ("TracingConfig", "sampling_ratio", 1, 1.1),
    ("GangSchedulingConfig", "gang_size", 1, 0),
]  # fmt: skip


@pytest.mark.parametrize("name, field, good, bad", BOUNDS)
def test_bounds(name, field, good, bad):
    kind = getattr(config, name)
    kind(**{field: good})
    with pytest.raises(ValueError) as e:
        kind(**{field: bad})
    assert str(e.value).startswith("%s.%s " % (name, field))
    assert str(bad) in str(e.value) or "supported" in str(e.value) or "JSON" in str(e.value) or "item" in str(e.value)


@pytest.mark.parametrize("field, value", [("num_replicas", True), ("max_ongoing_requests", "5"), ("max_ongoing_requests", 1.5)])
def test_types(field, value):
    with pytest.raises(ValueError, match="DeploymentConfig.%s is an integer from .*, not %r" % (field, value)):
        DeploymentConfig(**{field: value})


def test_whole_floats_are_integers():
    assert repr(DeploymentConfig(max_ongoing_requests=3.0).max_ongoing_requests) == "3"


def test_a_field_of_a_field_is_named():
    with pytest.raises(ValueError, match=r"^AutoscalingConfig\.min_replicas is an integer of 0 or more, not -1$"):
        DeploymentConfig(autoscaling_config={"min_replicas": -1})
    with pytest.raises(ValueError, match="DeploymentConfig.autoscaling_config is a AutoscalingConfig or a dict, not 3"):
        DeploymentConfig(autoscaling_config=3)


@pytest.mark.parametrize("kind, field", [(DeploymentConfig, "replicas"), (AutoscalingConfig, "min_replica")])
def test_unknown_fields(kind, field):
    with pytest.raises(TypeError, match="%s has no field '%s'" % (kind.__name__, field)):
        kind(**{field: 1})


@pytest.mark.parametrize("low, first, high, text", [
    (3, None, 2, r"max_replicas \(2\) must be greater than or equal to min_replicas \(3\)!"),
    (2, 1, 3, r"min_replicas \(2\) must be less than or equal to initial_replicas \(1\)!"),
    (1, 4, 3, r"max_replicas \(3\) must be greater than or equal to initial_replicas \(4\)!")])  # fmt: skip
def test_replicas_against_each_other(low, first, high, text):
    with pytest.raises(ValueError, match=text):
        AutoscalingConfig(min_replicas=low, initial_replicas=first, max_replicas=high)
    AutoscalingConfig(min_replicas=2, initial_replicas=2, max_replicas=2)


def test_keys_of_tls_come_together():
    with pytest.raises(ValueError, match="Both ssl_keyfile and ssl_certfile must be provided together."):
        config.HTTPOptions(ssl_keyfile="k")


def test_a_look_back_period_below_the_interval_warns():
    with pytest.warns(FutureWarning, match="look_back_period_s"):
        AutoscalingConfig(look_back_period_s=10)


def test_what_programs_do_with_models():
    one = AutoscalingConfig(max_replicas=3)
    assert one == AutoscalingConfig(max_replicas=3) and one != AutoscalingConfig() and one != {}
    assert one.dict(exclude_unset=True) == {"max_replicas": 3}
    assert one.model_copy(update={"max_replicas": 4}).max_replicas == 4 and one.max_replicas == 3
    assert AutoscalingConfig.model_validate({"max_replicas": 3}) == one == AutoscalingConfig.parse_obj(one)
    assert repr(config.BackpressureConfig()) == "BackpressureConfig(status_code=503, retry_after_s=None)"
    assert '"max_replicas": 3' in one.json()
    assert "policy" not in one.model_dump(exclude={"policy"})
    one.max_replicas = 5
    with pytest.raises(ValueError, match="AutoscalingConfig.max_replicas"):
        one.max_replicas = 0
    with pytest.raises(AttributeError, match="no field 'maxi'"):
        one.maxi = 1
    assert one.max_replicas == 5


def test_defaults_are_not_shared():
    one = config.LoggingConfig()
    one.additional_log_standard_attrs.append("x")
    assert config.LoggingConfig().additional_log_standard_attrs == []
    assert DeploymentConfig().request_router_config is not DeploymentConfig().request_router_config
