"""serve.multiplexed keeps the models that were used last."""

from anyserve import serve


@serve.deployment
class Models:
    def __init__(self):
        self.loads = []

    @serve.multiplexed(max_num_models_per_replica=2)
    async def get(self, model_id):
        self.loads.append(model_id)
        return f"<{model_id}>"

    async def __call__(self, x):
        model = await self.get(serve.get_multiplexed_model_id())
        return f"{model}{x}"

    def loaded(self):
        return self.loads


handle = serve.run(Models.bind(), name="models", route_prefix=None)
for model_id in ("a", "b", "a", "c", "a", "b"):
    print(handle.options(multiplexed_model_id=model_id).remote(1).result())
print(handle.loaded.remote().result())
serve.shutdown()
