"""100 models or so on 4 replicas that hold 30 each; loading one takes 20 ms."""

import asyncio
import os

from anyserve import serve


@serve.deployment(num_replicas=4, max_ongoing_requests=5, ray_actor_options={"num_cpus": 0.1})
class Models:
    def __init__(self):
        self.loads = 0

    @serve.multiplexed(max_num_models_per_replica=30)
    async def model(self, model_id):
        await asyncio.sleep(0.02)
        self.loads += 1
        return "model " + model_id

    async def __call__(self, request):
        """The name of the model, the replica, and how many models this replica has loaded till now. The body without a model id."""
        model_id = serve.get_multiplexed_model_id()
        if not model_id:
            return await request.body()
        return "%s, %d, %d" % (await self.model(model_id), os.getpid(), self.loads)


app = Models.bind()
