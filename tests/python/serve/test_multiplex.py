"""serve.multiplexed: which models a replica holds, who loads them, and when they are unloaded."""

import asyncio
import functools
import gc
import sys
import threading
import types

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.replica import ReplicaContext  # noqa: E402
from anyserve.serve import context, metrics  # noqa: E402
from anyserve.serve._calls.transport import CallMeta, current_request  # noqa: E402
from anyserve.serve._replica.core import ReplicaCore  # noqa: E402
from anyserve.serve.multiplex import get_multiplexed_model_id, multiplexed  # noqa: E402


def on_loop(test):
    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(asyncio.wait_for(test(*args, **kwargs), 60))

    return run


async def replica_of(what, *args):
    core = ReplicaCore(what, args, {}, config=types.SimpleNamespace(max_ongoing_requests=50, user_config=None),
                       context=ReplicaContext("D-0", "D", "shop"), shared=True)  # fmt: skip
    await core.start()
    return core


def call(core, method, *args, model_id=""):
    return asyncio.ensure_future(core.call(CallMeta("shop", "D", method, multiplexed_model_id=model_id), args))


async def turns(n=20):
    for _ in range(n):
        await asyncio.sleep(0)


class Model:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __del__(self):
        self.log.append("-" + self.name)


class Models:
    """Loads wait for `open`, if their model has an event there."""

    def __init__(self):
        self.log = []
        self.open = {}

    @multiplexed(max_num_models_per_replica=2)
    async def get(self, model_id):
        self.log.append("+" + model_id)
        if model_id in self.open:
            await self.open[model_id].wait()
        if model_id.startswith("bad"):
            raise FileNotFoundError("no " + model_id)
        return Model(model_id, self.log)

    @multiplexed(max_num_models_per_replica=1)
    async def other(self, model_id):
        return "other " + model_id

    async def __call__(self, model_id=None):
        return (await self.get(model_id or get_multiplexed_model_id())).name


def outcome(act):
    try:
        act()
    except Exception as e:
        return "%s: %s" % (type(e).__name__, e)
    return "accepted"


async def good(model_id):
    return model_id


async def without():
    pass


async def three(a, b, c):
    pass


def sync(model_id):
    pass


# what Ray 2.60 said to the same
@pytest.mark.parametrize("what, said", [
    (3, "TypeError: The `multiplexed` decorator must be used with a function or method."),
    (sync, "TypeError: @serve.multiplexed can only be used to decorate async functions or methods."),
    (without, "TypeError: @serve.multiplexed can only be used to decorate functions or methods with at least one "
              "'model_id: str' argument."),
    (three, "TypeError: @serve.multiplexed can only be used to decorate functions or methods with at least one "
            "'model_id: str' argument."),
    (good, "accepted"),
])  # fmt: skip
def test_what_can_be_decorated(what, said):
    assert outcome(lambda: multiplexed(what)) == said
    if callable(what):
        assert outcome(lambda: multiplexed(max_num_models_per_replica=2)(what)) == said


@pytest.mark.parametrize("number, said", [
    (0, "ValueError: max_num_models_per_replica must be positive."), (-1, "accepted"),
    (-2, "ValueError: max_num_models_per_replica must be positive."),
    (2.0, "TypeError: max_num_models_per_replica must be an integer."),
    ("3", "TypeError: max_num_models_per_replica must be an integer."),
    (None, "TypeError: max_num_models_per_replica must be an integer."),
])  # fmt: skip
def test_the_number_of_models(number, said):
    assert outcome(lambda: multiplexed(max_num_models_per_replica=number)) == said


def test_calls_that_ray_refuses():
    load = multiplexed(good)
    text = ("TypeError: Functions decorated with `@serve.multiplexed` must take exactly onethe multiplexed model ID (str), but "
            "got %s")  # fmt: skip
    assert outcome(lambda: asyncio.run(load())) == text % "no arguments are provided."
    assert outcome(lambda: asyncio.run(load("a", "b"))) == text % "more than one arguments."
    assert outcome(lambda: asyncio.run(load("a"))) == (
        "RuntimeError: `@serve.multiplex` can only be used within a deployment (failed to retrieve Serve replica context).")


@on_loop
async def test_ids_that_ray_refuses():
    core = await replica_of(Models)
    with pytest.raises(ValueError) as e:
        await call(core, "__call__")
    assert str(e.value) == "The model ID cannot be empty."
    with pytest.raises(TypeError) as e:
        await call(core, "__call__", 3)
    assert str(e.value) == "The model ID must be a string."


