"""Code that runs as another user, or in a network of its own, in a child process."""

import ctypes
import fcntl
import os
import pickle
import socket
import stat
import struct
import sys
import tempfile
import traceback
from pathlib import Path

from ..paths import ROOT

OTHER = 54321  # a user whom nothing on the machine belongs to; a number is enough, no account is needed
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
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


def libc(name, *args):
    if getattr(ctypes.CDLL(None, use_errno=True), name)(*args):
        raise OSError(ctypes.get_errno(), f"{name}{args}: {os.strerror(ctypes.get_errno())}")


def mount(source, target, kind, flags, data=None):
    libc("mount", *(v if v is None else str(v).encode() for v in (source, target, kind)), flags,
          data if data is None else data.encode())


def open_way_to(path):
    """Whoever may not look into a folder above (root's home) gets there by one that holds nothing else."""
    closed = [p for p in reversed(path.parents) if not stat.S_IMODE(p.stat().st_mode) & 0o001]
    if not closed:
        return
    aside = tempfile.mkdtemp(prefix="as-", dir="/tmp")
    mount(path, aside, None, MS_BIND)
    mount("none", closed[0], "tmpfs", 0, "mode=755")
    path.mkdir(parents=True)
    mount(aside, path, None, MS_BIND)
    libc("umount2", aside.encode(), 2)
    os.rmdir(aside)


def enter_folders(*folders):
    """A mount namespace in which these folders are empty but for this checkout, and every user can run this Python."""
    libc("unshare", CLONE_NEWNS)
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    open_way_to(Path(sys.base_prefix))
    checkout = os.open(ROOT, os.O_PATH)
    for folder in folders:
        mount("none", folder, "tmpfs", 0, "mode=755")
    if not ROOT.exists():
        ROOT.mkdir(parents=True)
        mount(f"/proc/self/fd/{checkout}", ROOT, None, MS_BIND)
    os.close(checkout)


def enter_network(address):
    """A network namespace with nothing but the loopback device, which has this address too."""
    libc("unshare", CLONE_NEWNET)
    with socket.socket() as s:
        fcntl.ioctl(s, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
        fcntl.ioctl(s, SIOCSIFADDR, struct.pack("16sHH4s8x", b"lo:1", socket.AF_INET, 0, socket.inet_aton(address)))
