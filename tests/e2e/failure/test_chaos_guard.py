"""`make chaos` in short: a pill beside healthy requests, and more requests than can be served. Figures are for `make chaos`."""

import time

import numpy as np
import pytest

import chaos
from support import paths
from support.protocol import oip

from scenarios import poison  # noqa: E402, of tests/chaos


MODEL = paths.ROOT / "tests/chaos/apps/guarded.py"


def test_a_pill_beside_healthy_requests(serve, tmp_path):
    """How many workers it costs depends on how soon their ends are known; that others lose nothing does not."""
    server = serve(MODEL, "--workers", "4", "--log-level", "error", env={"CHAOS_PILLS": str(tmp_path)})
    with chaos.loaded(server, "grpc", "nap", rate=50, timeout=30) as load:
        pills = poison.send_pills(server, 20)
    assert not load.outcome.errors, load.outcome.examples()
    assert {what for what, _ in pills} == {"INTERNAL"}
    assert len(poison.executions(tmp_path)) < 10
    server.wait_all_ready()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_overload(serve, protocol):
    server = serve(MODEL, "--workers", "2", "--max-queued-requests", "8", "--log-level", "error", env={"CHAOS_WORK": "0.05"})
    with chaos.loaded(server, protocol, "work", rate=120) as load:  # 40 can be served
        time.sleep(2)
    refused = [r for r in load.outcome.errors if r[2].startswith(("RESOURCE_EXHAUSTED", "503"))]
    assert refused and len(refused) == len(load.outcome.errors), load.outcome.examples()
    assert all(int(r[6]) >= 1 for r in refused)
    with oip.Client(server.address) as client:
        assert client.infer("work", {"id": np.array([3])})["id"] == 3
