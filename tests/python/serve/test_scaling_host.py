"""A scaling policy of the user's own in the policy process: what it gets, what it may answer, and what goes wrong."""

import asyncio
import json
import threading

import pytest

from anyserve.errors import STATUS_NAMES
from anyserve.replica import DeploymentID, ReplicaID
from anyserve.serve._policy.scaling_host import MAX_REPLICAS, ScalingHost
from anyserve.serve.config import AutoscalingConfig, AutoscalingContext

FACTS = {"deployment": "D", "application": "app", "current_num_replicas": 2, "target_num_replicas": 3,
         "running_replicas": ["D-0", "D-1"], "total_num_requests": 7, "total_queued_requests": 3,
         "aggregated_metrics": {"running_requests": {"D-0": 4}}, "stats": {"D-0": [2.0, {"cpu": 0.75}]},
         "capacity_adjusted_min_replicas": 1, "capacity_adjusted_max_replicas": 9, "last_scale_up_time": 5.0, "current_time": 9.5,
         "config": {"min_replicas": 1, "max_replicas": 9}}  # fmt: skip

D, E = DeploymentID("D", "app"), DeploymentID("E", "app")
BOTH = [FACTS, {**FACTS, "deployment": "E", "current_num_replicas": 5}]


def ask(policy, *questions, kwargs=None):
    """The answers to questions; a question is the facts of a deployment, or a list of such."""

    async def main():
        host = ScalingHost(policy, kwargs or {})
        answers = []
        for facts in questions or (FACTS,):
            question = {"limit_s": 5, **({"contexts": facts} if isinstance(facts, list) else {"context": facts})}
            status, text = await host.answer(json.dumps(question))
            answers.append(json.loads(text)["replicas"] if status == 0 else (STATUS_NAMES[status], text))
        return answers

    return asyncio.run(main())


def test_what_a_policy_gets():
    seen = []

    def policy(ctx: AutoscalingContext):
        seen.append(ctx)
        return 4, {"a": 1}

    assert ask(policy, FACTS, FACTS) == [4, 4]
    ctx = seen[0]
    d = DeploymentID("D", "app")
    assert (ctx.deployment_id, ctx.deployment_name, ctx.app_name) == (d, "D", "app")
    assert (ctx.current_num_replicas, ctx.target_num_replicas) == (2, 3)
    assert ctx.running_replicas == [ReplicaID("D-0", d), ReplicaID("D-1", d)]
    assert (ctx.total_num_requests, ctx.total_queued_requests, ctx.total_running_requests) == (7, 3, 4)
    replica = ReplicaID("D-0", d)
    assert ctx.aggregated_metrics == {"cpu": {replica: 0.75}, "running_requests": {replica: 4}}
    series = ctx.raw_metrics["cpu"][replica]
    assert [(v.timestamp, v.value) for v in series] == [(2.0, 0.75)]
    assert (ctx.capacity_adjusted_min_replicas, ctx.capacity_adjusted_max_replicas) == (1, 9)
    assert (ctx.last_scale_up_time, ctx.last_scale_down_time, ctx.current_time) == (5.0, None, 9.5)
    assert isinstance(ctx.config, AutoscalingConfig) and ctx.config.max_replicas == 9
    assert ctx.total_pending_async_requests == 0
    assert (seen[0].policy_state, seen[1].policy_state) == ({}, {"a": 1})
    with pytest.raises(AttributeError):
        ctx.nope


@pytest.mark.parametrize("returned, number", [(3, 3), (2.1, 3), (0, 0), ((5, {}), 5), ((5, None), 5), (MAX_REPLICAS, MAX_REPLICAS)])
def test_numbers(returned, number):
    assert ask(lambda ctx: returned) == [number]


@pytest.mark.parametrize("returned, why", [
    (float("nan"), "nan is no number"), (float("inf"), "inf is no number"), (-1, "-1 is no number"),
    (10**9, "0 to 1000000"), (MAX_REPLICAS + 1, "0 to 1000000"), (None, "None is no number"), ("x", "'x' is no number"),
    ((1, 2), "no pair"), ((1, {}, 3), "no pair"), (True, None)])  # fmt: skip
def test_what_is_no_number(returned, why):
    answer = ask(lambda ctx: returned)[0]
    assert answer == 1 if why is None else (answer[0] == "FAILED_PRECONDITION" and why in answer[1])


def test_a_class_is_constructed_once():
    class Policy:
        made = 0

        def __init__(self, add):
            self.add, self.calls = add, 0
            Policy.made += 1

        def __call__(self, ctx):
            self.calls += 1
            return ctx.current_num_replicas + self.add + self.calls

    assert ask(Policy, FACTS, FACTS, kwargs={"add": 10}) == [13, 14] and Policy.made == 1


def test_a_function_gets_its_arguments():
    assert ask(lambda ctx, add: ctx.current_num_replicas + add, kwargs={"add": 5}) == [7]


