"""`make chaos NAMES=failpoints` in short: the controller ends itself where a decision goes out. Needs -Dfailpoints=true."""

import random

import pytest

import chaos  # noqa: F401, finds tests/chaos

from scenarios import failpoints, phases  # noqa: E402, of tests/chaos

POINTS = ("say-SPAWN", "said-NOTE", "store", "stored", "heard-READY", "hear-RUNS")

pytestmark = [pytest.mark.core, pytest.mark.skipif(not failpoints.points(), reason="a build without failpoints")]


def play(phase, point):
    """Until it came to the point: what is asked for is random, and not all of it does."""
    assert any(phase.play(point, random.Random()) is not None for _ in range(10)), f"it never came to {point}"


def check(phase):
    assert not phase.outcome.errors, phase.outcome.examples()
    assert phase.same


def test_clients_notice_nothing_and_all_is_as_asked():
    phase = phases.Scale(phases.Armed())
    with phase.serving():
        for point in POINTS:
            play(phase, point)
    check(phase)
