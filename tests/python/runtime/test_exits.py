"""sys.exit(), KeyboardInterrupt and the like in a handler are exceptions like any other: the worker goes on."""

import signal

import numpy as np
import pytest
from fake import DATA, GOODBYE, HEALTH, PING, PONG, RECONFIGURE, Refused, frame

HEAD = """
import asyncio, os, sys, threading
import numpy as np
from typing import AsyncIterator
from anyserve import AnyServe, Request, batch

class Odd(BaseException):
    pass

RAISES = {"exit": lambda: sys.exit(5), "exit text": lambda: sys.exit("enough"), "quit": lambda: exit(),
          "interrupt": lambda: (_ for _ in ()).throw(KeyboardInterrupt()), "odd": lambda: (_ for _ in ()).throw(Odd("x"))}

def fail(what):
    if what[0]:
        RAISES[what[0].decode()]()
    return np.zeros(1)

app = AnyServe()

@app.model("pid")
def pid():
    return np.array([os.getpid()])
"""

SYNC = HEAD + """
@app.model("sync")
def sync(what):
    return fail(what)

@app.model("class")
class Class:
    def __call__(self, what):
        return fail(what)

@app.model("thread", threads=2)
def thread(what):
    return fail(what)

@app.model("generator")
def generator(what):
    yield np.zeros(1)
    yield fail(what)

@app.model("converted")
def converted(what):
    class Value:
        def __array__(self, *args, **kwargs):
            return fail(what)
    return Value()
"""

ASYNC = SYNC + """
@app.model("async")
async def asynchronous(what):
    await asyncio.sleep(0)
    return fail(what)

@app.model("at_once")
async def at_once(what):
    return fail(what)

@app.model("eager", eager=True)
async def eager(what):
    return fail(what)

@app.model("async_generator")
async def async_generator(what):
    yield np.zeros(1)
    await asyncio.sleep(0)
    yield fail(what)

@app.model("stream_of_inputs")
async def stream_of_inputs(requests: AsyncIterator[Request]):
    async for r in requests:
        yield np.zeros(1)
        yield fail(r.inputs["what"])

@app.model("child")
async def child(what):
    async def inner():
        await asyncio.sleep(0)
        return fail(what)
    (result,) = await asyncio.gather(inner())
    return result

@app.model("timed")
async def timed(what):
    async def inner():
        await asyncio.sleep(0)
        return fail(what)
    return await asyncio.wait_for(inner(), 30)

@app.model("in_a_thread")
async def in_a_thread(what):
    return await asyncio.to_thread(fail, what)

@batch(max_batch_size=2)
async def together(what):
    return [fail(w) for w in what]

@app.model("inner_batch")
async def inner_batch(what):
    return await together(what)

@app.model("callback")
async def callback(what):
    done = asyncio.get_running_loop().create_future()
    def call():
        done.set_result(np.zeros(1))
        fail(what)
    asyncio.get_running_loop().call_soon(call)
    result = await done
    return result if not what[0] else fail(what)
"""
POLICY = """
import asyncio
class Policy(asyncio.DefaultEventLoopPolicy):
    pass
asyncio.set_event_loop_policy(Policy())
"""
SYNC_MODELS = ["sync", "class", "thread", "generator", "converted"]
ASYNC_MODELS = ["async", "at_once", "eager", "async_generator", "stream_of_inputs", "child", "timed", "in_a_thread",
                "inner_batch", "callback"]  # fmt: skip
WHAT = {"exit": "SystemExit: 5", "exit text": "SystemExit: enough", "quit": "SystemExit",
        "interrupt": "KeyboardInterrupt", "odd": "Odd: x"}  # fmt: skip


@pytest.fixture(scope="module", params=["alone", "beside a loop", "beside a loop of a policy"])
def worker(start_module, request):
    return start_module({"alone": SYNC, "beside a loop": ASYNC, "beside a loop of a policy": POLICY + ASYNC}[request.param])


@pytest.fixture(scope="module", params=["own loop", "loop of a policy"])
def async_worker(start_module, request):
    return start_module(ASYNC if request.param == "own loop" else POLICY + ASYNC)


def call(worker, model, what):
    """Every message of the answer; raises Refused."""
    if worker.models[model, "1"].flags & 24:  # several messages
        stream = worker.ask(model, {"what": [what.encode()]})
        if worker.models[model, "1"].flags & 16:
            worker.end_inputs(stream)
        return list(worker.parts(stream))
    return [worker.infer(model, {"what": [what.encode()]})]


def until_goodbye(worker):
    """The worker drains by itself: the streams that it has answered with a message."""
    answered, kind = [], None
    while kind != GOODBYE:
        kind, flags, stream, payload = worker.receive()
        if kind == PING:
            worker.send(frame(PONG, payload))
        elif kind == DATA:
            answered.append(stream)
    assert worker.wait() == 0
    return answered


def check(worker, model, what):
    pid = worker.infer("pid")["output0"]
    before = len(worker.output)
    with pytest.raises(Refused) as e:
        call(worker, model, what)
    assert e.value.code == "INTERNAL" and e.value.flags & 2, e.value
    if model != "converted":
        assert WHAT[what] in e.value.message, e.value.message
        worker.wait_output_after(before, "event=handler_raised", "Traceback", WHAT[what].split(":")[0])
    assert worker.infer("pid")["output0"] == pid
    assert call(worker, model, "")


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("model", SYNC_MODELS)
def test_a_sync_handler(worker, model, what):
    check(worker, model, what)


