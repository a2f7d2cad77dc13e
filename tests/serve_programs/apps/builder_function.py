"""A function that builds an application from arguments."""

from anyserve import serve


@serve.deployment
class Greeter:
    def __init__(self, greeting, shout):
        self.greeting, self.shout = greeting, shout

    def __call__(self, name):
        text = f"{self.greeting}, {name}"
        return text.upper() if self.shout else text


def build(args):
    replicas = int(args.get("replicas", 1))
    return Greeter.options(num_replicas=replicas).bind(args["greeting"], args.get("shout") == "yes")


print(serve.run(build({"greeting": "Hello"}), name="g", route_prefix=None).remote("Ada").result())
handle = serve.run(build({"greeting": "Hi", "shout": "yes", "replicas": "2"}), name="g", route_prefix=None)
print(handle.remote("Ada").result())
print(serve.status().applications["g"].deployments["Greeter"].replica_states)
serve.shutdown()
