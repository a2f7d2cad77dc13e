"""Ray Serve's built-in autoscaling policy, for policies of your own that begin with its number.

As the policy of a deployment these functions are the server's own (src/core/autoscale): no policy process is started for them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Dict, Tuple, Union

from .config import AutoscalingContext

__all__ = ["default_autoscaling_policy", "replica_queue_length_autoscaling_policy"]

if not TYPE_CHECKING:
    from . import _not_yet

    __getattr__ = _not_yet.refuse("autoscaling_policy", "there are no queries to Prometheus", "PrometheusQueryMixin", "PrometheusSample",
                                  "PrometheusScalar", "PrometheusVector")  # fmt: skip


def replica_queue_length_autoscaling_policy(ctx: AutoscalingContext) -> Tuple[Union[int, float], Dict[str, Any]]:
    """How many replicas the requests of the deployment need: total_num_requests / target_ongoing_requests, not rounded, and without
    factors, bounds and delays, which are applied to what a policy returns. Without a running replica: as many as are to start for
    the requests that there are, else target_num_replicas.

    Returns the number and the next policy_state. ValueError: the context has no config."""
    config = ctx.config
    if config is None:
        raise ValueError("the context has no config")
    if ctx.current_num_replicas == 0:
        if ctx.total_num_requests > 0:
            return max(math.ceil(config.get_upscaling_factor()), ctx.target_num_replicas), ctx.policy_state
        return ctx.target_num_replicas, {}
    return ctx.total_num_requests / config.get_target_ongoing_requests(), {}


default_autoscaling_policy = replica_queue_length_autoscaling_policy
