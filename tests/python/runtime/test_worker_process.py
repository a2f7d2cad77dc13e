"""The worker process: registration, its end, reconnecting, and forks."""

import os
import signal
import struct

import numpy as np
import pytest
from fake import DRAIN, GOODBYE, PING, PONG, Refused, frame

SYNC = """
from anyserve import AnyServe, Tensor
import numpy as np
import os
import socket
app = AnyServe()
@app.model("echo", inputs={"x": Tensor("FP32", [-1])}, outputs={"y": Tensor("FP32")}, idempotent=True,
           max_queued_requests=9)
def echo(x):
    return x
@app.model("wide", max_ongoing_requests=4)
def wide(request):
    return ()
@app.model("pid")
def pid(request):
    return np.array([os.getpid()])
@app.model("touch_and_wait")
def touch_and_wait(path):
    open(path[0] + b".begun", "w").close()
    while not os.path.exists(path[0]):
        pass
    return ()
@app.model("fork")
def fork(request):
    child = os.fork()
    if child == 0:
        os._exit(0 if os.listdir("/proc/self/fd") else 1)
    return np.array([os.waitpid(child, 0)[1]])
@app.model("orphan")
def orphan(path):
    # a child that outlives the worker and keeps its descriptors
    if os.fork() == 0:
        links = []
        for n in map(int, os.listdir("/proc/self/fd")):
            try:
                links.append(os.readlink(f"/proc/self/fd/{n}"))
                links.append("peer:" + socket.socket(fileno=os.dup(n)).getpeername())
            except (OSError, TypeError):
                pass
        with open(path[0] + b".tmp", "w") as f:
            f.write("\\n".join(links))
        os.rename(path[0] + b".tmp", path[0])
        os._exit(0)
    return ()
"""
ASYNC = SYNC + """
@app.model("async")
async def asynchronous(request):
    return ()
"""
BOTH = pytest.mark.parametrize("source", [SYNC, ASYNC], ids=["sync", "async"])


def test_what_is_registered(start):
    w = start(SYNC)
    assert (w.token, w.replica, w.deployment) == ("t0ken", "test#0", "app")
    assert w.peer.startswith("anyserve-python 0.")
    assert (w.slots, w.prefetch) == (4, 256)
    echo, wide = w.models["echo", "1"], w.models["wide", "1"]
    assert echo.inputs == {"x": ("FP32", [-1])} and echo.outputs == {"y": ("FP32", None)}
    assert (echo.max_ongoing, echo.budget, echo.max_queued, echo.idempotent) == (1, 4, 9, True)
    assert wide.inputs is None and wide.outputs is None
    assert (wide.max_ongoing, wide.budget, wide.max_queued, wide.idempotent) == (4, 4, 9, False)


def test_the_token_is_not_left_in_the_environment(start):
    w = start("""
        from anyserve import AnyServe
        import os
        app = AnyServe()
        @app.model("env")
        def env(request):
            return {"token": [os.environ.get("ANYSERVE_TOKEN", "gone")]}
        """)
    assert w.infer("env")["token"] == [b"gone"]


@BOTH
def test_the_dispatchers_drain_ends_it(start, source):
    w = start(source)
    w.infer("wide")
    assert w.drain() == 0


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_after_the_drain_changes_nothing(start, signum):
    """The server that ends says both; the event loop is being closed by then."""
    w = start(ASYNC + f"""
import asyncio
class Loop(asyncio.SelectorEventLoop):
    def close(self):
        os.kill(os.getpid(), {int(signum)})
        self._close_self_pipe()  # as a part of close(), which other things follow
        os.kill(os.getpid(), {int(signum)})
        self._make_self_pipe()
        super().close()
        os.kill(os.getpid(), {int(signum)})
asyncio.get_event_loop_policy()._loop_factory = Loop
""")
    assert w.drain() == 0
    assert "ignored" not in w.output, w.output


@BOTH
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_drains_an_idle_worker(start, source, signum):
    w = start(source)
    w.infer("wide")
    w.process.send_signal(signum)
    w.expect(DRAIN)
    _, _, _, opaque = w.expect(PING)
    w.send(frame(PONG, opaque))
    w.expect(GOODBYE)
    assert w.wait() == 0


@BOTH
def test_a_signal_lets_the_running_handler_finish(start, source, tmp_path):
    w = start(source)
    path = str(tmp_path / "go")
    first = w.ask("touch_and_wait", {"path": [path.encode()]})
    second = w.ask("wide")
    while not os.path.exists(path + ".begun"):
        os.sched_yield()
    w.process.send_signal(signal.SIGTERM)
    open(path, "w").close()
    seen = []
    while GOODBYE not in seen:
        kind, _, stream, payload = w.receive()
        seen.append(stream or kind)
        if kind == PING:
            w.send(frame(PONG, payload))
    assert w.wait() == 0
    assert first in seen and second in seen


