"""anyserve.batch and the declaration of Batching."""

import asyncio
import gc
import sys
import weakref

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))

import anyserve  # noqa: E402
from anyserve import Batching, DeclarationError, Tensor  # noqa: E402


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 30))


def test_concurrent_calls_share_one():
    sizes = []

    @anyserve.batch(max_batch_size=4, batch_wait_timeout_s=30)
    async def double(x, y=1):
        sizes.append((len(x), y))
        return [2 * v for v in x]

    async def main():
        return await asyncio.gather(*(double(i) for i in range(8)))

    assert run(main()) == [2 * i for i in range(8)]
    assert sizes == [(4, [1] * 4)] * 2


def test_what_comes_while_it_runs_waits_and_is_batched():
    sizes = []

    async def main():
        go = asyncio.Event()

        @anyserve.batch(batch_wait_timeout_s=0, max_batch_size=3)
        async def slow(x):
            sizes.append(len(x))
            await go.wait()
            return x

        first = asyncio.ensure_future(slow(0))
        while not sizes:
            await asyncio.sleep(0)
        rest = [asyncio.ensure_future(slow(i)) for i in range(1, 6)]
        for _ in range(10):
            await asyncio.sleep(0)
        assert sizes == [1]  # one at a time
        go.set()
        return [await f for f in [first, *rest]]

    assert run(main()) == list(range(6))
    assert sizes == [1, 3, 2]


def test_a_first_call_waits_its_time_and_no_longer():
    @anyserve.batch(batch_wait_timeout_s=0.01)
    async def alone(x):
        return [len(x)]

    assert run(alone("a")) == 1


def test_keys_have_batches_of_their_own():
    seen = []

    @anyserve.batch(batch_wait_timeout_s=0, key=lambda x, lang: lang)
    async def translate(x, lang):
        seen.append((sorted(x), set(lang)))
        return x

    async def main():
        await asyncio.gather(*(translate(i, lang="ab"[i % 2]) for i in range(6)))

    run(main())
    assert sorted(seen, key=str) == [([0, 2, 4], {"a"}), ([1, 3, 5], {"b"})]


def test_objects_have_batches_of_their_own():
    class Model:
        def __init__(self, factor):
            self.factor, self.calls = factor, 0

        @anyserve.batch(batch_wait_timeout_s=0)
        async def __call__(self, x):
            self.calls += 1
            return [self.factor * v for v in x]

    async def main():
        two, three = Model(2), Model(3)
        assert await asyncio.gather(two(1), three(1), two(2)) == [2, 3, 4]
        assert (two.calls, three.calls) == (1, 1)
        await asyncio.sleep(0)
        return weakref.ref(two)

    gone = run(main())
    gc.collect()
    assert gone() is None


def test_exceptions():
    @anyserve.batch(batch_wait_timeout_s=0)
    async def half(x):
        if 13 in x:
            raise RuntimeError("all")
        return [ValueError(v) if v % 2 else v // 2 for v in x]

    async def main():
        alone = await asyncio.gather(half(2), half(3), half(4), return_exceptions=True)
        together = await asyncio.gather(half(2), half(13), return_exceptions=True)
        return alone, together

    alone, together = run(main())
    assert alone[::2] == [1, 2] and isinstance(alone[1], ValueError)
    assert [type(e) for e in together] == [RuntimeError] * 2


@pytest.mark.parametrize("result, why", [([1], "1 results for 2 calls"), (None, "returns a list, not NoneType")])
def test_results_that_do_not_fit(result, why):
    @anyserve.batch(batch_wait_timeout_s=0)
    async def wrong(x):
        return result

    async def main():
        return await asyncio.gather(wrong(1), wrong(2), return_exceptions=True)

    assert all(why in str(e) for e in run(main()))


def test_who_was_cancelled_is_left_out():
    seen = []

    @anyserve.batch(batch_wait_timeout_s=30, max_batch_size=3)
    async def f(x):
        seen.append(x)
        return x

    async def main():
        calls = [asyncio.ensure_future(f(i)) for i in range(2)]
        await asyncio.sleep(0)
        calls[0].cancel()
        await asyncio.sleep(0)
        calls += [asyncio.ensure_future(f(i)) for i in range(2, 4)]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = run(main())
    assert isinstance(results[0], asyncio.CancelledError) and results[1:] == [1, 2, 3]
    assert seen == [[1, 2, 3]]


def test_settings_can_change():
    sizes = []

    @anyserve.batch(max_batch_size=2, batch_wait_timeout_s=30)
    async def f(x):
        sizes.append(len(x))
        return x

    async def main():
        f.set_max_batch_size(3)
        f.set_batch_wait_timeout_s(0)
        await asyncio.gather(*(f(i) for i in range(4)))

    run(main())
    assert sizes == [3, 1]
    with pytest.raises(ValueError, match="max_batch_size is an integer from 1 to 65535, not 0"):
        f.set_max_batch_size(0)
    with pytest.raises(TypeError, match="async"):
        anyserve.batch(lambda x: x)


# --- Batching ---

@pytest.mark.parametrize("kwargs, why", [
    ({"max_batch_size": 0}, "max_batch_size is an integer from 1 to 65535, not 0"),
    ({"max_batch_size": 65536}, "max_batch_size is an integer from 1 to 65535, not 65536"),
    ({"max_batch_size": True}, "max_batch_size is an integer"),
    ({"max_batch_size": 8, "max_wait_ms": -1}, "max_wait_ms is a number from 0 to 60000, not -1"),
    ({"max_batch_size": 8, "max_wait_ms": 60001}, "max_wait_ms is a number from 0 to 60000, not 60001"),
    ({"max_batch_size": 8, "max_wait_ms": float("nan")}, "max_wait_ms is a number"),
    ({"max_batch_size": 8, "preferred_sizes": [9]}, "preferred_sizes are integers from 1 to max_batch_size (8), not 9"),
    ({"max_batch_size": 8, "preferred_sizes": 4}, "preferred_sizes is a list of sizes, not 4"),
    ({"max_batch_size": 99, "preferred_sizes": range(1, 18)}, "at most 16 preferred_sizes"),
    ({"max_batch_size": 8, "ragged": 1}, "ragged is True or False, not 1"),
])
def test_settings_are_checked(kwargs, why):
    with pytest.raises(DeclarationError) as e:
        Batching(**kwargs)
    assert why in str(e.value)


def test_settings_at_their_limits():
    b = Batching(65535, max_wait_ms=60000, preferred_sizes=[8, 4, 8])
    assert b.preferred_sizes == (4, 8)
    assert Batching(2, ragged=True).as_list


def test_declarations():
    app = anyserve.AnyServe()

    @app.model("a", inputs={"x": Tensor("FP32", [4])}, batching=Batching(8))
    async def a(x, requests):
        return x

    assert app.models[0].max_ongoing_requests == 1
    assert app.models[0].signature.inputs["x"].served_shape(True) == (-1, 4)
    with pytest.raises(DeclarationError, match="has `requests` .a list., not `request`"):
        app.model("b", batching=Batching(8))(lambda x, request: x)
    with pytest.raises(DeclarationError, match="at most 31 dimensions"):
        app.model("c", inputs={"x": Tensor("FP32", [1] * 32)}, batching=Batching(8))(lambda x: x)
    with pytest.raises(DeclarationError, match="batching is a Batching"):
        app.model("d", batching=8)(lambda x: x)
    assert len(app.models) == 1
