"""Workers run out of memory in a control group: only they die, it is told why, and nobody else loses a request.

The whole server lives in a memory control group (v1). One request makes its worker take memory until the kernel ends
it. Requests that may be repeated go on all the while; none may fail. The reason must be in the log line worker_exit,
and the dispatcher must be the process that it was, grown by at most 4 MiB.
"""

import os
import re
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import rig
from support.protocol import http

COUNT = 10
RATE, WORKERS = 100, 2
LIMIT, GROWTH = 400 << 20, 4096  # bytes, KiB
REASON = r"event=worker_exit replica=\S+ .*the kernel was out of memory"


def own_group():
    """The folder of our memory control group (v1), or None."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        _, names, path = line.split(":", 2)
        folder = Path("/sys/fs/cgroup/memory", path.lstrip("/"))
        if "memory" in names.split(",") and os.access(folder / "cgroup.procs", os.W_OK):
            return folder
    return None


class Group:
    """A memory control group below ours; the calling thread's children are born into it."""

    def __init__(self, folder, limit):
        self.path, self._home = folder / f"anyserve-{os.getpid()}", folder
        self.path.mkdir()
        (self.path / "memory.limit_in_bytes").write_text(str(limit))

    def __enter__(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def __exit__(self, *_):
        (self._home / "cgroup.procs").write_text(str(os.getpid()))

    def kills(self):
        lines = (self.path / "memory.oom_control").read_text().splitlines()
        return int(dict(line.split() for line in lines)["oom_kill"])

    def remove(self):
        rig.wait.until(lambda: not (self.path / "cgroup.procs").read_text(), "the group to be empty")
        self.path.rmdir()


def all_are_reported(server, group):
    """Waits until there is a worker_exit line with the reason for each process of the group that the kernel has ended.

    One request may cost two workers: while the first one's memory is being given back, the kernel may choose another.
    """
    return rig.wait.until(lambda: group.kills() == sum(bool(re.search(REASON, line)) for line in server.log.lines),
                          lambda: f"{group.kills()} processes were killed; the log:\n{server.log.text()}")


def grow(server):
    """(status, headers) of the request that kills its worker."""
    headers, body = http.infer_binary({"id": np.array([1])})
    request = urllib.request.Request(f"http://{server.address}/v2/models/grow/infer", body, dict(headers))
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return reply.status, reply.headers
    except urllib.error.HTTPError as e:
        return e.code, e.headers


def victims(server, count):
    """Lets `count` workers die of it; the answers, which must say that the request may have been executed."""
    answers = []
    for i in range(count):
        rig.wait_workers(server, WORKERS)
        since = len(server.log.lines)
        thread = threading.Thread(target=lambda: answers.append(grow(server)))
        thread.start()
        server.log.wait(REASON, since, 60)
        thread.join()
        time.sleep(0.1)
    return answers


def run(options):
    folder = own_group()
    if folder is None:
        result = rig.Result("memory", "OOM in a control group")
        result.fault("there is no memory control group (v1) that we may divide")
        yield result
        return
    count, group = options.count or COUNT, Group(folder, LIMIT)
    try:
        with group:
            server = rig.AnyServe("--log-level", "warn", "--restart-backoff", "10ms", workers=WORKERS)
        with rig.serving(server):
            pid, size = server.dispatcher, rig.procs.status(server.dispatcher, "VmRSS")
            load = rig.Load(server.address, "grpc", "nap", RATE)
            try:
                answers = victims(server, count)
                outcome = load.end()
            finally:
                load.abandon()
            rig.wait_workers(server, WORKERS)
            growth = rig.procs.status(server.dispatcher, "VmRSS") - size
            all_are_reported(server, group)
            same, kills = server.dispatcher == pid, group.kills()
    finally:
        group.remove()
    result = rig.Result("memory", "OOM in a control group", victims=count, oom_kills=kills, growth_kib=growth,
                        **outcome.figures())
    result.add(outcome)
    if outcome.errors:
        result.fault(f"{len(outcome.errors)} other requests failed: {outcome.examples()}")
    if kills < count or not same:
        result.fault(f"{kills} processes were killed for {count} requests; same dispatcher: {same}")
    if growth > GROWTH:
        result.fault(f"the dispatcher grew by {growth} KiB")
    if wrong := [a for a in answers if a[0] != 503 or a[1]["anyserve-may-have-executed"] != "1"]:
        result.fault(f"answered otherwise than by 503 with a flag: {wrong[:2]}")
    yield result
