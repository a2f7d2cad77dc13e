"""Local testing mode: applications in this process, through the same replica code that a worker runs.

What is compared with Ray are constants recorded from Ray 2.60; tests/serve_programs runs whole programs.
"""

import asyncio
import gc
import logging
import pickle
import sys
import threading
import time

import numpy as np
import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve import serve  # noqa: E402
from anyserve.serve import local_testing  # noqa: E402
from anyserve.serve.exceptions import BackPressureError, RayServeException, RequestCancelledError  # noqa: E402
from anyserve.serve.handle import DeploymentHandle  # noqa: E402

WAIT = 20


@pytest.fixture(autouse=True)
def nothing_stays():
    yield
    local_testing.shutdown()
    assert not local_testing._transport.apps


def run(app, name="default"):
    return local_testing.run(app, name)


class Gate:
    """Bound into a deployment as it is: constructors' arguments are no copies."""

    def __init__(self):
        self.entered, self.open, self.seen = threading.Event(), threading.Event(), []


@serve.deployment
class Adder:
    def __init__(self, n=1):
        self.n = n

    def __call__(self, x):
        return x + self.n

    async def later(self, x):
        await asyncio.sleep(0)
        return x + self.n

    def count(self, n):
        yield from range(n)

    async def count_async(self, n):
        for i in range(n):
            yield i


def test_a_function_and_a_class():
    @serve.deployment
    def double(x):
        return 2 * x

    assert run(double.bind()).remote(4).result() == 8
    assert run(Adder.bind(3), "other").remote(4).result() == 7
    assert run(Adder.bind(n=5), "other").later.remote(x=4).result() == 9  # in the place of the one before


def test_composition_with_handles_in_containers():
    @serve.deployment
    class Sum:
        def __init__(self, parts, by_name):
            self.parts = [*parts, by_name["last"]]
            assert all(isinstance(p, DeploymentHandle) for p in self.parts)

        async def __call__(self, x):
            return sum(await asyncio.gather(*(p.remote(x) for p in self.parts)))

    handle = run(Sum.bind([Adder.bind(1), Adder.bind(2)], {"last": Adder.bind(3)}))
    assert handle.remote(10).result() == 36
    assert sorted(local_testing._transport.apps["default"]) == ["Adder", "Adder_1", "Adder_2", "Sum"]


def test_a_response_as_an_argument_is_waited_for_by_nobody():
    gate = Gate()

    @serve.deployment
    class Slow:
        def __init__(self, gate):
            self.gate = gate

        def __call__(self, x):
            self.gate.open.wait(WAIT)
            return x

    @serve.deployment
    class Both:
        def __init__(self, slow, adder):
            self.slow, self.adder = slow, adder

        def __call__(self):
            return self.adder.remote(self.adder.later.remote(x=self.slow.remote(1))).result(timeout_s=WAIT)

    slow = run(Slow.bind(gate), "slow")
    adder = run(Adder.bind(), "adder")
    began = adder.remote(slow.remote(5))  # it does not wait
    assert not began._reply.done()
    gate.open.set()
    assert began.result(timeout_s=WAIT) == 6
    assert adder.remote(x=adder.remote(slow.remote(1))).result(timeout_s=WAIT) == 3
    assert run(Both.bind(Slow.bind(gate), Adder.bind())).remote().result(timeout_s=WAIT) == 3


def test_a_response_of_a_failed_call_as_an_argument():
    @serve.deployment
    def fail():
        raise ValueError("first")

    response = run(Adder.bind(), "adder").remote(run(fail.bind(), "fail").remote())
    with pytest.raises(ValueError, match="first"):
        response.result(timeout_s=WAIT)


def test_arguments_and_results_are_copies_and_arrays_read_only():
    seen = []

    @serve.deployment
    class Keep:
        def __call__(self, x):
            seen.append(x)
            return x

    handle, mine = run(Keep.bind()), {"a": [1]}
    got = handle.remote(mine).result()
    assert got == mine and got is not mine and seen[0] is not mine
    array = np.arange(10.0)
    back = handle.remote(array).result()
    array[0] = 5
    assert back[0] == 0 and not back.flags.writeable and not seen[1].flags.writeable
    response = handle.remote(mine)
    assert response.result() is response.result()


