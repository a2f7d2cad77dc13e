"""What replicas record (record_autoscaling_stats) reaches the policy of the program's, with each controller and dispatcher."""

import json

import pytest

from support import wait
from support.process import procs
from test_policies import SLOW, Policy

pytestmark = pytest.mark.core


@pytest.fixture
def policy(serve, tmp_path):
    def start(*options, depth="1"):
        file = tmp_path / "wanted"
        file.write_text(depth)
        return Policy(serve("scaled_by_policy.py", "--scaling-interval", "50ms", *SLOW, *options,
                            env={"POLICY": "statistics", "WANTED": str(file)}), file)
    return start


def seen(p):
    try:
        return json.loads(p.file.with_name("seen").read_text())
    except FileNotFoundError:
        return {"raw": {}, "aggregated": {}}


def depths(p):
    return seen(p)["aggregated"].get("depth", {})


def test_the_number_follows_what_replicas_record(policy):
    p = policy()
    wait.until(lambda: depths(p) == {"Work-0": 1.0}, lambda: seen(p))
    p.want(3)
    p.settled(3)
    wait.until(lambda: depths(p) == {"Work-0": 3.0, "Work-1": 3.0, "Work-2": 3.0}, lambda: seen(p))
    assert all(v == 3.0 for series in seen(p)["raw"]["depth"].values() for v in series)
    p.want(1)
    p.settled(1)
    wait.until(lambda: depths(p) == {"Work-0": 1.0}, lambda: seen(p))


def test_another_controller_and_dispatcher_know_them(policy):
    p = policy(depth="2")
    p.settled(2)
    old = p.server.controller
    procs.kill(old)
    wait.until(lambda: p.server.controller not in (None, old), "no other controller")
    p.want(3)
    p.settled(3)
    p.server.replace_dispatcher()
    p.want(2)
    p.settled(2)
    wait.until(lambda: depths(p) == {"Work-0": 2.0, "Work-1": 2.0}, lambda: seen(p))


def test_as_many_as_the_limit_and_one_more(policy):
    p = policy("--max-scaling-stats", "3", depth="2 2")
    p.settled(2)
    wait.until(lambda: sorted(seen(p)["aggregated"]) == ["depth", "more0", "more1", "running_requests"], lambda: seen(p))
    p.want("4 3")
    p.server.log.wait("event=report_refused.*more than 3 values .--max-scaling-stats.")
    assert p.number() == 2 and p.ask() in ("Work-0", "Work-1")
    p.want("3 2")
    p.settled(3)


def test_statistics_of_a_megabyte(policy):
    p = policy(depth="2")
    p.settled(2)
    p.want("large")
    p.server.log.wait("event=report_too_large")
    assert p.number() == 2 and p.ask() in ("Work-0", "Work-1")
    p.want(3)
    p.settled(3)
