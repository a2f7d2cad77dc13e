"""Four shards: each replica has a rank of its own, and all are seen."""

from anyserve import serve


@serve.deployment(num_replicas=4, max_ongoing_requests=1)
class Shard:
    def __call__(self):
        context = serve.get_replica_context()
        return context.rank.rank, context.world_size


handle = serve.run(Shard.bind(), name="shards", route_prefix=None)
seen = set()
while len(seen) < 4:
    seen.add(tuple(handle.remote().result()))
print(sorted(seen))
print(sorted(tuple(r) for r in handle.broadcast("__call__").results()))
serve.shutdown()
