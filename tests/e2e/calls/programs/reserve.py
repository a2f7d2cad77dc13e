"""A driver reserves slots of a deployment, uses them, gives them back, and loses one with its replica."""

import asyncio
import os
import signal

from support import calling, wait

from anyserve import serve
from anyserve.serve.exceptions import BackPressureError, ReplicaUnavailableError

REPLICAS = 2


@serve.deployment(num_replicas=REPLICAS, max_ongoing_requests=1, max_queued_requests=1)
class Leaf:
    def __init__(self):
        self.replica = serve.get_replica_context().replica_tag

    def __call__(self, x=0):
        return self.replica, x

    def pid(self):
        return os.getpid()

    def many(self, n):
        for i in range(n):
            yield i


@serve.deployment
class Other:
    def __call__(self):
        return 5


@serve.deployment
class Front:
    def __init__(self, leaf, other):
        pass


def counts():
    leaf = calling.deployment("Leaf")
    return leaf["ongoing"], leaf["queued"]


async def use(leaf, other):
    async with leaf.choose_replica(1, key="for routers") as selection:
        there = selection.replica_id
        print("slots:", counts(), selection.to_dict()["deployment"], selection.deployment_id == leaf.deployment_id)
        print(await leaf.dispatch(selection, 1) == (there, 1))
        again = leaf.dispatch(selection, 2)
        try:
            await again
        except RuntimeError as e:
            print("again:", "was dispatched already" in str(e))
        try:
            other.dispatch(selection)
        except ValueError:
            print("another deployment: ValueError")
    async with leaf.choose_replica() as selection:
        print([i async for i in leaf.options(stream=True).many.dispatch(selection, 3)])
    async with leaf.choose_replica() as selection:
        large = await leaf.dispatch(selection, "x" * 300_000)
        print(large[0] == selection.replica_id, len(large[1]))
    async with leaf.choose_replica() as selection:
        print(await leaf.dispatch(selection, other.remote()) == (selection.replica_id, 5))


async def give_back(leaf):
    async with leaf.choose_replica() as one, leaf.choose_replica() as two:
        print("both:", one.replica_id != two.replica_id, counts())
        waits = leaf.remote(3)
        wait.until(lambda: counts() == (2, 1), counts)
        try:
            async with leaf.choose_replica():
                print("no room, but a slot")
        except BackPressureError:
            print("full: a reservation waits in the queue")
        called = leaf.dispatch(two, 4)
        print(await called == (two.replica_id, 4), (await waits)[1])
    try:
        await leaf.dispatch(one)
    except RuntimeError as e:
        print("left:", "was given back" in str(e))
    calling.settle()
    waiting = asyncio.create_task(leaf.choose_replica().__aenter__())
    async with await_both(leaf):
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    calling.settle()


class await_both:
    """All slots are reserved."""

    def __init__(self, leaf):
        self.chosen = [leaf.choose_replica() for _ in range(REPLICAS - 1)]

    async def __aenter__(self):
        for c in self.chosen:
            await c.__aenter__()

    async def __aexit__(self, *exc):
        for c in self.chosen:
            await c.__aexit__(*exc)


async def lose(leaf):
    async with leaf.choose_replica() as selection:
        pids = {r["name"]: r["pid"] for r in calling.status()["replicas"]}
        os.kill(next(pid for name, pid in pids.items() if name == selection.replica_id), signal.SIGKILL)
        wait.until(lambda: counts()[0] == 0, counts)
        try:
            await leaf.dispatch(selection)
        except ReplicaUnavailableError as e:
            print("killed:", e.replica_id == selection.replica_id)
    wait.until(lambda: calling.deployment("Leaf")["ready"] == REPLICAS, calling.status)


async def repeat(leaf):
    for i in range(1000):
        async with leaf.choose_replica() as selection:
            if i % 2:
                assert (await leaf.dispatch(selection, i))[1] == i
    calling.settle()
    print("1000 times:", counts())


async def main():
    serve.run(Front.bind(Leaf.bind(), Other.bind()), name="a")
    leaf, other = serve.get_deployment_handle("Leaf", "a"), serve.get_deployment_handle("Other", "a")
    await use(leaf, other)
    await give_back(leaf)
    await lose(leaf)
    await repeat(leaf)


asyncio.run(main())