@BOTH
def test_it_comes_back_after_the_dispatchers_death(start, source):
    w = start(source)
    before = w.infer("pid")["output0"][0]
    for _ in range(3):
        w.sock.close()
        w.greet()
        assert w.infer("pid")["output0"][0] == before
    assert w.drain() == 0
    assert "event=link_lost" in w.output


@BOTH
def test_a_link_that_is_lost_while_it_drains_is_told(start, source, tmp_path):
    """It ends with 0, as it was asked to; that it said no GOODBYE has a reason then."""
    w = start(source)
    path = str(tmp_path / "go")
    w.ask("touch_and_wait", {"path": [path.encode()]})
    while not os.path.exists(path + ".begun"):
        os.sched_yield()
    w.process.send_signal(signal.SIGTERM)
    if source is ASYNC:
        w.expect(DRAIN)
    w.sock.close()
    open(path, "w").close()
    assert w.wait() == 0
    assert 'event=link_lost reason="the dispatcher closed the link" action="ending, as it was asked to"' in w.output


@BOTH
def test_it_waits_for_a_dispatcher_that_is_not_there_yet(start, source):
    w = start(source, greet=False)
    os.rename(w.path, w.path + ".away")
    assert w.process.poll() is None
    os.rename(w.path + ".away", w.path)
    w.greet()
    w.infer("wide")


@BOTH
def test_a_signal_ends_it_while_there_is_no_dispatcher(start, source):
    w = start(source)
    os.unlink(w.path)
    w.sock.close()
    while "event=link_lost" not in w.output:
        assert w.process.poll() is None
    w.process.terminate()
    assert w.wait() == 0


@BOTH
def test_a_refused_model_ends_it(start, source):
    w = start(source, greet=False)
    w.greet(refuse=6)
    assert w.wait() == 78
    assert "model echo version 1 was refused: not here" in w.output


@BOTH
def test_a_refused_worker_ends(start, source):
    w = start(source, greet=False)
    w.sock, _ = w.listener.accept()
    w.send(frame(GOODBYE, b"wrong token"))
    assert w.wait() == 77
    assert "wrong token" in w.output


@BOTH
def test_a_broken_rule_is_told_and_the_link_made_anew(start, source):
    w = start(source)
    w.send(frame(99))
    w.greet()
    w.wait_output("a frame that a worker does not take")


@BOTH
def test_a_forked_child_lets_go_of_the_link(start, source, tmp_path):
    w = start(source)
    path = tmp_path / "links"
    w.infer("orphan", {"path": [str(path).encode()]})
    while not path.exists():
        assert w.process.poll() is None
    links = path.read_text().splitlines()
    assert links and f"peer:{w.path}" not in links
    assert not [x for x in links if x.startswith(("anon_inode:[timerfd", "/memfd:anyserve"))]
    assert w.infer("fork")["output0"][0] == 0
    w.infer("wide")


def test_the_deadline_is_checked_before_the_start(start):
    w = start(SYNC)
    with pytest.raises(Refused, match="DEADLINE_EXCEEDED.*before the request was started"):
        w.infer("wide", timeout=1)


def test_the_status_page_shows_what_ran(start):
    w = start(SYNC)
    for _ in range(3):
        last = w.ask("wide")
        w.answer(last)
    magic, version, last_started, started, finished = struct.unpack("<IIQQQ", os.pread(w.page, 32, 0))
    assert (magic, version, last_started, started, finished) == (0x47505341, 1, last, 3, 3)
    (lock,) = struct.unpack("<I", os.pread(w.page, 4, 64))
    assert lock == w.process.pid | 0x80000000


ALONE = """
import sys
from anyserve import AnyServe
import numpy as np
app = AnyServe()
seen = []

@app.model("loaded")
def loaded():
    return {"asyncio": np.array(["asyncio" in sys.modules]), "seen": np.array(seen, dtype=object)}

@app.model("count")
def count(n):
    try:
        for i in range(int(n[0])):
            yield np.array([i])
    except GeneratorExit:
        seen.append("left")
        raise

@app.model("cancelled")
def cancelled():
    import asyncio
    raise asyncio.CancelledError
"""


def test_asyncio_is_for_those_who_need_it(start):
    w = start(ALONE)
    stream = w.ask("count", {"n": np.array([3])}, credit=(1, 1 << 20))  # stands before its second result
    next(w.parts(stream))
    w.cancel(stream)
    with pytest.raises(Refused, match="CANCELLED"):
        w.answer(stream)
    answer = w.infer("loaded")
    assert list(answer["asyncio"]) == [False] and list(answer["seen"]) == [b"left"]
    with pytest.raises(Refused, match="CANCELLED: the handler was cancelled"):
        w.infer("cancelled")
    assert list(w.infer("loaded")["asyncio"]) == [True]
