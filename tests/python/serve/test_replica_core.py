"""One replica: construction, methods of all kinds, hooks, and its end."""

import asyncio
import concurrent.futures
import functools
import gc
import sys
import threading
import types

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.replica import ReplicaContext, ReplicaRank  # noqa: E402
from anyserve.serve import context  # noqa: E402
from anyserve.serve._calls.transport import CallMeta, current_request  # noqa: E402
from anyserve.serve._replica.core import ReplicaCore  # noqa: E402
from anyserve.serve._replica.sync_calls import AHEAD  # noqa: E402
from anyserve.serve.exceptions import RayServeException, RequestCancelledError, TaskCancelledError  # noqa: E402


def config(limit=2, **more):
    return types.SimpleNamespace(max_ongoing_requests=limit, **more)


def meta(method="__call__", **more):
    return CallMeta("shop", "D", method, request_id="r-1", **more)


def core_of(what, *args, limit=2, rank=0, shared=True, user_config=None, **kwargs):
    return ReplicaCore(what, args, kwargs, config=config(limit, user_config=user_config), shared=shared,
                       context=ReplicaContext("D-0", "D", "shop", rank, 4))  # fmt: skip


async def started(what, *args, **kwargs):
    core = core_of(what, *args, **kwargs)
    await core.start()
    return core


