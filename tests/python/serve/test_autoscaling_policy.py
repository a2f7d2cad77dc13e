"""The built-in policy as a function: the number is the one that src/core/autoscale has for the same requests."""

import math
import random

import pytest

from anyserve.serve import autoscaling_policy, config
from anyserve.serve.autoscaling_policy import default_autoscaling_policy


def context(running, total, target=1, state=None, **fields):
    return config.AutoscalingContext(current_num_replicas=running, total_num_requests=total, target_num_replicas=target,
                                     policy_state=state or {}, config=config.AutoscalingConfig(max_replicas=1024, **fields))  # fmt: skip


def test_it_is_requests_by_target():
    rand = random.Random(7)
    for _ in range(2000):
        running, total, each = rand.randint(1, 1000), rand.choice((0, rand.randint(1, 10000), rand.uniform(0, 500))), rand.uniform(0.1, 50)
        number, state = default_autoscaling_policy(context(running, total, target_ongoing_requests=each))
        assert number == total / each and state == {}
        theirs = running * (total / (each * running))  # how Ray Serve writes it
        assert math.isclose(number, theirs, rel_tol=1e-12)


@pytest.mark.parametrize("total, target, factor, number", [
    (0, 0, None, 0), (0, 3, None, 3), (1, 0, None, 1), (1, 3, None, 3), (500, 0, None, 1), (1, 0, 2.5, 3), (1, 5, 2.5, 5), (1, 0, 0.1, 1)])
def test_without_a_replica(total, target, factor, number):
    state = {"a": 1}
    got = default_autoscaling_policy(context(0, total, target, state, upscaling_factor=factor))
    assert got == (number, state if total else {})


def test_without_a_config():
    ctx = config.AutoscalingContext(current_num_replicas=1, total_num_requests=1, target_num_replicas=1, policy_state={})
    with pytest.raises(ValueError, match="the context has no config"):
        default_autoscaling_policy(ctx)


def test_names_that_are_not_there():
    with pytest.raises(ImportError, match="autoscaling_policy.PrometheusQueryMixin is not supported yet: there are no queries"):
        autoscaling_policy.PrometheusQueryMixin
