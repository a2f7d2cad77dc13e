"""serve.batch: who shares a batch, what each caller gets, and what the decorator refuses."""

import asyncio
import gc
import pickle
import sys
import types
import weakref

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.replica import ReplicaContext  # noqa: E402
from anyserve.serve import context, metrics  # noqa: E402
from anyserve.serve._calls.transport import CallMeta, current_request  # noqa: E402
from anyserve.serve._replica.core import ReplicaCore  # noqa: E402
from anyserve.serve.batching import batch  # noqa: E402
from anyserve.serve.exceptions import RayServeException  # noqa: E402

LONG = 3600  # seconds: a batch starts when it is full


def run(coro):
    return asyncio.run(asyncio.wait_for(coro, 60))


async def gather(*coros):
    return await asyncio.gather(*coros, return_exceptions=True)


def outcome(call):
    try:
        call()
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)
    return "accepted"


async def f(items):
    return items


def sync(items):
    return items


# what Ray 2.60 said to the same
REFUSALS = [
    ({"max_batch_size": 0}, "ValueError: max_batch_size must be an integer >= 1, got 0"),
    ({"max_batch_size": -1}, "ValueError: max_batch_size must be an integer >= 1, got -1"),
    ({"max_batch_size": 2.5}, "TypeError: max_batch_size must be integer >= 1, got 2.5"),
    ({"max_batch_size": "3"}, "TypeError: max_batch_size must be integer >= 1, got 3"),
    ({"max_batch_size": 3.0}, "accepted"), ({"max_batch_size": 1}, "accepted"),
    ({"batch_wait_timeout_s": -1}, "ValueError: batch_wait_timeout_s must be a float >= 0, got -1"),
    ({"batch_wait_timeout_s": "1"}, "TypeError: batch_wait_timeout_s must be a float >= 0, got 1"),
    ({"batch_wait_timeout_s": 0}, "accepted"), ({"batch_wait_timeout_s": 1}, "accepted"),
    ({"max_concurrent_batches": 0}, "TypeError: max_concurrent_batches must be an integer >= 1, got 0"),
    ({"max_concurrent_batches": 1.0}, "TypeError: max_concurrent_batches must be an integer >= 1, got 1.0"),
    ({"batch_size_fn": 3}, "TypeError: batch_size_fn must be a callable or None, got <class 'int'>"),
    ({"batch_size_fn": len}, "accepted"),
]  # fmt: skip


@pytest.mark.parametrize("options, said", REFUSALS)
def test_arguments(options, said):
    assert outcome(lambda: batch(**options)(f)) == said


def test_what_can_be_decorated():
    assert outcome(lambda: batch(3)) == "TypeError: @serve.batch can only be used to decorate functions or methods."
    said = "TypeError: Functions decorated with @serve.batch must be 'async def'"
    assert outcome(lambda: batch(sync)) == said
    assert outcome(lambda: batch(max_batch_size=2)(sync)) == said
    assert outcome(lambda: batch(f)) == "accepted"


def test_defaults_and_setters():
    g = batch(f)
    assert (g._get_max_batch_size(), g._get_batch_wait_timeout_s()) == (10, 0.01)
    g.set_max_batch_size(3.0)
    g.set_batch_wait_timeout_s(7)
    assert (g._get_max_batch_size(), g._get_batch_wait_timeout_s()) == (3, 7)
    assert outcome(lambda: g.set_max_batch_size(0)) == "ValueError: max_batch_size must be an integer >= 1, got 0"
    assert outcome(lambda: g.set_batch_wait_timeout_s(-1)).startswith("ValueError: batch_wait_timeout_s")
    assert g.__name__ == "f"


class Batched:
    def __init__(self):
        self.sizes = []
        self.hold = None

    @batch(max_batch_size=4, batch_wait_timeout_s=LONG)
    async def double(self, values, plus=0):
        self.sizes.append(len(values))
        if self.hold:
            await self.hold.wait()
        return [2 * v + p for v, p in zip(values, plus)]

    @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
    async def odd(self, values):
        if "raise" in values:
            raise RuntimeError("whole batch")
        if "none" in values:
            return None
        return values[:1] if "short" in values else [ValueError("a value") if v == "error" else v for v in values]


