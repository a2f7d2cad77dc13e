"""Configurations that contradict themselves or ask for the impossible: errors that name the key, and nothing changes."""

import json

import pytest
from support.autoscaling import scaled_spec
from support.deployments import APPLICATIONS, api, deployment

pytestmark = pytest.mark.core

WRONG = [
    ({"min_replicas": 3, "max_replicas": 2}, "max_replicas (2) must be at least min_replicas (3)"),
    ({"max_replicas": 10**9}, "max_replicas must be a whole number from 1 to 1024, not 1000000000"),
    ({"min_replicas": -1}, "min_replicas must be a whole number from 0 to 1024, not -1"),
    ({"target_ongoing_requests": 0}, "target_ongoing_requests must be a number above 0"),
    ({"target_ongoing_requests": float("nan")}, "target_ongoing_requests must be a number"),
    ({"upscale_delay_s": 1e9}, "upscale_delay_s must be a number of at least 0 and at most 86400, not 1000000000"),
    ({"initial_replicas": 4, "max_replicas": 2}, "initial_replicas (4) must be from min_replicas (1) to max_replicas (2)"),
    ({"aggregation_function": "median"}, 'aggregation_function must be "mean", "max" or "min"'),
    ({"target_latency_ms": -1}, "target_latency_ms must be a number above 0"),
    ({"schedule": [{"start": "8", "end": "09:00", "min_replicas": 1}]}, "schedule[0]: start must be a time"),
    ({"min_replica": 1}, "min_replica"),
    ({"policy": "scaling:by_backlog"}, "policy must be a mapping with policy_function"),
    ({"policy": {"polcy_function": "scaling:by_backlog"}}, "policy: unknown key 'polcy_function'"),
    ({"policy": {"policy_function": "by_backlog"}}, 'policy: policy_function must be an import path, as "module:function"'),
    ({"policy": {"policy_function": 7}}, "policy: policy_function must be an import path"),
    ({"policy": {"policy_function": "scaling:by_backlog", "policy_kwargs": [7]}}, "policy: policy_kwargs must be a mapping"),
]


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module(None)


@pytest.mark.parametrize("config, said", WRONG, ids=lambda v: v if isinstance(v, str) else "")
def test_a_wrong_configuration_is_named(server, config, said):
    code, answer = api(server, "PUT", APPLICATIONS, json.dumps(scaled_spec(**config)))
    assert code == 400 and said in json.dumps(answer).replace('\\"', '"'), answer
    assert api(server, "GET", APPLICATIONS)[1]["applications"] == {}


def test_a_number_beside_it_is_refused(server):
    spec = scaled_spec(max_replicas=2)
    spec["applications"][0]["deployments"][0]["num_replicas"] = 2
    code, answer = api(server, "PUT", APPLICATIONS, spec)
    assert code == 400 and "Manually setting num_replicas is not allowed when autoscaling_config is provided." in str(answer)


def test_an_external_scaler_excludes_it(server):
    spec = scaled_spec(max_replicas=2)
    spec["applications"][0]["external_scaler_enabled"] = True
    code, answer = api(server, "PUT", APPLICATIONS, spec)
    assert code == 400 and "external_scaler_enabled: deployment 'staged' has an autoscaling_config" in str(answer)


def test_the_number_of_an_external_scaler_counts(scaled, start_file):
    spec = scaled_spec(max_replicas=2)
    spec["applications"][0]["external_scaler_enabled"] = True
    del spec["applications"][0]["deployments"][0]["autoscaling_config"]
    server = start_file(spec)
    target = "/api/v1/applications/shop/deployments/staged/scale"
    for _ in range(2):  # it may be said again
        assert api(server, "POST", target, {"target_num_replicas": 0})[0] == 200
        assert deployment(server, "staged")["target_num_replicas"] == 0
    for wrong in -1, 1025, 10**9, 1.5, "2":
        assert api(server, "POST", target, {"target_num_replicas": wrong})[0] == 400
    assert api(server, "POST", target, {"target_num_replicas": 1})[0] == 200
