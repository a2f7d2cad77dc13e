"""A request that its client cancels stops the calls that its handler waits for: the handler raises what these raise, which is
no error of it, so nothing is logged or counted as one."""

import grpc
import numpy as np
import pytest

from support import wait

pytestmark = pytest.mark.core

APP = """
import asyncio
import numpy as np
from anyserve import serve


@serve.deployment(max_ongoing_requests=32)
class Leaf:
    def __init__(self):
        self.never = asyncio.Event()

    async def __call__(self):
        await self.never.wait()


@serve.deployment(max_ongoing_requests=32)
class Middle:
    def __init__(self, leaf):
        self.leaf = leaf

    async def __call__(self):
        await self.leaf.remote()

    def sync(self):
        return self.leaf.remote().result()


@serve.deployment(max_ongoing_requests=32)
class Front:
    def __init__(self, middle):
        self.middle = middle

    async def __call__(self, x: np.ndarray) -> np.ndarray:
        if x[0] == 0:
            raise ValueError("of the handler")
        await (self.middle.remote() if x[0] == 1 else self.middle.sync.remote())
        return x


app = Front.bind(Middle.bind(Leaf.bind()))
"""


@pytest.mark.parametrize("way", [1, 2])
def test_cancelled_by_the_client(serve, connect, tmp_path, way):
    path = tmp_path / "cancelled_app.py"
    path.write_text(APP)
    server = serve(f"{path}:app")
    client = connect(server)
    x = {"x": np.array([way], np.float32)}
    calls = [client.begin("Front", x) for _ in range(16)]
    wait.until(lambda: server.deployment("Leaf")["ongoing"] == 16, lambda: str(server.status()["deployments"]))
    for c in calls:
        c.cancel()
    settle(server)
    assert not server.log.find("event=handler_raised")
    assert server.counts("Front")["cancelled"] == 16
    # a handler's own exception is logged as ever
    assert client.refused("Front", {"x": np.array([0], np.float32)}).code() == grpc.StatusCode.INTERNAL
    server.log.wait("event=handler_raised.*of the handler")


def settle(server):
    wait.until(lambda: all(d["ongoing"] == d["beyond"] == d["queued"] == 0 for d in server.status()["deployments"]),
               lambda: str(server.status()["deployments"]))
