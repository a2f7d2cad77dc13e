"""The server is asked to end while requests of a cycle are under way: all of them are answered."""

import asyncio
import os
import signal

from support import calling, wait

from anyserve import serve


@serve.deployment(max_ongoing_requests=4)
class A:
    async def __call__(self, n):
        await asyncio.sleep(0.05)
        return 1 + await serve.get_deployment_handle("B", "ring").remote(n - 1) if n else 0


@serve.deployment(max_ongoing_requests=4)
class B:
    def __init__(self, a):
        self.a = a

    async def __call__(self, n):
        await asyncio.sleep(0.05)
        return 1 + await self.a.remote(n - 1) if n else 0


def main():
    b = serve.run(B.bind(A.bind()), name="ring")
    answers = [b.remote(6) for _ in range(4)]
    wait.until(lambda: calling.deployment("A")["ongoing"] + calling.deployment("A")["beyond"], calling.status)
    os.kill(calling.supervisor(), signal.SIGTERM)
    print([r.result(timeout_s=60) for r in answers])


main()