def run(test):
    """The test runs on an event loop of its own."""

    @functools.wraps(test)
    def on_loop(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return on_loop


async def call(core, method, *args, **kwargs):
    """As a transport calls: in a task of its own."""
    return await asyncio.create_task(core.call(meta(method), args, kwargs))


async def items(core, method, *args):
    return [item async for item in core.call_stream(meta(method, stream=True), args)]


class Methods:
    def __init__(self, add=0):
        self.add = add

    def __call__(self, x):
        return x + self.add

    def sync(self, x, *, more=0):
        return x + self.add + more, threading.current_thread() is threading.main_thread()

    async def asynchronous(self, x):
        return x + self.add, threading.current_thread() is threading.main_thread()

    def generator(self, n):
        yield from range(n)

    async def async_generator(self, n):
        for i in range(n):
            yield i

    async def makes_generator(self, n):
        return self.async_generator(n)

    def sync_makes_generator(self, n):
        return self.generator(n)

    partial = functools.partial(lambda x: x * 2)
    text = "no method"


# --- cancelled calls ---


class Stops:
    def __init__(self, kind):
        self.kind = kind

    async def __call__(self):
        raise self.kind("r-1")

    def sync(self):
        raise self.kind("r-1")

    async def items(self):
        yield 1
        raise self.kind("r-1")


@pytest.mark.parametrize("kind", [RequestCancelledError, TaskCancelledError, concurrent.futures.CancelledError, ValueError])
@pytest.mark.parametrize("is_cancelled", [False, True])
@run
async def test_what_a_cancelled_call_raises_is_no_error_of_its_code(kind, is_cancelled, capfd):
    """A call that it waits for was cancelled with it. Other exceptions, and calls that nobody cancelled, are logged."""
    core = await started(Stops, kind)
    core._shared = False  # it logs, as in a process of its own
    ended, counted = [], []
    core.on_ended = lambda meta, seconds, error: ended.append(type(error))
    core.metrics = types.SimpleNamespace(ended=lambda route, seconds, error: counted.append(type(error)))

    async def calls():
        current_request.set(types.SimpleNamespace(cancelled=is_cancelled))
        for method in "__call__", "sync":
            with pytest.raises(kind):
                await call(core, method)
        with pytest.raises(kind):
            await items(core, "items")

    await asyncio.create_task(calls())
    stopped = is_cancelled and kind is not ValueError
    assert capfd.readouterr().err.count("event=handler_raised") == (0 if stopped else 3)
    assert ended == counted == [asyncio.CancelledError if stopped else kind] * 3
    core.metrics = None


class Silent(Exception):
    def __str__(self):
        raise KeyError("no text")


@run
async def test_an_exception_without_a_text_stays_what_it_is(capfd):
    class Raises:
        async def __call__(self):
            raise Silent

    core = await started(Raises)
    core._shared = False  # it logs, as in a process of its own
    with pytest.raises(Silent):
        await call(core, "__call__")
    assert "Silent: <no text: its __str__ raises>" in capfd.readouterr().err


# --- construction ---


@run
async def test_a_function_is_each_of_its_methods():
    core = await started(lambda x: x + 1)
    assert await call(core, "__call__", 1) == 2
    assert await call(core, "whatever", 1) == 2


@run
async def test_a_class_is_constructed_with_its_arguments():
    core = await started(Methods, 1)
    assert await call(core, "__call__", 1) == 2
    assert core.context.servable_object is core.servable
    core = await started(Methods, add=5)
    assert await call(core, "__call__", 1) == 6


@run
async def test_init_may_be_async_and_new_may_take_arguments():
    class Late:
        def __new__(cls, x):
            self = super().__new__(cls)
            self.new = x
            return self

        async def __init__(self, x):
            await asyncio.sleep(0)
            self.x = x

        def __call__(self):
            return self.new, self.x

    for core in await started(Late, 3), await started(Late, x=3):
        assert await call(core, "__call__") == (3, 3)


@run
async def test_a_failing_constructor_raises_what_it_raised_and_has_a_text():
    class Bad:
        def __init__(self):
            raise ValueError("no weights")

    core = core_of(Bad)
    with pytest.raises(ValueError, match="no weights") as e:
        await core.start()
    text = core.describe_failure(e.value)
    assert text.startswith("constructing Bad failed:\n\nTraceback") and text.endswith("ValueError: no weights")
    assert "/_replica/" not in text  # only the user's frames


def test_other_objects_are_refused():
    with pytest.raises(TypeError) as e:
        core_of(Methods())
    assert str(e.value) == "deployment_def must be a function or class. Instead, its type was %s." % Methods


# --- the context ---


@run
async def test_the_replica_context_in_constructor_and_methods():
    class Where:
        def __init__(self):
            self.first = context.get_replica_context()

        def __call__(self):
            return self.first, context.get_replica_context()

    core = await started(Where, rank=2)
    first, now = await call(core, "__call__")
    assert (first.app_name, first.deployment, first.replica_tag, first.servable_object) == ("shop", "D", "D-0", None)
    assert now.servable_object is core.servable
    assert now.replica_id.unique_id == "D-0" and str(now.replica_id) == "Replica(id='D-0', deployment='D', app='shop')"
    assert now.replica_id.to_full_id_str() == "SERVE_REPLICA::shop#D#D-0"
    assert (now.rank, now.rank.rank, now.rank.local_rank, now.rank.node_rank, now.world_size) == (2, 2, 0, 0, 4)


@run
async def test_several_replicas_in_one_process_have_contexts_of_their_own():
    class Who:
        async def __call__(self):
            return context.get_replica_context().rank

        def sync(self):
            return context.get_replica_context().rank

    cores = [await started(Who, rank=i) for i in range(3)]
    for method in "__call__", "sync":
        assert await asyncio.gather(*[call(c, method) for c in cores]) == [0, 1, 2]
    with pytest.raises(RayServeException) as e:
        context.get_replica_context()
    assert str(e.value) == ("`serve.get_replica_context()` may only be called from within a Ray Serve deployment.")


@run
async def test_a_process_that_is_a_replica():
    from anyserve import replica

    try:
        core = await started(Methods, shared=False)
        assert context.get_replica_context() is core.context and context.current_core() is core
        await core.stop()
        assert context.current_core() is None
    finally:
        context.set_process_core(None)
        replica._current = None


@run
async def test_the_request_context():
    def see():
        c = context._serve_request_context.get()
        return c.request_id, c.app_name, c.multiplexed_model_id, c.session_id, c.route

    core = await started(see)
    task = asyncio.create_task(core.call(meta(multiplexed_model_id="m", session_id="s")))
    assert await task == ("r-1", "shop", "m", "s", "")
    assert see() == ("", "", "", "", "")


def test_a_rank_is_a_number_with_three_names():
    import copy
    import json
    import pickle

    rank = ReplicaRank(rank=3, node_rank=1, local_rank=2)
    assert rank == 3 and rank + 1 == 4 and "%d" % rank == "3" and json.dumps(rank) == "3"
    for same in pickle.loads(pickle.dumps(rank)), copy.copy(rank), copy.deepcopy(rank):
        assert (same, same.rank, same.node_rank, same.local_rank) == (3, 3, 1, 2)


# --- methods ---


@run
async def test_each_kind_of_method():
    core = await started(Methods, 10)
    assert await call(core, "sync", 1, more=100) == (111, False)
    assert await call(core, "asynchronous", 1) == (11, True)
    assert await call(core, "partial", 4) == 8
    for method in "generator", "async_generator", "makes_generator", "sync_makes_generator":
        assert await items(core, method, 40) == list(range(40))
    assert core.ongoing == 0


class AnyName:
    def there(self):
        return "there"

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda: name


@run
async def test_names_without_end_are_not_remembered():
    """Of a function, which answers to any name, and of a class with a __getattr__ that does."""
    for core, there in (await started(lambda: "f"), "f"), (await started(AnyName), "there"):
        assert [await call(core, "there") for _ in range(2)] == [there] * 2
        for i in range(100):
            assert await call(core, "name%d" % i) == (there if there == "f" else "name%d" % i)
        assert len(core._plans) == 1


@run
async def test_properties_are_not_named_as_methods():
    class Lazy:
        @property
        def broken(self):
            raise ValueError("not yet")

        def ask(self):
            pass

    core = await started(Lazy)
    with pytest.raises(RayServeException, match=r"Available methods: \['ask'\]"):
        await call(core, "nope")


@run
async def test_a_method_that_does_not_exist_names_those_that_do():
    core = await started(Methods)
    for method in "nope", "text":
        with pytest.raises(RayServeException) as e:
            await call(core, method)
        assert str(e.value) == (
            "Tried to call a method '%s' that does not exist. Available methods: ['async_generator', 'asynchronous', "
            "'generator', 'makes_generator', 'partial', 'sync', 'sync_makes_generator']." % method)  # fmt: skip

    class NoCall:
        pass

    core = await started(NoCall)
    with pytest.raises(RayServeException, match="Tried to call a method '__call__' that does not exist"):
        await call(core, "__call__")


@pytest.mark.parametrize("method", ["generator", "async_generator", "makes_generator", "sync_makes_generator"])
@run
async def test_a_generator_needs_stream(method):
    core = await started(Methods)
    with pytest.raises(TypeError) as e:
        await call(core, method, 3)
    assert str(e.value) == (
        "Method '%s' returned a generator. You must use `handle.options(stream=True)` to call generators on a deployment."
        % method)  # fmt: skip


@pytest.mark.parametrize("method", ["sync", "asynchronous", "__call__"])
@run
async def test_stream_needs_a_generator(method):
    core = await started(Methods)
    with pytest.raises(TypeError) as e:
        await items(core, method, 3)
    assert str(e.value) == (
        "Called method '%s' with `handle.options(stream=True)` but it did not return a generator." % method)  # fmt: skip


@pytest.mark.parametrize("method", ["sync", "asynchronous", "generator", "async_generator"])
@run
async def test_what_a_method_raises(method):
    class Raises:
        def sync(self, e):
            raise e

        async def asynchronous(self, e):
            raise e

        def generator(self, e):
            yield 1
            raise e

        async def async_generator(self, e):
            yield 1
            raise e

    core = await started(Raises)
    for error, as_what, text in ((KeyError("k"), KeyError, "'k'"), (SystemExit(3), RuntimeError, "SystemExit: 3"),
                                 (StopIteration(), RuntimeError, "raised StopIteration")):  # fmt: skip
        with pytest.raises(as_what) as e:
            if "gen" in method:
                await items(core, method, error)
            else:
                await call(core, method, error)
        assert text in str(e.value)
    assert core.ongoing == 0


# --- the pool ---


@run
async def test_sync_methods_run_at_once_up_to_the_limit_and_beyond_it_only_when_told():
    ends, begun = threading.Event(), threading.Semaphore(0)

    def wait(name):
        begun.release()
        ends.wait(60)
        return name

    async def runs(n):
        for _ in range(n):
            await asyncio.to_thread(begun.acquire)

    core = await started(wait, limit=2)
    calls = [asyncio.create_task(core.call(meta(), (i,))) for i in range(4)]
    await runs(2)
    assert not begun.acquire(blocking=False)
    assert core._sync.running == 2 and core.ongoing == 4
    beyond = [asyncio.create_task(core.call(meta(), (i,), beyond=True)) for i in (8, 9)]
    await runs(2)  # at once, before the two that wait
    core.set_max_ongoing_requests(3)
    await runs(1)
    assert core._sync.running == 5
    ends.set()
    assert await asyncio.gather(*calls, *beyond) == [0, 1, 2, 3, 8, 9]
    await runs(1)
    assert core._sync.running == 0 and len(core._sync._pool) == 3
    core.set_max_ongoing_requests(1)
    assert len(core._sync._pool) == 1
    await core.stop()


@run
async def test_without_further_threads_sync_methods_use_those_that_there_are(monkeypatch):
    class Sync:
        def __call__(self):
            return threading.current_thread().name

    core = await started(Sync, limit=2)
    start = threading.Thread.start

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await call(core, "__call__")
    monkeypatch.setattr(threading.Thread, "start", start)
    name = await call(core, "__call__")
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert await asyncio.gather(*[call(core, "__call__") for _ in range(6)]) == [name] * 6
    assert core.ongoing == core._sync.running == 0
    await core.stop()


@run
async def test_a_sync_method_has_the_context_variables_of_its_call():
    import contextvars

    variable = contextvars.ContextVar("variable", default=None)
    core = await started(lambda: variable.get())

    async def with_value(value):
        variable.set(value)
        return await core.call(meta())

    assert await asyncio.gather(*[asyncio.create_task(with_value(i)) for i in range(5)]) == [0, 1, 2, 3, 4]


@run
async def test_without_the_pool_sync_methods_run_on_the_loop(monkeypatch):
    monkeypatch.setenv("RAY_SERVE_RUN_SYNC_IN_THREADPOOL", "0")
    core = await started(Methods)
    assert await call(core, "sync", 1) == (1, True)
    assert await items(core, "generator", 3) == [0, 1, 2]
    assert core.plan("sync").in_pool is False


# --- cancellation ---


@run
async def test_a_cancelled_sync_method_keeps_its_slot_until_it_ends():
    ends, begun = threading.Event(), threading.Event()
    ran = []

    def wait(name):
        ran.append(name)
        begun.set()
        ends.wait(60)

    core = await started(wait, limit=1)
    first = asyncio.create_task(core.call(meta(), ("first",)))
    waiting = asyncio.create_task(core.call(meta(), ("waiting",)))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()  # it has not begun, so it never does
    await asyncio.wait([waiting])
    first.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert waiting.cancelled() and not first.done() and core.ongoing == 1
    ends.set()
    await asyncio.wait([first])
    assert first.cancelled() and ran == ["first"] and core.ongoing == 0 and core._sync.running == 0


@run
async def test_an_async_method_is_cancelled():
    seen = []

    async def wait():
        try:
            seen.append("begun")
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    core = await started(wait)
    task = asyncio.create_task(core.call(meta()))
    while not seen:
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert seen == ["begun", "cancelled"] and core.ongoing == 0


@run
async def test_a_stream_that_is_closed_ends_the_generator():
    seen = []

    class Endless:
        def sync(self):
            try:
                while True:
                    seen.append("item")
                    yield 1
            finally:
                seen.append("closed")

        async def asynchronous(self):
            try:
                while True:
                    yield 1
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

    core = await started(Endless)
    for method in "sync", "asynchronous":
        stream = core.call_stream(meta(method, stream=True))
        assert [await stream.__anext__(), await stream.__anext__()] == [1, 1]
        await stream.aclose()
    assert [s for s in seen if s != "item"] == ["closed", "cancelled"]
    assert seen.count("item") <= 2 + AHEAD + 1
    assert core.ongoing == 0 and core._sync.running == 0


@run
async def test_a_generator_runs_only_a_bounded_number_of_results_ahead():
    made, full = [], threading.Event()

    def endless():
        while True:
            made.append(1)
            if len(made) == AHEAD:
                full.set()
            yield len(made)

    core = await started(endless)
    stream = core.call_stream(meta(stream=True))
    assert await stream.__anext__() == 1
    await asyncio.to_thread(full.wait)
    await asyncio.sleep(0)
    assert AHEAD <= len(made) <= AHEAD + 1
    await stream.aclose()


@run
async def test_many_calls_of_all_kinds_with_cancellations_leave_nothing():
    """Every call ends, each that began ends once, and all counters are zero."""
    import random
    import time

    rand = random.Random(7)
    inside, most = [0], [0]
    lock = threading.Lock()

    class Work:
        def sync(self, seconds):
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            time.sleep(seconds)
            with lock:
                inside[0] -= 1
            return "done"

        async def asynchronous(self, seconds):
            await asyncio.sleep(seconds)
            return "done"

        def generator(self, seconds):
            for _ in range(40):
                yield 1

        async def async_generator(self, seconds):
            for _ in range(40):
                await asyncio.sleep(0)
                yield 1

    core = await started(Work, limit=4)

    async def one(method, seconds):
        if "gen" in method:
            return len([x async for x in core.call_stream(meta(method, stream=True), (seconds,))])
        return await core.call(meta(method), (seconds,))

    tasks = []
    for _ in range(600):
        method = rand.choice(["sync", "asynchronous", "generator", "async_generator"])
        task = asyncio.create_task(one(method, rand.choice([0, 0, 0.001])))
        tasks.append(task)
        if rand.random() < 0.3:
            asyncio.get_running_loop().call_later(rand.random() * 0.02, task.cancel)
        if rand.random() < 0.1:
            core.set_max_ongoing_requests(rand.randint(1, 4))
            await asyncio.sleep(0)
    out = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(o) for o in out} <= {str, int, asyncio.CancelledError}
    assert {o for o in out if not isinstance(o, BaseException)} == {"done", 40}
    assert (core.ongoing, core._sync.running, inside[0], len(core._sync._waiting)) == (0, 0, 0, 0)
    assert most[0] <= 4 and len(core._sync._pool) <= 4
    await core.stop()


