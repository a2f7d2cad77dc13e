"""The worker's own log lines, with the fields that the server's other processes write (docs/guide/logs.md).

Only for the worker's own lines: what user code prints is not changed. The module logging_config formats the records of
Python's logging in the same way, if the option `logging_config` is set.
"""

import json
import sys
import time
from typing import Any, Dict, Optional

# fields that every JSON line has beside its own. None: lines are text
json_fields: Optional[Dict[str, str]] = None


def quoted(value: object) -> str:
    """The value of a field on one line: as it is if it is plain, else in quotes with escapes."""
    text = str(value)
    if text and all("!" <= c <= "~" and c not in '"=\\' for c in text):
        return text
    out = []
    for c in text:
        if c in '"\\':
            out.append("\\" + c)
        elif c == "\n":
            out.append("\\n")
        else:
            out.append("\\x%02x" % ord(c) if c < " " or c == "\x7f" else c)
    return '"%s"' % "".join(out)


def stamp(now: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (now * 1000 % 1000)


def as_json(fields: Dict[str, Any], more: str) -> str:
    """A JSON object on one line; more: a traceback."""
    if more:
        fields = {**fields, "traceback": more.rstrip("\n")}
    return json.dumps(fields, default=str, ensure_ascii=False) + "\n"


def as_text(fields: Dict[str, Any], more: str) -> str:
    """One line of text; the lines of `more` follow as they are."""
    return " ".join("%s=%s" % (k, quoted(v)) for k, v in fields.items()) + "\n" + more


def log_event(level: str, event: str, more: str = "", **fields: object) -> None:
    """Writes a line to stderr; the supervisor prefixes it with the replica."""
    line = {"time": stamp(time.time()), "level": level, "event": event, **fields}
    text = as_text(line, more) if json_fields is None else as_json({**line, **json_fields}, more)
    # in one piece, since other threads print too
    sys.stderr.write(text)
