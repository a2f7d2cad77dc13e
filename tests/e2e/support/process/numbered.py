"""A process that is given a number which is free: what a number that is kept for too long may name."""

import ctypes
import errno
import os

import pytest

CLONE3 = 435
_libc = ctypes.PyDLL(None, use_errno=True)  # keeps the interpreter's lock: the child needs it


def _clone(pid):
    """As fork, but the child is `pid`; OSError."""
    number = (ctypes.c_int * 1)(pid)
    # flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size, cgroup
    args = (ctypes.c_uint64 * 11)(0, 0, 0, 0, 17, 0, 0, 0, ctypes.addressof(number), 1, 0)
    child = _libc.syscall(ctypes.c_long(CLONE3), args, ctypes.c_size_t(ctypes.sizeof(args)))
    if child < 0:
        raise OSError(ctypes.get_errno(), "clone3")
    return child


class Numbered:
    """`sleep` as process `pid`, which leads a group of that number, while it lasts. Raises FileExistsError while
    another one has the number."""

    def __init__(self, pid):
        try:
            child = _clone(pid)
        except OSError as e:
            if e.errno in (errno.EPERM, errno.ENOSYS):
                pytest.skip("this machine lets nobody choose the number of a process")
            raise
        if child == 0:
            try:
                os.setpgid(0, 0)
                os.execv("/bin/sleep", ["sleep", "1000"])
            finally:
                os._exit(127)
        self.pid = pid
        try:
            os.setpgid(pid, pid)
        except PermissionError:
            pass  # it has executed: it was done there

    def __enter__(self):
        return self

    def lives(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

    def __exit__(self, *_):
        os.kill(self.pid, 9)  # not reaped yet: it is the one
        os.waitpid(self.pid, 0)