def test_an_async_policy():
    async def policy(ctx):
        await asyncio.sleep(0)
        return 6

    assert ask(policy) == [6]


def test_an_application():
    def policy(contexts):
        assert all(i == c.deployment_id for i, c in contexts.items())
        return {i: c.current_num_replicas * 2 for i, c in contexts.items()}

    assert ask(policy, BOTH) == [{"D": 4, "E": 10}]
    assert ask(lambda contexts: ({D: 1.5}, None), BOTH) == [{"D": 2}]  # E keeps its number
    assert ask(lambda contexts: {}, BOTH) == [{}]


def test_states_of_an_application():
    seen = []

    def policy(contexts):
        seen.append({i.name: c.policy_state for i, c in contexts.items()})
        return {}, {D: {"n": len(seen)}, **({E: {"e": 1}, D: None} if len(seen) == 2 else {})}

    ask(policy, BOTH, BOTH, BOTH, BOTH[1:])
    assert seen == [{"D": {}, "E": {}}, {"D": {"n": 1}, "E": {}}, {"D": {}, "E": {"e": 1}}, {"E": {}}]


@pytest.mark.parametrize("returned, why", [
    (3, "3, which is no dict of numbers by DeploymentID"), (None, "None, which is no dict"),
    ({"D": 3}, "a number for 'D', which is no deployment that it was asked for"),
    ({DeploymentID("D", "other"): 3}, "which is no deployment that it was asked for"),
    ({DeploymentID("D", "app"): 1, DeploymentID("E", "app"): float("nan")}, "for E: nan is no number of replicas"),
    ({DeploymentID("E", "app"): -1}, "for E: -1 is no number"), ({DeploymentID("E", "app"): 10**9}, "for E: 1000000000 is no number"),
    ({DeploymentID("E", "app"): "x"}, "for E: 'x' is no number"), (({}, {"D": {}}), "a state for 'D', which is no deployment"),
    (({}, {DeploymentID("E", "app"): 3}), "3 as the state of E, which is no dict"), (({}, 3), "no pair")])  # fmt: skip
def test_what_is_no_answer_for_an_application(returned, why):
    status, text = ask(lambda contexts: returned, BOTH)[0]
    assert status == "FAILED_PRECONDITION" and why in text


def test_exceptions_and_bad_questions(capfd):
    def policy(ctx):
        raise ValueError("no")

    assert ask(policy) == [("FAILED_PRECONDITION", "the policy has raised ValueError: no")]
    assert "event=policy_raised" in capfd.readouterr().err
    bad = ask(policy, {"deployment": "D"})[0]
    assert bad[0] == "INVALID_ARGUMENT" and "malformed" in bad[1]
    with pytest.raises(TypeError, match="no function and no class"):
        ScalingHost(3, {})


@pytest.mark.parametrize("error", [TimeoutError("of a store"), asyncio.TimeoutError("of a store"), BlockingIOError("of a pipe"),
                                   asyncio.CancelledError("of a call"), SystemExit(3), KeyboardInterrupt(),
                                   StopIteration("of next()")], ids=repr)  # fmt: skip
@pytest.mark.parametrize("is_async", [False, True])
def test_what_a_policy_raises_is_not_taken_for_its_limit(error, is_async):
    def policy(ctx):
        raise error

    async def async_policy(ctx):
        raise error

    if is_async and isinstance(error, StopIteration):
        error = RuntimeError("coroutine raised StopIteration")  # what Python makes of it
    said = ("FAILED_PRECONDITION", "the policy has raised %s: %s" % (type(error).__name__, error))
    assert ask(async_policy if is_async else policy, FACTS, FACTS) == [said, said]


def test_a_policy_that_blocks():
    go = threading.Event()

    def policy(ctx):
        go.wait(30)
        return 2

    async def main():
        host = ScalingHost(policy, {})
        text = json.dumps({"limit_s": 0.01, "context": FACTS})
        first = await host.answer(text)
        second = await host.answer(text)
        go.set()
        await host._running
        third = await host.answer(json.dumps({"limit_s": 30, "context": FACTS}))
        return first, second, third

    first, second, third = asyncio.run(main())
    assert STATUS_NAMES[first[0]] == "DEADLINE_EXCEEDED" and "0.01 s" in first[1]
    assert STATUS_NAMES[second[0]] == "RESOURCE_EXHAUSTED" and "still runs" in second[1]
    assert third == (0, '{"replicas": 2}')


def at(now, stats=None, running=("D-0", "D-1"), **config):
    return {**FACTS, "current_time": now, "running_replicas": list(running), "stats": stats or {},
            "config": {"look_back_period_s": 10.0, "metrics_interval_s": 1.0, "max_replicas": 9, **config}}  # fmt: skip


