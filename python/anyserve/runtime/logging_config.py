"""Python's logging as `logging_config` says (docs/guide/logs.md).

The logger "anyserve" is for code that serves: it has the level and a handler of its own. The root logger
gets both too, unless the code has given it handlers; then it is the code's. Without `logging_config` nothing
is touched.
"""

from __future__ import annotations

import logging
import sys
from contextvars import ContextVar
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ..replica import ReplicaContext
from . import log

# The extension sets it while a handler's code runs.
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
        for key, value in vars(record).items():  # what `extra` said
            if key not in _KNOWN and key not in fields:
                fields[key] = value
        more = self.formatException(record.exc_info) + "\n" if record.exc_info else ""
        if record.stack_info:
            more += self.formatStack(record.stack_info) + "\n"
        write = log.as_json if self._in_json else log.as_text
        return write(fields, more)[:-1]


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """Ours, and known as ours."""


_former: List[Tuple[logging.Logger, int, bool]] = []  # what there was: logger, level, propagate


def _undo() -> None:
    for logger, level, propagate in _former:
        for handler in [h for h in logger.handlers if isinstance(h, _Handler)]:
            logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
    _former.clear()
    log.json_fields = None


def configure(said: Optional[Mapping[str, Any]], context: ReplicaContext) -> "Optional[ContextVar[str]]":
    """From now on, in place of what was said before. None: as if nothing ever was. Gives the variable that
    the extension shall set; None: none."""
    _undo()
    if said is None:
        return None
    in_json = said.get("encoding", "TEXT") == "JSON"
    if in_json:
        log.json_fields = {"replica": context.replica, "deployment": context.deployment,
                           "application": context.application}  # fmt: skip
    handler = _Handler(sys.stderr)
    handler.setFormatter(_Formatter(in_json, context))
    root, ours = logging.getLogger(), logging.getLogger("anyserve")
    for logger in (ours,) if root.handlers else (ours, root):
        _former.append((logger, logger.level, logger.propagate))
        logger.addHandler(handler)
        logger.setLevel(said.get("log_level", "INFO"))
    ours.propagate = False
    return request_id
