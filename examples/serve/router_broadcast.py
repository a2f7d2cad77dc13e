"""Prompts go to the replica that has seen their beginning, as the replicas say to all routers: python router_broadcast.py

Each router decides alone, by the statistics that the replicas have sent last: nothing is asked for a decision, and what a router knows
is up to `request_routing_stats_period_s` old. The other way, exact and slower, is router_store.py.
"""

import asyncio
from typing import Any, Dict, List, Optional

from anyserve import serve
from anyserve.serve.request_router import PendingRequest, RequestRouter, RunningReplica

LENGTH = 8  # characters that count as the beginning
HELD = 1000  # of them are remembered by a replica; its statistics must stay below 256 KiB
PERIOD = 0.05  # seconds


class ByBroadcast(RequestRouter):
    async def choose_replicas(self, candidate_replicas: List[RunningReplica],
                              pending_request: Optional[PendingRequest] = None) -> List[List[RunningReplica]]:  # fmt: skip
        assert pending_request is not None
        prefix = pending_request.args[0][:LENGTH]
        holders = [r for r in candidate_replicas if prefix in r.routing_stats.get("held", ())]
        fewest_first = sorted(candidate_replicas, key=lambda r: len(r.routing_stats.get("held", ())))
        return [holders, *([r] for r in fewest_first)] if holders else [[r] for r in fewest_first]


@serve.deployment(num_replicas=2, request_router_config={"request_router_class": ByBroadcast,
                                                          "request_routing_stats_period_s": PERIOD})  # fmt: skip
class Answer:
    def __init__(self) -> None:
        self.held: Dict[str, None] = {}  # the oldest first
        self.times_asked = 0

    async def __call__(self, prompt: str) -> bool:
        """Whether this replica has seen its beginning before."""
        known = prompt[:LENGTH] in self.held
        self.held.pop(prompt[:LENGTH], None)
        self.held[prompt[:LENGTH]] = None
        if len(self.held) > HELD:
            del self.held[next(iter(self.held))]
        return known

    def record_routing_stats(self) -> Dict[str, Any]:
        """What all routers get of this replica."""
        self.times_asked += 1
        return {"held": list(self.held)}

    async def wait_for_statistics(self) -> None:
        """Until those that know all of now have been sent: the ones before have when the next ones are asked for."""
        until = self.times_asked + 2
        while self.times_asked < until:
            await asyncio.sleep(PERIOD / 2)


app = Answer.bind()

if __name__ == "__main__":
    handle = serve.run(app)
    for question in "first", "second", "third":
        found = [handle.remote(f"story {n}: the {question} question").result() for n in range(10)]
        print(f"{question}: {sum(found)} of {len(found)} beginnings were known")
        handle.broadcast("wait_for_statistics").results()
