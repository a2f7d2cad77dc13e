"""A worker of a serve deployment: its calls, and the calls that it makes, against a dispatcher in Python."""

import pickle
import signal

import numpy as np
import pytest
from fake import DRAIN, GOODBYE
from fake_calls import BYTES, EXCEPTION, Body, CallWorker, Raised, Refused, pack

PRELUDE = """
import asyncio
import concurrent.futures
import contextvars
import gc
import os
import sys
import threading
import time
import numpy as np
from anyserve.serve._calls.transport import Argument, CallMeta, current_request, current_transport


def remote(name, *args, method="__call__", stream=False, deadline=None, model_id="", **kwargs):
    meta = CallMeta("default", name, method, stream, "", model_id, "", deadline)
    return current_transport().call(meta, args, kwargs, current_request.get())


class Response(Argument):
    def __init__(self, reply):
        self._reply = reply

    @property
    def reply(self):
        return self._reply

"""

MAIN = (
    PRELUDE
    + """
class Meeting:
    # two threads load it at the same time
    barrier = threading.Barrier(2)
    made = []

    def __setstate__(self, state):
        Meeting.made.append(self)
        self.barrier.wait(10)


class Main:
    def __init__(self, greeting="hello"):
        self.greeting = greeting
        self.log = []

    async def __call__(self, name="you"):
        return "%s %s" % (self.greeting, name)

    def sync(self, x):
        return x + 1, threading.current_thread() is threading.main_thread()

    async def echo(self, *args, **kwargs):
        return args, kwargs

    async def look(self, array):
        return array.dtype.str, array.shape, array.flags.writeable, array.flags.owndata, float(array.sum())

    async def give(self, n):
        return np.arange(n, dtype="u1")

    async def fail(self, text):
        raise ValueError(text)

    def fail_sync(self, text):
        raise KeyError(text)

    async def unpicklable(self):
        return threading.Lock()

    async def meta(self):
        call = current_request.get()
        return call.id, call.metadata, call.deadline is not None

    async def count(self, n):
        for i in range(n):
            yield i

    def count_sync(self, n):
        for i in range(n):
            yield i

    async def count_and_fail(self, n):
        for i in range(n):
            yield i
        raise ValueError("after %d" % n)

    async def forever(self):
        self.log.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise

    async def stream_forever(self):
        i = 0
        try:
            while True:
                yield i
                i += 1
        finally:
            self.log.append("closed at %d" % i)

    async def get_log(self):
        return self.log

    async def collect(self):
        return gc.collect() >= 0

    # calls of others

    async def nested(self, x):
        return await remote("Other", x, method="m")

    def nested_sync(self, x, timeout=None):
        return remote("Other", x, method="m").result(timeout)

    async def nested_in_task(self, x):
        return await asyncio.create_task(self.nested(x))

    async def gather(self, n):
        return await asyncio.gather(*[remote("Other", i) for i in range(n)])

    async def background(self):
        async def later():
            while not current_request.get().ended:
                await asyncio.sleep(0.001)
            remote("Other", "late")

        self.task = asyncio.create_task(later())
        return "ended"

    async def items(self, close_after=None):
        reply, got = remote("Other", stream=True), []
        while True:
            try:
                got.append(await reply.anext())
            except StopAsyncIteration:
                return got
            if len(got) == close_after:
                return got

    def items_sync(self):
        reply, got = remote("Other", stream=True), []
        while True:
            try:
                got.append(reply.next(None))
            except StopIteration:
                return got

    async def pass_on(self, x):
        first = remote("Other", x, method="a")
        return await remote("Other", Response(first), 1, k=Response(first), method="b")

    def pass_on_sync(self, x):
        first = remote("Other", x, method="a")
        return remote("Other", Response(remote("Other", Response(first), method="b")), method="c").result(10)

    async def pass_on_while_read(self):
        slow, quick, marker = [remote("Other", method=m) for m in ("slow", "quick", "marker")]

        def wait_for_slow(_):
            remote("Other", method="now")
            slow.result(10)

        quick.add_done_callback(wait_for_slow)
        marker.result(10)  # the answer of quick is here, and unread
        return await remote("Other", Response(slow), Response(quick), method="both")

    async def load_in_threads(self):
        reply = remote("Other")
        values = await asyncio.gather(*[asyncio.to_thread(reply.result, 10) for _ in range(2)])
        return values[0] is values[1], [sys.getrefcount(m) for m in Meeting.made if m is not values[0]]

    async def pass_failed(self, x):
        first = remote("Other", x, method="a")
        second = remote("Other", Response(remote("Other", Response(first), method="b")), method="c")
        try:
            await second
        except ValueError as e:
            return "ValueError: %s" % e.cause

    async def error_of(self, *args):
        try:
            return await remote("Other", *args)
        except BaseException as e:
            return type(e).__name__, str(e)

    async def broadcast(self):
        meta = CallMeta("default", "Other", "m", False, "", "", "", None)
        reply, got = current_transport().broadcast(meta, (1,), {}, current_request.get()), []
        while True:
            try:
                value, error = await reply.anext()
            except StopAsyncIteration:
                return got
            got.append(value if error is None else type(error.cause).__name__)

    def timeout(self):
        try:
            remote("Other").result(0.01)
        except TimeoutError:
            return "late"

    async def cancel_reply(self):
        reply = remote("Other")
        asyncio.get_running_loop().call_later(0.01, reply.cancel)
        try:
            await reply
        except Exception as e:
            return type(e).__name__, reply.done(), reply.cancelled

    async def wait_for(self):
        reply = remote("Other")
        try:
            await asyncio.wait_for(reply, 0.01)
        except asyncio.TimeoutError:
            self.log.append("timed out")
        return "timed out", await reply

    async def wait_twice(self):
        reply = remote("Other")
        first, second = await asyncio.gather(reply, reply)
        return first, second, await reply, reply.result(0)

    async def in_thread(self, x):
        loop = asyncio.get_running_loop()
        context = contextvars.copy_context()
        return await loop.run_in_executor(None, context.run, lambda: remote("Other", x).result(10))

    async def other_loop(self, x):
        def run():
            async def main():
                return await remote("Other", x)

            return asyncio.run(main())

        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(None, context.run, run)

    async def callbacks(self):
        reply, seen = remote("Other"), []
        reply.add_done_callback(lambda r: seen.append((r is reply, r.done(), r.result(0))))
        await reply
        reply.add_done_callback(lambda r: seen.append("at once"))
        return seen

    async def drop(self, n):
        for i in range(n):
            remote("Other", i)
        return "dropped"

    async def drop_stream(self):
        reply = remote("Other", stream=True)
        first = await reply.anext()
        del reply
        return first

    async def drop_awaited(self):
        async def wait():
            try:
                await remote("Other", "awaited")
            finally:
                self.log.append("finally")

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        del task
        gc.collect()
        return "ok"

    async def blocks(self):
        gc.collect()
        return sys.getallocatedblocks()


deployments = {"Main": (Main, (), {}, {"max_ongoing_requests": 8})}
"""
)


