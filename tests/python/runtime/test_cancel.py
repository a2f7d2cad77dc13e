"""Cancelled requests: what each kind of handler sees."""

import os
import socket
import struct

import numpy as np
import pytest
from fake import PING, PONG, Refused, frame

APP = """
import asyncio
import ctypes
import os
import threading
import numpy as np
from anyserve import AnyServe

app = AnyServe()
told = threading.Event()
hold_the_interpreter = ctypes.PyDLL(None).usleep  # PyDLL keeps the GIL during the call


def begun(path):
    open(path[0], "w").close()


def spin(path, request):
    begun(path)
    while not request.cancelled:
        pass
    return ()


class Spin:
    def __call__(self, path, request):
        return spin(path, request)


@app.model("sync_class")
class SpinClass(Spin):
    pass


app.model("sync")(spin)


@app.model("quick")
def quick(request):
    return {"cancelled": np.array([request.cancelled])}
"""

THREADS = """
app.model("threads", threads=4)(spin)


@app.model("greedy", threads=2)
def greedy(path, ms):
    begun(path)
    hold_the_interpreter(int(ms[0]) * 1000)
    return ()
"""

ASYNC = """
caught = []


async def sleeper(path, request):
    begun(path)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        caught.append(request.cancelled)
        raise


app.model("async")(sleeper)
app.model("eager", eager=True)(sleeper)


@app.model("async_class")
class Sleeper:
    async def __call__(self, path, request):
        return await sleeper(path, request)


async def computing(path, request):
    # it never awaits, so nothing can be thrown into it
    return spin(path, request)


app.model("computing")(computing)
app.model("computing_eager", eager=True)(computing)


@app.model("caught")
async def get_caught():
    return {"caught": np.array(caught)}


@app.model("listen")
async def listen(path):
    # a unix server on the worker's own event loop
    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    server = await asyncio.start_unix_server(answer, path[0].decode())
    begun.server = server
    return ()
"""

SYNC_MODELS = ["sync", "sync_class"]
ASYNC_MODELS = ["async", "eager", "async_class", "computing", "computing_eager"]
KINDS = {"plain": APP, "threads": APP + THREADS, "loop": APP + THREADS + ASYNC}
CASES = [(k, m) for k in KINDS
         for m in SYNC_MODELS + ["threads"] * (k != "plain") + ASYNC_MODELS * (k == "loop")]


@pytest.fixture(scope="module")
def workers(start_module):
    """A worker for each way in which a link is driven."""
    return {name: start_module(source) for name, source in KINDS.items()}


def begin(worker, model, tmp_path, inputs=None, **kwargs):
    """A request whose handler runs."""
    path = tmp_path / f"begun-{worker.next}"
    stream = worker.ask(model, {"path": [str(path).encode()], **(inputs or {})}, **kwargs)
    while not path.exists():
        assert worker.process.poll() is None
        os.sched_yield()
    return stream


@pytest.mark.parametrize("reason, status", [(1, "CANCELLED"), (4, "DEADLINE_EXCEEDED")])
@pytest.mark.parametrize("kind, model", CASES)
def test_a_running_handler_learns_of_it(workers, tmp_path, kind, model, reason, status):
    worker = workers[kind]
    stream = begin(worker, model, tmp_path)
    worker.cancel(stream, reason)
    with pytest.raises(Refused) as e:
        worker.answer(stream)
    assert e.value.flags == 2  # user code has run
    assert e.value.code == status or e.value.message == "the handler was cancelled"
    assert not worker.infer("quick")["cancelled"][0]


@pytest.mark.parametrize("kind, model", [c for c in CASES if c[1] not in ("async", "eager", "async_class")])
def test_a_running_handler_sees_its_deadline_pass(workers, tmp_path, kind, model):
    """By its own clock: the dispatcher need not say a word."""
    worker = workers[kind]
    worker.answer(begin(worker, model, tmp_path, timeout=100_000_000))


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_all_threads_learn_of_it(workers, tmp_path, kind):
    """Each of them wants the interpreter all the time."""
    worker = workers[kind]
    streams = [begin(worker, "threads", tmp_path) for _ in range(4)]
    for stream in streams:
        worker.cancel(stream)
    for stream in streams:
        with pytest.raises(Refused, match="CANCELLED"):
            worker.answer(stream)


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_the_link_is_read_while_a_thread_keeps_the_interpreter(workers, tmp_path, kind):
    worker = workers[kind]
    stream = begin(worker, "greedy", tmp_path, {"ms": np.array([500])})
    for i in range(20):
        worker.send(frame(PING, struct.pack("<Q", i)))
        kind_of, _, _, payload = worker.receive()
        if kind_of != PONG:
            pytest.fail(f"frame {kind_of} came before the answer to PING {i}")
        assert payload == struct.pack("<Q", i)
    worker.answer(stream)


def test_what_a_cancelled_coroutine_sees(workers, tmp_path):
    worker = workers["loop"]
    before = len(worker.infer("caught")["caught"])
    stream = begin(worker, "async", tmp_path)
    worker.cancel(stream)
    with pytest.raises(Refused):
        worker.answer(stream)
    caught = worker.infer("caught")["caught"]
    assert len(caught) == before + 1 and caught.all()


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_the_link_cancels_what_runs(start, tmp_path, kind):
    worker = start(KINDS[kind])
    for model in {"plain": ["sync"], "threads": ["threads"], "loop": ["async", "threads"]}[kind]:
        begin(worker, model, tmp_path)
    worker.sock.close()
    worker.greet()  # what ran in the main thread has ended, or it would not come back
    assert not worker.infer("quick")["cancelled"][0]


def test_an_event_loop_lives_on_while_the_worker_connects_again(start, tmp_path):
    """A dispatcher that accepts and says nothing holds up the greeting, not the handlers' loop."""
    worker = start(KINDS["loop"])
    path = tmp_path / "own"
    worker.infer("listen", {"path": [str(path).encode()]})
    worker.sock.close()
    silent, _ = worker.listener.accept()
    silent.settimeout(60)
    assert silent.recv(1 << 16)  # its HELLO: from now on it waits for ours
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(5)  # half of what the greeting may take
        s.connect(str(path))
        s.sendall(b"still there\n")
        assert s.recv(100) == b"still there\n"
    silent.close()
    worker.greet()
    assert not worker.infer("quick")["cancelled"][0]
