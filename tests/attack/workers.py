"""Hostile workers: they join as any program of the server's user may, and then break its patience.

    tests/attack/attacks.py NAME HOST:PORT --link PATH --token TOKEN

One at a time; one that was ended comes back after a second, so that it is not the log that is attacked.
"""

import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "e2e"))

from support.protocol import link  # noqa: E402

PAUSE = 1  # seconds
KINDS = {
    "pings": link.frame(link.PING, b"12345678") * 4000,  # and reads nothing
    "talks": link.credit(1) * 4000,                      # reads, and does not answer pings
}


class HostileWorker:
    def __init__(self, kind, path, token):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(0.05)
        self.sock.connect(path)
        self.sock.sendall(link.hello(token, "hostile", "hostile") + link.register("hostile") + link.credit(1))
        self.reads = kind == "talks"
        self.view = self.bytes = memoryview(KINDS[kind])

    def step(self):
        """False: it was ended."""
        try:
            self.view = self.view[self.sock.send(self.view):] or self.bytes
            return not self.reads or bool(self.sock.recv(1 << 20))
        except TimeoutError:
            return True
        except OSError:
            return False


def run(kind, path, token, seconds):
    """As attacks.Gang.run."""
    end, times, made = time.monotonic() + seconds, [], 0
    while (began := time.monotonic()) < end:
        worker = HostileWorker(kind, path, token)
        made += 1
        while (alive := worker.step()) and time.monotonic() < end:
            pass
        worker.sock.close()
        if not alive:
            times.append(time.monotonic() - began)
            time.sleep(min(PAUSE, max(0, end - time.monotonic())))
    return {"made": made, "closed": len(times), "goaways": {}, "slowest_close_s": round(max(times, default=0), 4),
            "median_close_s": round(sorted(times)[len(times) // 2], 5) if times else 0,
            "oldest_open_s": 0 if times else seconds}