@pytest.fixture(scope="module")
def main(start_module):
    return start_module(MAIN, kind=CallWorker)


def test_registration(main):
    assert list(main.models) == [("Main", "calls")] and main.models["Main", "calls"].version == "1"
    assert main.slots == 8


def test_async_and_sync_methods(main):
    assert main.result(main.call("", "me")) == "hello me"
    assert main.result(main.call("__call__", name="k")) == "hello k"
    assert main.result(main.call("sync", 1)) == (2, False)


def test_arguments_and_results_of_any_kind(main):
    assert main.result(main.call("echo", 1, [2, {"x": None}], k=(3,))) == ((1, [2, {"x": None}]), {"k": (3,)})


@pytest.mark.parametrize("size", [10, 1 << 16, 1 << 20, 5 << 20])
def test_arrays_arrive_without_a_copy(main, size):
    array = np.ones(size, "u1")
    assert main.result(main.call("look", array)) == ("|u1", (size,), False, False, float(size))
    assert np.array_equal(main.result(main.call("give", size)), np.arange(size, dtype="u1"))


def test_arrays_in_fortran_order(main):
    array = np.asfortranarray(np.arange(60000.0).reshape(300, 200))
    (got,), _ = main.result(main.call("echo", array))
    assert got.flags.f_contiguous and np.array_equal(got, array)


