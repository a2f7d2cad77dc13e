"""What a replica tells its dispatcher of itself (REPORT, docs/protocol/link.md): metrics, the models that it holds, and what its
methods `record_routing_stats` and `record_autoscaling_stats` return.

Metrics are sent when something was recorded, at most twice a second; an idle replica sends nothing.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Dict, List, Optional, Set

from ...runtime.log import log_event
from ..metrics import registry

if TYPE_CHECKING:
    from .core import ReplicaCore

METRICS, MODELS, ROUTING, AUTOSCALING = 1, 2, 3, 4  # kinds of REPORT
METRICS_PERIOD = 0.5  # seconds
AUTOSCALING_TIMEOUT = 10.0
RECORD_FACTOR = 0.2  # of look_back_period_s, as Ray Serve has it
MAX_TEXT = 256 * 1024  # bytes of a report

Send = Callable[[int, str], None]


def _autoscaling_period(config: Any) -> float:
    """How often autoscaling statistics are recorded: so that some are in each look_back_period_s, as in Ray Serve."""
    scaling = getattr(config, "autoscaling_config", None) or {}  # of a deployment file, or an object
    options = scaling if isinstance(scaling, dict) else vars(scaling)
    return min(float(options.get("metrics_interval_s", 10.0)), RECORD_FACTOR * float(options.get("look_back_period_s", 30.0)))


class Reporter:
    """Sends the reports of one replica. Use it on the replica's event loop."""

    def __init__(self, core: "ReplicaCore", send: Send) -> None:
        self._core, self._send = core, send
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()  # of the timer: that of a call would keep its request for that time
        self._metrics_due: Optional[asyncio.TimerHandle] = None
        self._tasks: Set[asyncio.Task[None]] = set()
        self._models: Optional[List[str]] = None  # as last sent
        self._ended = False

    def start(self) -> None:
        core = self._core
        registry.on_dirty = self._on_dirty
        self.send_metrics()
        self.send_models()
        if core.find_hook("record_routing_stats"):
            router = getattr(core.config, "request_router_config", None) or {}  # of a deployment file, or an object
            options = router if isinstance(router, dict) else vars(router)
            self._start(self._repeat("record_routing_stats", ROUTING, core.routing_stats,
                                     options.get("request_routing_stats_period_s", 10.0),
                                     options.get("request_routing_stats_timeout_s", 30.0)))  # fmt: skip
        if core.find_hook("record_autoscaling_stats"):
            self._start(self._repeat("record_autoscaling_stats", AUTOSCALING, core.autoscaling_stats,
                                     _autoscaling_period(core.config), AUTOSCALING_TIMEOUT))  # fmt: skip

    def send_metrics(self) -> None:
        if self._metrics_due is not None:
            self._metrics_due.cancel()
            self._metrics_due = None
        text = registry.text()
        if text:
            self._send(METRICS, text)

    def send_models(self) -> None:
        """The ids of the models that are loaded or being loaded, if they changed."""
        ids = self._core.model_ids()
        if ids != self._models:
            self._models = ids
            self._send_json(MODELS, ids)

    def end(self) -> None:
        """Sends the last values, and no more."""
        if self._ended:
            return
        self._ended = True
        if registry.on_dirty == self._on_dirty:
            registry.on_dirty = None
        for task in self._tasks:
            task.cancel()
        self.send_metrics()

    def _on_dirty(self) -> None:
        """In any thread."""
        try:
            self._loop.call_soon_threadsafe(self._metrics_soon, context=self._context)
        except RuntimeError:  # the loop has been closed
            pass

    def _metrics_soon(self) -> None:
        if self._metrics_due is None and not self._ended:
            self._metrics_due = self._loop.call_later(METRICS_PERIOD, self._metrics_now)

    def _metrics_now(self) -> None:
        self._metrics_due = None
        self.send_metrics()

    def _start(self, coro: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _repeat(self, name: str, kind: int, ask: Callable[[], Coroutine[Any, Any, Optional[Dict[str, Any]]]],
                      period: float, timeout: float) -> None:  # fmt: skip
        while True:
            try:
                stats = await asyncio.wait_for(ask(), timeout)
                if stats is not None:
                    self._send_json(kind, stats)
            except asyncio.TimeoutError:
                log_event("warn", "stats_failed", method=name, error="it took longer than %g s" % timeout)
            except Exception as e:
                log_event("warn", "stats_failed", method=name, error="%s: %s" % (type(e).__name__, e))
            await asyncio.sleep(period)

    def _send_json(self, kind: int, value: Any) -> None:
        text = json.dumps(value)
        if len(text) > MAX_TEXT:
            log_event("warn", "report_too_large", kind=kind, bytes=len(text), limit_bytes=MAX_TEXT)
            return
        self._send(kind, text)
