"""The logs of a replica: Ray Serve's lines, in text or JSON, and a line for each call.

Code logs to ``logging.getLogger("ray.serve")`` (or "anyserve", which is the same) as it does under Ray. The id of the request is that
of the call whose code logs; tasks and threads of the call have it, too.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Sequence

from ...replica import ReplicaContext
from ...runtime import logging_config
from .. import context as _context

if TYPE_CHECKING:
    from .._calls.transport import CallMeta

LOGGER = "ray.serve"
_FLATTENED = "ray_serve_extra_fields"  # a dict in `extra`, whose keys become fields
# attributes of records that say how to treat them, and are no fields
_HIDDEN = logging_config.KNOWN | {"log_to_stderr", "skip_context_filter", _FLATTENED}


def current_request_id() -> str:
    """The id of the call, or of the tensor request, whose code runs here; "": of none."""
    return _context._serve_request_context.get().request_id or logging_config.request_id.get("")


class TextFormatter(logging.Formatter):
    """INFO 2026-11-23 17:44:46,123 app_Deployment Deployment-0 REQUEST -- message"""

    def __init__(self, context: ReplicaContext, attributes: Sequence[str]) -> None:
        super().__init__()
        where = ("%s_%s %s" % (context.application, context.deployment, context.replica)).replace("%", "%%")
        head = "%(levelname)s %(asctime)s " + where + " "
        tail = "".join("%%(%s)s " % name for name in attributes) + "-- %(message)s"
        defaults = dict.fromkeys(attributes)
        self._plain = logging.Formatter(head + tail, defaults=defaults)
        self._of_request = logging.Formatter(head + "%(request_id)s " + tail, defaults=defaults)

    def format(self, record: logging.LogRecord) -> str:
        request_id = getattr(record, "request_id", None) or current_request_id()
        if not request_id:
            return self._plain.format(record)
        record.request_id = request_id
        return self._of_request.format(record)


class JSONFormatter(logging.Formatter):
    """One object for each record, with Ray's keys."""

    def __init__(self, context: ReplicaContext, attributes: Sequence[str]) -> None:
        super().__init__()
        self._attributes = attributes
        self._where = {"application": context.application, "deployment": "%s_%s" % (context.application, context.deployment),
                       "replica": context.replica, "component_name": "replica"}  # fmt: skip

    def format(self, record: logging.LogRecord) -> str:
        fields: Dict[str, Any] = {
            "asctime": self.formatTime(record), "levelname": record.levelname, "message": record.getMessage(),
            "filename": record.filename, "lineno": record.lineno, "process": record.process,
        }  # fmt: skip
        if record.exc_info:
            fields["exc_text"] = self.formatException(record.exc_info)
        for name in self._attributes:
            fields[name] = getattr(record, name, None)
        route, request_id = _context._serve_request_context.get().route, current_request_id()
        if route:
            fields["route"] = route
        if request_id:
            fields["request_id"] = request_id
        fields.update(self._where)
        for name, value in vars(record).items():  # of `extra`
            if name not in _HIDDEN:
                fields[name] = value
        more = getattr(record, _FLATTENED, None)
        if isinstance(more, dict):
            fields.update(more)
        fields["timestamp_ns"] = int(record.created * 1e9)
        return json.dumps(fields, default=str, ensure_ascii=False)


def configure(config: Optional[Mapping[str, Any]], context: ReplicaContext) -> "ContextVar[str]":
    """Sets up the logs of this process, which is the replica `context`. config None: the defaults, and the root logger stays as it
    is. Returns the context variable that the extension shall set to the id of a tensor request."""
    given = config or {}
    kind = JSONFormatter if given.get("encoding", "TEXT") == "JSON" else TextFormatter
    formatter = kind(context, given.get("additional_log_standard_attrs") or ())
    logging_config.apply(given, context, formatter, with_root=config is not None)
    return logging_config.request_id


def has_access_log(config: Optional[Mapping[str, Any]]) -> bool:
    """Whether each call gets a line. Only where a logging_config is given: a line costs more than a call."""
    return config is not None and bool(config.get("enable_access_log", True))


def log_call(meta: "CallMeta", seconds: float, error: Optional[BaseException]) -> None:
    """The access line of a call, which has just ended. Call it in the call's context."""
    kind, what = "CALL", meta.method
    status: Any = "OK" if error is None else "CANCELLED" if isinstance(error, asyncio.CancelledError) else "ERROR"
    request = _context._serve_request_context.get()
    if request.is_http_request:
        kind, what, status = request.access(error)
    logging.getLogger(LOGGER).info(
        "%s %s %s %.1fms", kind, what, status, seconds * 1e3, extra={logging_config.ACCESS: True})  # fmt: skip
