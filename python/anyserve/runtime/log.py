"""The worker's own log lines, with the fields that the server's other processes write (docs/guide/logs.md).

What a model's code prints is not touched: this is for what the worker itself has to say. What Python's
logging does is said by `logging_config` (logging_config.py), which writes the same lines.
"""

import json
import sys
import time
from typing import Any, Dict, Optional

# of lines in JSON: what each of them says beside its own fields. None: lines are text
json_fields: Optional[Dict[str, str]] = None


def quoted(value: object) -> str:
    """A value of a field: bare when it is plain, else in quotes with escapes, on one line."""
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
    """One object on a line; `more` is its traceback."""
    if more:
        fields = {**fields, "traceback": more.rstrip("\n")}
    return json.dumps(fields, default=str, ensure_ascii=False) + "\n"


def as_text(fields: Dict[str, Any], more: str) -> str:
    """One line, then the lines of `more` as they are."""
    return " ".join("%s=%s" % (k, quoted(v)) for k, v in fields.items()) + "\n" + more


def log_event(level: str, event: str, more: str = "", **fields: object) -> None:
    """To stderr, where the supervisor puts the replica in front of each line."""
    said = {"time": stamp(time.time()), "level": level, "event": event, **fields}
    text = as_text(said, more) if json_fields is None else as_json({**said, **json_fields}, more)
    # in one piece: handlers in other threads print too
    sys.stderr.write(text)
