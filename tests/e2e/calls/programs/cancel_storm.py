"""Requests are cancelled at random moments, at any depth of a chain: user code stops, and every counter is zero."""

import asyncio
import random
import time

from support import calling, wait

from anyserve import serve
from anyserve.serve.exceptions import RequestCancelledError

REQUESTS = 300


class Counted:
    def __init__(self):
        self.executing = 0

    async def active(self):
        return self.executing - 1 if self.executing else 0


@serve.deployment(max_ongoing_requests=8)
class Leaf:
    def __init__(self):
        self.executing = self.stopped = 0

    async def __call__(self):
        self.executing += 1
        try:
            await asyncio.sleep(random.random() / 20)
            return 1
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        finally:
            self.executing -= 1

    async def counts(self):
        return self.executing, self.stopped


@serve.deployment(max_ongoing_requests=16)
class Middle:
    def __init__(self, leaf):
        self.leaf = leaf
        self.executing = self.stopped = 0

    async def __call__(self):
        self.executing += 1
        try:
            return sum(await asyncio.gather(*[self.leaf.remote() for _ in range(3)]))
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        finally:
            self.executing -= 1

    async def counts(self):
        return self.executing, self.stopped


@serve.deployment(max_ongoing_requests=32)
class Top:
    def __init__(self, middle):
        self.middle = middle

    async def __call__(self):
        return await self.middle.remote()


def main():
    top = serve.run(Top.bind(Middle.bind(Leaf.bind())), name="chain")
    leaf, middle = (serve.get_deployment_handle(name, "chain") for name in ("Leaf", "Middle"))
    chosen = random.Random(7)
    answered = cancelled = 0
    open_now = []
    for i in range(REQUESTS):
        open_now.append(top.remote())
        if i % 20 == 19:
            time.sleep(0.02)
            for r in chosen.sample(open_now, len(open_now) * 2 // 3):
                r.cancel()
    for r in open_now:
        try:
            assert r.result(timeout_s=60) == 3
            answered += 1
        except (RequestCancelledError, asyncio.CancelledError):
            cancelled += 1
    print(answered + cancelled == REQUESTS, answered > 0, cancelled > 0)
    calling.settle()
    for handle in leaf, middle:
        executing, stopped = handle.counts.remote().result(timeout_s=60)
        print(executing, stopped > 0)
    wait.until(lambda: not calling.unsettled(), calling.unsettled)


main()
