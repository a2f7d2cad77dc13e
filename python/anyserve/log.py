"""The worker's own log lines, with the fields that the server's other processes write (docs/guide/logs.md).

What a model's code prints or logs is not touched: this is for what the worker itself has to say.
"""

import sys
import time


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


def log_event(level: str, event: str, more: str = "", **fields: object) -> None:
    """One line on stderr, then the lines of `more` as they are. The supervisor puts the replica in front of each."""
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + ".%03dZ" % (now * 1000 % 1000)
    line = " ".join(["time=" + stamp, "level=" + level, "event=" + event]
                    + ["%s=%s" % (k, quoted(v)) for k, v in fields.items()])  # fmt: skip
    # in one piece: handlers in other threads print too
    sys.stderr.write(line + "\n" + more)
