"""The decorator, options, names, and what they mean for the server. Texts that Ray has are recorded from Ray 2.60."""

import functools
import inspect
import logging
import os
import subprocess
import sys

import pytest
from fake import PACKAGE, ROOT

sys.path.insert(0, str(PACKAGE))
from anyserve import serve, spec  # noqa: E402
from anyserve.serve._declare import options as _options  # noqa: E402
from anyserve.serve.config import AutoscalingConfig, BackpressureConfig, LoggingConfig, RequestRouterConfig  # noqa: E402
from anyserve.serve.deployment import Application, Deployment, deployment  # noqa: E402


class Model:
    def __init__(self, path="p"):
        self.path = path


def function(x):
    return x


@pytest.fixture(autouse=True)
def nothing_said():
    _options._said.clear()


def test_bare_and_with_arguments():
    one = deployment(Model)
    two = deployment(num_replicas=2, name="other")(Model)
    assert (one.name, one.num_replicas, two.name, two.num_replicas) == ("Model", 1, "other", 2)
    assert one.func_or_class is Model and deployment(function).name == "function" and deployment()(Model) == one
    assert deployment("ignored", num_replicas=2)(Model).name == "Model"  # as in Ray, where a text in this place means nothing
    assert repr(one) == str(one) == "Deployment(name=Model)"
    assert (one.max_ongoing_requests, one.max_queued_requests, one.user_config, one.version) == (5, -1, None, None)
    assert one.ray_actor_options == {"num_cpus": 1} and one.init_args == () and one.init_kwargs == {}
    assert serve.deployment is deployment and serve.Deployment is Deployment and serve.Application is Application


def test_options_copy():
    one = deployment(max_ongoing_requests=7, idempotent=True)(Model)
    two = one.options(name="two", user_config={"a": 1})
    assert one.name == "Model" and one.user_config is None
    assert (two.name, two.max_ongoing_requests, two.user_config) == ("two", 7, {"a": 1})
    assert two.keys()["idempotent"] is True
    assert one.options() == one and one.options() is not one and one != two and one != "Model"
    assert one.options(func_or_class=function).func_or_class is function


def test_bind_keeps_the_arguments_and_the_deployment():
    one = deployment(Model)
    app = one.bind("x", path=2)
    assert isinstance(app, Application) and one.init_args == ()
    assert app._bound_deployment.init_args == ("x",) and app._bound_deployment.init_kwargs == {"path": 2}


def test_a_lambda_needs_a_name():
    with pytest.raises(ValueError, match="'<lambda>' is no name of a deployment: .*; name= gives another"):
        deployment(lambda: 1)
    assert deployment(name="fine")(lambda: 1).name == "fine"


RAY = [
    (TypeError, "@serve.deployment must be called on a class or function.", lambda: deployment(Model())),
    (ValueError, "Deployment names must not contain the '#' character. Current name: a#b.", lambda: deployment(name="a#b")(Model)),
    (TypeError, "name must be a string.", lambda: deployment(name=5)(Model)),
    (ValueError, "`version` in `@serve.deployment` has been removed. Serve manages deployment versions internally.",
     lambda: deployment(version="1")),
    (ValueError, "`version` in `Deployment.options()` has been removed. Serve manages deployment versions internally.",
     lambda: deployment(Model).options(version="1")),
    (ValueError, "`max_ongoing_requests` must be non-null, got None.", lambda: deployment(max_ongoing_requests=None)),
    (ValueError, "num_replicas is expected to larger than 0", lambda: deployment(num_replicas=0)),
    (ValueError, "Manually setting num_replicas is not allowed when autoscaling_config is provided.",
     lambda: deployment(num_replicas=2, autoscaling_config={"max_replicas": 3})),
    (RuntimeError, "The Deployment constructor should not be called directly. Use `@serve.deployment` instead.",
     lambda: Deployment("a", Model, None, {}, {})),
    (ValueError, "init_args not supported for function deployments.", lambda: deployment(function).bind(1)),
    (ValueError, "init_kwargs not supported for function deployments.", lambda: deployment(function).bind(a=1)),
    (ValueError, "Setting max_replicas_per_node is not allowed when placement_group_bundles is provided.",
     lambda: deployment(max_replicas_per_node=1, placement_group_bundles=[{"CPU": 1}])),
    (ValueError, "If `placement_group_strategy` is provided, `placement_group_bundles` must also be provided.",
     lambda: deployment(placement_group_strategy="PACK")),
    (ValueError, "Invalid max_replicas_per_node 101. Valid values are None or an integer in the range of [1, 100].",
     lambda: deployment(max_replicas_per_node=101)),
]  # fmt: skip