# --- hooks ---


class Hooked:
    def __init__(self):
        self.calls = []

    def reconfigure(self, config):
        if config == "bad":
            raise ValueError("refused")
        self.calls.append(config)

    async def check_health(self):
        if "ill" in self.calls:
            raise RuntimeError("ill")

    def record_routing_stats(self):
        return {"hits": len(self.calls)}

    async def record_autoscaling_stats(self):
        return {"depth": 1.5}


class Ranked(Hooked):
    async def reconfigure(self, config, rank):
        self.calls.append((config, rank, rank.local_rank))
        self.context = context.get_replica_context()


@run
async def test_reconfigure_comes_before_the_first_call_if_there_is_a_user_config():
    assert (await started(Hooked)).servable.calls == []
    assert (await started(Hooked, user_config={"a": 1})).servable.calls == [{"a": 1}]
    core = await started(Ranked, rank=2)
    assert core.servable.calls == [(None, 2, 0)]


@run
async def test_a_changed_config_and_a_changed_rank():
    core = await started(Hooked, user_config=1)
    await core.reconfigure(1)
    await core.reconfigure(2, 3, world_size=7)
    await core.reconfigure(2, 1)  # a rank that it does not take
    assert core.servable.calls == [1, 2]
    assert (core.context.rank, core.context.world_size) == (1, 7)
    core = await started(Ranked, user_config=1)
    await core.reconfigure(1, ReplicaRank(5, 2, 3))
    assert core.servable.calls == [(1, 0, 0), (1, 5, 3)]
    assert core.servable.context.rank.node_rank == 2


