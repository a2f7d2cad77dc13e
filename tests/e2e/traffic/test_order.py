"""Whose request is next: priorities with a share for the lower ones, equal shares for tenants, and what is shed.

Handlers wait for the test's word, so the order in which they begin says what was chosen; nothing depends on time.
"""

import contextlib
import subprocess
import time

import grpc
import pytest

from support import paths, wait
from support.protocol import http, oip

pytestmark = pytest.mark.core

APP = """
import cue
import numpy as np
from anyserve import AnyServe

app = AnyServe()
app.deployment(max_ongoing_requests=1, **{options!r})


@app.model("staged")
def staged(request):
    cue.wait(request.id)
    return np.zeros(0)
"""
TENANT = ("--tenant-header=x-tenant", "--cost-header=x-cost")


@pytest.fixture
def start(serve, stage, connect):
    """start(options of the deployment, options of the server) → server, client; one request executes at a time."""
    def start(options, *args):
        stage.reset()
        server = serve("order.py", *args, source=APP.format(options=options), env={
            "ANYSERVE_TEST_STAGE": stage.path})  # fmt: skip
        return server, connect(server)
    return start


def begin(server, client, tag, n, **fields):
    """A request that waits; n is how many there are then."""
    call = client.begin("staged", {}, id=tag, **fields)
    wait.until(lambda: waiting(server) == n, server.status)
    return call


def waiting(server):
    d = server.deployment("order")
    return d["queued"] + d["prefetched"]


def go_on(stage, n):
    """Ends n handlers, one after the other; the tags of those that began after each."""
    order = []
    for _ in range(n):
        began = len(stage.scenes)
        stage.scenes[began - 1].go()
        stage.started(began + 1)
        order.append(stage.scenes[began].tag)
    return order


def end_all(stage, calls):
    """Lets everything that is left run."""
    done = 0
    while not all(c.done() for c in calls):
        if len(stage.scenes) > done:
            with contextlib.suppress(OSError):
                stage.scenes[done].go()
            done += 1
        else:
            wait.until(lambda: len(stage.scenes) > done or all(c.done() for c in calls), stage.tags)
    return [c.exception() for c in calls]


# --- priorities ---

def test_one_of_eight_calls_is_for_a_lower_priority(start, stage):
    server, client = start({})
    calls = [client.begin("staged", {}, id="first")]
    stage.started(1)
    for i in range(20):
        calls.append(begin(server, client, f"urgent-{i}", i + 1, parameters={"priority": 1}))
    for i in range(4):
        calls.append(begin(server, client, f"low-{i}", 21 + i, metadata=[("anyserve-priority", "3")]))
    order = [tag.split("-")[0] for tag in go_on(stage, 18)]
    assert order == ["urgent"] * 7 + ["low"] + ["urgent"] * 7 + ["low"] + ["urgent"] * 2
    assert end_all(stage, calls) == [None] * len(calls)


def test_the_share_is_an_option(start, stage):
    server, client = start({"priority_share": 2})
    calls = [client.begin("staged", {}, id="first")]
    stage.started(1)
    for i in range(4):
        calls.append(begin(server, client, f"urgent-{i}", 2 * i + 1, metadata=[("anyserve-priority", "1")]))
        calls.append(begin(server, client, f"low-{i}", 2 * i + 2))
    assert go_on(stage, 8) == ["urgent-0", "low-0", "urgent-1", "low-1", "urgent-2", "low-2", "urgent-3", "low-3"]
    end_all(stage, calls)


@pytest.mark.parametrize("value, why", [
    ("x", "the header 'anyserve-priority' must be a whole number of at most 9 digits"),
    ("-1", "the header 'anyserve-priority' must be a whole number of at most 9 digits"),
    ("1234567890", "the header 'anyserve-priority' must be a whole number of at most 9 digits"),
])
def test_a_wrong_priority_is_refused(start, value, why):
    server, client = start({})
    error = client.refused("staged", {}, metadata=[("anyserve-priority", value)])
    assert (error.code(), error.details()) == (grpc.StatusCode.INVALID_ARGUMENT, why)
    with contextlib.closing(http.Http1(server.host, server.port)) as h:
        reply = h.request("POST", "/v2/models/staged/infer", http.infer_json({}), [("anyserve-priority", value)])
    assert (reply.status, reply.error) == (400, why)


# --- tenants ---

def test_a_noisy_tenant_does_not_delay_the_others(start, stage):
    """Each of two others goes next but one, however much of the first waits."""
    server, client = start({"fairness": "tenant"}, *TENANT)
    calls = [client.begin("staged", {}, id="first")]
    stage.started(1)
    for i in range(30):
        calls.append(begin(server, client, f"noisy-{i}", i + 1, metadata=[("x-tenant", "noisy")]))
    for i in range(3):
        calls.append(begin(server, client, f"a-{i}", 31 + 2 * i, metadata=[("x-tenant", "a")]))
        calls.append(begin(server, client, f"b-{i}", 32 + 2 * i, metadata=[("x-tenant", "b")]))
    order = go_on(stage, 12)
    assert sorted(order[:9]) == ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2", "noisy-0", "noisy-1", "noisy-2"]
    assert [t for t in order if t[0] == "n"] == [f"noisy-{i}" for i in range(6)]
    for n in 3, 6, 9:  # every three calls have one of each
        assert sorted(t.split("-")[0] for t in order[n - 3:n]) == ["a", "b", "noisy"]
    assert end_all(stage, calls) == [None] * len(calls)


