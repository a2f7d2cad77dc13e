"""Two run, two wait, the others are refused at once."""

import asyncio

from anyserve import serve
from anyserve.serve.exceptions import BackPressureError


@serve.deployment
class Gate:
    def __init__(self):
        self.open = asyncio.Event()

    async def wait(self):
        await self.open.wait()

    async def release(self):
        self.open.set()


@serve.deployment(max_ongoing_requests=2, max_queued_requests=2)
class Limited:
    def __init__(self, gate):
        self.gate = gate

    async def __call__(self):
        await self.gate.wait.remote()
        return "done"


handle = serve.run(Limited.bind(Gate.options(max_ongoing_requests=100).bind()), name="limited", route_prefix=None)
gate = serve.get_deployment_handle("Gate", "limited")
responses = []
refused = 0
while refused < 3:  # the first calls may still be on their way to the replica
    response = handle.remote()
    try:
        response.result(timeout_s=0.5)
    except BackPressureError as e:
        refused += 1
        text = str(e)
    except TimeoutError:
        responses.append(response)
print(len(responses), text)
gate.release.remote().result()
print([r.result(timeout_s=30) for r in responses])
serve.shutdown()