def test_bytes_of_other_languages(main):
    body = main.answer(main.call(body=pack(b"raw", codec=BYTES)))
    assert (body.codec, body.flags, body.data) == (BYTES, 0, b"hello b'raw'")
    body = main.answer(main.call(body=pack(b"raw", method="fail", codec=BYTES)))
    assert (body.codec, body.flags) == (BYTES, EXCEPTION) and b"raw" in body.data
    body = main.answer(main.call(body=pack(b"raw", method="echo", codec=BYTES)))
    assert (body.codec, body.flags) == (BYTES, EXCEPTION) and b"bytes" in body.data


def test_exceptions(main):
    with pytest.raises(Raised) as e:
        main.result(main.call("fail", "why"))
    name, message, trace = e.value.args
    assert (name, message) == ("ValueError", "why") and "in fail" in trace
    with pytest.raises(Raised, match="KeyError"):
        main.result(main.call("fail_sync", "k"))


def test_a_method_that_does_not_exist(main):
    with pytest.raises(Raised, match="'nope' that does not exist.*count"):
        main.result(main.call("nope"))


def test_what_cannot_be_pickled_or_unpickled(main):
    with pytest.raises(Raised, match="pickle"):
        main.result(main.call("unpicklable"))
    with pytest.raises(Raised, match="UnpicklingError|EOFError"):
        main.result(main.call(body=pack(b"\x80\x05nonsense")))
    with pytest.raises(Raised, match="no pair"):
        main.result(main.call(body=pack(pickle.dumps(5))))
    assert main.result(main.call("", "still")) == "hello still"


def test_what_a_call_says_of_itself(main):
    stream = main.call("meta", rid="abc", meta=[("serve_multiplexed_model_id", "m1")], timeout=10**10)
    assert main.result(stream) == ("abc", {"serve_multiplexed_model_id": "m1"}, True)
    assert main.result(main.call("meta", rid="")) == ("", None, False)


@pytest.mark.parametrize("method", ["count", "count_sync"])
def test_streams(main, method):
    assert list(main.items(main.call(method, 1000, stream=True))) == list(range(1000))
    assert list(main.items(main.call(method, 0, stream=True))) == []


def test_a_stream_that_fails(main):
    items, got = main.items(main.call("count_and_fail", 3, stream=True)), []
    with pytest.raises(Raised, match="after 3"):
        for item in items:
            got.append(item)
    assert got == [0, 1, 2]


def test_wrong_use_of_streams(main):
    with pytest.raises(Raised, match="returned a generator"):
        main.result(main.call("count", 3))
    with pytest.raises(Raised, match="did not return a generator"):
        list(main.items(main.call("sync", 3, stream=True)))


def test_a_stream_waits_for_its_reader(main):
    stream = main.call("stream_forever", stream=True, credit=(3, 1 << 40))
    items = main.items(stream)
    assert [next(items) for _ in range(3)] == [0, 1, 2]
    main.cancel(stream)
    with pytest.raises(Refused, match="CANCELLED"):
        next(items)
    assert main.result(main.call("get_log"))[-1] == "closed at 2"


def test_cancel_reaches_the_coroutine(main):
    stream = main.call("forever")
    while main.result(main.call("get_log"))[-1:] != ["begun"]:
        pass
    main.cancel(stream)
    with pytest.raises(Refused, match="CANCELLED"):
        main.answer(stream)
    assert main.result(main.call("get_log"))[-1] == "cancelled"


