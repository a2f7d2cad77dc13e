"""Request routers of the user's own, in a policy process beside the real dispatcher and real replicas."""

import os
import signal

import pytest

from support import tool, wait

REPLICAS = ["Who-0", "Who-1", "Who-2"]
SLOW = ("--router-timeout", "5s")  # a machine under load may be late


def test_a_uniform_router(routed):
    app = routed("uniform", *SLOW)
    assert sorted(set(app.ask(times=60))) == REPLICAS
    assert app.outcomes() == {"chosen": 60}
    log = app.server.log
    wait.until(lambda: sum("] completed Who-" in line for line in log.lines) == 60, log.text)
    assert sum("] routed " in line for line in log.lines) == 60


def test_the_named_replica_gets_the_request(routed):
    app = routed("named", *SLOW)
    for name in REPLICAS:
        assert app.ask(name, times=20) == [name] * 20
    assert app.outcomes() == {"chosen": 60}


def test_a_router_that_raises(routed):
    app = routed("named", *SLOW)
    assert len(app.ask("raise", times=50)) == 50
    assert app.outcomes() == {"raised": 50}
    assert sum("event=router_raised" in line for line in app.server.log.lines) == 1
    assert app.ask("Who-1") == ["Who-1"]


def test_a_router_that_returns_what_is_no_replica(routed):
    app = routed("named", *SLOW)
    assert len(app.ask("unknown", times=20)) == 20
    assert len(app.ask("nothing", times=20)) == 20
    assert app.outcomes() == {"unknown": 20, "none": 20}
    assert sum("event=router_unknown_replica" in line for line in app.server.log.lines) == 1


def test_a_router_that_is_late(routed):
    app = routed("named")  # 2 ms
    assert len(app.ask("wait", times=10)) == 10
    assert app.outcomes() == {"late": 10}


def test_a_router_that_blocks_is_replaced(routed):
    app = routed("named")
    since = len(app.server.log.lines)
    assert len(app.ask("block", times=10)) == 10
    assert len(app.ask("Who-1", times=10)) == 10  # the process hangs
    app.server.expect_error("Who.policy")
    app.wait_for_process(since)
    assert app.outcomes().get("late", 0) >= 10
    app.server.log.wait("event=worker_(hung|health).*Who.policy-0", since)


def test_a_router_that_dies_loses_no_request(routed):
    app = routed("named", *SLOW)
    since = len(app.server.log.lines)
    app.server.expect_error("Who.policy")
    assert len(app.ask("die", times=10)) == 10
    assert app.outcomes()["lost"] >= 1
    app.wait_for_process(since)
    assert app.ask("Who-2") == ["Who-2"]


def test_a_killed_process_comes_again(routed):
    app = routed("named", *SLOW)
    since = len(app.server.log.lines)
    app.server.expect_error("Who.policy")
    os.kill(app.pid(), signal.SIGKILL)
    assert len(app.ask("Who-2", times=20)) == 20
    app.wait_for_process(since)
    assert app.ask("Who-2", times=5) == ["Who-2"] * 5, app.outcomes()


def test_the_process_survives_the_dispatcher_and_the_controller(routed):
    app = routed("named", *SLOW)
    pid, since = app.pid(), len(app.server.log.lines)
    os.kill(app.server.controller, signal.SIGKILL)
    app.server.replace_dispatcher()
    app.server.log.wait("event=controller_ready", since)
    app.wait_for_process(since)
    wait.until(lambda: app.ask("Who-2", times=3) == ["Who-2"] * 3, "the router is asked again")
    assert app.pid() == pid


def test_replicas_that_come_and_go(routed):
    app = routed("named", *SLOW)
    tool.run(app.server, "scale", "Who", "4")
    wait.until(lambda: app.ask("Who-3") == ["Who-3"], "the new replica is chosen")
    tool.run(app.server, "scale", "Who", "2")
    wait.until(lambda: app.ask("Who-3") != ["Who-3"], "the replica has gone")
    assert app.outcomes().get("none", 0) + app.outcomes().get("unknown", 0) > 0


@pytest.mark.parametrize("size", [1000, 60_000, 300_000, 3_000_000])
def test_arguments_of_any_length(routed, size):
    app = routed("named", *SLOW)
    assert app.ask("Who-1", size=size) == ["Who-1"]
    assert app.outcomes() == {"chosen": 1}


def test_a_central_store_is_a_deployment(routed):
    app = routed("central", *SLOW)
    assert app.ask(times=9) == REPLICAS * 3
    assert app.outcomes() == {"chosen": 9}


def test_without_own_router_there_is_no_process(serve):
    server = serve("serve_chain.py:back")
    assert not [r for r in server.status()["replicas"] if ".policy" in r["name"]]
    assert "anyserve_router_decisions_total{" not in server.metrics()
