"""What bench/peers/autoscale.py does: loads over time, and a deployment's autoscaling_config for each of Ray's parameters.

Ray's defaults take minutes (upscale_delay_s 30, downscale_delay_s 600, look_back_period_s 30, metrics_interval_s 10), so every time
is shorter here, for all servers alike: BASE, in which a scenario changes what it is about.
"""

import math
from dataclasses import dataclass, field
from typing import Callable, Dict, Tuple

SERVICE, START = 0.25, 1.0  # seconds of a request, and until a replica serves: apps/scaled.py
LOW, HIGH = 1.08, 10.8  # requests/s: 0.27 and 2.7 requests at a time
BASE = {"min_replicas": 1, "max_replicas": 5, "target_ongoing_requests": 1, "upscale_delay_s": 1, "downscale_delay_s": 2,
        "look_back_period_s": 1, "metrics_interval_s": 0.5}  # fmt: skip


@dataclass(frozen=True)
class Scenario:
    name: str
    about: str
    config: Dict[str, float] = field(default_factory=dict)  # what differs from BASE
    rate: Callable[[float], float] = lambda t: HIGH if 2 <= t < 10 else LOW  # requests/s at this second
    seconds: float = 20
    up: Tuple[float, ...] = (2,)  # when the load rises
    down: float = 10  # when it falls for the last time
    goals: Dict[str, float] = field(default_factory=dict)  # figure → the most that is wanted of AnyServe

    @property
    def autoscaling_config(self):
        return {**BASE, **self.config}


def _sine(period):
    middle, width = (HIGH + LOW) / 2, (HIGH - LOW) / 2
    return lambda t: middle - width * math.cos(2 * math.pi * t / period)


def _bursts(period, length):
    return lambda t: HIGH / 2 if t % period < length else 0


SCENARIOS = {s.name: s for s in (
    Scenario("step", "the load rises ×10 at 2 s and falls back at 10 s; every parameter as in the base",
             goals={"normal_after": 1.5 * START + BASE["upscale_delay_s"]}),
    Scenario("upscale_delay_s", "4 s instead of 1 s", {"upscale_delay_s": 4}),
    Scenario("downscale_delay_s", "6 s instead of 2 s", {"downscale_delay_s": 6}),
    Scenario("target_ongoing_requests", "2 instead of 1", {"target_ongoing_requests": 2}),
    Scenario("upscaling_factor", "0.5 instead of 1", {"upscaling_factor": 0.5}),
    Scenario("downscaling_factor", "0.5 instead of 1", {"downscaling_factor": 0.5}),
    Scenario("min_max_replicas", "min_replicas 2 and max_replicas 3 instead of 1 and 5", {"min_replicas": 2, "max_replicas": 3}),
    Scenario("initial_replicas", "4 instead of min_replicas; the load rises at 8 s only", {"initial_replicas": 4},
             lambda t: HIGH if 8 <= t < 14 else LOW, 20, (8,), 14),
    Scenario("look_back_period_s", "6 s instead of 1 s, and metrics_interval_s 2 s instead of 0.5 s",
             {"look_back_period_s": 6, "metrics_interval_s": 2}),
    Scenario("downscale_to_zero_delay_s", "min_replicas 0, the last replica ends after 6 s instead of 2 s; no load from 10 s on",
             {"min_replicas": 0, "initial_replicas": 1, "downscale_to_zero_delay_s": 6},
             lambda t: HIGH if 2 <= t < 10 else LOW if t < 2 else 0, 24),
    Scenario("sine", "two periods of 60 s", {}, _sine(60), 120, (0, 60), 90, {"turns": 2 * 2}),
    Scenario("zero", "min_replicas 0: 3 s of load, 6.5 s of none, three times", {"min_replicas": 0, "downscale_to_zero_delay_s": 2},
             _bursts(9.5, 3), 28.5, (0, 9.5, 19), 22),
)}  # fmt: skip