def test_constructors_get_what_was_bound():
    gate = Gate()

    @serve.deployment
    class Keep:
        def __init__(self, gate):
            gate.seen.append(self)

    run(Keep.bind(gate))
    assert len(gate.seen) == 1


# --- errors ---


@serve.deployment
class Failing:
    def __init__(self, inner=None):
        self.inner = inner

    def __call__(self, text):
        raise ValueError(text)

    async def outer(self, text):
        return await self.inner.remote(text)

    def stream(self):
        yield 1
        raise KeyError("half way")

    def exits(self):
        sys.exit(3)


def test_errors_as_they_are():
    """As Ray's local testing mode has it; from replicas they are RayTaskErrors."""
    handle = run(Failing.bind(Failing.bind()))
    for call in handle, handle.outer:
        with pytest.raises(ValueError) as e:
            call.remote("bad").result()
        assert type(e.value) is ValueError and str(e.value) == "bad"
        assert "raise ValueError(text)" in str(e.traceback[-1].statement)

    async def main():
        await handle.outer.remote("bad")

    with pytest.raises(ValueError, match="bad"):
        asyncio.run(main())
    with pytest.raises(RuntimeError, match="SystemExit: 3"):
        handle.exits.remote().result()


@pytest.mark.parametrize("call, kind, text", [
    (lambda h: h.nothing.remote(), RayServeException,
     "Tried to call a method 'nothing' that does not exist. Available methods: ['count', 'count_async', 'later']."),
    (lambda h: h.count.remote(2), TypeError, "Method 'count' returned a generator. You must use "
     "`handle.options(stream=True)` to call generators on a deployment."),
    (lambda h: h.count_async.remote(2), TypeError, "Method 'count_async' returned a generator. You must use "
     "`handle.options(stream=True)` to call generators on a deployment."),
    (lambda h: h.options(stream=True).later.remote(1), TypeError,
     "Called method 'later' with `handle.options(stream=True)` but it did not return a generator."),
    (lambda h: h.remote(threading.Lock()), TypeError, "cannot pickle '_thread.lock' object"),
    (lambda h: h.remote(), TypeError, "Adder.__call__() missing 1 required positional argument: 'x'")])  # fmt: skip
def test_wrong_calls(call, kind, text):
    response = call(run(Adder.bind()))
    with pytest.raises(kind) as e:
        next(response) if hasattr(response, "__next__") else response.result()
    assert str(e.value).endswith(text), str(e.value)


def test_a_result_that_cannot_be_sent():
    @serve.deployment
    def lock():
        return threading.Lock()

    with pytest.raises(TypeError, match="cannot pickle"):
        run(lock.bind()).remote().result()


def test_a_constructor_that_fails():
    stopped = []

    @serve.deployment
    class First:
        def __del__(self):
            stopped.append("first")

    @serve.deployment
    class Fails:
        def __init__(self, first):
            raise OSError("no weights")

    with pytest.raises(OSError, match="no weights"):
        run(Fails.bind(First.bind()))
    assert stopped == ["first"] and not local_testing._transport.apps


def test_reconfigure_that_fails():
    @serve.deployment(user_config={"a": 1})
    class Strict:
        def reconfigure(self, config):
            raise ValueError("refused %s" % config)

    with pytest.raises(ValueError, match="refused {'a': 1}"):
        run(Strict.bind())


def test_a_deployment_that_is_not_there():
    handle = run(Adder.bind())
    other = DeploymentHandle("Nothing", "default", _transport=handle._transport)
    with pytest.raises(RayServeException, match="Deployment 'Nothing' of application 'default' is not there."):
        other.remote().result()
    local_testing.delete("default")
    local_testing.delete("default")
    with pytest.raises(RayServeException, match="'Adder'"):
        handle.remote(1).result()


# --- streams ---


@pytest.mark.parametrize("method", ["count", "count_async"])
@pytest.mark.parametrize("n", [0, 1, local_testing.AHEAD, 3 * local_testing.AHEAD + 1])
def test_streams_sync_and_async(method, n):
    stream = getattr(run(Adder.bind()).options(stream=True), method)
    assert list(stream.remote(n)) == list(range(n))

    async def main():
        return [i async for i in stream.remote(n)]

    assert asyncio.run(main()) == list(range(n))