@run
async def test_a_refused_config_leaves_the_former_state():
    core = await started(Hooked, user_config=1)
    with pytest.raises(ValueError, match="refused"):
        await core.reconfigure("bad", 3)
    assert (core.user_config, core.context.rank) == (1, 0)


@run
async def test_a_config_that_nothing_takes():
    core = core_of(lambda: 1, user_config={})
    with pytest.raises(ValueError) as e:
        await core.start()
    assert str(e.value) == "deployment_def must be a class to use user_config or rank"
    core = core_of(Methods, user_config={})
    with pytest.raises(RayServeException) as e:
        await core.start()
    assert str(e.value) == ("user_config or rank specified but deployment Deployment(name='D', app='shop') missing "
                            "reconfigure method")  # fmt: skip
    assert core.describe_failure(e.value).startswith("reconfigure of Methods failed:")


@run
async def test_health_and_statistics():
    core = await started(Hooked)
    await core.check_health()
    assert await core.routing_stats() == {"hits": 0} and await core.autoscaling_stats() == {"depth": 1.5}
    await core.reconfigure("ill")
    with pytest.raises(RuntimeError, match="ill"):
        await core.check_health()
    core = core_of(Hooked, user_config="ill")
    with pytest.raises(RuntimeError):
        await core.start()  # the first check is part of it
    assert core.describe_failure(RuntimeError("ill")).startswith("check_health of Hooked failed:")
    core = await started(Methods)
    await core.check_health()
    assert await core.routing_stats() is None and await core.autoscaling_stats() is None


