"""Handlers with several results or several requests: how they end by themselves, and how they are ended."""

import os
import struct

import numpy as np
import pytest
from fake import CREDIT, Refused, encode_credit, encode_input

APP = """
import asyncio
import os
from typing import AsyncIterator

import numpy as np
from anyserve import AnyServe, Request, Tensor

log = []


class Starting(asyncio.DefaultEventLoopPolicy):
    '''Tasks that are cancelled before their first step, while `doomed` says so.'''

    doomed = False

    def new_event_loop(self):
        loop = super().new_event_loop()
        loop.set_task_factory(self.task)
        return loop

    def task(self, loop, coro, **kwargs):
        task = asyncio.Task(coro, loop=loop, **kwargs)
        if Starting.doomed and "Call" in repr(coro):
            Starting.doomed = False
            task.cancel()
        return task


asyncio.set_event_loop_policy(Starting())
app = AnyServe()


def begun(path):
    open(bytes(path[0]), "w").close()


def numbers(n):
    for i in range(int(n[0])):
        yield np.array([i])


async def async_numbers(n):
    for i in range(int(n[0])):
        yield np.array([i])


def third_is_wrong():
    try:
        for dtype in (np.int32, np.int32, np.int64, np.int32):
            yield {"x": np.zeros(1, dtype)}
    finally:
        log.append(b"closed")


async def async_third_is_wrong():
    for x in third_is_wrong():
        yield x


def raises_in_close(path):
    begun(path)
    try:
        while True:
            yield np.zeros(1)
    finally:
        log.append(b"closing")
        raise ValueError("while it was closed")


async def async_raises_in_close(path):
    begun(path)
    try:
        while True:
            yield np.zeros(1)
    finally:
        log.append(b"closing")
        raise ValueError("while it was closed")


def goes_on(path):
    begun(path)
    while True:
        try:
            yield np.zeros(1)
        except GeneratorExit:
            log.append(b"deaf")


async def async_goes_on(path):
    begun(path)
    while True:
        try:
            yield np.zeros(1)
        except (GeneratorExit, asyncio.CancelledError):
            log.append(b"deaf")


async def catches_the_cancel(path):
    try:
        begun(path)
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        log.append(b"caught")
    yield np.array([1])
    log.append(b"asked again")


def raising(n):
    yield from numbers(n)
    raise KeyError("at the end")


async def async_raising(n):
    async for x in async_numbers(n):
        yield x
    raise KeyError("at the end")


async def inner():
    try:
        for i in range(100):
            yield i
    finally:
        await asyncio.sleep(0)
        log.append(b"collected")


async def leaves_a_generator():
    async for i in inner():
        if i == 3:
            break
        yield np.array([i])


X = {"outputs": {"x": Tensor("INT32", [1])}}
FORMS = {"numbers": (numbers, async_numbers, {}), "third_is_wrong": (third_is_wrong, async_third_is_wrong, X),
         "raises_in_close": (raises_in_close, async_raises_in_close, {}), "goes_on": (goes_on, async_goes_on, {}),
         "raising": (raising, async_raising, {})}
for name, (plain, with_loop, options) in FORMS.items():
    app.model(name + "_sync", **options)(plain)
    if os.environ.get("WITH_LOOP"):
        app.model(name + "_threads", threads=1, **options)(plain)
        app.model(name + "_async", **options)(with_loop)


@app.model("say")
def say(word):
    print(word[0].decode(), flush=True)
    return ()


@app.model("log")
def get_log():
    words = list(log)
    log.clear()
    return {"log": words}


if os.environ.get("WITH_LOOP"):
    app.model("catches_the_cancel")(catches_the_cancel)
    app.model("leaves_a_generator")(leaves_a_generator)

    @app.model("sum")
    async def sum_of(requests: AsyncIterator[Request]):
        return np.array([sum([int(r.inputs["n"][0]) async for r in requests])])

    @app.model("running_sum")
    async def running_sum(requests: AsyncIterator[Request]):
        total = 0
        async for r in requests:
            total += int(r.inputs["n"][0])
            yield np.array([total])

    go = []

    @app.model("held")
    async def held(requests: AsyncIterator[Request]):
        go.append(asyncio.Event())
        await go[0].wait()
        yield np.array([len([r async for r in requests])])

    @app.model("let_go")
    async def let_go():
        go[0].set()
        return ()

    @app.model("doom")
    async def doom():
        Starting.doomed = True
        return ()
"""
CASES = [("plain", "sync"), ("loop", "sync"), ("loop", "threads"), ("loop", "async")]
IDS = ["-".join(c) for c in CASES]


