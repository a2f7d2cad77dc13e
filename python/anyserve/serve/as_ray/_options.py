"""The options of tasks and actors: which there are, and checks. Those of placement have no effect on one machine."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from .._declare.options import check_runtime_env

__all__ = ["ACTOR", "TASK", "check"]

_COMMON = ("accelerator_type", "fallback_strategy", "label_selector", "memory", "name", "num_cpus", "num_gpus", "object_store_memory",
           "placement_group", "placement_group_bundle_index", "placement_group_capture_child_tasks", "resources", "runtime_env",
           "scheduling_strategy", "enable_task_events", "_labels", "_metadata")  # fmt: skip
TASK = (*_COMMON, "max_calls", "max_retries", "num_returns", "retry_exceptions", "_generator_backpressure_num_objects")
ACTOR = (*_COMMON, "concurrency_groups", "lifetime", "max_concurrency", "max_restarts", "max_task_retries", "max_pending_calls",
         "namespace", "get_if_exists", "allow_out_of_order_execution")  # fmt: skip
_COUNTS = {"max_retries": -1, "max_calls": 0, "max_concurrency": 1, "max_restarts": -1, "max_task_retries": -1, "max_pending_calls": -1,
           "num_cpus": 0, "num_gpus": 0, "memory": 0}  # fmt: skip  # the least value
MAX_CONCURRENCY = 65535  # max_ongoing_requests


def _check_num_returns(value: Any) -> None:
    if value is None or value in ("streaming", "dynamic"):
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 256:
        raise ValueError("num_returns is a number from 0 to 256, or 'streaming', not %r" % (value,))


def check(options: Mapping[str, Any], known: Any) -> Dict[str, Any]:
    """The options, checked. ValueError, TypeError."""
    for name, value in options.items():
        if name not in known:
            raise ValueError("Invalid option keyword %s for %s. Valid ones are %s."
                             % (name, "remote functions" if known is TASK else "actors", sorted(known)))  # fmt: skip
        if name == "runtime_env" and value:
            check_runtime_env(value, "runtime_env")
        elif name == "num_returns":
            _check_num_returns(value)
        elif name in _COUNTS and value is not None:
            if isinstance(value, bool) or not isinstance(value, (int, float)) or value < _COUNTS[name]:
                raise ValueError("%s is a number of %d or more, not %r" % (name, _COUNTS[name], value))
            if name == "max_concurrency" and value > MAX_CONCURRENCY:
                raise ValueError("max_concurrency is at most %d, not %r" % (MAX_CONCURRENCY, value))
    if options.get("lifetime") not in (None, "detached", "non_detached"):
        raise ValueError("actor `lifetime` argument must be one of 'detached', 'non_detached' and 'None'. Got %r."
                         % options["lifetime"])  # fmt: skip
    if options.get("name") == "":
        raise ValueError("Actor name cannot be an empty string")
    return dict(options)
