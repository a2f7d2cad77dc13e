"""The least recently used model is unloaded before the next is loaded; a failing load; an empty id."""

from anyserve import serve


@serve.deployment
class Models:
    def __init__(self):
        self.log = []

    @serve.multiplexed(max_num_models_per_replica=1)
    async def get(self, model_id):
        if model_id == "bad":
            raise FileNotFoundError("no such model")
        log = self.log
        log.append("load " + model_id)

        class Model:
            def __init__(self, name):
                self.name, self.gone = name, False

            def __del__(self):
                if not self.gone:
                    self.gone = True
                    log.append("unload " + self.name)

        return Model(model_id)

    async def __call__(self):
        return (await self.get(serve.get_multiplexed_model_id())).name

    async def direct(self, model_id):
        return (await self.get(model_id)).name

    def history(self):
        return self.log


handle = serve.run(Models.bind(), name="models", route_prefix=None)
print(handle.options(multiplexed_model_id="a").remote().result())
print(handle.direct.remote("b").result())
print(handle.history.remote().result())
try:
    handle.options(multiplexed_model_id="bad").remote().result()
except FileNotFoundError as e:
    print(str(e).strip().splitlines()[-1])
try:
    handle.remote().result()
except ValueError as e:
    print(str(e).strip().splitlines()[-1])
print(handle.direct.remote("c").result())
serve.shutdown()
