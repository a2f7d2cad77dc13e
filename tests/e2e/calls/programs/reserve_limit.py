"""Slots that nobody uses: their time is over, their caller is killed, or the caller's request is cancelled. Replicas call, too."""

import asyncio
import signal
import subprocess
import sys

from support import calling, wait

from anyserve import serve
from anyserve.serve._driver import server
from anyserve.serve.exceptions import ReplicaUnavailableError


@serve.deployment(max_ongoing_requests=1)
class Leaf:
    def __call__(self, x=0):
        return x


@serve.deployment(max_ongoing_requests=4)
class Front:
    def __init__(self, leaf):
        self.leaf = leaf

    async def __call__(self, x):
        async with self.leaf.choose_replica() as selection:
            return await self.leaf.dispatch(selection, x), selection.replica_id

    async def hold(self):
        async with self.leaf.choose_replica():
            await asyncio.Event().wait()


def ongoing():
    return calling.deployment("Leaf")["ongoing"]


def choose_and_wait():
    """Of the process that is killed."""

    async def hold():
        async with serve.get_deployment_handle("Leaf", "a").choose_replica():
            print("has it", flush=True)
            await asyncio.Event().wait()

    asyncio.run(hold())


async def main(limit):
    server.OPTIONS = (*server.OPTIONS, f"--reserve-time={limit}")
    front = serve.run(Front.bind(Leaf.bind()), name="a")
    leaf = serve.get_deployment_handle("Leaf", "a")
    print("of a replica:", await front.remote(7))
    if limit == "1s":
        async with leaf.choose_replica() as selection:
            wait.until(lambda: ongoing() == 0, ongoing)
            print("others get it:", await leaf.remote(8))
            try:
                await leaf.dispatch(selection)
            except ReplicaUnavailableError as e:
                print("late:", *e.__notes__)
        calling.settle()
        return
    held = front.hold.remote()
    wait.until(lambda: ongoing() == 1, ongoing)
    held.cancel()
    wait.until(lambda: ongoing() == 0, ongoing)
    print("its request was cancelled:", await leaf.remote(9))
    with subprocess.Popen([sys.executable, __file__, "hold"], stdout=subprocess.PIPE, text=True) as other:
        print(other.stdout.readline().strip(), ongoing())
        other.send_signal(signal.SIGKILL)
    wait.until(lambda: ongoing() == 0, ongoing)
    print("its caller was killed:", await leaf.remote(10))
    calling.settle()


if sys.argv[1] == "hold":
    choose_and_wait()
else:
    asyncio.run(main(sys.argv[1]))
