"""Handlers hang, one after the other: their workers are killed in time, and neighbours notice nothing.

A deployment with an execution timeout of 0.5 s hangs again and again: by `while True`, by a C call that sleeps and keeps the
interpreter's lock, by a SIGSTOP of its worker while it executes, and by one before the request comes. From the moment the
request is sent to the death of the worker: at most the timeout and 200 ms. The request that hangs fails with 504 and
`anyserve-may-have-executed: 1`; one that was never begun is answered by the next worker.

Neighbours are another deployment (`well`, 200 calls/s) or, in the last part, the other replica of the same one, which has
the work of both then (40/s): open loops of calls that take 20 ms, in turns with a worker that hangs and without one, COUNT
turns of each. The median of their p99 over the turns with hung workers is at most 1.1 times that over the others, and none
fails. (The p99 of calls that take no time is what they wait for their turn on the one CPU: it differs fourfold between calm
turns.)

A `while True` takes a CPU: the deployment that hangs has one of its own (`cpu_affinity`), which it shares with this program;
all else, the load included, has another one. So have the two replicas of the last part once they are ready: what starts in
the place of the one that was killed needs a CPU, too.
"""

import contextlib
import os
import select
import signal
import statistics
import time

import rig
from scenarios import detect, update

COUNT = 5
TURN = 3  # seconds
TIMEOUT, MARGIN, MOST = 0.5, 0.2, 1.1
LOOK = 0.1  # seconds: questions to the dispatcher are work, too
CALLED = {"while True": "loop", "C call": "call", "SIGSTOP": "brief", "SIGSTOP before": "brief"}


def move(pid, cpus):
    """Each of its threads, if it is still there."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), cpus)


class Deployed(update.Deployed):
    """`sick` on a CPU of its own, all else on another one."""

    def __init__(self, folder, sick):
        self.sick, cpus = sick, sorted(os.sched_getaffinity(0))
        self.cpus = {cpus[0]}, {cpus[-1]}
        super().__init__(folder, "--log-level", "error", "--drain-timeout", "1s")
        self.expect_error("worker_exit .*given up")
        for pid, cpu in ((self.supervisor, 0), (self.controller, 0), (self.dispatcher, 0), (os.getpid(), 1)):
            move(pid, self.cpus[cpu])

    def spec(self, version, how=None):
        well, sick = (",".join(map(str, cpus)) for cpus in self.cpus)
        return {"applications": [{"import_path": "sick.py", "working_dir": str(rig.APPS), "deployments": [
            {"name": "sick", "num_replicas": self.sick, "execution_timeout_s": TIMEOUT, "cpu_affinity": sick},
            {"name": "well", "num_replicas": 2, "cpu_affinity": well}]}]}

    def sick_pids(self):
        """Of those that are ready; where there is another one beside the one that hangs, it runs where all else does."""
        found = [pid for name, pid in self.workers().items() if name.startswith("sick")]
        for pid in found if self.sick > 1 else ():
            move(pid, self.cpus[0])
        return found


def death(fds, seconds):
    """When the first of these processes ended; None when none does."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return time.monotonic() if poll.poll(1e3 * seconds) else None


def hang(server, kind):
    """(seconds from the request to the death of its worker, its answer)"""
    pids = server.sick_pids()
    fds = [os.pidfd_open(pid) for pid in pids]
    try:
        if kind == "SIGSTOP before":
            os.kill(pids[0], signal.SIGSTOP)
        begin = time.monotonic()
        with detect.infer(server, CALLED[kind]) as client:
            if kind == "SIGSTOP":
                time.sleep(0.1)
                os.kill(pids[0], signal.SIGSTOP)
            end = death(fds, 10)
            answer = client.recv(65536)
    finally:
        for fd in fds:
            os.close(fd)
    assert end, f"{kind}: no worker was killed"
    return end - begin, answer


def turn(server, model, rate, kind=None):
    """What the load saw while workers hung, and how each of them ended."""
    calls = rig.Bench(server, model, rate, TURN, "--warmup", "200ms", "--timeout", "10s", cpus=server.cpus[0])
    verdicts = []
    while kind and calls.goes_on:
        if len(server.sick_pids()) == server.sick:
            verdicts.append(hang(server, kind))
        time.sleep(LOOK)
    return calls.end(), verdicts


def usual(outs, q):
    """Of most turns, in ms: one that something else on the machine has disturbed does not count."""
    return statistics.median(out["latency_us"][q] for out in outs) / 1e3


def failed(outs):
    return sum(out["failed"] + out["unanswered"] + out["unsent"] for out in outs)


def judge(result, kind, verdicts, ratio, errors):
    late = [seconds for seconds, _ in verdicts if seconds > TIMEOUT + MARGIN]
    wrong = [a[:200] for _, a in verdicts if
             (not a.startswith(b"HTTP/1.1 200") if kind == "SIGSTOP before" else
              not a.startswith(b"HTTP/1.1 504") or b"anyserve-may-have-executed: 1" not in a)]
    if late:
        result.fault(f"{len(late)} of {len(verdicts)} verdicts later than {TIMEOUT + MARGIN} s: {max(late):.3f} s")
    if wrong:
        result.fault(f"{len(wrong)} answered otherwise: {wrong[0]}")
    if ratio > MOST:
        result.fault(f"neighbours' p99 is {ratio:.2f} of that without hung workers, over {MOST}")
    if errors:
        result.fault(f"{errors} calls of neighbours failed")
    if not verdicts:
        result.fault("nothing hung: nothing was shown")


def part(server, name, kind, calls, count):
    outs, verdicts = {False: [], True: []}, []
    for i in range(2 * count):
        hangs = (i + i // 2) % 2 == 1  # calm, hung, hung, calm: a drift is in both
        rig.wait.until(lambda: len(server.sick_pids()) == server.sick, server.status)
        out, found = turn(server, *calls, kind if hangs else None)
        outs[hangs].append(out)
        verdicts += found
    took = sorted(seconds for seconds, _ in verdicts)
    p99 = {hangs: usual(found, "p99") for hangs, found in outs.items()}
    ratio = p99[True] / p99[False]
    result = rig.Result("hung", name, hung=len(took), verdict_p50_ms=round(1e3 * rig.quantile(took, .5)),
                        verdict_max_ms=round(1e3 * rig.quantile(took, 1)), calls=sum(o["due"] for o in sum(outs.values(), [])),
                        calm_p50_ms=round(usual(outs[False], "p50"), 3), hung_p50_ms=round(usual(outs[True], "p50"), 3),
                        calm_p99_ms=round(p99[False], 3), hung_p99_ms=round(p99[True], 3), ratio=round(ratio, 3))
    judge(result, kind, verdicts, ratio, failed(sum(outs.values(), [])))
    return result


def run(options):
    if len(os.sched_getaffinity(0)) < 2:
        result = rig.Result("hung", "one CPU")
        result.fault("two CPUs are needed: one for the handler that hangs")
        yield result
        return
    whole = os.sched_getaffinity(0)
    parts = [(kind, kind, ("nap", 200), 1) for kind in CALLED] + [("other replica", "C call", ("beside", 40), 2)]
    for name, kind, calls, sick in parts:
        if not options.wants(name):
            continue
        with rig.tempfile.TemporaryDirectory(prefix="as-") as folder, rig.serving(Deployed(folder, sick)) as server:
            result = part(server, name, kind, calls, options.count or COUNT)
        os.sched_setaffinity(0, whole)
        yield result
