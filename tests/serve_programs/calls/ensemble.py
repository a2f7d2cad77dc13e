"""Fan-out to three models and fan-in of their answers."""

import asyncio

from anyserve import serve


@serve.deployment(num_replicas=2)
class Linear:
    def __init__(self, slope, offset):
        self.slope, self.offset = slope, offset

    async def __call__(self, x):
        return self.slope * x + self.offset


@serve.deployment
class Ensemble:
    def __init__(self, *models):
        self.models = models

    async def __call__(self, x):
        answers = await asyncio.gather(*(m.remote(x) for m in self.models))
        return {"answers": answers, "mean": sum(answers) / len(answers)}


app = Ensemble.bind(*(Linear.options(name=f"model{i}").bind(i, -i) for i in (1, 2, 3)))
handle = serve.run(app, name="ensemble", route_prefix=None)
for x in (0, 1, 4):
    print(handle.remote(x).result())
responses = [handle.remote(i) for i in range(20)]
print(sum(r.result()["mean"] for r in responses))
serve.shutdown()
