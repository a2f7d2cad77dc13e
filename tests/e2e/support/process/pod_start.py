"""The first process of a pod: python -m support.process.pod_start FD JSON. Makes namespaces, as a container's runtime does, and
becomes the program in them, which is process 1. pod.py starts it, as root, and does from outside what only root there can.

FD is a socket. It says "namespaces" when they are made, and waits for a line: by then users are mapped and there is a
network. It says the pid of process 1, as it is outside, waits for that, and ends as it does."""

import ctypes
import json
import os
import signal
import socket
import sys
from pathlib import Path

from . import users

CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID = 0x4000000, 0x8000000, 0x10000000, 0x20000000
ALL = users.CLONE_NEWNS | users.CLONE_NEWNET | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID
PR_SET_PDEATHSIG, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 1, 24, 38
LAST_CAPABILITY = int(Path("/proc/sys/kernel/cap_last_cap").read_text())
MOUNT_SETATTR, AT_FDCWD, AT_RECURSIVE, MOUNT_ATTR_RDONLY = 442, -100, 0x8000, 1  # mount_setattr(2)


def make_all_read_only():
    attributes = (ctypes.c_uint64 * 4)(MOUNT_ATTR_RDONLY, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(MOUNT_SETATTR, AT_FDCWD, b"/", AT_RECURSIVE, ctypes.byref(attributes), ctypes.sizeof(attributes)):
        raise OSError(ctypes.get_errno(), "mount_setattr: " + os.strerror(ctypes.get_errno()))


def become_user(uid):
    for capability in range(LAST_CAPABILITY + 1):
        users.libc("prctl", PR_CAPBSET_DROP, capability, 0, 0, 0)
    users.become(uid)()
    users.libc("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def process_1(spec):
    users.libc("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # the folders are there before nothing can be made any more; on a tmpfs that others do not see
    for folder, options in spec["folders"].items():
        users.mount("tmpfs", os.path.dirname(folder), "tmpfs", 0, "mode=755")
        os.makedirs(folder, exist_ok=True)
    users.mount("proc", "/proc", "proc", 0)
    make_all_read_only()
    for folder, options in spec["folders"].items():
        users.mount("tmpfs", folder, "tmpfs", 0, options)
    users.mount("tmpfs", "/dev/shm", "tmpfs", 0, spec["shm"])
    become_user(spec["uid"])
    os.chdir("/")
    os.execve(spec["command"][0], spec["command"], spec["env"])


def main():
    control = socket.socket(fileno=int(sys.argv[1]))
    spec = json.loads(sys.argv[2])
    users.libc("unshare", users.CLONE_NEWNS)
    users.mount("none", "/", None, users.MS_REC | users.MS_PRIVATE)
    users.open_way_to(Path(sys.base_prefix))
    users.libc("unshare", ALL)
    control.sendall(b"namespaces\n")
    assert control.recv(100) == b"go\n"
    pid = os.fork()
    if not pid:
        control.close()
        process_1(spec)
    control.sendall(b"%d\n" % pid)
    for fd in 1, 2:
        os.close(fd)  # the log ends when process 1 does
    status = os.waitpid(pid, 0)[1]
    control.close()
    if os.WIFSIGNALED(status):
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
