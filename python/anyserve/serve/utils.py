"""Helpers with the names of Ray Serve."""

from __future__ import annotations

from typing import Dict, Optional

from ._transport import current_request

__all__ = ["get_trace_context"]


def get_trace_context() -> Optional[Dict[str, str]]:
    """The W3C trace context of the request whose code runs: `traceparent`, and `tracestate` if there is one. None: the request
    has none, or no request's code runs."""
    metadata = getattr(current_request.get(), "metadata", None) or {}
    found = {name: metadata[name] for name in ("traceparent", "tracestate") if metadata.get(name)}
    return found if "traceparent" in found else None