def test_a_method_and_its_sizes():
    async def main():
        b = Batched()
        assert await gather(*(b.double(i) for i in range(8))) == [2 * i for i in range(8)]
        assert b.sizes == [4, 4]
        assert await gather(b.double(1), b.double(2, 10), b.double(3, plus=100), b.double(values=4)) == [2, 14, 106, 8]

    run(main())


def test_several_objects_and_functions_have_queues_of_their_own():
    @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
    async def function(values):
        return [len(values)] * len(values)

    class Child(Batched):
        @batch(max_batch_size=2, batch_wait_timeout_s=LONG, max_concurrent_batches=2)
        async def double(self, values, plus=0):
            return await asyncio.gather(*(Batched.double(self, v, p) for v, p in zip(values, plus)))

    async def main():
        a, b = Batched(), Batched()
        out = gather(*(x.double(i) for i in range(4) for x in (a, b)))
        assert await out == [0, 0, 2, 2, 4, 4, 6, 6]
        assert a.sizes == b.sizes == [4]
        assert await gather(function(1), function(2)) == [2, 2]
        c = Child()
        assert await gather(*(c.double(i) for i in range(4))) == [0, 2, 4, 6]
        assert c.sizes == [4]

    run(main())


def test_what_the_callers_get_when_a_batch_fails():
    """Texts of Ray 2.60."""

    async def main():
        b = Batched()
        for error in await gather(b.odd("x"), b.odd("raise")):
            assert repr(error) == "RuntimeError('whole batch')"
        for error in await gather(b.odd("x"), b.odd("short")):
            assert isinstance(error, RayServeException) and str(error) == (
                "Batched function doesn't preserve batch size. The input list has length 2 but the returned list has length 1.")
        for error in await gather(b.odd("x"), b.odd("none")):
            assert repr(error) == """TypeError("object of type 'NoneType' has no len()")"""
        value, other = await gather(b.odd("error"), b.odd("x"))
        assert repr(value) == "ValueError('a value')" and other == "x"
        assert await gather(b.odd(1), b.odd(2)) == [1, 2]  # it goes on

    run(main())


def test_an_exception_object_in_the_list_is_returned():
    @batch(max_batch_size=1)
    async def values(items):
        return [KeyError("k")]

    assert repr(run(values(1))) == "KeyError('k')"


def test_a_batch_that_is_not_full_waits_as_long_as_its_first_call_may():
    @batch(max_batch_size=100, batch_wait_timeout_s=0)
    async def size(items):
        return [len(items)] * len(items)

    async def main():
        assert await size(1) == 1
        assert await gather(size(1), size(2), size(3)) == [3, 3, 3]  # those of one turn

    run(main())


def test_concurrent_batches():
    running, most = [0], [0]

    def make(n):
        @batch(max_batch_size=1, max_concurrent_batches=n)
        async def work(items):
            running[0] += 1
            most[0] = max(most[0], running[0])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            running[0] -= 1
            return items

        return work

    async def main(n):
        work = make(n)
        assert await gather(*(work(i) for i in range(10))) == list(range(10))

    for n in 1, 3:
        most[0] = 0
        run(main(n))
        assert most[0] == n


def test_the_setters_of_a_method():
    async def main():
        b = Batched()
        b.double.set_max_batch_size(2)
        try:
            assert await gather(b.double(1), b.double(2)) == [2, 4]
        finally:
            Batched.double.set_max_batch_size(4)

    run(main())


def test_the_size_of_a_batch_is_computed():
    seen = []

    @batch(max_batch_size=10, batch_wait_timeout_s=LONG, batch_size_fn=sum)
    async def work(items):
        seen.append(items)
        return items

    async def main():
        assert await gather(*(work(i) for i in (4, 5, 3, 7, 10))) == [4, 5, 3, 7, 10]
        assert seen == [[4, 5], [3, 7], [10]]  # in order: what does not fit stays first
        error, rest = await gather(work(11), work(10))
        assert rest == 10 and repr(error) == (
            "RuntimeError('Size of item is greater than max_batch_size. Please increase the max_batch_size or check the "
            "implementation of the batch_size_fn.')")  # Ray's text

    run(main())


def test_a_size_function_that_raises_fails_the_call_whose_item_it_got():
    @batch(max_batch_size=2, batch_wait_timeout_s=LONG, batch_size_fn=lambda items: sum(len(i) for i in items))
    async def work(items):
        return items

    async def main():
        a, bad, b = await gather(work("a"), work(3), work("b"))
        assert (a, b) == ("a", "b") and isinstance(bad, TypeError)

    run(main())


