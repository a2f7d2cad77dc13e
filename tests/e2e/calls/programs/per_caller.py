"""max_queued_requests_per_caller: a driver, a replica that calls, and another one: each may have one request waiting."""

import asyncio
from pathlib import Path

from support import calling, wait

from anyserve import serve
from anyserve.serve.exceptions import BackPressureError

GATE = Path.cwd() / "gate"


@serve.deployment(max_ongoing_requests=1, max_queued_requests=1, max_queued_requests_per_caller=True)
class Slow:
    async def __call__(self, gate):
        while not Path(gate).exists():
            await asyncio.sleep(0.01)
        return "done"


@serve.deployment(max_ongoing_requests=10)
class Caller:
    def __init__(self, slow):
        self.slow = slow

    async def __call__(self, gate):
        try:
            return await self.slow.remote(gate)
        except BackPressureError as e:
            return str(e)


@serve.deployment
class Ingress:
    def __init__(self, one, two):
        pass


def main():
    slow = Slow.bind()
    one, two = (Caller.options(name=name).bind(slow) for name in ("One", "Two"))
    serve.run(Ingress.bind(one, two), name="app")
    slow, one, two = (serve.get_deployment_handle(name, "app") for name in ("Slow", "One", "Two"))
    first = slow.remote(str(GATE))
    wait.until(lambda: calling.deployment("Slow")["ongoing"] == 1, calling.status)
    held = [first]
    for n, caller in enumerate((slow, one, two), 1):
        held.append(caller.remote(str(GATE)))
        wait.until(lambda: calling.deployment("Slow")["queued"] == n, calling.status)
        try:
            print(caller.remote(str(GATE)).result(timeout_s=60))
        except BackPressureError as e:
            print(e)
    GATE.touch()
    print([r.result(timeout_s=60) for r in held])
    calling.settle()


main()
