"""Processes by which actors and tasks live: a pid and when it started, so that a pid that is used again is another process."""

from __future__ import annotations

import os
import select
from typing import Optional

from . import JOB

__all__ = ["is_alive", "job", "this_process", "wait_end"]


def _started(pid: int) -> Optional[str]:
    try:
        with open("/proc/%d/stat" % pid, "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode()


def this_process() -> str:
    return "%d-%s" % (os.getpid(), _started(os.getpid()))


def is_alive(process: str) -> bool:
    pid, _, started = process.partition("-")
    return pid.isdigit() and _started(int(pid)) == started


def job() -> str:
    """The program that what this process creates belongs to: the one that has deployed this replica, if it still runs."""
    found = os.environ.get(JOB, "")
    if not is_alive(found):
        found = os.environ[JOB] = this_process()
    return found


def wait_end(process: str) -> None:
    """Returns when the process has ended."""
    try:
        fd = os.pidfd_open(int(process.partition("-")[0]))
    except (OSError, ValueError):
        return
    try:
        if is_alive(process):
            poll = select.poll()
            poll.register(fd, select.POLLIN)
            poll.poll()
    finally:
        os.close(fd)