def test_cancelled_calls_are_left_out_and_a_batch_without_callers_is_cancelled():
    seen = []

    @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
    async def work(items):
        seen.append(items)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main():
        gone = asyncio.ensure_future(work(1))
        await asyncio.sleep(0)
        gone.cancel()
        calls = [asyncio.ensure_future(work(i)) for i in (2, 3)]
        while not seen:
            await asyncio.sleep(0)
        assert seen == [[2, 3]]
        calls[0].cancel()
        for _ in range(5):
            await asyncio.sleep(0)
        assert seen == [[2, 3]]  # it goes on for the other one
        calls[1].cancel()
        while len(seen) < 2:
            await asyncio.sleep(0)

    run(main())


def test_a_size_function_that_fails_later_fails_the_batch():
    """It is called when a batch is collected, and again when that starts."""

    class Sized:
        calls = 0

        def size_of(items):
            Sized.calls += 1
            if Sized.calls == 2:
                raise ValueError("not again")
            return 2

        @batch(max_batch_size=2, batch_wait_timeout_s=LONG, batch_size_fn=size_of)
        async def f(self, items):
            return items

        @batch(max_batch_size=2, batch_wait_timeout_s=LONG, batch_size_fn=len)
        async def nothing(self):
            return []

    async def main():
        assert outcomes(await gather(Sized().f(1))) == ["ValueError('not again')"]
        assert outcomes(await gather(Sized().nothing())) == ["TypeError('batch_size_fn needs an argument, and the call has none')"]

    run(main())


def test_calls_with_other_arguments_fail():
    class Variadic:
        @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
        async def f(self, *lists):
            return lists[0]

    async def main():
        v = Variadic()
        assert outcomes(await gather(v.f(1, 2), v.f(1))) == ["KeyError(1)", "KeyError(1)"]

    run(main())


def outcomes(results):
    return [repr(r) for r in results]


# --- generators ---


class Streams:
    def __init__(self):
        self.steps = 0
        self.state = "new"

    @batch(max_batch_size=3, batch_wait_timeout_s=LONG)
    async def count(self, limits):
        for i in range(max(limits)):
            self.steps += 1
            yield [i if i < n else StopIteration for n in limits]

    @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
    async def endless(self, items):
        try:
            while True:
                yield items
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.state = "cancelled"
            raise

    @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
    async def broken(self, items):
        yield items
        if "short" in items:
            yield items[:1]
        raise ValueError("half way")


async def read(generator, n=None):
    out = []
    async for item in generator:
        out.append(item)
        if n is not None and len(out) == n:
            await generator.aclose()
            break
    return out


def test_each_caller_of_a_generator_has_a_stream_of_its_own_length():
    async def main():
        s = Streams()
        assert await gather(*(read(s.count(n)) for n in (1, 3, 2))) == [[0], [0, 1, 2], [0, 1]]
        assert s.steps == 3

    run(main())


def test_a_generator_that_fails_half_way():
    async def main():
        s = Streams()
        for error in await gather(read(s.broken(1)), read(s.broken(2))):
            assert repr(error) == "ValueError('half way')"
        for error in await gather(read(s.broken(1)), read(s.broken("short"))):
            assert isinstance(error, RayServeException) and "returned list has length 1." in str(error)
        first = s.broken(1), s.broken(2)
        assert [await g.__anext__() for g in first] == [1, 2]  # what came before the failure is read
        for error in await gather(*map(read, first)):
            assert repr(error) == "ValueError('half way')"

    run(main())


def test_a_generator_without_callers_is_cancelled():
    async def main():
        s = Streams()
        assert await gather(read(s.endless("a"), 3), read(s.endless("b"), 5)) == [["a"] * 3, ["b"] * 5]
        while s.state != "cancelled":
            await asyncio.sleep(0)

    run(main())


def test_a_caller_that_leaves_does_not_end_the_streams_of_others():
    async def main():
        s = Streams()
        a, b, c = s.count(1), s.count(5), s.count(3)
        assert await b.__anext__() == 0
        await c.aclose()
        assert await read(b) == [1, 2, 3, 4] and await read(a) == [0]

    run(main())