@pytest.mark.parametrize("kind, text, make", RAY, ids=[r[1][:40] for r in RAY])
def test_errors_with_the_texts_of_ray(kind, text, make):
    with pytest.raises(kind) as e:
        make()
    assert type(e.value) is kind and str(e.value) == text


OURS = [
    (TypeError, "@serve.deployment got an unexpected keyword argument 'num_replica'; did you mean 'num_replicas'?",
     lambda: deployment(num_replica=2)),
    (TypeError, "Deployment.options() got an unexpected keyword argument 'zzz'", lambda: deployment(Model).options(zzz=2)),
    (ValueError, "DeploymentConfig.max_ongoing_requests is an integer from 1 to 65535, not 0",
     lambda: deployment(max_ongoing_requests=0)),
    (ValueError, "DeploymentConfig.gang_scheduling_config is not supported yet: replicas are scheduled one by one",
     lambda: deployment(gang_scheduling_config={"gang_size": 2})),
    (ValueError, "DeploymentConfig.deployment_actors is not supported yet: there are no actors beside replicas",
     lambda: deployment(deployment_actors=[])),
    (ValueError, "AutoscalingConfig.min_replicas is an integer of 0 or more, not -1",
     lambda: deployment(num_replicas="auto", autoscaling_config={"min_replicas": -1})),
    (TypeError, "Deployment(name=Model) is a deployment already; use its .options().", lambda: deployment(deployment(Model))),
    (ValueError, "ray_actor_options: num_cpus is a number of 0 or more, not -1",
     lambda: deployment(ray_actor_options={"num_cpus": -1})),
    (ValueError, "ray_actor_options: num_gpus is at most 64, not 65", lambda: deployment(ray_actor_options={"num_gpus": 65})),
    (ValueError, "ray_actor_options: runtime_env: 'pip' is not supported; env_vars, working_dir, py_modules are",
     lambda: deployment(ray_actor_options={"runtime_env": {"pip": ["x"]}})),
    (ValueError, "ray_actor_options: runtime_env: working_dir: 's3://b/a.zip' is a URI; only folders of this machine are supported",
     lambda: deployment(ray_actor_options={"runtime_env": {"working_dir": "s3://b/a.zip"}})),
    (TypeError, "ray_actor_options: runtime_env: env_vars is a dict of texts, not {'A': 1}",
     lambda: deployment(ray_actor_options={"runtime_env": {"env_vars": {"A": 1}}})),
    (ValueError, "warm_spares is at most 64, not 65", lambda: deployment(warm_spares=65)),
    (ValueError, "idempotent is True or False, not 'yes'", lambda: deployment(idempotent="yes")),
]  # fmt: skip


@pytest.mark.parametrize("kind, text, make", OURS, ids=[r[1][:40] for r in OURS])
def test_errors(kind, text, make):
    with pytest.raises(kind) as e:
        make()
    assert str(e.value) == text


def test_an_actor_option_that_is_none():
    with pytest.raises(ValueError, match="Specifying 'num_cpu' in ray_actor_options is not allowed. Allowed options: .*num_cpus"):
        deployment(ray_actor_options={"num_cpu": 1})
    with pytest.raises(TypeError, match="Expected a dictionary"):
        deployment(ray_actor_options=3)


def test_a_deployment_is_not_called():
    with pytest.raises(RuntimeError, match="Deployments cannot be constructed directly"):
        deployment(Model)("x")


# --- keys ---


def test_keys_of_defaults():
    assert deployment(Model).keys() == {"max_ongoing_requests": 5, "max_queued_requests": -1, "num_replicas": 1}


