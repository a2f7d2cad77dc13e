"""Processes as the kernel has them: who lives, whose children they are, which descriptors they hold."""

import os
import signal
from pathlib import Path


def alive(pid):
    """A thread of it runs; a zombie does not. The first may be a zombie while another still holds their open files."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return False
    return any(_runs(f"/proc/{pid}/task/{thread}/stat") for thread in threads)


def _runs(stat):
    try:
        return Path(stat).read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    except OSError:
        return ""


def _pids():
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def began(pid):
    """When it was started, in ticks since boot: tells it from a later process with the same pid. None: no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None


def family(session, since, mark):
    """Living processes with that string in their environment, or in the session that its leader began at `since`.

    A leader that has ended leaves its pid to others, and with it the session's number: that of a server that another test
    started a moment ago.
    """
    is_ours = began(session) in (None, since)
    found = []
    for pid in _pids():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ours = (is_ours and int(fields[3]) == session) or mark.encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except (OSError, IndexError):
            continue
        if ours and alive(pid):
            found.append(pid)
    return found


def fds(pid):
    """What each open descriptor refers to."""
    found = {}
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return found
    for name in names:
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except OSError:
            pass
    return found


def _sockets():
    """{inode: (text, text of what is at the other end or None)} of all sockets that /proc/net names."""
    found = {}
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]:
            words = line.split()
            found[words[9]] = (f"tcp {words[1]} {words[2]} state {words[3]}", f"tcp {words[2]} {words[1]}")
    for line in Path("/proc/net/unix").read_text().splitlines()[1:]:
        words = line.split()
        found[words[6]] = ("unix " + " ".join(words[7:]), None)
    return found


def describe_fds(pid):
    """As fds, but a socket says where it is connected to, and of TCP who is there: for the text of a failure."""
    sockets, described = _sockets(), {}
    for fd, what in sorted(fds(pid).items()):
        own, other = sockets.get(what[len("socket:["):-1], ("", None)) if what.startswith("socket:[") else ("", None)
        there = {f"socket:[{inode}]" for inode, (text, _) in sockets.items() if other and text.startswith(other)}
        peers = [f"pid {p}: {command(p)}" for p in _pids() if there & set(fds(p).values())]
        described[fd] = " ".join([what, own, *peers]).strip()
    return described


def status(pid, field):
    """A number of /proc/PID/status: VmHWM is the largest resident size so far, in KiB."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith(field + ":")]
    return int(line.split()[1])


def is_sanitized(pid):
    """Its memory says nothing: it is kept from reuse."""
    return "libasan" in Path(f"/proc/{pid}/maps").read_text()


def kill(pid, signum=signal.SIGKILL):
    os.kill(pid, signum)