# --- in a replica ---


def in_replica(what, calls, limit=50, method="__call__", **more):
    """The results of concurrent calls of a replica; calls: (argument, multiplexed model id)."""

    async def main():
        core = ReplicaCore(what, (), {}, config=types.SimpleNamespace(max_ongoing_requests=limit, user_config=None),
                           context=ReplicaContext("D-0", "D", "shop"), shared=True)  # fmt: skip
        await core.start()
        tasks = []
        for i, (x, model_id) in enumerate(calls):
            meta = CallMeta("shop", "D", method, more.get("stream", False), "r-%d" % i, model_id)
            if meta.stream:
                tasks.append(asyncio.ensure_future(read(core.call_stream(meta, (x,)))))
            else:
                tasks.append(asyncio.ensure_future(core.call(meta, (x,))))
        out = await asyncio.gather(*tasks, return_exceptions=True)
        assert core.ongoing == 0
        return out

    return run(main())


class ByModel:
    @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
    async def predict(self, items):
        from anyserve.serve.multiplex import get_multiplexed_model_id

        ids = {c.multiplexed_model_id for c in context._get_serve_batch_request_context()}
        requests = [c.request_id for c in context._get_serve_batch_request_context()]
        own = context._serve_request_context.get().request_id, current_request.get()
        return [(get_multiplexed_model_id(), sorted(ids), requests, own)] * len(items)

    async def __call__(self, x):
        current_request.set("a parent")
        return await self.predict(x)


def test_batches_are_split_by_model_id_and_are_no_part_of_one_request():
    out = in_replica(ByModel, [(1, "a"), (2, "b"), (3, "a"), (4, "b")])
    a, b = ("a", ["a"], ["r-0", "r-2"], ("", None)), ("b", ["b"], ["r-1", "r-3"], ("", None))
    assert out == [a, b, a, b]


def test_a_batched_method_is_called_by_handles_itself():
    assert in_replica(Batched, [(i, "") for i in range(4)], method="double") == [0, 2, 4, 6]
    assert in_replica(Streams, [(1, ""), (2, ""), (0, "")], method="count", stream=True) == [[0], [0, 1], []]
    (error,) = in_replica(Streams, [(1, "")], method="count")
    assert isinstance(error, TypeError) and "Method 'count' returned a generator." in str(error)


def test_a_size_that_the_replica_cannot_reach_is_said(capfd):
    in_replica(ByModel, [(1, ""), (2, "")], limit=1)
    err = capfd.readouterr().err
    assert "event=batches_stay_small" in err and "larger than `max_ongoing_requests` (1)" in err


def test_metrics_of_batches():
    @batch(max_batch_size=4, batch_wait_timeout_s=LONG)
    async def counted(items):
        return items

    async def main():
        await gather(*(counted(i) for i in range(8)))

    run(main())
    lines = [line for line in metrics.registry.text().splitlines() if 'function_name="counted"' in line]
    sample = dict(line[2:].rsplit(" ", 1) for line in lines)
    assert sample['serve_batches_processed_total {function_name="counted"}'] == "2.0"
    assert sample['serve_actual_batch_size_bucket {function_name="counted",le="2.0"}'] == "0"
    assert sample['serve_actual_batch_size_bucket {function_name="counted",le="4.0"}'] == "2"
    assert sample['serve_batch_utilization_percent_sum {function_name="counted"}'] == "200.0"
    assert sample['serve_batch_queue_length {function_name="counted"}'] in ("0", "4")
    assert sample['serve_batch_wait_time_ms_count {function_name="counted"}'] == "2"
    assert sample['serve_batch_execution_time_ms_count {function_name="counted"}'] == "2"


def test_objects_are_freed_and_classes_can_be_pickled():
    cloudpickle = pytest.importorskip("cloudpickle")

    async def main():
        b = Batched()
        await gather(*(b.double(i) for i in range(4)))
        return weakref.ref(b)

    ref = run(main())
    gc.collect()
    assert ref() is None

    class Local:
        @batch(max_batch_size=2, batch_wait_timeout_s=LONG)
        async def double(self, values):
            return [2 * v for v in values]

    other = pickle.loads(cloudpickle.dumps(Local))

    async def call():
        o = other()
        return await gather(o.double(1), o.double(2))

    assert run(call()) == [2, 4]
