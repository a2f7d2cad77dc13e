"""Priorities and tenants of handles: one call executes, and what waits behind it says in which order it was executed."""

import http.client
import os
import threading
import time
from pathlib import Path

from support import calling, wait

from anyserve import serve

GATE = Path.cwd() / "gate"


@serve.deployment(max_ongoing_requests=1, priority_share=1000, fairness="tenant")
class Slow:
    def __init__(self):
        self.order = []

    def __call__(self, request):
        name = request if isinstance(request, str) else request.query_params["name"]
        while name == "first" and not GATE.exists():
            time.sleep(0.01)
        self.order.append(name)
        return name

    def said(self):
        return self.order


@serve.deployment
class Front:
    def __init__(self, slow):
        self.slow = slow

    async def __call__(self, name):
        return await self.slow.remote(name)


def waiting():
    d = calling.deployment("Slow")
    return d["queued"] + d["prefetched"]


def fetch(name, priority):
    c = http.client.HTTPConnection("127.0.0.1", int(os.environ["ANYSERVE_PORT"]), timeout=60)
    c.request("GET", "/slow?name=" + name, headers={"anyserve-priority": priority})
    return c.getresponse().status


def main():
    slow = serve.run(Slow.bind(), name="slow", route_prefix="/slow")
    front = serve.run(Front.bind(slow), name="front", route_prefix="/front")
    calls, n = [slow.remote("first")], 0
    wait.until(lambda: calling.deployment("Slow")["ongoing"] == 1, calling.status)
    for handle, name in (
        (slow, "normal"),
        (slow.options(priority=3), "low"),
        (slow.options(priority=1), "urgent"),
        (front.options(priority=1), "urgent too"),
        (slow.options(tenant="noisy"), "noisy 1"),
        (slow.options(tenant="noisy"), "noisy 2"),
        (slow.options(tenant="quiet"), "quiet"),
    ):
        calls.append(handle.remote(name))
        n += 1
        wait.until(lambda: waiting() == n, calling.status)
    web = threading.Thread(target=fetch, args=("web", "1"))
    web.start()
    wait.until(lambda: waiting() == n + 1, calling.status)
    print(fetch("refused", "soon"))
    GATE.touch()
    for call in calls:
        call.result(timeout_s=60)
    web.join()
    print(slow.said.remote().result())


main()