def test_without_fairness_first_come_is_first_served(start, stage):
    server, client = start({}, *TENANT)
    calls = [client.begin("staged", {}, id="first")]
    stage.started(1)
    for i in range(4):
        calls.append(begin(server, client, f"noisy-{i}", i + 1, metadata=[("x-tenant", "noisy")]))
    calls.append(begin(server, client, "a", 5, metadata=[("x-tenant", "a")]))
    assert go_on(stage, 5) == ["noisy-0", "noisy-1", "noisy-2", "noisy-3", "a"]
    end_all(stage, calls)


def test_a_request_may_cost_more(start, stage):
    server, client = start({"fairness": "tenant", "fairness_cost": "header"}, *TENANT)
    calls = [client.begin("staged", {}, id="first")]
    stage.started(1)
    for i in range(2):
        calls.append(begin(server, client, f"dear-{i}", i + 1, metadata=[("x-tenant", "d"), ("x-cost", "3")]))
    for i in range(5):
        calls.append(begin(server, client, f"cheap-{i}", 3 + i, metadata=[("x-tenant", "c")]))
    assert go_on(stage, 7) == ["dear-0", "cheap-0", "cheap-1", "cheap-2", "dear-1", "cheap-3", "cheap-4"]
    end_all(stage, calls)
    error = client.refused("staged", {}, metadata=[("x-cost", "much")])
    assert error.details() == "the header 'x-cost' must be a whole number of at most 9 digits"


def test_a_noisy_tenant_leaves_room_in_the_queue(start, stage):
    server, client = start({"fairness": "tenant", "max_queued_requests": 8}, *TENANT)
    calls = [client.begin("staged", {}, id="first")]
    stage.started(1)
    for i in range(4):
        calls.append(begin(server, client, f"noisy-{i}", i + 1, metadata=[("x-tenant", "noisy")]))
    error = client.refused("staged", {}, metadata=[("x-tenant", "noisy")])
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    calls.append(begin(server, client, "other", 5, metadata=[("x-tenant", "other")]))
    assert end_all(stage, calls) == [None] * len(calls)


# --- what is shed ---

def test_codel_sheds_what_has_waited_too_long(start, stage):
    """The first turn begins an interval; at the next, a whole interval later, all have waited for too long."""
    server, client = start({"codel_target_s": 0.000001, "codel_interval_s": 0.001})
    calls = [client.begin("staged", {}, id="first")]
    stage.started(1)
    for i in range(6):
        calls.append(begin(server, client, f"call-{i}", i + 1))
    assert go_on(stage, 1) == ["call-0"]
    began = time.monotonic()
    wait.until(lambda: time.monotonic() > began + 0.01, "the clock")
    stage.scenes[1].go()
    for call in calls[2:]:
        assert call.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert call.details() == "the request has waited too long for model 'staged' (codel_target_s)"
        assert int(oip.trailers_of(call)["grpc-retry-pushback-ms"]) >= 1
    assert [m for m in server.metrics().splitlines() if m.startswith("anyserve_shed_total")]


# --- settings ---

@pytest.mark.parametrize("options, why", [
    ("priority_share: 1", "priority_share: '1' is below the minimum 2"),
    ("priority_share: 1001", "priority_share: '1001' is above the maximum 1000"),
    ("fairness: user", "fairness: "),
    ("fairness_cost: tokens", "fairness_cost: "),
    ("codel_target_s: -1", "codel_target_s: '-1' is below the minimum 0"),
    ("codel_target_s: 61", "codel_target_s: '61' is above the maximum 60"),
    ("codel_interval_s: 0", "codel_interval_s: '0' is below the minimum 0.001"),
    ("slow_start_s: 86401", "slow_start_s: '86401' is above the maximum 86400"),
    ("adaptive_concurrency: 2", "adaptive_concurrency: "),
    ("hedge_quantile: 1", "hedge_quantile: '1' is above the maximum 0.999"),
    ("hedge_quantile: -0.1", "hedge_quantile: '-0.1' is below the minimum 0"),
    ("hedge_budget: 0", "hedge_budget: '0' is below the minimum 0.001"),
    ("hedge_budget: 1.001", "hedge_budget: '1.001' is above the maximum 1"),
    ("hedge_min_delay_s: 3601", "hedge_min_delay_s: '3601' is above the maximum 3600"),
])
def test_a_wrong_value_is_named(tmp_path, options, why):
    file = tmp_path / "deploy.yaml"
    file.write_text("applications: [{import_path: m, deployments: [{name: d, %s}]}]" % options)
    said = subprocess.run([paths.BINARY, "check", str(file)], capture_output=True, encoding="utf-8")
    assert said.returncode != 0 and why in said.stderr + said.stdout, said


@pytest.mark.parametrize("name", ["X-Tenant", "host", "content-type", "x tenant", "x:"])
def test_a_wrong_header_name_is_refused(name):
    said = subprocess.run([paths.BINARY, "run", "m:app", "--tenant-header", name], capture_output=True, encoding="utf-8")
    assert said.returncode == 2 and f"--tenant-header: '{name}' is not a name like x-tenant" in said.stderr
