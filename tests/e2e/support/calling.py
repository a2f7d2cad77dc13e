"""For the programs of tests/e2e/calls: the state of the server that they have started."""

import json
import os
import re
import socket
from pathlib import Path

from . import wait

COUNTERS = "queued", "prefetched", "ongoing", "beyond"


def _socket_path():
    return next(Path(os.environ["ANYSERVE_RUNTIME_DIR"]).glob("*/status.sock"))


def status():
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(wait.SECONDS)
        s.connect(str(_socket_path()))
        s.sendall(b"GET /status HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b"".join(iter(lambda: s.recv(1 << 16), b""))
    return json.loads(answer.partition(b"\r\n\r\n")[2])


def supervisor():
    """The process that the dispatcher is a child of."""
    text = Path(f"/proc/{status()['server']['pid']}/status").read_text()
    return int(re.search(r"^PPid:\s*(\d+)$", text, re.M)[1])


def deployment(name):
    return next(d for d in status()["deployments"] if d["name"] == name)


def unsettled():
    """Counters that are not zero, as text."""
    state = status()
    left = [f"{d['name']}: {key}={d[key]}" for d in state["deployments"] for key in COUNTERS if d[key]]
    left += [f"{r['name']}: unanswered={r['unanswered']}" for r in state["replicas"] if r["unanswered"]]
    if state["server"]["unanswered"]:
        left.append(f"unanswered={state['server']['unanswered']}")
    return ", ".join(left)


def settle():
    wait.until(lambda: not unsettled(), unsettled)
    for d in status()["deployments"]:
        n = d["counts"]
        assert n["accepted"] == n["completed"] + n["failed"] + n["expired"] + n["cancelled"], d


def dispatcher():
    """Its pid; None for a moment while one follows another."""
    try:
        return status()["server"]["pid"]
    except (OSError, ValueError, StopIteration):
        return None