@on_loop
async def test_the_least_recently_used_model_is_unloaded_before_the_next_is_loaded():
    core = await replica_of(Models)
    for model_id in "a", "b", "a", "c", "a", "b":
        assert await call(core, "__call__", model_id=model_id) == model_id
    log = core.servable.log
    assert log == ["+a", "+b", "-b", "+c", "-c", "+b"]
    assert core.model_ids() == ["a", "b"]
    gc.collect()
    assert log == ["+a", "+b", "-b", "+c", "-c", "+b"]  # __del__ is called once
    await core.stop()
    assert log[6:] == ["-a", "-b"]


@on_loop
async def test_one_load_for_all_who_wait_and_others_are_not_blocked():
    core = await replica_of(Models)
    models = core.servable
    await call(core, "__call__", "a")
    models.open["slow"] = asyncio.Event()
    waiting = [call(core, "__call__", "slow") for _ in range(3)]
    await turns()
    assert models.log == ["+a", "+slow"]
    assert await call(core, "__call__", "a") == "a"  # loaded
    assert core.model_ids() == ["a", "slow"]  # routers may know a model that is being loaded
    assert await call(core, "__call__", "b") == "b"  # another load; a makes place for it
    models.open["slow"].set()
    assert await asyncio.gather(*waiting) == ["slow"] * 3
    assert models.log == ["+a", "+slow", "-a", "+b"]


@on_loop
async def test_a_load_waits_for_a_place_and_places_are_given_in_order():
    core = await replica_of(Models)
    models = core.servable
    for name in "abcd":
        models.open[name] = asyncio.Event()
    calls = {name: call(core, "__call__", name) for name in "abcd"}
    await turns()
    assert models.log == ["+a", "+b"]
    models.open["b"].set()
    assert await calls["b"] == "b"
    await turns()
    while "+c" not in models.log:  # b's destructor runs in a thread
        await asyncio.sleep(0)
    assert models.log == ["+a", "+b", "-b", "+c"]
    models.open["a"].set()
    models.open["d"].set()
    assert await calls["d"] == "d"
    assert models.log == ["+a", "+b", "-b", "+c", "-a", "+d"]
    models.open["c"].set()
    assert await calls["c"] == "c"


@on_loop
async def test_a_load_that_fails_fails_those_who_wait_and_is_tried_again_by_the_next():
    core = await replica_of(Models)
    for name in "a", "b":
        await call(core, "__call__", name)
    calls = [call(core, "__call__", "bad") for _ in range(2)]
    for c in calls:
        with pytest.raises(FileNotFoundError, match="no bad"):
            await c
    log = core.servable.log
    assert log == ["+a", "+b", "-a", "+bad"]  # as in Ray, a was unloaded for it
    with pytest.raises(FileNotFoundError):
        await call(core, "__call__", "bad")
    assert log[4:] == ["+bad"] and core.model_ids() == ["b"]
    assert await call(core, "__call__", "c") == "c"
    assert log[5:] == ["+c"]  # the place of the failed one


@on_loop
async def test_a_load_is_cancelled_with_the_last_of_its_callers():
    core = await replica_of(Models)
    models = core.servable
    models.open["slow"] = asyncio.Event()
    first, second = call(core, "__call__", "slow"), call(core, "__call__", "slow")
    await turns()
    first.cancel()
    await turns()
    assert core.model_ids() == ["slow"]
    second.cancel()
    await turns()
    assert core.model_ids() == []
    models.open["slow"].set()
    assert await asyncio.gather(*(call(core, "__call__", n) for n in ("x", "y"))) == ["x", "y"]  # both places are free
    # one who comes while the cancelled load ends loads it again
    models.open["slow2"] = asyncio.Event()
    third = call(core, "__call__", "slow2")
    while "+slow2" not in models.log:
        await asyncio.sleep(0)
    third.cancel()
    await asyncio.sleep(0)
    models.open["slow2"].set()
    assert await call(core, "__call__", "slow2") == "slow2"


@on_loop
async def test_a_load_is_no_part_of_the_request_that_began_it():
    seen = []

    class Loader:
        @multiplexed
        async def get(self, model_id):
            seen.append((current_request.get(), get_multiplexed_model_id()))
            return model_id

        async def __call__(self):
            current_request.set("request")
            return await self.get(get_multiplexed_model_id())

    core = await replica_of(Loader)
    await call(core, "__call__", model_id="m")
    assert seen == [(None, "m")]


