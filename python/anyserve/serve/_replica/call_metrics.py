"""Metrics of the calls of a replica, under the names that they have in Ray Serve.

They say what the replica's own clock says: the time of a call begins when it starts here, so the wait in the dispatcher's queue is
not in it. The dispatcher's metrics (anyserve_...) have both.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import TYPE_CHECKING, Dict, Optional, Tuple

from ..metrics import LATENCY_BUCKETS_MS, Counter, Gauge, Histogram, Series, registry

if TYPE_CHECKING:
    from .core import ReplicaCore


class CallMetrics:
    """Make it in a context in which the replica's code runs."""

    def __init__(self, core: "ReplicaCore") -> None:
        self._core = core
        self._calls = Counter("serve_deployment_request_counter",
                              "The number of queries that have been processed in this replica.", ("route",))  # fmt: skip
        self._errors = Counter("serve_deployment_error_counter", "The number of exceptions that have occurred in this replica.",
                               ("route", "exception_type"))  # fmt: skip
        self._latency = Histogram("serve_deployment_processing_latency_ms", "The latency for queries to be processed.",
                                  LATENCY_BUCKETS_MS, ("route",))  # fmt: skip
        self._ongoing = Gauge("serve_replica_processing_queries", "The current number of queries being processed.")
        Counter("serve_deployment_replica_starts",
                "The number of times this replica has been restarted due to failure.").inc(1)  # fmt: skip
        self._by_route: Dict[str, Tuple[Series, Series]] = {}
        registry.collectors.append(self._collect)

    def ended(self, route: str, seconds: float, error: Optional[BaseException]) -> None:
        """A call has ended. A cancelled one is counted as a call, not as an error."""
        found = self._by_route.get(route)
        if found is None:
            tags = {"route": route}
            calls, latency = self._calls.series(tags), self._latency.series(tags)
            if calls is None or latency is None:  # too many routes
                return
            found = self._by_route[route] = (calls, latency)
        calls, latency = found
        ms = seconds * 1e3
        with registry.lock:
            calls.value += 1
            latency.value += ms
            latency.counts[bisect_left(LATENCY_BUCKETS_MS, ms)] += 1
        if error is not None and not isinstance(error, asyncio.CancelledError):
            self._errors.inc(1, {"route": route, "exception_type": type(error).__name__})
        registry.changed()

    def _collect(self) -> None:
        self._ongoing.set(self._core.ongoing)

    def end(self) -> None:
        registry.collectors.remove(self._collect)