def test_a_stream_does_not_run_ahead_without_bound():
    gate = Gate()

    @serve.deployment
    class Counter:
        async def __call__(self):
            for i in range(10_000):
                gate.seen.append(i)
                yield i

    response = run(Counter.bind()).options(stream=True).remote()
    got = [next(response) for _ in range(500)]
    assert got == list(range(500)) and len(gate.seen) <= 500 + local_testing.AHEAD + 1


def test_a_stream_that_fails_half_way():
    response = run(Failing.bind()).options(stream=True).stream.remote()
    assert next(response) == 1
    with pytest.raises(KeyError, match="half way"):
        next(response)


def test_a_stream_through_two_deployments():
    @serve.deployment
    class Outer:
        def __init__(self, inner):
            self.inner = inner.options(stream=True)

        async def __call__(self, n):
            async for i in self.inner.count.remote(n):
                yield i * i

    assert list(run(Outer.bind(Adder.bind())).options(stream=True).remote(4)) == [0, 1, 4, 9]


@pytest.mark.parametrize("leave", ["cancel", "forget"])
def test_a_stream_that_nobody_takes_any_longer_ends(leave):
    gate = Gate()

    @serve.deployment
    class Endless:
        async def __call__(self):
            try:
                while True:
                    yield 1
                    await asyncio.sleep(0)
            finally:
                gate.open.set()

    response = run(Endless.bind()).options(stream=True).remote()
    assert next(response) == 1
    if leave == "cancel":
        response.cancel()
        with pytest.raises(RequestCancelledError, match="Request %s was cancelled." % response.request_id):
            next(response)
    else:
        del response
        gc.collect()
    assert gate.open.wait(WAIT)


# --- cancelling ---


@serve.deployment
class Waiting:
    def __init__(self, gate, inner=None):
        self.gate, self.inner = gate, inner

    async def __call__(self):
        self.gate.entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.gate.open.set()
            raise

    async def through(self):
        return await self.inner.remote()

    async def swallows(self):
        try:
            await self.inner.remote()
        except RequestCancelledError:
            return "not cancelled itself"


def test_cancel():
    gate = Gate()
    response = run(Waiting.bind(gate)).remote()
    assert gate.entered.wait(WAIT)
    response.cancel()
    assert response.cancelled() and gate.open.wait(WAIT)
    with pytest.raises(RequestCancelledError) as e:
        response.result(timeout_s=WAIT)
    assert str(e.value) == "Request %s was cancelled." % response.request_id

    async def main():
        await response

    with pytest.raises(RequestCancelledError):
        asyncio.run(main())


def test_cancel_of_a_parent_cancels_its_calls():
    gate = Gate()
    response = run(Waiting.bind(None, Waiting.bind(gate))).through.remote()
    assert gate.entered.wait(WAIT)
    response.cancel()
    assert gate.open.wait(WAIT)
    with pytest.raises(RequestCancelledError):
        response.result(timeout_s=WAIT)


def test_cancel_after_the_end_changes_nothing():
    response = run(Adder.bind()).remote(1)
    assert response.result(timeout_s=WAIT) == 2
    response.cancel()
    assert response.cancelled() and response.result() == 2


def test_cancel_before_its_arguments_are_there():
    gate = Gate()
    waiting = run(Waiting.bind(gate), "waiting")
    first = waiting.remote()
    second = run(Adder.bind()).remote(first)
    second.cancel()
    with pytest.raises(RequestCancelledError):
        second.result(timeout_s=WAIT)
    first.cancel()


def test_cancelling_who_waits_does_not_cancel_the_call():
    gate = Gate()

    async def main():
        response = handle.remote()
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(response, 0.01)
        return response

    handle = run(Waiting.bind(gate))
    response = asyncio.run(main())
    assert not response.cancelled() and not response._reply.done()
    response.cancel()


def test_a_timeout_of_result():
    gate = Gate()
    response = run(Waiting.bind(gate)).remote()
    with pytest.raises(TimeoutError, match="Timed out waiting for result."):
        response.result(timeout_s=0.01)
    assert not response.cancelled()
    response.cancel()


