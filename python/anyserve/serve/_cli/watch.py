"""Waits for changes of files below a folder, by inotify."""

from __future__ import annotations

import ctypes
import os
import select
import struct
from typing import Dict

__all__ = ["Watch"]

MODIFY, MOVED_FROM, MOVED_TO, CREATE, DELETE, CLOSE_WRITE = 0x2, 0x40, 0x80, 0x100, 0x200, 0x8
ONLYDIR, EXCL_UNLINK = 0x01000000, 0x04000000
MASK = CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | ONLYDIR | EXCL_UNLINK
QUIET_MS = 100  # an editor writes several files: one change
SKIPPED = {"__pycache__", "node_modules", ".git", ".hg", ".svn", ".venv", "venv"}
_EVENT = struct.Struct("iIII")


class Watch:
    """Python files below a folder. One thread."""

    def __init__(self, folder: str) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = self._libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "inotify: " + os.strerror(ctypes.get_errno()))
        self.folder = os.path.abspath(folder)
        self._folders: Dict[int, str] = {}
        try:
            self._add(self.folder)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _add(self, top: str) -> None:
        for path, folders, _ in os.walk(top):
            folders[:] = [f for f in folders if f not in SKIPPED]
            wd = self._libc.inotify_add_watch(self._fd, os.fsencode(path), MASK)
            if wd >= 0:
                self._folders[wd] = path
            elif path == top and not self._folders:
                raise OSError(ctypes.get_errno(), "cannot watch %s: %s" % (path, os.strerror(ctypes.get_errno())))

    def _take(self) -> bool:
        """Whether a Python file has changed, by the events that are there."""
        try:
            data = os.read(self._fd, 65536)
        except BlockingIOError:
            return False
        at, changed = 0, False
        while at < len(data):
            wd, mask, _, n = _EVENT.unpack_from(data, at)
            name = os.fsdecode(data[at + _EVENT.size : at + _EVENT.size + n].rstrip(b"\0"))
            at += _EVENT.size + n
            folder = self._folders.get(wd)
            if folder and mask & CREATE and name not in SKIPPED and os.path.isdir(os.path.join(folder, name)):
                self._add(os.path.join(folder, name))
                changed = True  # it may have files already
            elif name.endswith(".py") and not mask & CREATE:
                changed = True
        return changed

    def wait(self) -> None:
        """Until a Python file has changed, and none has for a moment."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        while True:
            poll.poll()
            if self._take():
                break
        while poll.poll(QUIET_MS):
            self._take()
