"""Sets up Python's logging from the option `logging_config` (docs/guide/logs.md).

The loggers "anyserve" and "ray.serve", for code that serves, get the level and a handler of ours. The root logger gets both too,
unless user code has given it handlers. Without the option nothing is changed. Replicas of anyserve.serve have formatters of
their own (serve/_replica/log.py).
"""

from __future__ import annotations

import logging
import os
import re
import sys
from contextvars import ContextVar
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ..replica import ReplicaContext
from . import log

# The extension sets it while a handler runs.
request_id: "ContextVar[str]" = ContextVar("anyserve_request_id")

LOGGERS = ("anyserve", "ray.serve")
ACCESS = "serve_access_log"  # a record with this attribute is an access line
FILE_BYTES, FILE_COUNT = 512 << 20, 5  # of a file in logs_dir: its size, and how many former ones are kept
_LEVELS = {"DEBUG": "debug", "INFO": "info", "WARNING": "warn", "ERROR": "error", "CRITICAL": "critical"}
KNOWN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", ACCESS}


class Formatter(logging.Formatter):
    """Lines with the fields that the server's other processes write."""

    def __init__(self, in_json: bool, context: ReplicaContext, attributes: Sequence[str]) -> None:
        super().__init__()
        self._in_json, self._attributes = in_json, attributes
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
        for key in self._attributes:
            fields.setdefault(key, getattr(record, key, None))
        for key, value in vars(record).items():  # the fields of `extra`
            if key not in KNOWN and key not in fields:
                fields[key] = value
        more = self.formatException(record.exc_info) + "\n" if record.exc_info else ""
        if record.stack_info:
            more += self.formatStack(record.stack_info) + "\n"
        write = log.as_json if self._in_json else log.as_text
        return write(fields, more)[:-1]


_previous: List[Tuple[logging.Logger, int, bool]] = []  # what to restore: logger, level, propagate
_handlers: List[logging.Handler] = []  # ours


def _undo() -> None:
    for logger, level, propagate in _previous:
        for handler in _handlers:
            logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate
    for handler in _handlers:
        handler.close()
    _previous.clear()
    _handlers.clear()
    log.json_fields = None


def file_name(context: ReplicaContext) -> str:
    """The name of a replica's file in logs_dir."""
    deployment = re.sub(r"[^\w-]", "_", "%s_%s" % (context.application, context.deployment))
    return "replica_%s_%s.log" % (deployment, re.sub(r"[^\w-]", "_", context.replica))


def _file_handler(folder: str, context: ReplicaContext) -> Optional[logging.Handler]:
    from logging.handlers import RotatingFileHandler

    try:
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, file_name(context))
        return RotatingFileHandler(path, maxBytes=FILE_BYTES, backupCount=FILE_COUNT, encoding="utf-8")
    except OSError as e:
        log.log_event("error", "logs_dir_failed", logs_dir=folder, error=e.strerror or str(e))
        return None


def _is_no_access_line(record: logging.LogRecord) -> bool:
    return not getattr(record, ACCESS, False)


def configure(config: Optional[Mapping[str, Any]], context: ReplicaContext) -> "Optional[ContextVar[str]]":
    """Replaces an earlier configuration. config None: restores the state without one. Returns the context variable that
    the extension shall set to the request's id; None: it need not."""
    if config is None:
        _undo()
        return None
    in_json = config.get("encoding", "TEXT") == "JSON"
    apply(config, context, Formatter(in_json, context, config.get("additional_log_standard_attrs", ())))
    return request_id


def apply(config: Mapping[str, Any], context: ReplicaContext, formatter: logging.Formatter, with_root: bool = True) -> None:
    """Replaces an earlier configuration. with_root: also for the root logger, if that has no handlers."""
    _undo()
    if config.get("encoding", "TEXT") == "JSON":
        log.json_fields = {"replica": context.replica, "deployment": context.deployment,
                           "application": context.application}  # fmt: skip
    _handlers.append(logging.StreamHandler(sys.stderr))
    file = _file_handler(config["logs_dir"], context) if config.get("logs_dir") else None
    if file is not None:
        _handlers.append(file)
    for handler in _handlers:
        handler.setFormatter(formatter)
        if not config.get("enable_access_log", True):
            handler.addFilter(_is_no_access_line)
    loggers = [logging.getLogger(name) for name in LOGGERS]
    root = logging.getLogger()
    if with_root and not root.handlers:
        loggers.append(root)
    for logger in loggers:
        _previous.append((logger, logger.level, logger.propagate))
        for handler in _handlers:
            logger.addHandler(handler)
        logger.setLevel(config.get("log_level", "INFO"))
        if logger is not root:
            logger.propagate = False
