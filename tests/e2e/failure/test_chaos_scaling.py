"""`make chaos` in short: replicas die and are updated while their number follows the load, and while there are none."""

import pytest

import chaos

from scenarios import scaling, zero  # noqa: E402, of tests/chaos


# The part with the controller sends SIGKILLs, too.
@pytest.mark.parametrize("name", [pytest.param(p, marks=() if p == "controller" else pytest.mark.long) for p in scaling.PARTS])
def test_nothing_is_lost_while_scaling(tmp_path, name):
    with chaos.rig.serving(scaling.Scaled(tmp_path)) as server:
        outcome, watch, updates, killer = scaling.play(server, scaling.PARTS[name], 3, seed=4)
        assert not outcome.errors, outcome.examples()
        assert not watch.faults + updates.faults and watch.ups and watch.downs and len(killer.kills) == 3
        scaling.compare_ranks(server, updates.version)
        scaling.wait_fewest(server, 1)


def test_to_zero_and_back(tmp_path):
    with chaos.rig.serving(scaling.Scaled(tmp_path, zero.CONFIG)) as server:
        asked, ending = zero.back_and_forth(server, 6, seed=1)
        assert not asked.failed and asked.requests > 6 and ending
        for killed in zero.KILLED.values():
            asked = zero.kill_at_zero(server, 2, 1, killed)
            assert not asked.failed and asked.requests > 2
        scaling.wait_fewest(server, 0)