# --- calls in circles, depth ---


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_calls_in_a_circle_with_one_slot_each(kind):
    @serve.deployment(max_ongoing_requests=1)
    class Sync:
        def __call__(self, n):
            me = serve.get_replica_context()
            handle = DeploymentHandle(me.deployment, me.app_name)
            return [n] + (handle.remote(n - 1).result(timeout_s=WAIT) if n else [])

    @serve.deployment(max_ongoing_requests=1)
    class Async:
        async def __call__(self, n):
            me = serve.get_replica_context()
            return [n] + (await DeploymentHandle(me.deployment, me.app_name).remote(n - 1) if n else [])

    assert run((Sync if kind == "sync" else Async).bind()).remote(5).result(timeout_s=WAIT) == [5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize("depth, ok", [(local_testing.MAX_DEPTH, True), (local_testing.MAX_DEPTH + 1, False)])
def test_how_deep_calls_are_nested(depth, ok):
    @serve.deployment
    class Deep:
        async def __call__(self, n):
            me = serve.get_replica_context()
            return 1 + (await DeploymentHandle(me.deployment, me.app_name).remote(n - 1) if n > 1 else 0)

    response = run(Deep.bind()).remote(depth)
    if ok:
        assert response.result(timeout_s=WAIT) == depth
    else:
        with pytest.raises(BackPressureError, match="calls are nested more than 16 deep"):
            response.result(timeout_s=WAIT)


# --- contexts ---


def test_request_ids_go_down_the_chain():
    from anyserve.serve.context import _serve_request_context

    @serve.deployment
    class Names:
        def __init__(self, inner=None):
            self.inner = inner

        async def __call__(self):
            mine = _serve_request_context.get()
            return [(mine.request_id, mine.app_name)] + (await self.inner.remote() if self.inner else [])

        def in_pool(self):
            return _serve_request_context.get().request_id

    handle = run(Names.bind(Names.bind()), "app")
    response = handle.remote()
    assert response.result(timeout_s=WAIT) == [(response.request_id, "app")] * 2 and len(response.request_id) == 36
    assert handle.in_pool.remote().result() != response.request_id


def test_replica_contexts():
    @serve.deployment
    class Who:
        def __init__(self, inner=None):
            self.inner, self.at_start = inner, serve.get_replica_context().deployment

        async def __call__(self):
            c = serve.get_replica_context()
            return [(c.app_name, c.deployment, c.rank, c.world_size, self.at_start, c.servable_object is self)] + (
                await self.inner.remote() if self.inner else [])  # fmt: skip

    assert run(Who.bind(Who.options(name="Inner").bind()), "app").remote().result() == [
        ("app", "Who", 0, 1, "Who", True), ("app", "Inner", 0, 1, "Inner", True)]  # fmt: skip
    with pytest.raises(RayServeException, match="may only be called from within a Ray Serve deployment"):
        serve.get_replica_context()


def test_multiplexed_model_ids_are_of_one_call():
    from anyserve.serve.context import _serve_request_context

    @serve.deployment
    class Which:
        def __init__(self, inner=None):
            self.inner = inner

        async def __call__(self):
            return [_serve_request_context.get().multiplexed_model_id] + (await self.inner.remote() if self.inner else [])

    assert run(Which.bind(Which.bind())).options(multiplexed_model_id="m").remote().result() == ["m", ""]


def test_user_config_and_the_end_of_objects():
    gate = Gate()

    @serve.deployment(user_config={"v": 3})
    class Model:
        def reconfigure(self, config):
            self.v = config["v"]

        def __call__(self):
            return self.v

        def __del__(self):
            gate.seen.append("del")

    handle = run(Model.bind())
    assert handle.remote().result() == 3
    run(Model.options(user_config={"v": 4}).bind())
    assert handle.remote().result() == 4 and gate.seen == ["del"]
    local_testing.shutdown()
    assert gate.seen == ["del", "del"]


def test_an_async_constructor():
    @serve.deployment
    class Later:
        async def __init__(self):
            await asyncio.sleep(0)
            self.ready = True

        def __call__(self):
            return self.ready

    assert run(Later.bind()).remote().result() is True


# --- who calls ---


def test_from_many_threads_and_loops():
    handle = run(Adder.bind())
    results = []

    def by_thread(i):
        results.append(handle.remote(i).result(timeout_s=WAIT))

    def by_loop(i):
        async def main():
            return await asyncio.gather(*(handle.later.remote(i) for _ in range(20)))

        results.extend(asyncio.run(main()))

    threads = [threading.Thread(target=t, args=(i,)) for i in range(10) for t in (by_thread, by_loop)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(WAIT)
    assert sorted(results) == sorted([i + 1 for i in range(10)] * 21)


def test_a_thread_that_user_code_starts():
    @serve.deployment
    class Outer:
        def __init__(self, inner):
            self.inner = inner

        def __call__(self):
            out = []
            t = threading.Thread(target=lambda: out.append(self.inner.remote(1).result(timeout_s=WAIT)))
            t.start()
            t.join(WAIT)
            return out

    assert run(Outer.bind(Adder.bind())).remote().result() == [2]


def test_handles_are_pickled_and_given_as_arguments():
    @serve.deployment
    class Caller:
        async def __call__(self, handle):
            return await handle.remote(1)

    adder = run(Adder.bind(), "adder")
    assert pickle.loads(pickle.dumps(adder)) == adder and pickle.loads(pickle.dumps(adder)).remote(1).result() == 2
    assert run(Caller.bind()).remote(adder).result() == 2


def test_one_response_awaited_from_several_loops():
    gate = Gate()

    @serve.deployment
    def wait():
        gate.open.wait(WAIT)
        return "done"

    response, results = run(wait.bind()).remote(), []

    async def main():
        results.append(await response)

    threads = [threading.Thread(target=lambda: asyncio.run(main())) for _ in range(5)]
    for t in threads:
        t.start()
    gate.open.set()
    for t in threads:
        t.join(WAIT)
    assert results == ["done"] * 5


def test_calls_of_one_thread_begin_in_their_order():
    @serve.deployment
    class Order:
        def __init__(self):
            self.seen = []

        async def __call__(self, i):
            self.seen.append(i)

        async def all(self):
            return self.seen

    handle = run(Order.bind())
    for i in range(200):
        handle.remote(i)
    assert handle.all.remote().result() == list(range(200))


def test_choosing_a_replica():
    handle = run(Adder.bind(4))

    async def main():
        async with handle.choose_replica() as selection:
            assert selection.replica_id == "Adder-0"
            assert await handle.later.dispatch(selection, 1) == 5
        with pytest.raises(RuntimeError, match="was dispatched already"):
            await handle.later.dispatch(selection, 1)
        local_testing.delete("default")
        with pytest.raises(RayServeException, match="is not there"):
            async with handle.choose_replica():
                pass

    asyncio.run(main())


def test_broadcast():
    handle = run(Adder.bind(4))
    assert handle.broadcast("later", 1).results(timeout_s=WAIT) == [5]
    failing = run(Failing.bind(), "failing")
    with pytest.raises(ValueError, match="x"):
        failing.broadcast("__call__", "x").results()
    (error,) = failing.broadcast("__call__", "x").results(return_exceptions=True)
    assert isinstance(error, ValueError)
    waiting = run(Waiting.bind(Gate()), "waiting").broadcast("__call__")
    with pytest.raises(TimeoutError, match="Timed out waiting for broadcast results."):
        waiting.results(timeout_s=0.01)

    async def main():
        assert await handle.broadcast("later", 1).results_async() == [5]
        with pytest.raises(TimeoutError, match="Timed out waiting for broadcast results."):
            await waiting.results_async(timeout_s=0.01)

    asyncio.run(main())
    waiting._reply.cancel()


def test_deadlines():
    gate = Gate()
    handle = run(Waiting.bind(gate))
    meta = handle._meta._replace(deadline=time.monotonic())
    with pytest.raises(TimeoutError, match="timed out"):
        handle._transport.call(meta, (), {}, None).result(WAIT)


def test_what_is_not_managed_is_said(caplog):
    caplog.set_level(logging.WARNING)
    run(Adder.options(ray_actor_options={"num_gpus": 1, "runtime_env": {"env_vars": {}}}).bind())
    assert [m.split(" has ")[1].split(".")[0] for m in caplog.messages] == ["num_gpus configured", "runtime_env configured"]


def test_ten_thousand_calls_leave_nothing():
    handle = run(Adder.bind())
    for _ in range(10):
        assert [r.result() for r in [handle.later.remote(i) for i in range(1000)]] == list(range(1, 1001))
    gc.collect()
    calls = [o for o in gc.get_objects() if isinstance(o, local_testing._Call)]
    assert len(calls) <= 2
