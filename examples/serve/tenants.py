"""Many models in few replicas: each replica holds the models that it used last: python tenants.py"""

from typing import List

from anyserve import serve


class Model:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: int) -> str:
        return f"{self.name}: {x * len(self.name)}"


@serve.deployment
class Tenants:
    def __init__(self) -> None:
        self.loads: List[str] = []

    @serve.multiplexed(max_num_models_per_replica=2)
    async def load(self, name: str) -> Model:
        self.loads.append(name)
        return Model(name)

    async def __call__(self, x: int) -> str:
        model = await self.load(serve.get_multiplexed_model_id())
        return model(x)

    def loaded(self) -> List[str]:
        return self.loads


app = Tenants.bind()

if __name__ == "__main__":
    handle = serve.run(app)
    for name in "anna", "bob", "anna", "carla", "anna":
        print(handle.options(multiplexed_model_id=name).remote(10).result())
    print("loaded:", *handle.loaded.remote().result())