def test_a_call_that_only_itself_refers_to_is_not_collected(main):
    stream = main.call("forever")
    while main.result(main.call("get_log"))[-1:] != ["begun"]:
        pass
    assert main.result(main.call("collect"))
    main.cancel(stream)
    with pytest.raises(Refused, match="CANCELLED"):
        main.answer(stream)
    assert main.result(main.call("get_log"))[-1] == "cancelled"


# --- calls that it makes ---


def nested(main, method, *args):
    """A call that makes one call: (stream, the call)."""
    stream = main.call(method, *args)
    call = main.next_call()
    assert main.targets[call.target] == ("default", "Other")
    return stream, call


@pytest.mark.parametrize("method", ["nested", "nested_sync", "nested_in_task", "in_thread", "other_loop"])
def test_nested_calls_have_their_parent(main, method):
    for i in range(3):
        stream, call = nested(main, method, i)
        assert call.parent == stream and call.id == "r1"
        (arg,), _ = call.body.value
        assert arg == i
        main.reply(call, [arg * 2])
        assert main.result(stream) == [i * 2]


def test_many_nested_calls(main):
    stream = main.call("gather", 50)
    calls = [main.next_call() for _ in range(50)]
    assert [c.body.value[0] for c in calls] == [(i,) for i in range(50)]  # in their order
    for call in reversed(calls):
        main.reply(call, call.body.value[0][0])
    assert main.result(stream) == list(range(50))


def test_no_parent_after_the_end(main):
    assert main.result(main.call("background")) == "ended"
    call = main.next_call()
    assert call.parent == 0 and call.body.value == (("late",), {})


@pytest.mark.parametrize("method", ["items", "items_sync"])
def test_streams_of_others(main, method):
    stream, call = nested(main, method)
    assert call.flags & 1
    for i in range(200):
        while main.granted.get(call.stream, 0) <= i:
            main._other(*main.receive())
        main.reply(call, i, end=False)
    main.end(call)
    assert main.result(stream) == list(range(200))


def test_a_stream_of_another_that_fails(main):
    stream, call = nested(main, "items")
    main.reply(call, 1, end=False)
    data = pickle.dumps(("ValueError", "no", "trace\nValueError: no", pickle.dumps(ValueError("no"))))
    main.reply_body(call, pack(data, flags=EXCEPTION))
    with pytest.raises(Raised, match="ValueError"):
        main.result(stream)


def test_a_call_of_every_replica(main):
    stream, call = nested(main, "broadcast")
    assert call.flags & 5 == 5
    main.reply(call, "one", end=False)
    data = pickle.dumps(("ValueError", "no", "trace\nValueError: no", pickle.dumps(ValueError("no"))))
    main.reply_body(call, pack(data, flags=EXCEPTION), end=False)
    main.reply(call, "three")
    assert main.result(stream) == ["one", "ValueError", "three"]


def test_arrays_of_others(main):
    for n in (10, 1 << 20):
        stream, call = nested(main, "nested", np.ones(n, "u1"))
        assert np.array_equal(call.body.value[0][0], np.ones(n, "u1"))
        main.reply(call, np.full(n, 7, "u1"))
        assert np.array_equal(main.result(stream), np.full(n, 7, "u1"))


def test_answers_are_spliced_into_calls(main):
    stream, a = nested(main, "pass_on", 5)
    assert a.body.method == "a"
    answer = pack(pickle.dumps("opaque"), [b"buffer" * 100])
    main.reply_body(a, answer)
    b = main.next_call()
    assert b.body.method == "b" and b.parent == stream
    assert b.body.parts == [answer, answer]
    main.reply(b, "end")
    assert main.result(stream) == "end"


