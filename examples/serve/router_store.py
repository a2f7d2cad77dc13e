"""Prompts go to the replica that has seen their beginning, which a store knows that all routers ask: python router_store.py

The central store is a deployment of one replica, so all routers see the same state at once. It costs a call for each decision. The
other way, without that call and with an older state, is router_broadcast.py.
"""

import asyncio
from typing import Any, Dict, List, Optional, Set

from anyserve import serve
from anyserve.serve.request_router import PendingRequest, RequestRouter, RunningReplica

LENGTH = 8  # characters that count as the beginning


@serve.deployment
class Store:
    """A prefix tree in earnest; a dict is enough here."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.holder: Dict[str, str] = {}

    async def find_or_assign(self, prefix: str, replicas: List[str]) -> str:
        """The replica that has the prefix; one that has the fewest, if none of these has it."""
        async with self.lock:
            if self.holder.get(prefix) not in replicas:
                held = list(self.holder.values())
                self.holder[prefix] = min(replicas, key=lambda name: (held.count(name), name))
            return self.holder[prefix]


class ByStore(RequestRouter):
    def initialize_state(self) -> None:
        self.store: Any = None

    async def choose_replicas(self, candidate_replicas: List[RunningReplica],
                              pending_request: Optional[PendingRequest] = None) -> List[List[RunningReplica]]:  # fmt: skip
        assert pending_request is not None
        if self.store is None:
            self.store = serve.get_deployment_handle("Store", self.app_name)
        by_name = {r.replica_id.unique_id: r for r in candidate_replicas}
        name = await self.store.find_or_assign.remote(pending_request.args[0][:LENGTH], sorted(by_name))
        return [[by_name[name]], candidate_replicas]


@serve.deployment(num_replicas=2, request_router_config={"request_router_class": ByStore})
class Answer:
    def __init__(self, store: Any) -> None:
        self.seen: Set[str] = set()

    async def __call__(self, prompt: str) -> bool:
        """Whether this replica has seen its beginning before."""
        known = prompt[:LENGTH] in self.seen
        self.seen.add(prompt[:LENGTH])
        return known


app = Answer.bind(Store.bind())

if __name__ == "__main__":
    handle = serve.run(app)
    for question in "first", "second", "third":
        found = [handle.remote(f"story {n}: the {question} question").result() for n in range(10)]
        print(f"{question}: {sum(found)} of {len(found)} beginnings were known")
