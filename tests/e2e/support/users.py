"""Code that runs as another user, or in a network of its own, in a child process."""

import ctypes
import fcntl
import os
import pickle
import socket
import struct
import traceback

OTHER = 54321  # a user whom nothing on the machine belongs to; a number is enough, no account is needed
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS, SIOCSIFADDR, IFF_UP = 0x8914, 0x8916, 1


def in_child(prepare, call, *args):
    """What call(*args) returns in a child process after prepare(); what it raises is raised here."""
    r, w = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(r)
            try:
                prepare()
                said = (True, call(*args))
            except BaseException:
                said = (False, traceback.format_exc())
            with os.fdopen(w, "wb") as pipe:
                pickle.dump(said, pipe)
        finally:
            os._exit(0)
    os.close(w)
    with os.fdopen(r, "rb") as pipe:
        said = pipe.read()
    os.waitpid(pid, 0)
    assert said, "the child said nothing"
    is_good, value = pickle.loads(said)
    assert is_good, value
    return value


def become(uid):
    def prepare():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    return prepare


def as_user(call, *args, uid=OTHER):
    """As a user without groups. Needs root, which the tests' machine gives."""
    return in_child(become(uid), call, *args)


def enter_network(address):
    """A network namespace with nothing but the loopback device, which has this address too."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNET)")
    with socket.socket() as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        fcntl.ioctl(s, SIOCSIFADDR, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(address)))
