"""Async handlers, threads, and how they share a worker."""

import numpy as np
import pytest
from fake import Refused

APP = """
import asyncio
import contextvars
import threading
import numpy as np
from anyserve import AnyServe, Error, Response

app = AnyServe()
var = contextvars.ContextVar("var", default="unset")
events = {}
loops = []
log = []


def event(name):
    return events.setdefault(name, asyncio.Event())


async def wait_for(request):
    name = bytes(request.inputs["name"][0])
    loops.append(asyncio.get_running_loop())
    try:
        await event(name).wait()
    except asyncio.CancelledError:
        log.append(b"cancelled " + name)
        raise
    return {"name": [name]}


app.model("wait")(wait_for)
app.model("wait_eager", eager=True)(wait_for)
app.model("wait_two", max_ongoing_requests=2)(wait_for)


@app.model("set")
async def set_event(name):
    event(bytes(name[0])).set()
    return ()


@app.model("set_inline")
def set_event_inline(name):
    loops[0].call_soon_threadsafe(event(bytes(name[0])).set)  # it may run in another thread
    return ()


async def about(request):
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    before = var.get()
    var.set("mine")
    await asyncio.sleep(0)
    return Response((), {"task": task is not None, "repr": repr(task), "var": before, "after": var.get(),
                         "later": asyncio.current_task() is not None})


app.model("about")(about)
app.model("about_eager", eager=True)(about)


async def steps(n):
    for i in range(int(n[0])):
        await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await asyncio.gather(*(asyncio.sleep(0) for _ in range(3)))
    return n


app.model("steps")(steps)


@app.model("steps_eager", eager=True)
async def steps_eager(n):
    for i in range(int(n[0])):
        await asyncio.sleep(0)
    return n


@app.model("suppress")
async def suppress(request):
    try:
        await event(b"never").wait()
    except asyncio.CancelledError:
        pass
    return {"x": [b"stayed"]}


@app.model("log")
async def get_log():
    return {"log": list(log)}


@app.model("thread", threads=3)
def in_thread(request):
    here = threading.current_thread()
    return Response(np.arange(3), {"main": here is threading.main_thread(), "name": here.name})


barrier = threading.Barrier(3)


@app.model("together", threads=3)
def together(x):
    barrier.wait(30)
    return x


class Loaded:
    def __init__(self):
        self.x = 5

    async def __call__(self, a):
        await asyncio.sleep(0)
        return a + self.x


app.model("class", max_ongoing_requests=4)(Loaded)


@app.model("block")
async def block(n):
    import time
    end = time.monotonic() + float(n[0])
    while time.monotonic() < end:
        pass
    return n


@app.model("echo")
async def echo(x):
    return x


@app.model("echo_eager", eager=True)
async def echo_eager(x):
    return x


@app.model("not_async_result")
def not_async_result(x):
    return x
"""


@pytest.fixture(scope="module")
def worker(start_module):
    return start_module(APP)


def name(text):
    return {"name": [text.encode()]}


@pytest.mark.parametrize("model", ["wait", "wait_eager"])
@pytest.mark.parametrize("setter", ["set", "set_inline"])
def test_requests_overlap(worker, model, setter):
    names = [f"{model} {setter} {i}" for i in range(5)]
    waiting = [worker.ask(model, name(n)) for n in names]
    for stream, n in reversed(list(zip(waiting, names))):
        worker.infer(setter, name(n))
        assert worker.answer(stream)["name"] == [n.encode()]


def test_a_capped_model_waits_and_others_do_not(worker):
    waiting = [worker.ask("wait_two", name(f"two {i}")) for i in range(3)]
    for i in (2, 1, 0):  # the third was not started, so its event is set before it waits
        worker.infer("set", name(f"two {i}"))
    for stream in waiting:
        worker.answer(stream)


def test_a_handler_has_a_task_and_its_own_context(worker):
    for _ in range(2):
        p = worker.infer("about").parameters
        assert p["task"] and p["later"] and p["var"] == "unset" and p["after"] == "mine"
        assert "about" in p["repr"]


def test_an_eager_handler_has_a_task_once_it_suspended(worker):
    p = worker.infer("about_eager").parameters
    assert not p["task"] and p["later"]


@pytest.mark.parametrize("model", ["steps", "steps_eager"])
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_handlers_suspend_any_number_of_times(worker, model, n):
    assert worker.infer(model, {"n": np.array([n])})["output0"] == n


@pytest.mark.parametrize("model", ["echo", "echo_eager", "steps", "not_async_result"])
def test_many_requests_under_way(worker, model):
    key = "n" if model == "steps" else "x"
    streams = [worker.ask(model, {key: np.array([i % 7, i])}) for i in range(300)]
    for i, stream in enumerate(streams):
        assert worker.answer(stream)["output0"][1] == i


@pytest.mark.parametrize("model", ["wait", "wait_eager"])
def test_a_cancelled_request_cancels_its_task(worker, model):
    n = f"cancel {model}"
    stream = worker.ask(model, name(n))
    worker.infer("echo", {"x": np.zeros(1)})  # it runs now
    worker.cancel(stream)
    with pytest.raises(Refused) as e:
        worker.answer(stream)
    assert (e.value.code, e.value.flags) == ("CANCELLED", 2)
    assert f"cancelled {n}".encode() in worker.infer("log")["log"]


def test_a_handler_may_ignore_its_cancel(worker):
    stream = worker.ask("suppress")
    worker.infer("echo", {"x": np.zeros(1)})
    worker.cancel(stream, 4)
    with pytest.raises(Refused, match="DEADLINE_EXCEEDED"):
        worker.answer(stream)


def test_threads_run_beside_the_loop(worker):
    p = worker.infer("thread").parameters
    assert not p["main"] and p["name"].startswith("thread-")


def test_threads_run_side_by_side(worker):
    streams = [worker.ask("together", {"x": np.array([i])}) for i in range(6)]
    for i, stream in enumerate(streams):
        assert worker.answer(stream)["output0"] == i


def test_threads_without_a_loop(start):
    worker = start("""
        from anyserve import AnyServe
        import threading
        app = AnyServe()
        barrier = threading.Barrier(3)
        @app.model("together", threads=3)
        def together(x):
            barrier.wait(30)
            return x
        @app.model("inline")
        def inline(x):
            return {"main": [str(threading.current_thread() is threading.main_thread())]}
        """)
    assert worker.slots == 3
    streams = [worker.ask("together", {"x": np.array([i])}) for i in range(9)]
    for i, stream in enumerate(streams):
        assert worker.answer(stream)["output0"] == i
    assert worker.infer("inline", {"x": np.zeros(1)})["main"] == [b"True"]
    assert worker.drain() == 0


def test_a_class_with_an_async_call(worker):
    assert worker.infer("class", {"a": np.array([1])})["output0"] == 6


def test_a_blocked_loop_still_answers_pings(worker):
    from fake import PING, PONG, frame

    stream = worker.ask("block", {"n": np.array([0.5])})
    worker.send(frame(PING, b"12345678"))
    kind, _, _, payload = worker.receive()
    assert (kind, payload) == (PONG, b"12345678")  # before the handler's answer
    worker.answer(stream)


def test_draining_waits_for_what_runs(start):
    worker = start(APP)
    stream = worker.ask("wait", name("last"))
    from fake import DRAIN, GOODBYE, frame

    setter = worker.ask("set", name("other"))
    worker.answer(setter)
    worker.send(frame(DRAIN))
    worker.ask("set", name("last"))
    assert worker.answer(stream)["name"] == [b"last"]
    while worker.receive()[0] != GOODBYE:
        pass
    assert worker.wait() == 0
