"""An async reconfigure; None: it is not called; a failing one fails the deployment."""

from anyserve import serve


@serve.deployment
class Model:
    def __init__(self):
        self.seen = []

    async def reconfigure(self, config):
        if config == {"fail": True}:
            raise ValueError("refused config")
        self.seen.append(config)

    def __call__(self):
        return self.seen[:1]


print(serve.run(Model.bind(), name="none", route_prefix=None).remote().result())
print(serve.run(Model.options(user_config={"a": [1, {"b": None}]}).bind(), name="some", route_prefix=None).remote().result())
try:
    serve.run(Model.options(user_config={"fail": True}).bind(), name="fail", route_prefix=None)
except RuntimeError:
    print("refused")
serve.shutdown()
