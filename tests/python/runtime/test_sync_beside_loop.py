"""Sync handlers in a worker with an event loop: in a thread beside it, or on its thread if they are short."""

import numpy as np
import pytest
from fake import DRAIN, GOODBYE, encode_credit, frame

# What the module does before it imports anything of ours: the event loop of the SDK, or somebody else's.
POLICIES = {
    "own loop": "",
    "loop of a policy": """
import asyncio

class Policy(asyncio.DefaultEventLoopPolicy):
    pass

asyncio.set_event_loop_policy(Policy())
""",
}

APP = """
import asyncio
import contextvars
import threading
import time
import numpy as np
from anyserve import AnyServe, Error, Response

app = AnyServe()
gate = threading.Event()
inside = []
most = []
held = [0.0]
var = contextvars.ContextVar("var", default="unset")


@app.model("open")
async def open_gate(x):
    gate.set()
    return x


@app.model("where_async")
async def where_async():
    here = threading.current_thread()
    return Response((), {"main": here is threading.main_thread(), "task": asyncio.current_task() is not None,
                         "running": asyncio.get_running_loop().is_running(), "var": var.get()})


@app.model("waits")
def waits(x):
    assert gate.wait(30)
    return x


@app.model("where")
def where():
    var.set("of a sync handler")
    here = threading.current_thread()
    took, held[0] = held[0], 0.0
    if took:
        asyncio.run(asyncio.sleep(took))  # fails where an event loop runs
    return Response((), {"main": here is threading.main_thread()})


@app.model("hold_once")
async def hold_once(seconds):
    held[0] = float(seconds[0])
    return ()


@app.model("most")
async def get_most():
    return {"most": np.array([max(most)])}


def alone(x):
    inside.append(1)
    most.append(len(inside))
    time.sleep(0 if x[0] else 0.002)
    inside.pop()
    return x


app.model("alone_a", max_ongoing_requests=4)(alone)
app.model("alone_b", max_ongoing_requests=4)(alone)


@app.model("numbers")
def numbers(n):
    for i in range(int(n[0])):
        yield np.array([i])


@app.model("raises")
def raises():
    raise Error("NOT_FOUND", "not here")
"""

X = {"x": np.array([1])}
SHORT = 200  # calls after which a short handler has shown itself, with room for some that a busy machine made long


@pytest.fixture(params=POLICIES)
def worker(start, request):
    return start(POLICIES[request.param] + APP)


def is_on_main(worker):
    return worker.answer(worker.ask("where")).parameters["main"]


def hold_once(worker, seconds):
    worker.answer(worker.ask("hold_once", {"seconds": np.array([seconds])}))


def call_until_on_main(worker, most=5 * SHORT):
    for _ in range(most):
        if is_on_main(worker):
            return
    pytest.fail(f"{most} short calls, and none on the loop's thread")


def test_a_handler_that_blocks_holds_no_async_one_up(worker):
    blocked = worker.ask("waits", X)
    assert worker.answer(worker.ask("open", X))["output0"] == 1
    assert worker.answer(blocked)["output0"] == 1


def test_a_handler_that_yields_may_wait_for_its_client(worker):
    stream = worker.ask("numbers", {"n": np.array([3])}, credit=(1, 1 << 20))
    parts = worker.parts(stream)
    got = [next(parts)]
    assert worker.answer(worker.ask("open", X))["output0"] == 1
    worker.send(encode_credit(stream, 9, 0))
    assert [int(part["output0"][0]) for part in got + list(parts)] == [0, 1, 2]


def test_short_ones_run_on_the_thread_of_the_loop_which_is_not_running_then(worker):
    assert not is_on_main(worker)  # how long it takes is not known yet
    call_until_on_main(worker)
    about = worker.answer(worker.ask("where_async")).parameters
    assert about == {"main": True, "task": True, "running": True, "var": "unset"}


def test_one_that_held_the_loop_up_never_runs_on_its_thread_again(worker):
    call_until_on_main(worker)
    hold_once(worker, 0.05)
    assert is_on_main(worker)  # this one sleeps
    assert not any(is_on_main(worker) for _ in range(SHORT))


def test_one_that_was_longer_has_to_show_again_that_it_is_short(worker):
    call_until_on_main(worker)
    hold_once(worker, 0.001)
    assert is_on_main(worker)
    assert not is_on_main(worker)
    call_until_on_main(worker)


def test_one_that_is_longer_once_in_a_while_keeps_its_place(worker):
    """Once in a thousand calls: it does not take longer and longer to come back."""
    for _ in range(10):
        for _ in range(1100):
            is_on_main(worker)
        hold_once(worker, 0.001)
        is_on_main(worker)
        call_until_on_main(worker, 5000)


def test_they_run_one_at_a_time_wherever_that_is(worker):
    streams = []
    for i in range(100):
        for model in ("alone_a", "alone_b"):
            streams.append(worker.ask(model, {"x": np.array([i % 20])}))
    for stream in streams:
        worker.answer(stream)
    assert worker.answer(worker.ask("most"))["most"] == 1


def test_errors_come_from_either_place(worker):
    for _ in range(50):
        with pytest.raises(Exception, match="NOT_FOUND: not here"):
            worker.answer(worker.ask("raises"))


def test_draining_waits_for_one_beside(worker):
    blocked = worker.ask("waits", X)
    worker.answer(worker.ask("where_async"))
    worker.send(frame(DRAIN))
    worker.ask("open", X)
    assert worker.answer(blocked)["output0"] == 1
    while worker.receive()[0] != GOODBYE:
        pass
    assert worker.wait() == 0
