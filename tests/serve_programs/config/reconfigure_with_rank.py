"""reconfigure(user_config, rank): called at the start, also without a user_config."""

from anyserve import serve


@serve.deployment(num_replicas=4)
class Shard:
    def __init__(self):
        self.calls = []

    def reconfigure(self, config, rank):
        self.calls.append((config, rank.rank, rank.local_rank >= 0))

    def __call__(self):
        return self.calls[-1]


handle = serve.run(Shard.bind(), name="plain", route_prefix=None)
print(sorted((rank, config) for config, rank, _ in handle.broadcast("__call__").results()))
handle = serve.run(Shard.options(user_config={"k": 1}).bind(), name="configured", route_prefix=None)
print(sorted((rank, config["k"]) for config, rank, _ in handle.broadcast("__call__").results()))
serve.shutdown()
