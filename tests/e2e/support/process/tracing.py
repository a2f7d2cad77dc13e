"""ptrace(2): threads of another process are stopped, as a debugger stops them."""

import ctypes
import errno
import os

import pytest

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
ALL = 0x40000000  # __WALL: threads, too

_libc = ctypes.CDLL(None, use_errno=True)


def _ptrace(request, tid):
    if _libc.ptrace(ctypes.c_long(request), ctypes.c_int(tid), None, None) < 0:
        code = ctypes.get_errno()
        if code in (errno.EPERM, errno.ENOSYS):
            pytest.skip("this machine lets nobody trace")
        raise OSError(code, os.strerror(code))


class Stopped:
    """These threads do not run while it lasts; from one thread of ours."""

    def __init__(self, tids):
        self.tids = tids

    def __enter__(self):
        for tid in self.tids:
            _ptrace(SEIZE, tid)
            _ptrace(INTERRUPT, tid)
            os.waitpid(tid, ALL)
        return self

    def wait_killed(self):
        """Until then they are kept, and with them the process."""
        for tid in self.tids:
            status = os.waitpid(tid, ALL)[1]
            while os.WIFSTOPPED(status):
                status = os.waitpid(tid, ALL)[1]
        self.tids = []

    def go(self):
        for tid in self.tids:
            try:
                _ptrace(DETACH, tid)
            except ProcessLookupError:
                pass
        self.tids = []

    def __exit__(self, *_):
        self.go()
