"""A deployment with an autoscaling policy of its own; which one, the variable POLICY says. Each does what the file WANTED has."""

import asyncio
import json
import math
import os
import pathlib
import time

from anyserve import serve
from anyserve.serve.autoscaling_policy import default_autoscaling_policy
from anyserve.serve.config import AutoscalingContext

WANTED = pathlib.Path(os.environ.get("WANTED", "/nonexistent"))


def decide(word):
    if word == "raise":
        raise ValueError("no number today")
    if word == "system exit":
        raise SystemExit("no number")
    if word == "nan":
        return math.nan
    if word == "block":
        time.sleep(3600)
    if word == "exit":
        os._exit(3)
    return float(word)


def by_file(ctx: AutoscalingContext):
    return decide(WANTED.read_text())


async def on_the_loop(ctx: AutoscalingContext):
    await asyncio.sleep(0)
    return decide(WANTED.read_text())


def by_requests(ctx: AutoscalingContext, each=1):
    """As many replicas as there are requests; writes down what it was told."""
    seen = {name: getattr(ctx, name) for name in (
        "deployment_name", "app_name", "current_num_replicas", "target_num_replicas", "total_num_requests", "total_queued_requests",
        "total_running_requests", "capacity_adjusted_min_replicas", "capacity_adjusted_max_replicas", "policy_state",
        "last_scale_up_time", "last_scale_down_time")}  # fmt: skip
    seen["running"] = sorted(r.unique_id for r in ctx.running_replicas)
    seen["ongoing"] = {r.unique_id: n for r, n in ctx.aggregated_metrics["running_requests"].items()}
    seen["upscale_delay_s"] = ctx.config.upscale_delay_s
    new = WANTED.with_name(WANTED.name + ".new")
    new.write_text(json.dumps(seen))
    new.rename(WANTED)
    return ctx.total_num_requests / each, {"calls": ctx.policy_state.get("calls", 0) + 1}


def by_statistics(ctx: AutoscalingContext):
    """As many replicas as the mean depth says that replicas have recorded; writes down what they have."""
    seen = {"raw": {name: {r.unique_id: [v.value for v in series] for r, series in of.items()} for name, of in ctx.raw_metrics.items()},
            "aggregated": {name: {r.unique_id: v for r, v in of.items()} for name, of in ctx.aggregated_metrics.items()}}  # fmt: skip
    new = WANTED.with_name("seen.new")
    new.write_text(json.dumps(seen))
    new.rename(WANTED.with_name("seen"))
    depths = seen["aggregated"].get("depth")
    return sum(depths.values()) / len(depths) if depths else ctx.target_num_replicas


def as_built_in(ctx: AutoscalingContext):
    return default_autoscaling_policy(ctx)


class Counting:
    """One more replica with each call, up to `most`."""

    def __init__(self, most):
        self.most, self.calls = most, 0

    def __call__(self, ctx: AutoscalingContext):
        self.calls += 1
        return min(self.calls, self.most), {}


POLICIES = {
    "file": {"policy_function": by_file},
    "loop": {"policy_function": on_the_loop},
    "requests": {"policy_function": by_requests, "policy_kwargs": {"each": 1}},
    "built in": {"policy_function": as_built_in},
    "statistics": {"policy_function": by_statistics},
    "class": {"policy_function": Counting, "policy_kwargs": {"most": 3}},
}
CONFIG = {"min_replicas": 1, "max_replicas": 4, "upscale_delay_s": 0, "downscale_delay_s": 0,
          "look_back_period_s": 0.5, "metrics_interval_s": 0.1, "aggregation_function": "max",
          "policy": POLICIES[os.environ.get("POLICY", "file")]}  # fmt: skip


@serve.deployment(max_ongoing_requests=1, autoscaling_config=CONFIG)
class Work:
    async def __call__(self, request):
        gate = request.query_params.get("gate")
        while gate and not os.path.exists(gate):
            await asyncio.sleep(0.01)
        return serve.get_replica_context().replica_id.unique_id


if os.environ.get("POLICY") == "statistics":

    def record(self):
        words = WANTED.read_text().split()
        if words[0] == "large":
            return {"x" * 1_000_000: 1}
        return {"depth": float(words[0]), **{"more%d" % i: i for i in range(int(words[1]) if len(words) > 1 else 0)}}

    Work.func_or_class.record_autoscaling_stats = record

app = Work.bind()
