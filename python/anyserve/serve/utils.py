"""Helpers with the names of Ray Serve."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ._calls.transport import current_request

__all__ = ["get_trace_context"]

_NAMES = ("traceparent", "tracestate")


def _metadata_of(request: Any) -> Mapping[str, str]:
    scope = getattr(request, "scope", None)  # of HTTP
    if scope is None:
        return getattr(request, "metadata", None) or {}
    found: Dict[str, str] = {}
    for raw, value in scope["headers"]:
        name = raw.decode("latin-1")
        if name in _NAMES:  # several fields of one name are one list (RFC 9110, section 5.3)
            found[name] = "%s,%s" % (found[name], value.decode("latin-1")) if name in found else value.decode("latin-1")
    return found


def get_trace_context() -> Optional[Dict[str, str]]:
    """The W3C trace context of the request whose code runs: `traceparent`, and `tracestate` if there is one. None: the request
    has none, or no request's code runs."""
    metadata = _metadata_of(current_request.get())
    found = {name: metadata[name] for name in _NAMES if metadata.get(name)}
    return found if "traceparent" in found else None
