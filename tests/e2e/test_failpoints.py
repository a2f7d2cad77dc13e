"""`make chaos NAMES=failpoints` in short: the controller ends itself where a decision goes out. Needs -Dfailpoints=true."""

import random

import pytest

import chaos
from support import paths

import failpoints  # noqa: E402, of tests/chaos

POINTS = ("say-SPAWN", "said-NOTE", "store", "stored", "heard-READY", "hear-RUNS")

pytestmark = [pytest.mark.core, pytest.mark.skipif(not failpoints.points(), reason="a build without failpoints")]


@pytest.fixture(scope="module")
def armed():
    return failpoints.Armed()


@pytest.fixture(scope="module")
def server(serve_module, armed):
    server = serve_module(paths.ROOT / "tests/chaos/model.py", "--workers", "2", "--log-level", "warn", env=armed.env)
    server.wait_all_ready()
    return server


@pytest.mark.parametrize("point", POINTS)
def test_clients_notice_nothing_and_all_is_as_asked(server, armed, point):
    replicas, dispatcher = 2, server.dispatcher
    with chaos.loaded(server, "grpc", "nap", rate=50) as load:
        for _ in range(10):  # what is asked for is random: not all of it comes to every point
            replicas, took = failpoints.play(server, armed, point, random.random(), "model", replicas)
            if took is not None:
                break
    failpoints.back_to(server, 2)
    assert took is not None, f"it never came to {point}"
    assert not load.outcome.errors, load.outcome.examples()
    assert server.dispatcher == dispatcher