@on_loop
async def test_each_loader_of_each_object_has_models_of_its_own():
    @multiplexed(max_num_models_per_replica=-1)
    async def load(model_id):
        loaded.append(model_id)
        return model_id

    async def use(model_id):
        return await load(model_id)

    class Two(Models):
        async def both(self):
            return (await self.get("x")).name, await self.other("x"), await self.other("y"), (await self.get("x")).name

    loaded = []
    core = await replica_of(Two)
    assert await call(core, "both") == ("x", "other x", "other y", "x")
    assert core.servable.log == ["+x"] and core.model_ids() == ["x", "y"]
    cores = [await replica_of(use), await replica_of(use)]
    for core in cores:
        for i in range(50):
            await call(core, "__call__", str(i))
    assert loaded == [str(i) for i in range(50)] * 2 and len(cores[0].model_ids()) == 50


@on_loop
async def test_unloading_in_a_thread_and_async_and_failing(capfd):
    seen = []

    class Sync:
        def __del__(self):
            seen.append(threading.current_thread() is threading.main_thread())

    class Async:
        async def __del__(self):
            await asyncio.sleep(0)
            seen.append("async")

    class Broken:
        def __del__(self):
            raise OSError("disk")

    class Loader:
        @multiplexed(max_num_models_per_replica=1)
        async def get(self, model_id):
            return {"sync": Sync, "async": Async, "broken": Broken, "dict": dict}[model_id]()

        async def __call__(self, model_id):
            await self.get(model_id)

    core = await replica_of(Loader)
    for model_id in "sync", "async", "broken", "dict", "sync":
        await call(core, "__call__", model_id)
    assert seen == [False, "async"]
    assert "event=model_unload_failed" in capfd.readouterr().err
    await core.stop()
    assert seen == [False, "async", False] and core.number_of_models() == 0


@on_loop
async def test_the_replica_reports_what_it_holds():
    import json

    core = await replica_of(Models)
    sent = []
    core.report_to(lambda kind, text: sent.append(json.loads(text)) if kind == 2 else None)
    assert sent == [[]]  # before the first request, so that the dispatcher knows that models count
    for model_id in "a", "b", "c":
        await call(core, "__call__", model_id)
    # a model that waits for its place or is being loaded counts
    assert sent[1:] == [["a"], ["a", "b"], ["a", "b", "c"], ["b", "c"]]
    core.report_to(lambda kind, text: sent.append((kind, text)))  # a new connection
    assert (2, '["b", "c"]') in sent
    core.report_to(None)


@on_loop
async def test_a_replica_without_loaders_reports_no_models():
    def plain():
        pass

    core = await replica_of(plain)
    sent = []
    core.report_to(lambda kind, text: sent.append(kind))
    core.report_to(None)
    assert 2 not in sent


@on_loop
async def test_a_load_is_reported_before_it_begins():
    import json

    reports, seen = [], []

    class Slow:
        @multiplexed
        async def load(self, model_id):
            seen.append(list(reports))
            return model_id

        async def __call__(self):
            return await self.load(get_multiplexed_model_id())

    core = await replica_of(Slow)
    core.report_to(lambda kind, text: reports.append(json.loads(text)) if kind == 2 else None)
    await call(core, "__call__", model_id="m")
    assert seen == [[[], ["m"]]]
    core.report_to(None)


@on_loop
async def test_metrics():
    core = await replica_of(Models)
    for model_id in "a", "b", "c", "c":
        await call(core, "__call__", model_id)
    with pytest.raises(FileNotFoundError):
        await call(core, "__call__", "bad")
    where = 'application="shop",deployment="D",replica="D-0"'
    sample = dict(line[2:].rsplit(" ", 1) for line in metrics.registry.text().splitlines() if where in line)
    assert sample["serve_multiplexed_get_model_requests_counter_total {%s}" % where] == "5.0"
    assert sample["serve_multiplexed_models_load_counter_total {%s}" % where] == "4.0"
    assert sample["serve_multiplexed_models_unload_counter_total {%s}" % where] == "2.0"
    assert sample["serve_num_multiplexed_models {%s}" % where] == "1"
    assert sample['serve_registered_multiplexed_model_id {%s,model_id="c"}' % where] == "1"
    assert not [s for s in sample if 'model_id="a"' in s]
    assert sample["serve_multiplexed_model_load_latency_ms_count {%s}" % where] == "3"
    assert sample["serve_multiplexed_model_unload_latency_ms_count {%s}" % where] == "2"


def test_outside_a_call_there_is_no_id():
    assert get_multiplexed_model_id() == "" and context.current_core() is None


@on_loop
async def test_a_loader_that_is_cancelled_by_itself_is_not_repeated():
    class Cancelled:
        loads = 0

        @multiplexed
        async def load(self, model_id):
            self.loads += 1
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

        async def get(self):
            try:
                await self.load("a")
            except asyncio.CancelledError:
                return self.loads

    core = await replica_of(Cancelled)
    assert await call(core, "get") == 1
    await core.stop()