def test_a_replica_loads_spliced_answers(main):
    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return 0 if value == "part" else None

    import io

    out = io.BytesIO()
    Pickler(out, protocol=5).dump((("part", 2), {}))
    array = np.arange(5000)
    buffers = []
    part = pack(pickle.dumps(array, protocol=5, buffer_callback=lambda b: buffers.append(b.raw())), buffers)
    (got, two), _ = main.result(main.call(body=pack(out.getvalue(), parts=[part], method="echo")))
    assert np.array_equal(got, array) and two == 2


def test_a_chain_of_answers_with_a_thread_that_waits(main):
    stream, a = nested(main, "pass_on_sync", 5)
    main.reply(a, "A")
    b = main.next_call()
    main.reply(b, "B")
    c = main.next_call()
    assert c.body.method == "c" and len(c.body.parts) == 1
    main.reply(c, "C")
    assert main.result(stream) == "C"


def test_a_failed_call_fails_those_that_wait_for_it(main):
    stream, a = nested(main, "pass_failed", 5)
    data = pickle.dumps(("ValueError", "no", "trace\nValueError: no", pickle.dumps(ValueError("no"))))
    main.reply_body(a, pack(data, flags=EXCEPTION))
    assert main.result(stream) == "ValueError: no"


@pytest.mark.parametrize(
    "status, text, name",
    [
        ("RESOURCE_EXHAUSTED", "Request dropped due to backpressure (num_queued_requests=2, max_queued_requests=2).", "BackPressureError"),
        ("UNAVAILABLE", "Deployment(name='Other', app='default') is unavailable because it failed to deploy.", "DeploymentUnavailableError"),
        ("UNAVAILABLE", "the replica was lost", "ActorUnavailableError"),
        ("CANCELLED", "cancelled", "RequestCancelledError"),
        ("DEADLINE_EXCEEDED", "the deadline has passed", "TimeoutError"),
        ("NOT_FOUND", "no such deployment", "RayServeException"),
    ],
)  # fmt: skip
def test_errors_of_the_server(main, status, text, name):
    stream, call = nested(main, "error_of")
    main.refuse(call, status, text)
    kind, message = main.result(stream)
    assert kind == name
    if name != "RequestCancelledError":
        assert message == text


def test_a_timeout_does_not_cancel(main):
    stream, call = nested(main, "timeout")
    assert main.result(stream) == "late"
    assert call.stream not in main.cancels
    main.reply(call, 1)
    stream, call = nested(main, "wait_for")
    while "timed out" not in main.result(main.call("get_log")):
        pass
    main.reply(call, "later")
    assert main.result(stream)[1] == "later"


def test_cancel_of_a_reply(main):
    stream, call = nested(main, "cancel_reply")
    main.wait_for_cancel(call)
    main.refuse(call, "CANCELLED", "cancelled")
    assert main.result(stream) == ("RequestCancelledError", True, True)


def test_a_cancelled_parent_cancels_its_calls(main):
    for method in ("nested", "nested_sync", "nested_in_task"):
        stream, call = nested(main, method, 1)
        main.cancel(stream)
        main.wait_for_cancel(call)
        main.refuse(call, "CANCELLED", "cancelled")
        with pytest.raises((Refused, Raised), match="CANCELLED|Cancelled"):
            main.result(stream)


def test_several_wait_for_one_reply(main):
    stream, call = nested(main, "wait_twice")
    main.reply(call, "v")
    assert main.result(stream) == ("v", "v", "v", "v")


def test_callbacks(main):
    stream, call = nested(main, "callbacks")
    main.reply(call, "v")
    assert main.result(stream) == [(True, True, "v"), "at once"]


def test_an_argument_that_ends_while_another_is_read(main):
    stream = main.call("pass_on_while_read")
    calls = {c.body.method: c for c in (main.next_call() for _ in range(3))}
    main.reply(calls["quick"], "q")
    main.reply(calls["marker"])
    now = main.next_call()
    assert now.body.method == "now"
    main.reply(calls["slow"], "s")
    main.reply(now)
    both = main.next_call()
    assert [Body(p).value for p in both.body.parts] == ["s", "q"]
    main.reply(both, "done")
    assert main.result(stream) == "done"


