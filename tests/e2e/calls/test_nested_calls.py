"""Deployments that call each other: cycles, depth, back-pressure, cancellation, drain and update."""


def test_a_cycle_with_one_slot_each_answers_all(run_program):
    assert run_program("ring") == ["True", "at once, from outside: 1 1", "refused: 0"]


def test_a_deployment_may_call_itself_16_deep(run_program):
    assert run_program("recursion") == ["364 364", "17", "refused: True"]


def test_backpressure_is_exact_under_any_concurrency(run_program):
    text = "Request dropped due to backpressure (num_queued_requests=2, max_queued_requests=2)."
    assert run_program("backpressure") == [f"2 2 4 {[text]!r}"] * 5


def test_a_limit_for_each_caller(run_program):
    text = "Request dropped due to backpressure (num_queued_requests=1, max_queued_requests=1)."
    assert run_program("per_caller") == [text] * 3 + [str(["done"] * 4)]


def test_handles_have_priorities_and_tenants(run_program):
    """A call of an urgent request is urgent, too."""
    order = ["first", "urgent", "urgent too", "web", "normal", "noisy 1", "quiet", "noisy 2", "low"]
    assert run_program("urgent") == ["400", str(order)]


def test_a_storm_of_cancels_leaves_nothing(run_program):
    assert run_program("cancel_storm") == ["True True True", "0 True", "0 True"]


def test_a_drain_answers_what_was_accepted(run_program):
    assert run_program("drain") == [str([6] * 4)]


def test_an_update_in_the_middle_of_calls_loses_none(run_program):
    assert run_program("update") == ["[] True set()"]


def test_deaths_and_cancels_in_a_circle_leave_nothing(run_program):
    assert run_program("kill_storm") == ["True 0 True True", "True"]


def test_an_upgrade_in_the_middle_of_calls_loses_none(run_program):
    assert run_program("upgrade") == ["[] True"]