@pytest.fixture(scope="module")
def workers(start_module):
    """Workers without and with an event loop."""
    return {"plain": start_module(APP), "loop": start_module(APP, env={"WITH_LOOP": "1"})}


@pytest.fixture
def loop(workers):
    return workers["loop"]


def n_of(n):
    return {"n": np.array([n])}


def values(answers, name="output0"):
    return [int(a[name][0]) for a in answers]


def begin(worker, model, tmp_path, **kwargs):
    """A stream whose handler runs."""
    path = tmp_path / f"begun-{worker.next}"
    stream = worker.ask(model, {"path": [str(path).encode()]}, **kwargs)
    while not path.exists():
        assert worker.process.poll() is None
        os.sched_yield()
    return stream


def log_of(worker):
    return worker.infer("log")["log"]


# --- by themselves ---

@pytest.mark.parametrize("n", [0, 1, 3, 1000])
@pytest.mark.parametrize("kind, form", CASES, ids=IDS)
def test_any_number_of_results(workers, kind, form, n):
    worker = workers[kind]
    assert values(worker.parts(worker.ask(f"numbers_{form}", n_of(n)))) == list(range(n))


@pytest.mark.parametrize("kind, form", CASES, ids=IDS)
def test_results_wait_for_credit(workers, kind, form):
    worker = workers[kind]
    stream = worker.ask(f"numbers_{form}", n_of(5), credit=(2, 1 << 20))
    parts = worker.parts(stream)
    assert values([next(parts), next(parts)]) == [0, 1]
    worker.send(encode_credit(stream, 1, 0))
    assert values([next(parts)]) == [2]
    worker.send(encode_credit(stream, 9, 0))
    assert values(parts) == [3, 4]


@pytest.mark.parametrize("kind, form", CASES, ids=IDS)
def test_a_result_that_was_not_declared_so_ends_the_stream(workers, kind, form):
    """Those before it stay given, and the generator is closed."""
    worker = workers[kind]
    log_of(worker)
    got = []
    with pytest.raises(Refused, match="INT64.*INT32|INT32.*INT64") as e:
        got += worker.parts(worker.ask(f"third_is_wrong_{form}"))
        pytest.fail("it ended well")
    assert (e.value.code, e.value.flags) == ("INTERNAL", 2)
    assert log_of(worker) == [b"closed"]


@pytest.mark.parametrize("n", [0, 3])
@pytest.mark.parametrize("kind, form", CASES, ids=IDS)
def test_an_exception_ends_the_stream(workers, kind, form, n):
    worker = workers[kind]
    got = []
    with pytest.raises(Refused, match="KeyError"):
        for part in worker.parts(worker.ask(f"raising_{form}", n_of(n))):
            got.append(part)
    assert values(got) == list(range(n))


def test_a_generator_that_a_handler_leaves_is_collected(loop):
    """It ends on the worker's event loop, with what its `finally` awaits."""
    log_of(loop)
    assert values(loop.parts(loop.ask("leaves_a_generator"))) == [0, 1, 2]
    while (words := log_of(loop)) != [b"collected"]:
        assert not words


def test_requests_of_a_stream(loop):
    stream = loop.ask("running_sum", n_of(1))
    assert loop.expect(CREDIT)[2] == stream
    for n in (2, 3):
        loop.send(encode_input(stream, n_of(n)))
    loop.end_inputs(stream)
    assert values(loop.parts(stream)) == [1, 3, 6]
    stream = loop.ask("sum", n_of(1))
    assert loop.expect(CREDIT)[2] == stream
    loop.send(encode_input(stream, n_of(41)))
    loop.end_inputs(stream)
    assert values(loop.parts(stream)) == [42]


def window_of(worker, stream):
    kind, _, of, payload = worker.expect(CREDIT)
    assert of == stream
    return struct.unpack("<IIIIQ", payload)[2::2]


