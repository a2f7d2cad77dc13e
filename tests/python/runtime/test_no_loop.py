"""A sync handler never sees a running event loop, and does not disturb the worker's own loop."""

import json
import sys

import numpy as np
import pytest
from fake import Refused

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
import asyncio, contextvars, json, sys, threading
import numpy as np
from anyserve import AnyServe, Batching, Error, Response

app = AnyServe()
var = contextvars.ContextVar("var", default="unset")
seen = []

def look():
    seen.append([threading.current_thread().name, asyncio._get_running_loop() is None])
    try:
        asyncio.current_task()
    except RuntimeError:
        pass
    else:
        seen.append("a current task")

async def inner(x):
    await asyncio.sleep(0)
    assert asyncio.current_task() is not None
    return x

def run(x):
    look()
    if x[0] < 0:
        return x
    if x[0] == 7:
        asyncio.run(inner(x))
        raise Error("ABORTED", "seven")
    if x[0] == 8:
        async def fails():
            raise ValueError("eight")
        asyncio.run(fails())
    return asyncio.run(inner(x))

@app.model("run")
def plain(x):
    return run(x)

@app.model("class")
class Class:
    def __call__(self, x):
        return run(x)

@app.model("threads", threads=2)
def threads(x):
    return run(x)

@app.model("generator")
def generator(x):
    yield run(x)
    yield run(x)

@app.model("converts")
def converts(x):
    class Value:
        def __array__(self, *args, **kwargs):
            return run(x)
    return Value()

@app.model("mapping")
def mapping(x):
    class Values:
        def keys(self):
            return ["output0"]
        def __getitem__(self, key):
            return run(x)
    return Values()

@app.model("another")
def another(x):
    look()
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(inner(x))
    finally:
        loop.close()

@app.model("runner")
def runner(x):
    look()
    with asyncio.Runner() as r:
        r.run(inner(x))
        return r.run(inner(x))

@app.model("seen")
def what_was_seen():
    text, seen[:] = json.dumps(seen), []
    return np.array([text.encode()], object)
"""
LOOP = APP + """
asyncgens = []

@app.model("async")
async def asynchronous(x):
    loop = asyncio.get_running_loop()
    assert asyncio.current_task() is not None and var.get() == "unset"
    if not asyncgens:
        asyncgens.append(sys.get_asyncgen_hooks())
    assert sys.get_asyncgen_hooks() == asyncgens[0] and asyncgens[0].firstiter is not None
    await asyncio.sleep(0)
    assert asyncio.get_running_loop() is loop and loop.is_running() and asyncio.get_event_loop() is loop
    assert await loop.run_in_executor(None, lambda: 1) == 1
    await asyncio.wait_for(asyncio.create_task(inner(x)), 30)
    return x

@app.model("keeps")
def keeps(x):
    before = var.get()
    var.set("of a sync handler")
    return Response((), {"before": before})
"""
MODELS = ["run", "class", "threads", "generator", "converts", "mapping", "another", "runner"]
SHORT = {"x": np.array([-1])}
X = {"x": np.array([3])}


def call(worker, model, inputs=X):
    stream = worker.ask(model, inputs)
    return list(worker.parts(stream)) if model == "generator" else [worker.answer(stream)]


def seen(worker):
    return json.loads(worker.infer("seen")["output0"][0])


def check_loop(worker):
    assert worker.infer("async", X)["output0"] == 3


@pytest.fixture(params=POLICIES)
def worker(start, request):
    return start(POLICIES[request.param] + LOOP)


@pytest.mark.parametrize("model", MODELS)
def test_alone(start, model):
    worker = start(APP)
    for _ in range(3):
        assert all(a["output0"] == 3 for a in call(worker, model))
    assert all(none for _, none in seen(worker))


@pytest.mark.parametrize("model", MODELS)
def test_beside_a_loop(worker, model):
    for _ in range(3):
        assert all(a["output0"] == 3 for a in call(worker, model))
        check_loop(worker)
    found = seen(worker)
    assert found and all(none and where != "MainThread" for where, none in found)


def runs_on_main(worker, model):
    """Calls it with what takes no time until it runs on the loop's thread; False: it does not come to that."""
    for _ in range(30):
        for _ in range(100):
            call(worker, model, SHORT)
        if seen(worker)[-1] == ["MainThread", True]:
            return True
    return False


@pytest.mark.parametrize("value", [3, 7, 8])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("model", ["run", "class", "converts", "mapping"])
def test_on_the_thread_of_the_loop(start, policy, model, value):
    """Where short ones run; what it does there with loops leaves the worker's as it was, also when it fails."""
    for _ in range(10):  # on a busy machine a short one may have been long: then it stays beside the loop
        worker = start(POLICIES[policy] + LOOP)
        if not runs_on_main(worker, model):
            continue
        if value == 3:
            call(worker, model, X)
        else:
            with pytest.raises(Refused, match="seven|eight"):
                call(worker, model, {"x": np.array([value])})
        check_loop(worker)
        where, none = seen(worker)[0]
        assert none
        if where == "MainThread":
            return
    pytest.fail("it never ran on the loop's thread")


def test_context_variables(worker):
    """Those of sync handlers on the loop's thread are not those of tasks."""
    for _ in range(10_000):
        if worker.infer("keeps", X).parameters["before"] == "of a sync handler":
            break
    else:
        pytest.fail("it never ran on the loop's thread")
    check_loop(worker)


WARM = """
app.deployment(warmup_requests=[
    {"model": "run", "count": 60, "request": {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [-1]}]}},
    {"model": "run", "count": 2, "request": {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [3]}]}},
    {"model": "%s", "count": 2, "request": {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [3]}]}}])
"""


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("last", ["async", "run"])
def test_warm_up(start, policy, last):
    """So many that they run on the loop's thread, within the coroutine that warms up."""
    worker = start(POLICIES[policy] + LOOP + WARM % last)
    assert all(none for _, none in seen(worker))
    check_loop(worker)


def test_warm_up_alone(start):
    worker = start(APP + WARM % "run")
    found = seen(worker)
    assert len(found) == 64 and all(f == ["MainThread", True] for f in found)
