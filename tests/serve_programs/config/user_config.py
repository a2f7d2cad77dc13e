"""reconfigure gets the user_config before the first call; a second run replaces it."""

from anyserve import serve


@serve.deployment(user_config={"threshold": 1})
class Model:
    def __init__(self):
        self.configs = []

    def reconfigure(self, config):
        self.configs.append(config["threshold"])

    def __call__(self, x):
        return [x > self.configs[-1], self.configs]


handle = serve.run(Model.bind(), name="model", route_prefix=None)
print(handle.remote(2).result())
handle = serve.run(Model.options(user_config={"threshold": 5}).bind(), name="model", route_prefix=None)
print(handle.remote(2).result()[0])
serve.shutdown()