def test_keys_of_everything():
    keys = deployment(
        num_replicas=3, user_config={"a": 1}, max_ongoing_requests=9, max_queued_requests=4, graceful_shutdown_wait_loop_s=1,
        graceful_shutdown_timeout_s=5, health_check_period_s=2, health_check_timeout_s=3, max_constructor_retry_count=2,
        rolling_update_percentage=0.5, max_surge_percent=10, idempotent=True, request_timeout_s=1.5,
        max_queued_requests_per_caller=True, backpressure_config={"status_code": 429, "retry_after_s": 2},
        logging_config=LoggingConfig(log_level="DEBUG"), request_router_config={"request_routing_stats_period_s": 1},
        ray_actor_options={"num_cpus": 2, "num_gpus": 0, "memory": 2**30,
                           "runtime_env": {"env_vars": {"A": "b"}, "working_dir": "/srv"}},
    )(Model).keys()  # fmt: skip
    assert keys == {
        "num_replicas": 3, "user_config": {"a": 1}, "max_ongoing_requests": 9, "max_queued_requests": 4,
        "graceful_shutdown_wait_loop_s": 1, "graceful_shutdown_timeout_s": 5, "health_check_period_s": 2,
        "health_check_timeout_s": 3, "max_constructor_retry_count": 2, "rolling_update_percentage": 0.5, "max_surge_percent": 10,
        "idempotent": True, "request_timeout_s": 1.5, "max_queued_requests_per_caller": True,
        "backpressure_config": {"status_code": 429, "retry_after_s": 2}, "logging_config": {"log_level": "DEBUG"},
        "request_router_config": {**RequestRouterConfig().dict(), "request_routing_stats_period_s": 1},
        "num_cpus": 2, "num_gpus": 0, "memory": 2**30, "env": {"A": "b"}, "working_dir": "/srv"}  # fmt: skip


@pytest.mark.parametrize("options, replicas", [
    ({}, 1), ({"num_replicas": None}, 1), ({"num_replicas": 4}, 4), ({"num_replicas": "auto"}, None),
    ({"autoscaling_config": {"min_replicas": 0, "max_replicas": 3}}, None),
    ({"autoscaling_config": AutoscalingConfig(initial_replicas=2, max_replicas=3)}, None)])  # fmt: skip
def test_replicas(options, replicas):
    """Without a number beside a configuration, which says how many there are."""
    assert deployment(**options)(Model).keys().get("num_replicas") == replicas


def test_our_keys_of_an_autoscaling_config_are_deployed():
    own = {"target_latency_ms": 50.0, "schedule": [{"start": "08:00", "end": "18:00", "min_replicas": 2}]}
    said = deployment(autoscaling_config={"max_replicas": 3, **own})(Model).keys()["autoscaling_config"]
    assert {key: said[key] for key in own} == own
    assert "schedule" not in deployment(autoscaling_config={})(Model).keys()["autoscaling_config"]
    for wrong in {"target_latency_ms": 0}, {"schedule": 3}, {"schedule": ["daily"]}:
        with pytest.raises(ValueError, match=next(iter(wrong))):
            AutoscalingConfig(**wrong)


def test_auto_is_ray_s_config_with_the_fields_given():
    said = deployment(num_replicas="auto", autoscaling_config={"max_replicas": 7})(Model).keys()["autoscaling_config"]
    assert (said["min_replicas"], said["max_replicas"], said["target_ongoing_requests"]) == (1, 7, 2)
    assert deployment(num_replicas="auto")(Model).keys()["autoscaling_config"]["max_replicas"] == 100
    assert "autoscaling_config" not in deployment(num_replicas="auto")(Model).options(num_replicas=2).keys()


def test_models_and_dicts_are_the_same():
    assert deployment(backpressure_config=BackpressureConfig(status_code=429))(Model) == deployment(
        backpressure_config={"status_code": 429})(Model)  # fmt: skip


def test_what_has_no_effect_is_said_once(caplog):
    caplog.set_level(logging.WARNING)
    one = deployment(max_replicas_per_node=2, ray_actor_options={"resources": {"a": 1}, "accelerator_type": None})(Model)
    assert caplog.messages == []
    for _ in range(2):
        assert one.keys() == deployment(Model).keys()
    assert caplog.messages == ["max_replicas_per_node has no effect: there is one machine.",
                               "ray_actor_options: resources has no effect: there is one machine."]  # fmt: skip


def test_a_policy_of_its_own_is_for_the_server(caplog):
    keys = deployment(autoscaling_config={"max_replicas": 3, "policy": {"policy_function": "a:b"}})(Model).keys()
    assert caplog.messages == []
    assert keys["autoscaling_config"]["policy"] == {"policy_function": "a:b", "policy_kwargs": {}}


