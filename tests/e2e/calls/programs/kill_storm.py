"""Replicas of a circle of three are killed, and requests cancelled, at random moments: every request ends, and nothing is
left of any."""

import asyncio
import os
import random
import signal
import time

from support import calling, wait

from anyserve import serve

NAMES = ("A", "B", "C")
KILLS = 8


@serve.deployment(max_ongoing_requests=1, num_replicas=2)
class Node:
    def __init__(self, name, below=None):
        self.next = NAMES[(NAMES.index(name) + 1) % len(NAMES)]

    async def __call__(self, n):
        await asyncio.sleep(random.random() / 500)
        if not n:
            return 1
        handle = serve.get_deployment_handle(self.next, "circle")
        return sum(await asyncio.gather(*[handle.remote(n - 1) for _ in range(1 + n % 2)]))


def main():
    c = Node.options(name="C").bind("C")
    b = Node.options(name="B").bind("B", c)
    serve.run(Node.options(name="A").bind("A", b), name="circle")
    handles = [serve.get_deployment_handle(name, "circle") for name in NAMES]
    chosen = random.Random(11)
    open_now, ends = [], {"right": 0, "wrong": 0, "failed": 0}
    for kill in range(KILLS):
        open_now += [chosen.choice(handles).remote(4) for _ in range(30)]
        time.sleep(0.05)
        alive = [r["pid"] for r in calling.status()["replicas"] if r["slots"] and r["state"] == "ready"]
        if alive:
            os.kill(chosen.choice(alive), signal.SIGKILL)
        for r in chosen.sample(open_now, 5):
            r.cancel()
    for r in open_now:
        try:
            ends["right" if r.result(timeout_s=90) == 4 else "wrong"] += 1
        except TimeoutError:
            raise
        except (Exception, asyncio.CancelledError):  # it was cancelled, or lost with a replica
            ends["failed"] += 1
    print(sum(ends.values()) == 30 * KILLS, ends["wrong"], ends["right"] > 0, ends["failed"] > 0)
    calling.settle()
    wait.until(lambda: all(d["ready"] == 2 for d in calling.status()["deployments"]), calling.status)
    print(sorted(h.remote(4).result(timeout_s=60) for h in handles * 10) == [4] * 30)
    calling.settle()


main()
