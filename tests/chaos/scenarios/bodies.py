"""A worker dies that executes 256 requests of 1 MiB: how long is the dispatcher busy with that, and with nobody else?

A probe asks the dispatcher over and over whether it lives. What counts is the longest answer within WINDOW seconds of the
death. It is compared with deaths over requests of 1 KiB, in turn; the median of COUNT deaths each may be LONGER ms longer.
Each request is another one. The worker is killed from outside (nobody can be blamed), or ends by SIGSEGV (the requests are told apart by a hash of
their bodies); they may run twice, and wait for the next worker, or may not, and are answered. Dispatcher and probe go before all else on the
machine where we may ask for that: what others do is not what is measured.
"""

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time

import numpy as np
import rig

from support.protocol import oip

COUNT = 10
REQUESTS, LARGE, SMALL = 256, 1 << 20, 1 << 10
WINDOW, LONGER = 0.25, 10  # seconds, ms


def goes_first(pid):
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, pid, -20)


class Probe:
    def __init__(self, server):
        self._process = subprocess.Popen([sys.executable, rig.HERE / "probe.py", server.host, str(server.port)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout.readline() == b"began\n"
        goes_first(self._process.pid)

    def end(self):
        self._process.stdin.close()
        took = json.load(self._process.stdout)
        assert self._process.wait() == 0
        return took


def death(server, model, size, how):
    """The longest answer that the probe got while the dispatcher dealt with it, in ms."""
    pid = server.worker()
    with oip.Client(server.address, [("grpc.max_send_message_length", -1)]) as client:
        calls = [client.begin(model, {"x": np.frombuffer(os.urandom(size), np.uint8)}) for _ in range(REQUESTS)]
        rig.wait.until(lambda: server.status()["replicas"][0]["ongoing"] == REQUESTS, lambda: server.status())
        probe = Probe(server)
        time.sleep(WINDOW)
        when = time.monotonic()
        os.kill(pid, how)
        time.sleep(WINDOW)
        took = probe.end()
        for call in calls:
            call.cancel()
    server.wait_all_ready()
    assert server.worker() != pid
    return 1e3 * max(seconds for begin, seconds in took if begin + seconds > when and begin < when + WINDOW)


def part(server, model, how, count):
    longest = {size: [] for size in (SMALL, LARGE)}
    for _ in range(count):
        for size, found in longest.items():
            found.append(death(server, model, size, how))
    small, large = (statistics.median(longest[size]) for size in (SMALL, LARGE))
    result = rig.Result("bodies", f"{how.name} {model}", deaths=2 * count, small_ms=round(small, 1), large_ms=round(large, 1),
                        small_max_ms=round(max(longest[SMALL]), 1), large_max_ms=round(max(longest[LARGE]), 1))
    if large > small + LONGER:
        result.fault(f"{large:.1f} ms with requests of 1 MiB, {small:.1f} ms with 1 KiB")
    return result


def run(options):
    for how in (signal.SIGKILL, signal.SIGSEGV):
        for model in ("again", "once"):
            if not options.wants(f"{how.name} {model}"):
                continue
            server = rig.AnyServe("--log-level", "error", "--restart-backoff", "1ms", "--restart-backoff-max", "20ms",
                                  "--max-inflight-bytes", "2G", workers=1, model="holding.py")
            with rig.serving(server):
                goes_first(server.dispatcher)
                yield part(server, model, how, options.count or COUNT)