def test_a_policy_has_a_name():
    class Called:
        def __call__(self, ctx):
            return 1

    for wrong in functools.partial(print), Called(), 3:
        with pytest.raises(ValueError, match="AutoscalingPolicy.policy_function is an import path, a function or a class, not "):
            deployment(autoscaling_config={"max_replicas": 3, "policy": {"policy_function": wrong}})
    with pytest.raises(ValueError, match="RequestRouterConfig.request_router_class is an import path, a function or a class, not "):
        deployment(request_router_config={"request_router_class": Called()})


def test_modules_of_a_runtime_env_are_found_first(tmp_path):
    keys = deployment(ray_actor_options={"runtime_env": {"py_modules": [tmp_path / "pkg"]}})(Model).keys()
    assert keys["env"]["PYTHONPATH"].split(os.pathsep)[0] == str(tmp_path)
    assert str(PACKAGE) in keys["env"]["PYTHONPATH"].split(os.pathsep)


# --- the table ---


def test_the_table_has_ray_s_options_and_ours_only():
    ray = """name version num_replicas ray_actor_options placement_group_bundles placement_group_strategy
        placement_group_bundle_label_selector max_replicas_per_node user_config max_ongoing_requests max_queued_requests
        backpressure_config autoscaling_config graceful_shutdown_wait_loop_s graceful_shutdown_timeout_s health_check_period_s
        health_check_timeout_s logging_config request_router_config max_constructor_retry_count gang_scheduling_config
        deployment_actors rolling_update_percentage max_surge_percent""".split()
    assert [row.name for row in _options.OPTIONS][: len(ray)] == ray
    assert {r.name for r in _options.ACTOR_OPTIONS} == {"num_cpus", "num_gpus", "memory", "resources", "accelerator_type",
                                                        "runtime_env", "label_selector", "fallback_strategy"}  # fmt: skip
    known = set(spec.schema()["$defs"]["deployment"]["properties"])
    assert {row.name for row in _options.OPTIONS if row.effect == _options.KEY} <= known


def test_what_is_made_of_the_table_is_up_to_date():
    p = subprocess.run([sys.executable, ROOT / "tools/gen_serve_options.py", PACKAGE, "--check"], capture_output=True, text=True)
    assert p.returncode == 0, p.stdout + p.stderr


def test_help_shows_the_decorator():
    assert inspect.getdoc(deployment).startswith("Makes a deployment of a class or function")


USES = """
from anyserve import serve
from anyserve.serve.handle import DeploymentHandle

class Code:
    pass

@serve.deployment
def A() -> None:
    pass

@serve.deployment(num_replicas=2, max_ongoing_requests=3, ray_actor_options={"num_cpus": 1})
def B() -> None:
    pass

reveal_type(A)
reveal_type(B.options(user_config=[1]).bind(A.bind()))
B.options(num_replica=3)
serve.deployment(max_queued_requests="x")

def call(handle: DeploymentHandle[Code]) -> str:
    return handle.method.remote(1).request_id
"""


def test_a_type_checker_knows_the_options(tmp_path):
    (tmp_path / "uses.py").write_text(USES)
    p = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context",
                        "--cache-dir", tmp_path / "cache", "uses.py"],
                       cwd=tmp_path, capture_output=True, text=True, timeout=300,
                       env={**os.environ, "MYPYPATH": str(PACKAGE)})  # fmt: skip
    said = [line.split(": ", 1)[1] for line in p.stdout.splitlines() if line.startswith("uses.py:")]
    assert said[:2] == ['note: Revealed type is "anyserve.serve.deployment.Deployment"',
                        'note: Revealed type is "anyserve.serve.deployment.Application"'], p.stdout  # fmt: skip
    assert said[2].startswith('error: Unexpected keyword argument "num_replica"'), p.stdout
    assert any("max_queued_requests" in line or "incompatible type" in line for line in said[3:]), p.stdout


def test_the_package_passes_the_type_checker(tmp_path):
    p = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", tmp_path, "anyserve/serve"], cwd=PACKAGE,
                       capture_output=True, text=True, timeout=300)  # fmt: skip
    assert p.returncode == 0, p.stdout