def test_two_threads_load_one_answer(main):
    """They get the same object, and nothing else keeps what the other one has made."""
    stream, call = nested(main, "load_in_threads")
    main.reply_body(call, pack(b"\x80\x04\x8c\x03app\x8c\x07Meeting\x93)\x81}b."))
    assert main.result(stream) == (True, [3])  # the list, the variable and the argument


def test_calls_that_nobody_awaits(main):
    assert main.result(main.call("drop", 20)) == "dropped"
    calls = [main.next_call() for _ in range(20)]
    assert not main.cancels & {c.stream for c in calls}
    for call in calls:
        main.reply(call, "unread")
    assert main.result(main.call("", "x")) == "hello x"


def test_a_stream_that_nobody_reads_is_cancelled(main):
    stream, call = nested(main, "drop_stream")
    main.reply(call, "first", end=False)
    assert main.result(stream) == "first"
    main.wait_for_cancel(call)
    main.refuse(call, "CANCELLED", "cancelled")


def test_a_task_that_waits_lives_until_the_answer(main):
    stream, call = nested(main, "drop_awaited")
    assert main.result(stream) == "ok"
    main.reply(call, 1)
    while main.result(main.call("get_log"))[-1] != "finally":
        pass


def test_reports_of_credit_are_kept(main):
    """At most so many calls of one request are open at once; the others wait in the worker."""
    stream = main.call("gather", 1100)
    calls = [main.next_call() for _ in range(main.credit[0])]
    assert main.result(main.call("", "x")) == "hello x" and not main.opened
    for call in calls:
        main.reply(call, 0)
    for _ in range(1100 - main.credit[0]):
        main.reply(main.next_call(), 0)
    assert main.result(stream) == [0] * 1100


# --- tensors ---

TENSORS = (
    PRELUDE
    + """
from anyserve import Tensor

class Async:
    async def __call__(self, x: Tensor("FP32", [-1])) -> Tensor("FP32", [-1]):
        return await remote("Other", x)

class Sync:
    def __call__(self, x: Tensor("FP32", [-1])) -> Tensor("FP32", [-1]):
        return remote("Other", x).result(10)

    def parent(self):
        return current_request.get() is not None

deployments = {"Async": (Async, (), {}, {}), "Sync": (Sync, (), {}, {"max_ongoing_requests": 2})}
"""
)


@pytest.mark.parametrize("name", ["Async", "Sync"])
def test_tensors_have_a_model_beside_the_calls(start, name):
    worker = start(TENSORS, "app.py", name, kind=CallWorker)
    assert set(worker.models) == {(name, "calls"), (name, "1")}
    x = np.arange(3, dtype="f4")
    for _ in range(3):
        streams = [worker.ask(name, {"x": x}, rid="t1") for _ in range(2)]
        calls = [worker.next_call() for _ in range(2)]
        assert sorted(c.parent for c in calls) == streams and {c.id for c in calls} == {"t1"}
        for call in calls:
            worker.reply(call, call.body.value[0][0] * 2)
        for stream in streams:
            assert np.array_equal(worker.answer(stream)["output0"], x * 2)


def test_arrays_have_a_model_too(start):
    worker = start("""
import numpy as np

class Add:
    def __call__(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return x + y

deployments = {"Add": (Add, (), {}, {})}
""", "app.py", "Add", kind=CallWorker)  # fmt: skip
    assert set(worker.models) == {("Add", "calls"), ("Add", "1")}
    x = np.arange(3, dtype="f4")
    assert np.array_equal(worker.answer(worker.ask("Add", {"y": x, "x": x}))["output0"], x * 2)
    assert np.array_equal(worker.result(worker.call("", x, y=x)), x * 2)


# --- the life of the process ---


