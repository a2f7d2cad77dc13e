"""Samples: one run of the load client against one server, and rounds of them in which servers take turns."""

import json
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import client
from client import Call
from servers import Failed, cpu_ns, pin

OTHERS_MAX = 0.10  # share of one core that others may use before a sample is taken again
ATTEMPTS = 4  # at most
EVERY = frozenset(os.sched_getaffinity(0))


@dataclass(frozen=True)
class Placement:
    """Which cores client and servers may use; is_awake: something of idle priority keeps the client's core busy."""
    name: str
    client: frozenset = EVERY
    server: frozenset = EVERY
    is_awake: bool = False


PINNED = Placement("pinned", frozenset({0}), frozenset({1}))
UNPINNED = Placement("unpinned")
AWAKE = Placement("awake", frozenset({0}), frozenset({1}), is_awake=True)


@dataclass(frozen=True)
class Load:
    """Calls in flight, what they are, and whatever else the client is told."""
    connections: int
    streams: int
    arguments: tuple = ()
    call: Call = Call()

    def __str__(self):
        return f"{self.connections}×{self.streams}"

    def command(self, server, options):
        """The client's command line."""
        return client.command(options.build, server.port, replace(self.call, **server.call), "--connections",
                              self.connections, "--streams", self.streams, "--warmup", milliseconds(options.warmup),
                              "--duration", milliseconds(options.seconds), *self.arguments)

    def read(self, text):
        """What it printed. In an open loop calls may be left out, but none may fail."""
        result = json.loads(text)
        if result["failed"] or result["unanswered"] or result["lost_connections"]:
            raise Failed(f"anyserve bench: {text[:500]}")
        return {"per_second": result["per_second"], "total": result["sent"] + 1,  # and the one that is made first
                "offered_per_second": result["due"] / result["seconds"],
                **{f"{key}_us": result["latency_us"][key] for key in ("p50", "p90", "p99", "p999")},
                **{f"late_{key}_us": value for key, value in result.get("late_us", {}).items()}}


def milliseconds(seconds):
    return f"{seconds * 1000:.0f}ms" if seconds else "off"


def busy_ns():
    """Time that all cores together spent on anything, steal included."""
    ticks = [int(v) for v in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(ticks) - ticks[3] - ticks[4]) * 10**9 // os.sysconf("SC_CLK_TCK")


@contextmanager
def spinner(placement):
    """A process that uses the client's core whenever nobody else wants it, so that the virtual CPU never halts.
    SCHED_IDLE: the client takes the core from it at once. Yields its pid, if there is one."""
    if not placement.is_awake:
        yield None
        return
    pid = os.fork()
    if pid == 0:
        os.sched_setaffinity(0, placement.client)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        parent = os.getppid()
        while os.getppid() == parent:  # ends with the benchmark, however that ends
            for _ in range(1_000_000):
                pass
        os._exit(0)
    try:
        yield pid
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def cpu_of(pids):
    return sum(map(cpu_ns, pids))


def per_role(server, by_pid):
    """CPU µs per request by role: several workers are one."""
    sums = {}
    for pid, role in server.processes.items():
        sums[role] = sums.get(role, 0.0) + by_pid[pid]
    return sums


def sample(server, load, options, placement, spinner_pid=None):
    """One run of the load client; adds the share of a core that others used, and counters."""
    known = [*server.processes, *([spinner_pid] if spinner_pid else [])]
    counters = server.counters()
    busy, used = busy_ns(), cpu_of(known)
    cpu = {pid: cpu_ns(pid) for pid in server.processes}
    before = os.times()
    done = subprocess.run([str(c) for c in load.command(server, options)], capture_output=True, text=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, placement.client))
    after = os.times()
    cpu = {pid: cpu_ns(pid) - was for pid, was in cpu.items()}
    used = cpu_of(known) - used
    busy = busy_ns() - busy
    server.check_unchanged()
    if done.returncode and not done.stdout.startswith("{"):
        raise Failed(f"{server.name} at {load}: {done.stderr or done.stdout[:300]}")
    result = load.read(done.stdout)
    used_by_client = (after.children_user + after.children_system - before.children_user
                      - before.children_system)
    result["client"] = used_by_client / (after.elapsed - before.elapsed)  # share of a core
    result["others"] = (busy - used - used_by_client * 1e9) / ((after.elapsed - before.elapsed) * 1e9)
    result["cpu_us"] = per_role(server, {pid: ns / 1000 / result["total"] for pid, ns in cpu.items()})
    moved = server.counters()
    result["counters"] = {k: (moved[k] - counters.get(k, 0)) / result["total"] for k in moved
                          if re.search("wakes|syscalls", k)}
    return result


def quiet_sample(server, load, options, *args):
    """A sample that others did not disturb; after some attempts the quietest one."""
    tries = []
    for _ in range(options.attempts):
        tries.append(sample(server, load, options, *args))
        if tries[-1]["others"] <= OTHERS_MAX:
            break
    return min(tries, key=lambda r: r["others"])


def measure(servers, loads, options, placement, title):
    """{load: {server: [sample of each repetition]}}; the order of the servers rotates."""
    for server in servers:
        for pid in server.processes:
            pin(pid, placement.server)
    result = {load: {s.name: [] for s in servers} for load in loads}
    with spinner(placement) as spinner_pid:
        for repetition in range(options.repetitions):
            for load in loads:
                first = repetition % len(servers)
                for server in servers[first:] + servers[:first]:
                    result[load][server.name].append(
                        quiet_sample(server, load, options, placement, spinner_pid))
            print(f"{title}: {repetition + 1} of {options.repetitions}", file=sys.stderr)
    return result


def mid(samples, key):
    return median(s[key] for s in samples)


def ratios(samples, base, key="per_second"):
    """Of neighbours in time: one for each repetition."""
    return [a[key] / b[key] for a, b in zip(samples, base)]


def ratio(samples, base, key="per_second"):
    return median(ratios(samples, base, key))
