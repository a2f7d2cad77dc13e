"""The serve API: num_replicas="auto", and handles of a deployment that has no replica."""

import pytest
from driver_world import World

pytestmark = pytest.mark.core

PROGRAM = """
import time
from anyserve import serve

@serve.deployment(max_ongoing_requests=1, num_replicas="auto",
                  autoscaling_config={"min_replicas": 0, "max_replicas": 2, "target_ongoing_requests": 1, "upscale_delay_s": 0,
                                      "downscale_delay_s": 0})
class Rank:
    def __call__(self, x):
        return x + 1

def settle(n):
    while True:
        d = serve.status().applications["default"].deployments["Rank"]
        if d.status.value == "HEALTHY" and d.replica_states.get("RUNNING", 0) == n == sum(d.replica_states.values()):
            return
        time.sleep(0.01)

handle = serve.run(Rank.bind())
for i in range(3):
    settle(0)
    print(handle.remote(i).result())
settle(0)
print(sorted(r.result() for r in [handle.remote(i) for i in range(20)]) == list(range(1, 21)))
"""


@pytest.fixture
def world():
    w = World()
    yield w
    w.close()


def test_handles_of_a_deployment_at_zero(world):
    assert world.run(PROGRAM).splitlines() == ["1", "2", "3", "True"]
