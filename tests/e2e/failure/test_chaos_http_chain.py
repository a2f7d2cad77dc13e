"""`make chaos` in short: an HTTP ingress that calls a deployment, while replicas of both die or are asked to end."""

from types import SimpleNamespace

import pytest

import chaos  # noqa: F401, finds tests/chaos

from scenarios import http_chain  # noqa: E402, of tests/chaos

pytestmark = pytest.mark.long


@pytest.mark.parametrize("part", ["kills http", "sigterm http"])
def test_only_a_post_that_may_have_run_is_lost(monkeypatch, part):
    monkeypatch.setattr(http_chain, "RATE", 30)
    monkeypatch.setattr(http_chain, "DEADLINE", 60)
    monkeypatch.setattr(http_chain.HttpChain, "KILLS_PER_S", 1)
    result = http_chain.play(part, SimpleNamespace(count=16, seed=3))
    assert not result.faults, result.faults
