"""Sets up Python's logging from the option `logging_config` (docs/guide/logs.md).

The logger "anyserve", for code that serves, gets the level and a handler of ours. The root logger gets both too, unless
user code has given it handlers. Without the option nothing is changed.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..replica import ReplicaContext
from . import log

# The extension sets it while a handler runs.
request_id: "ContextVar[str]" = ContextVar("anyserve_request_id")

_LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "ERROR": "error", "CRITICAL": "critical"}
_KNOWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Formatter(logging.Formatter):
    def __init__(self, in_json: bool, context: ReplicaContext) -> None:
        super().__init__()
        self._in_json = in_json
        self._where = {"replica": context.replica}
        if in_json:
            self._where.update(deployment=context.deployment, application=context.application)

    def format(self, record: logging.LogRecord) -> str:
        fields: Dict[str, Any] = {
            "time": log.stamp(record.created),
            "level": _LEVELS.get(record.levelname, record.levelname.lower()),
            "logger": record.name,
            **self._where,
        }
        request = request_id.get(None)
        if request is not None:
            fields["request"] = request
        fields["message"] = record.getMessage()
        for key, value in vars(record).items():  # the fields of `extra`
            if key not in _KNOWN and key not in fields:
                fields[key] = value
        more = self.formatException(record.exc_info) + "\n" if record.exc_info else ""
        if record.stack_info:
            more += self.formatStack(record.stack_info) + "\n"
        write = log.as_json if self._in_json else log.as_text
        return write(fields, more)[:-1]


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """A class of our own, so that _undo finds our handlers."""


_previous: List[Tuple[logging.Logger, int, bool]] = []  # what to restore: logger, level, propagate


def _undo() -> None:
    for logger, level, propagate in _previous:
        for handler in [h for h in logger.handlers if isinstance(h, _Handler)]:
            logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
    _previous.clear()
    log.json_fields = None


def configure(config: Optional[Mapping[str, Any]], context: ReplicaContext) -> "Optional[ContextVar[str]]":
    """Replaces an earlier configuration. config None: restores the state without one. Returns the context variable that
    the extension shall set to the request's id; None: it need not."""
    _undo()
    if config is None:
        return None
    in_json = config.get("encoding", "TEXT") == "JSON"
    if in_json:
        log.json_fields = {"replica": context.replica, "deployment": context.deployment,
                           "application": context.application}  # fmt: skip
    handler = _Handler(sys.stderr)
    handler.setFormatter(_Formatter(in_json, context))
    root, ours = logging.getLogger(), logging.getLogger("anyserve")
    for logger in (ours,) if root.handlers else (ours, root):
        _previous.append((logger, logger.level, logger.propagate))
        logger.addHandler(handler)
        logger.setLevel(config.get("log_level", "INFO"))
    ours.propagate = False
    return request_id
