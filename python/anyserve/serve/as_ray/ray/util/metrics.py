"""ray.util.metrics: those of serve, in replicas, actors and tasks."""

from ....metrics import Counter, Gauge, Histogram

__all__ = ["Counter", "Gauge", "Histogram"]
