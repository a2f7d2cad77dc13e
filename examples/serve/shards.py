"""Data in shards: each replica holds the part that its rank says; a question goes to all of them: python shards.py

Ranks are 0 to num_replicas - 1. `reconfigure` with a parameter `rank` is called at the start, and when the configuration or
the replica's rank changes.
"""

from typing import Any, Dict, List

from anyserve import serve

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi".split()


@serve.deployment(num_replicas=4, user_config={"prefix": ""})
class Shard:
    def reconfigure(self, config: Dict[str, Any], rank: int) -> None:
        shards = serve.get_replica_context().world_size
        self.rank = int(rank)
        self.words = [config["prefix"] + word for word in WORDS[self.rank :: shards]]

    def find(self, text: str) -> List[str]:
        return [word for word in self.words if text in word]

    def held(self) -> List[Any]:
        return [self.rank, len(self.words)]


app = Shard.bind()

if __name__ == "__main__":
    handle = serve.run(app)
    print("ranks and words:", *sorted(handle.broadcast("held").results()))
    parts = handle.broadcast("find", "eta").results()
    print("found:", *sorted(word for part in parts for word in part))
