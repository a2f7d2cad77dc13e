"""`make chaos` in short: a deployment is updated under load, to good versions and bad ones."""

import chaos

from scenarios import update  # noqa: E402, of tests/chaos


def test_updates_under_load(tmp_path):
    with chaos.rig.serving(update.Deployed(tmp_path)) as server:
        server.expect_error("worker_exit .*given up")
        chaos.rig.wait_workers(server, 2)
        with chaos.loaded(server, rate=200) as load:
            took, faults = update.updates(server, 6, seed=3)
        assert not faults and len(took["bad"]) == 3
        assert not load.outcome.errors, load.outcome.examples()
