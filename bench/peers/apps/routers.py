"""Two routers as Ray's page on routers of one's own describes them: one that chooses at random, and one that asks which
replica has answered the fewest requests lately, of those that hold the request's model and are near."""

import mmap
import os
import random
import struct

from anyserve.serve.request_router import FIFOMixin, LocalityMixin, MultiplexMixin, RequestRouter


class Count:
    """A number in a file of its own in the folder, which the program that measures adds up."""

    def __init__(self, router, folder):
        path = os.path.join(folder, "decisions-%s-%d-%d" % (type(router).__name__, os.getpid(), id(self)))
        with open(path, "w+b") as f:
            f.truncate(8)
            self.memory = mmap.mmap(f.fileno(), 8)
        self.n = 0

    def add(self):
        self.n += 1
        struct.pack_into("<Q", self.memory, 0, self.n)


class Uniform(RequestRouter):
    """Any replica, each with the same probability."""

    def initialize_state(self, counts):
        self.count = Count(self, counts)

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        self.count.add()
        return [[random.choice(candidate_replicas)]] if candidate_replicas else []


class LeastThroughput(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    """The replica with the lowest `throughput` in its routing statistics, among the best ones by model and by place."""

    def initialize_state(self, counts):
        self.count = Count(self, counts)

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        self.count.add()
        replicas = candidate_replicas
        if pending_request is not None and pending_request.metadata.multiplexed_model_id:
            ranked = self.rank_replicas_via_multiplex(replicas, pending_request.metadata.multiplexed_model_id)
            replicas = next((group for group in ranked if group), [])
        replicas = next((group for group in self.rank_replicas_via_locality(replicas) if group), [])
        if not replicas:
            return []
        return [[min(replicas, key=lambda r: r.routing_stats.get("throughput", 0))]]