def histories(*questions):
    """raw_metrics and aggregated_metrics of each question, by names of replicas."""
    seen = []

    def policy(ctx):
        raw = {name: {r.unique_id: [(v.timestamp, v.value) for v in series] for r, series in of.items()}
               for name, of in ctx.raw_metrics.items()}  # fmt: skip
        seen.append((raw, {name: {r.unique_id: v for r, v in of.items()} for name, of in ctx.aggregated_metrics.items()
                           if name != "running_requests"}))  # fmt: skip
        return 1

    assert ask(policy, *questions) == [1] * len(questions)
    return seen


def test_statistics_of_several_questions_are_a_series():
    first = {"D-0": [100.0, {"cpu": 1, "depth": 7}], "D-1": [101.0, {"cpu": 5}]}
    seen = histories(at(101.0, first), at(103.0), at(104.0, {"D-0": [103.0, {"cpu": 4, "depth": 7}], "D-1": [101.0, {"cpu": 5}]}))
    assert seen[1][0] == {"cpu": {"D-0": [(100.0, 1.0)], "D-1": [(101.0, 5.0)]}, "depth": {"D-0": [(100.0, 7.0)]}}
    raw, aggregated = seen[2]
    assert raw["cpu"] == {"D-0": [(100.0, 1.0), (103.0, 4.0)], "D-1": [(101.0, 5.0)]}  # what is said again is one value
    assert aggregated == {"cpu": {"D-0": (3 * 1 + 1 * 4) / 4, "D-1": 5.0}, "depth": {"D-0": 7.0}}


@pytest.mark.parametrize("how, number", [("mean", (2 * 1.0 + 2 * 4.0 + 4 * 2.0) / 8), ("max", 4.0), ("min", 1.0)])
def test_statistics_are_aggregated(how, number):
    seen = histories(*[at(t, {"D-0": [t, {"cpu": v}]}, aggregation_function=how) for t, v in ((100.0, 1), (102.0, 4), (104.0, 2))],
                     at(108.0, aggregation_function=how))  # fmt: skip
    assert seen[-1][1] == {"cpu": {"D-0": pytest.approx(number)}}


def test_old_statistics_and_those_of_replicas_that_are_gone_are_dropped():
    old = {"D-0": [100.0, {"cpu": 1}], "D-1": [100.0, {"cpu": 2}]}
    seen = histories(at(100.0, old), at(109.0, {"D-0": [109.0, {"cpu": 3}]}), at(112.0), at(113.0, running=("D-0",)),
                     at(114.0, {"D-0": [114.0, {"other": 1}]}))  # fmt: skip
    assert seen[1][0] == {"cpu": {"D-0": [(100.0, 1.0), (109.0, 3.0)], "D-1": [(100.0, 2.0)]}}
    assert seen[2][0] == {"cpu": {"D-0": [(109.0, 3.0)], "D-1": [(100.0, 2.0)]}}  # the last value stays
    assert seen[3][0] == {"cpu": {"D-0": [(109.0, 3.0)]}}
    assert seen[4][0] == {"other": {"D-0": [(114.0, 1.0)]}}  # cpu is not recorded any more


def test_what_is_kept_of_a_deployment_that_has_left_the_application_is_dropped():
    seen = []

    def policy(contexts):
        seen.append({i.name: (c.policy_state, {r.unique_id for of in c.raw_metrics.values() for r in of}) for i, c in contexts.items()})
        return {}, {i: {"n": len(seen)} for i in contexts}

    def question(*names, stats=None):
        return [{**FACTS, "deployment": n, "current_time": 100.0, "stats": stats or {}} for n in names]

    both = question("D", "E", stats={"D-0": [99.0, {"cpu": 1}]})

    async def main():
        host = ScalingHost(policy, {})
        kept = []
        for contexts in (both, question("D"), [], question("D", "E")):
            assert (await host.answer(json.dumps({"limit_s": 5, "contexts": contexts})))[0] == 0
            kept.append((sorted(i.name for i in host._stats), sorted(i.name for i in host._states)))
        return kept

    assert asyncio.run(main()) == [(["D", "E"],) * 2, (["D"],) * 2, ([],) * 2, (["D", "E"],) * 2]
    assert seen == [{"D": ({}, {"D-0"}), "E": ({}, {"D-0"})}, {"D": ({"n": 1}, {"D-0"})}, {}, {"D": ({}, set()), "E": ({}, set())}]


def test_a_clock_that_was_set_back_begins_a_new_series():
    seen = histories(at(100.0, {"D-0": [100.0, {"cpu": 1}]}), at(50.0, {"D-0": [50.0, {"cpu": 2}]}))
    assert seen[1] == ({"cpu": {"D-0": [(50.0, 2.0)]}}, {"cpu": {"D-0": 2.0}})


@pytest.mark.parametrize("stats", [{"D-0": 3}, {"D-0": [1.0]}, {"D-0": [1.0, 2]}, {"D-0": [1.0, {"cpu": "x"}]}, [1]])
def test_malformed_statistics(stats):
    assert ask(lambda ctx: 1, {**FACTS, "stats": stats})[0][0] == "INVALID_ARGUMENT"