@run
async def test_statistics_that_cannot_be_used():
    class Wrong:
        def record_routing_stats(self):
            return [1]

        def record_autoscaling_stats(self):
            return {"depth": "deep"}

    core = await started(Wrong)
    with pytest.raises(TypeError, match="record_routing_stats returns a dict, not list"):
        await core.routing_stats()
    for stats, error in (({"depth": "deep"}, "'depth' is a number, not str"), ({"depth": float("nan")}, "'depth' is a finite number, not nan"),
                         ({"": 1}, "names are texts that are not empty, not ''"), ({3: 1}, "names are texts that are not empty, not 3")):  # fmt: skip
        Wrong.record_autoscaling_stats = lambda self, stats=stats: stats
        with pytest.raises((TypeError, ValueError), match=error):
            await core.autoscaling_stats()


@run
async def test_hooks_run_while_all_slots_are_in_use():
    ends, begun = threading.Event(), threading.Event()

    class Busy:
        def __call__(self):
            begun.set()
            ends.wait(60)

        def check_health(self):
            pass

    core = await started(Busy, limit=1)
    task = asyncio.create_task(core.call(meta()))
    await asyncio.to_thread(begun.wait)
    await core.check_health()
    ends.set()
    await task


@run
async def test_the_servers_lifecycle_uses_the_hooks():
    import json

    from anyserve import replica
    from anyserve.runtime import lifecycle

    core = await started(Ranked)
    given = replica.Given(core.context, None, {})
    cycle = lifecycle.Lifecycle(core.hooks, given, {})
    cycle.enter = core.set_context
    assert await cycle.answer(lifecycle.HEALTH, "") == (0, "")
    assert await cycle.answer(lifecycle.RECONFIGURE, json.dumps({"rank": 3, "world_size": 9})) == (0, "")
    assert await cycle.answer(lifecycle.RECONFIGURE, json.dumps({"user_config": {"a": 1}})) == (0, "")
    assert core.servable.calls == [(None, 0, 0), (None, 3, 0), ({"a": 1}, 3, 0)]
    assert core.context.world_size == 9 and core.context.servable_object is core.servable
    core.servable.calls.append("ill")
    status, text = await cycle.answer(lifecycle.HEALTH, "")
    assert status and text == "check_health of Ranked: RuntimeError: ill"


