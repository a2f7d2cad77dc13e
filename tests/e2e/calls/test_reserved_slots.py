"""`handle.choose_replica` reserves a slot, and `handle.dispatch` uses it."""


def test_a_slot_is_used_given_back_and_lost(run_program):
    assert run_program("reserve") == [
        "slots: (1, 0) Leaf True", "True", "again: True", "another deployment: ValueError", "[0, 1, 2]", "True 300000", "True",
        "both: True (2, 0)", "full: a reservation waits in the queue", "True 3", "left: True", "killed: True", "1000 times: (0, 0)"]  # fmt: skip


def test_a_slot_that_is_not_used_in_time_is_given_to_others(run_program):
    assert run_program("reserve_limit", "1s") == [
        "of a replica: (7, 'Leaf-0')", "others get it: 8", "late: the slot that was reserved was not used in time"]  # fmt: skip


def test_a_slot_whose_caller_is_gone_is_given_back(run_program):
    assert run_program("reserve_limit", "1h") == [
        "of a replica: (7, 'Leaf-0')", "its request was cancelled: 9", "has it 1", "its caller was killed: 10"]  # fmt: skip
