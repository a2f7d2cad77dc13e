"""Options of a deployment that the worker applies itself, or sends to the server."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional, Tuple

from ..spec import Deployment
from .log import log_event

DEBUG = "ANYSERVE_DEBUG"  # set by `anyserve run --debug`: no timeouts
_RAYS_DEFAULT = "ray.serve._private.request_router:PowerOfTwoChoicesRequestRouter"  # no wish for a policy
SHARE = 1000  # percentages are passed to the extension in these parts of a percent
# Options in seconds, in the order of the extension's arguments; 0 means never.
TIMES = ("health_check_period_s", "health_check_timeout_s", "execution_timeout_s", "request_timeout_s")

COSTS = ("requests", "items", "header")  # of fairness_cost, in the order of the extension's numbers


def check_options(options: Dict[str, Any]) -> Dict[str, Any]:
    """Checks options as in a deployment file. DeclarationError."""
    checked = Deployment("options", **options).to_dict() if options else {"name": ""}
    del checked["name"]
    return checked


def nanoseconds(options: Dict[str, Any], name: str) -> int:
    """A time for the extension. 0: it is not set; -1: never."""
    if options.get(name) is None:
        return 0
    return max(1, round(options[name] * 1e9)) if options[name] else -1


def fairness(options: Dict[str, Any]) -> int:
    """What tenants get equal shares of, for the extension; 0: there is no fairness."""
    return 1 + COSTS.index(options.get("fairness_cost", COSTS[0])) if options.get("fairness", "off") != "off" else 0


def send_options(set_options: Callable[..., None], options: Dict[str, Any], dump_signal: int) -> None:
    """Sends options to the server, by the link."""
    idempotent = options.get("idempotent")
    refusal = options.get("backpressure_config") or {}
    debugging = DEBUG in os.environ  # 0: the server uses those of its command line, which are "never"
    set_options(*[0 if debugging else nanoseconds(options, name) for name in TIMES],
                int(options.get("health_check_failure_threshold", 0)), dump_signal,
                int(options.get("max_ongoing_requests", 0)),
                0 if idempotent is None else 1 if idempotent else -1,
                int(options.get("max_queued_requests", 0)),
                bool(options.get("max_queued_requests_per_caller", False)),
                refusal.get("status_code") or 0, nanoseconds(refusal, "retry_after_s"),
                int(options.get("priority_share", 0)), fairness(options),
                nanoseconds(options, "codel_target_s"), nanoseconds(options, "codel_interval_s"), nanoseconds(options, "slow_start_s"),
                bool(options.get("adaptive_concurrency", False)),
                round(1000 * options.get("hedge_quantile", 0)), round(1000 * options.get("hedge_budget", 0)),
                nanoseconds(options, "hedge_min_delay_s"))  # fmt: skip


def send_traffic(set_traffic: Callable[[int, int, Optional[str]], None], options: Dict[str, Any]) -> None:
    """Sends canary, mirror and fallback."""
    canary = options.get("canary_percent")
    set_traffic(-1 if canary is None else round(canary * SHARE), round(options.get("mirror_percent", 0) * SHARE),
                options.get("fallback"))  # fmt: skip


def send_router(set_router: Callable[..., None], options: Dict[str, Any]) -> None:
    """Sends how replicas are chosen (request_router_config)."""
    try:
        set_router(*_router_arguments(options.get("request_router_config") or {}))
    except (TypeError, ValueError, OverflowError) as e:
        # the server has checked what is deployed, but not what an earlier version has stored
        log_event("warn", "router_refused", error="%s: %s" % (type(e).__name__, e), action="the server's router is used")
        set_router(*_router_arguments({}))


def _router_arguments(config: Dict[str, Any]) -> Tuple[Any, ...]:
    """Those of the extension. A class of the program has arguments of its own."""
    path = config.get("request_router_class") or ""
    built_in = path in ("", _RAYS_DEFAULT) or not (":" in path or "." in path)
    kwargs = (config.get("request_router_kwargs") or {}) if built_in else {}

    def number(values: Dict[str, Any], name: str, scale: float = 1) -> int:
        return 0 if values.get(name) is None else round(values[name] * scale) or -1

    return (path or None if built_in and path != _RAYS_DEFAULT else None, kwargs.get("session_header"),
            nanoseconds(kwargs, "max_wait_s"), number(kwargs, "virtual_nodes"), number(kwargs, "fallbacks"),
            number(kwargs, "bound", 100), nanoseconds(kwargs, "session_ttl_s"), number(kwargs, "max_sessions"),
            bool(kwargs.get("prefer_local")), nanoseconds(config, "initial_backoff_s"),
            number(config, "backoff_multiplier", 100), nanoseconds(config, "max_backoff_s"))  # fmt: skip
