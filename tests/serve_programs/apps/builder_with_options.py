"""options() makes a new deployment and leaves the old one; a builder composes them."""

from anyserve import serve


@serve.deployment(num_replicas=1, max_ongoing_requests=7, user_config={"v": 0})
class Model:
    def reconfigure(self, config):
        self.v = config["v"]

    def __call__(self):
        return self.v


@serve.deployment
class Sum:
    def __init__(self, **parts):
        self.parts = parts

    async def __call__(self):
        return {name: await part.remote() for name, part in sorted(self.parts.items())}


def build(n):
    return Sum.bind(**{f"p{i}": Model.options(name=f"m{i}", user_config={"v": i}).bind() for i in range(n)})


print(Model.name, Model.num_replicas, Model.max_ongoing_requests, Model.user_config)
changed = Model.options(name="other", num_replicas=2)
print(changed.name, changed.num_replicas, changed.max_ongoing_requests, Model.name)
print(serve.run(build(3), name="sum", route_prefix=None).remote().result())
serve.shutdown()