@pytest.mark.parametrize("options, window, n", [((), (16, 1 << 20), 16), (("--stream-inputs", 3), (3, 1 << 20), 3),
                                                (("--stream-input-bytes", 1), (16, 1), 1)], ids=str)
@pytest.mark.parametrize("more", [0, 1])
def test_requests_that_wait_for_their_handler(start, options, window, n, more):
    """As many as it grants; with one more in a closed window the dispatcher breaks the rules."""
    worker = start(APP, "app.py", *options, env={"WITH_LOOP": "1"})
    stream = worker.ask("held", n_of(0))
    assert window_of(worker, stream) == window
    for i in range(n + more):
        worker.send(encode_input(stream, n_of(i)))
    if more:
        worker.wait_output("a message that its stream does not take")
        return
    worker.infer("let_go")
    worker.end_inputs(stream)
    assert values(worker.parts(stream)) == [n + 1]


@pytest.mark.parametrize("option, value", [("--stream-inputs", 0), ("--stream-inputs", 65537),
                                           ("--stream-input-bytes", 0), ("--stream-input-bytes", (1 << 30) + 1)])
def test_windows_that_no_worker_takes(start, option, value):
    worker = start(APP, "app.py", option, value, greet=False)
    assert worker.wait() == 64
    assert option in worker.output


# --- by force ---

def is_cancelled(worker, stream, codes=("CANCELLED",)):
    """Its end; parts that were on their way come before."""
    with pytest.raises(Refused) as e:
        for _ in worker.parts(stream):
            pass
    assert e.value.code in codes, e.value
    assert e.value.flags == 2


@pytest.mark.parametrize("credit", [(3, 1 << 20), None], ids=["waits for room", "gives all the time"])
@pytest.mark.parametrize("handler, written, printed", [
    ("raises_in_close", b"closing", "while it was closed"), ("goes_on", b"deaf", "generator ignored GeneratorExit")])
@pytest.mark.parametrize("kind, form", CASES, ids=IDS)
def test_a_generator_that_resists_when_it_is_closed(workers, tmp_path, kind, form, handler, written, printed, credit):
    """It raises, or goes on: it is dropped. Nobody but the log hears of it, and the worker goes on."""
    worker = workers[kind]
    log_of(worker)
    stream = begin(worker, f"{handler}_{form}", tmp_path, credit=credit)
    worker.cancel(stream)
    is_cancelled(worker, stream, ("CANCELLED", "INTERNAL"))
    heard = log_of(worker)
    assert set(heard) == {written}
    assert len(heard) == 1 or handler == "goes_on"  # Python tells it once more when it is dropped
    worker.wait_output(printed)
    assert values(worker.parts(worker.ask(f"numbers_{form}", n_of(2)))) == [0, 1]


def test_what_is_given_after_the_cancel_is_not_sent(loop, tmp_path):
    log_of(loop)
    stream = begin(loop, "catches_the_cancel", tmp_path)
    loop.cancel(stream)
    with pytest.raises(Refused) as e:
        for part in loop.parts(stream):
            pytest.fail(f"it was sent: {part.outputs}")
    assert e.value.code == "CANCELLED"
    assert log_of(loop) == [b"caught"]


@pytest.mark.parametrize("model", ["sum", "running_sum", "numbers_async"])
def test_cancelled_before_its_first_step(loop, model):
    """No coroutine stays behind that nobody awaits."""
    loop.infer("doom")
    stream = loop.ask(model, n_of(1))
    with pytest.raises(Refused, match="CANCELLED"):
        for part in loop.parts(stream):
            pytest.fail(f"it ran: {part.outputs}")
    stream = loop.ask(model, n_of(1))
    if model != "numbers_async":
        loop.end_inputs(stream)
    assert values(loop.parts(stream)) == [0 if model == "numbers_async" else 1]
    word = f"after {model}"
    loop.infer("say", {"word": [word.encode()]})
    loop.wait_output(word)  # and what came before it
    assert "never awaited" not in loop.output


@pytest.mark.parametrize("model", ["sum", "running_sum"])
def test_cancelled_while_it_waits_for_requests(loop, model):
    stream = loop.ask(model, n_of(1))
    assert loop.expect(CREDIT)[2] == stream  # it has started
    if model == "running_sum":
        assert values([next(loop.parts(stream))]) == [1]
    loop.cancel(stream)
    is_cancelled(loop, stream)