# --- the end ---


@pytest.mark.parametrize("is_async", [False, True])
@run
async def test_del_is_called_once_after_the_calls_have_ended(is_async):
    seen = []

    class Ends:
        async def __call__(self, event):
            await event.wait()
            seen.append("call")

        if is_async:

            async def __del__(self):
                await asyncio.sleep(0)
                seen.append("del")
        else:

            def __del__(self):
                seen.append("del")

    core = await started(Ends)
    event = asyncio.Event()
    running = asyncio.create_task(core.call(meta(), (event,)))
    await asyncio.sleep(0)
    stopping = asyncio.create_task(core.stop())
    await asyncio.sleep(0)
    assert seen == []
    event.set()
    await stopping
    await core.stop()
    await running
    assert seen == ["call", "del"]
    kind = type(core.servable)
    assert kind.__name__ == "Ends"
    del core, stopping, running
    gc.collect()
    assert seen == ["call", "del"]


@run
async def test_stop_waits_no_longer_than_it_is_told(capfd):
    core = await started(forever)
    task = asyncio.create_task(core.call(meta()))
    await asyncio.sleep(0)
    await core.stop(timeout=0)
    assert "event=stopped_with_calls deployment=D ongoing=1" in capfd.readouterr().err
    task.cancel()


async def forever():
    await asyncio.Event().wait()


