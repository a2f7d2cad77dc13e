"""Two deployments, and a policy for both: the second one has as many replicas as the first. What the first has the file WANTED says."""

import os
import pathlib
import time

from anyserve import serve

WANTED = pathlib.Path(os.environ.get("WANTED", "/nonexistent"))
CONFIG = {"min_replicas": 1, "max_replicas": 4, "upscale_delay_s": 0, "downscale_delay_s": 0}


def coupled(contexts, more=0):
    word = WANTED.read_text()
    ids = {i.name: i for i in contexts}
    first, second = ids["First"], ids["Second"]
    calls = {i: c.policy_state.get("calls", 0) + 1 for i, c in contexts.items()}
    states = {i: {"calls": n} for i, n in calls.items()}
    if word == "raise":
        raise ValueError("no number today")
    if word == "block":
        time.sleep(3600)
    if word == "no dict":
        return 3
    if word == "unknown":
        return {first: 1, type(first)("Third", first.app_name): 1}, states
    if word.startswith("first only "):
        return {first: float(word.rpartition(" ")[2])}, states
    if word == "calls":  # as many as its own state says that there were calls
        return {i: max(n, contexts[i].target_num_replicas) for i, n in calls.items()}, states
    return {first: float(word), second: float(word) + more}, states


@serve.deployment(autoscaling_config=CONFIG)
class First:
    async def __call__(self):
        return "first"


@serve.deployment(autoscaling_config={**CONFIG, "max_replicas": 3})
class Second:
    def __init__(self, first):
        self.first = first

    async def __call__(self, request):
        return await self.first.remote()


app = Second.bind(First.bind())
