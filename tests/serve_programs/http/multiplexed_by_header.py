"""The header that says which model a request is for."""

import os

import httpx

from anyserve import serve

client = httpx.Client(base_url="http://127.0.0.1:" + os.environ.get("PORT", "8000"), trust_env=False, timeout=60)

@serve.deployment
class Models:
    @serve.multiplexed(max_num_models_per_replica=2)
    async def load(self, model_id):
        return "model of " + model_id

    async def __call__(self, request):
        model_id = serve.get_multiplexed_model_id()
        return [model_id, await self.load(model_id) if model_id else None]


serve.run(Models.bind())
print(client.get("/").json())
for name in ("serve_multiplexed_model_id", "Serve_Multiplexed_Model_Id"):
    for model_id in ("a", "b", "a"):
        print(client.get("/", headers={name: model_id}).json())
serve.shutdown()
