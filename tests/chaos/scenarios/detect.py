"""A worker is killed: how soon does the dispatcher know, whatever its memory, and whoever else holds its descriptors?

Within 5 ms for the slowest hundredth: at no ballast, at 2 GiB of resident memory, and when a forked grandchild in a
session of its own holds the link and every other descriptor. A client waits for a handler that never ends: the time
begins before the kill and ends when the answer, 503 with `anyserve-may-have-executed: 1`, is in that client's socket, by the
kernel's time stamp: when the client then gets a CPU to read it is not the server's doing.
"""

import os
import signal
import socket
import statistics
import struct
import time

import numpy as np
import rig
from support.protocol import http

COUNT = 40
MOST = 5.0  # ms
BIG = 2048  # MiB
SO_TIMESTAMPNS = 35  # asm-generic/socket.h


def infer(server, model):
    """A connection on which that model was called."""
    client = socket.create_connection((server.host, server.port), 60)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    headers, body = http.infer_binary({"id": np.array([1])})
    fields = "".join(f"{k}: {v}\r\n" for k, v in headers)
    client.sendall(f"POST /v2/models/{model}/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n{fields}\r\n"
                   .encode() + body)
    return client


def ask(server, model):
    with infer(server, model) as client:
        assert client.recv(65536).startswith(b"HTTP/1.1 200")


def receive_stamped(client):
    """What came, and when (s, CLOCK_REALTIME)."""
    answer, extra, _, _ = client.recvmsg(65536, 128)
    (stamp,) = [data for level, kind, data in extra if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS)]
    seconds, ns = struct.unpack("=qq", stamp)
    return answer, seconds + ns / 1e9


def detection(server):
    """Seconds from the kill to the answer."""
    with infer(server, "hold") as client:
        client.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        ask(server, "nap")  # it came later on the link: the other handler has begun
        time.sleep(0.05)  # at rest, as a worker is most of its life
        pid = server.worker()
        begin = time.time()
        os.kill(pid, signal.SIGKILL)
        answer, end = receive_stamped(client)
    assert answer.startswith(b"HTTP/1.1 503") and b"anyserve-may-have-executed: 1" in answer, answer
    return end - begin


def end_orphans(server):
    """What forks() left: it lives in a session of its own, where the supervisor does not look."""
    for pid in server.family():
        if os.getsid(pid) != server.supervisor:
            os.kill(pid, signal.SIGKILL)


def part(name, count, rss, forks):
    took = []
    with rig.serving(rig.AnyServe(workers=1, rss=rss)) as server:
        for _ in range(count):
            rig.wait_workers(server, 1)
            if forks:
                ask(server, "forks")
            took.append(1e3 * detection(server))
            if forks:
                end_orphans(server)
    took.sort()
    p99 = rig.quantile(took, .99)
    result = rig.Result("detect", name, kills=count, p50_ms=round(statistics.median(took), 2), p99_ms=round(p99, 2))
    if p99 > MOST:
        result.fault(f"p99 {p99:.2f} ms, over {MOST}")
    return result


def run(options):
    count = options.count or COUNT
    for name, rss, forks in (("no ballast", 0, False), ("2 GiB", BIG, False), ("grandchild has the link", 0, True)):
        if options.wants(name):
            yield part(name, count, rss, forks)