def test_a_constructor_that_fails(start):
    worker = start(PRELUDE + """
class Main:
    def __init__(self):
        raise ValueError("bad weights")

deployments = {"Main": (Main, (), {}, {})}
""", kind=CallWorker, greet=False)  # fmt: skip
    assert worker.wait() == 70
    assert "ValueError: bad weights" in worker.output and "constructing Main" in worker.output


def test_drain_and_del(start):
    worker = start(PRELUDE + """
class Main:
    async def __call__(self, x):
        return await remote("Other", x)

    def __del__(self):
        print("deleted", flush=True)

deployments = {"Main": (Main, (), {}, {})}
""", kind=CallWorker)  # fmt: skip
    stream, call = nested(worker, "", 1)
    worker.process.send_signal(signal.SIGTERM)
    while True:
        kind, flags, s, payload = worker.receive()
        if kind == DRAIN:
            break
        worker._other(kind, flags, s, payload)
    worker.reply(call, "kept")
    assert worker.result(stream) == "kept"
    while True:
        kind, flags, s, payload = worker.receive()
        if kind == GOODBYE:
            break
        worker._other(kind, flags, s, payload)
    assert worker.wait() == 0 and "deleted" in worker.output


CALLS = [("", ("me",)), ("sync", (1,)), ("fail", ("x",)), ("give", (100000,)), ("nope", ()), ("unpicklable", ())]


def test_calls_leave_nothing_behind(start):
    main = start(MAIN, kind=CallWorker)

    def served(method, args):
        try:
            main.result(main.call(method, *args))
        except Raised:
            pass

    def made(method):
        stream, call = nested(main, method, np.ones(1000))
        main.reply(call, np.ones(1000))
        main.result(stream)

    def cancelled():
        stream, call = nested(main, "nested", 1)
        main.cancel(stream)
        main.wait_for_cancel(call)
        main.refuse(call, "CANCELLED", "")
        with pytest.raises(Refused):
            main.result(stream)

    def streamed():
        list(main.items(main.call("count", 3, stream=True)))
        stream, call = nested(main, "items")
        main.reply(call, 1, end=False)
        main.end(call)
        main.result(stream)

    def passed():
        stream, a = nested(main, "pass_on", 5)
        main.reply(a, "A")
        main.reply(main.next_call(), "B")
        main.result(stream)

    cases = [lambda m=m, a=a: served(m, a) for m, a in CALLS]
    cases += [lambda m=m: made(m) for m in ("nested", "nested_sync", "other_loop")] + [cancelled, streamed, passed]
    for case in cases:
        for _ in range(300):  # the interpreter keeps some of what ended tasks were made of
            case()
        before = main.result(main.call("blocks"))
        for _ in range(700):
            case()
        assert main.result(main.call("blocks")) - before < 500, case.__defaults__ or case.__name__


FORKS = PRELUDE + """
class Main:
    async def __call__(self):
        reply = remote("Other")
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                current_request.get().answer(1, 0, b"", None)
            except RuntimeError as e:
                os.write(write, str(e).encode())
            try:
                reply.result(5)
            except Exception as e:
                os.write(write, b"; " + str(e).encode())
            del reply
            gc.collect()
            os._exit(0)
        os.close(write)
        os.waitpid(pid, 0)
        with os.fdopen(read) as f:
            return f.read(), await reply

deployments = {"Main": (Main, (), {}, {})}
"""


def test_the_child_of_a_fork_has_no_part_in_calls_of_its_parent(start):
    main = start(FORKS, kind=CallWorker)
    stream, call = nested(main, "")
    main.reply(call, "parent's")
    said, result = main.result(stream)
    assert said == "the call was answered, or belongs to the parent process; the call was made before this process was forked"
    assert result == "parent's"


def test_it_connects_again(start):
    main = start(MAIN, kind=CallWorker)
    stream, call = nested(main, "error_of", 1)
    main.sock.close()
    main.greet()
    assert main.result(main.call("", "again")) == "hello again"
    stream, call = nested(main, "nested", 2)
    main.reply(call, 3)
    assert main.result(stream) == 3