@run
async def test_what_del_raises_is_logged(capfd):
    class Bad:
        def __del__(self):
            raise OSError("disk")

    core = await started(Bad)
    await core.stop()
    err = capfd.readouterr().err
    assert 'event=shutdown_failed' in err and "Exception during graceful shutdown of replica: disk" in err


@run
async def test_the_threads_end_with_the_replica():
    core = await started(Methods)
    await call(core, "sync", 1)
    threads = list(core._sync._pool._threads)
    assert threads
    await core.stop()
    for thread in threads:
        await asyncio.to_thread(thread.join)


# --- what the collector has to free ---


@run
async def test_failed_calls_leave_nothing_to_the_collector():
    from anyserve.serve.batching import batch
    from anyserve.serve.multiplex import multiplexed

    class Fails:
        def sync(self):
            raise ValueError("no")

        async def asynchronous(self):
            raise ValueError("no")

        def generator(self):
            yield 1
            raise ValueError("no")

        async def async_generator(self):
            yield 1
            raise ValueError("no")

        @batch(batch_wait_timeout_s=0)
        async def batched(self, items):
            raise ValueError("no")

        @batch(batch_wait_timeout_s=0)
        async def short(self, items):
            return []

        @batch(batch_wait_timeout_s=0)
        async def streamed(self, items):
            yield items
            raise ValueError("no")

        @multiplexed
        async def load(self, model_id):
            raise ValueError("no")

        async def stream_of_batch(self):
            async for item in self.streamed(1):
                yield item

        async def batch_of_one(self):
            await self.batched(1)

        async def short_batch(self):
            await self.short(1)

        async def model(self):
            await self.load("m")

    core = await started(Fails)
    streams = "generator", "async_generator", "stream_of_batch"
    for method in ("sync", "asynchronous", "batch_of_one", "short_batch", "model", *streams):

        async def fail():
            try:
                if method in streams:
                    await items(core, method)
                else:
                    await call(core, method)
            except (ValueError, RayServeException):
                return
            raise AssertionError("it did not fail")

        for _ in range(3):
            await fail()
        await asyncio.sleep(0)
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                await fail()
            await asyncio.sleep(0)
            assert gc.collect() < 20, method
        finally:
            gc.enable()
    await core.stop()


@run
async def test_a_class_that_refuses_subclasses_ends_well(capfd):
    class Final:
        ended = 0

        def __init_subclass__(cls):
            raise ValueError("no subclasses")

        def __del__(self):
            Final.ended += 1

    core = await started(Final)
    await core.stop()
    assert Final.ended == 1 and "shutdown_failed" not in capfd.readouterr().err