@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("model", ASYNC_MODELS)
def test_an_async_handler(async_worker, model, what):
    check(async_worker, model, what)


def test_on_the_thread_of_the_loop(async_worker):
    """Where short handlers run."""
    for _ in range(200):
        async_worker.infer("sync", {"what": [b""]})
    for what in WHAT:
        check(async_worker, "sync", what)


def test_what_comes_with_it_is_answered(async_worker):
    """The ones that end badly leave the others where they are."""
    streams = [async_worker.ask(m, {"what": [b"exit" if i % 2 else b""]})
               for i in range(20) for m in ("sync", "at_once", "async", "child")]  # fmt: skip
    for i, stream in enumerate(streams):
        if i // 4 % 2:
            with pytest.raises(Refused, match="INTERNAL: .*SystemExit: 5"):
                async_worker.answer(stream)
        else:
            async_worker.answer(stream)


def test_a_task_that_outlives_its_request_is_logged(start):
    """Nobody waits for it: what it raised is in the log, and the worker goes on."""
    worker = start(HEAD + """
tasks = set()
@app.model("m")
async def m():
    async def background():
        await asyncio.sleep(0)
        sys.exit(7)
    tasks.add(asyncio.create_task(background()))
    return ()
""")
    worker.infer("m")
    worker.wait_output("event=task_raised", "SystemExit: 7", "in background")
    worker.infer("m")
    assert worker.drain() == 0


WARM = "\napp.deployment(warmup_requests=[{'model': 'm', 'request': {'inputs': []}}])\n"


@pytest.mark.parametrize("handler", ["def m():", "async def m():"])
def test_in_warm_up_it_says_what_it_was(start, handler):
    worker = start(HEAD + f"""
@app.model("m")
{handler}
    sys.exit(0)
""" + WARM, greet=False)
    assert worker.wait() == 70
    worker.wait_output("warmup_requests[0]: model 'm' failed in run 1 of 1: INTERNAL: model 'm' raised SystemExit: 0")


@pytest.mark.parametrize("handler", ["def m():", "async def m():"])
def test_a_signal_ends_the_warm_up(start, handler):
    worker = start(HEAD + f"""
@app.model("m")
{handler}
    print("warming")
    threading.Event().wait()
""" + WARM, greet=False)
    worker.wait_output("warming")
    worker.process.send_signal(signal.SIGTERM)
    assert worker.wait() == -signal.SIGTERM


def test_an_interrupt_ends_the_warm_up(start):
    worker = start(HEAD + """
@app.model("m")
def m():
    print("warming")
    threading.Event().wait()
""" + WARM, greet=False)
    worker.wait_output("warming")
    worker.process.send_signal(signal.SIGINT)
    assert worker.wait() == -signal.SIGINT


@pytest.mark.parametrize("made", ["def __init__(self):", "def reconfigure(self, config, rank):", "def check_health(self):"])
@pytest.mark.parametrize("other", ["", "async "])
def test_at_the_start_of_a_replica(start, made, other):
    """Nothing that ends with code 0 has drained if it was never there."""
    worker = start(HEAD + f"""
@app.model("m")
class M:
    {made}
        sys.exit(0)
    {other}def __call__(self):
        return ()
""", greet=False)
    assert worker.wait() == 70
    worker.wait_output("SystemExit: 0", "Traceback", "app.py")


@pytest.mark.parametrize("other", ["", "async "])
@pytest.mark.parametrize("hook", ["", "async "])
def test_in_a_hook(start, other, hook):
    worker = start(HEAD + f"""
calls = []
@app.model("m")
class M:
    {hook}def check_health(self):
        calls.append(1)
        if len(calls) > 1:
            sys.exit(0)
    {hook}def reconfigure(self, config):
        if config:
            sys.exit(0)
    {other}def __call__(self):
        return ()
""")
    code, text = worker.control(HEALTH)
    assert code == "INTERNAL" and "SystemExit: 0" in text
    code, text = worker.control(RECONFIGURE, '{"user_config": 1}')
    assert code == "INTERNAL" and "SystemExit: 0" in text
    worker.infer("m")
    assert worker.drain() == 0


STAGED = HEAD + """
gate = threading.Event()
@app.model("waits")
def waits(path):
    open(path[0], "w").close()
    while not os.path.exists(path[0] + b".go"):
        pass
    return np.zeros(1)
"""
STAGED_ASYNC = STAGED + """
@app.model("other")
async def other():
    return ()
"""


@pytest.mark.parametrize("source", [STAGED, STAGED_ASYNC], ids=["alone", "beside a loop"])
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_a_worker_whose_handler_runs(start, tmp_path, source, signum):
    """It is answered, then the worker ends."""
    worker, path = start(source), tmp_path / "begun"
    stream = worker.ask("waits", {"path": [str(path).encode()]})
    while not path.exists():
        pass
    worker.process.send_signal(signum)
    (tmp_path / "begun.go").touch()
    assert stream in until_goodbye(worker)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_after_a_handler_that_took_the_signals_and_gave_them_back(start, signum):
    """As asyncio.run does, and libraries that want Ctrl-C for themselves for a while."""
    worker = start(HEAD + f"""
import signal
@app.model("m")
def m():
    asyncio.run(asyncio.sleep(0))
    old = signal.signal({int(signum)}, lambda *_: None)
    signal.signal({int(signum)}, old)
    return ()
""")
    worker.infer("m")
    worker.process.send_signal(signum)
    until_goodbye(worker)
