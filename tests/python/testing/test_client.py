"""app.test_client(): calling the models of an application within this process."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from typing import AsyncIterator

import numpy as np
import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))

from anyserve import AnyServe, Batching, DeclarationError, Error, Request, Response, Tensor, get_replica_context  # noqa: E402
from anyserve.testing import local  # noqa: E402

ONE = {"x": Tensor("FP32", [-1])}
X = np.array([1, 2], np.float32)


def made(**options):
    """An app with one model `m`, which is the decorated handler."""
    app = AnyServe()
    return app, app.model("m", **options)


def refused(call, *args, **kwargs):
    with pytest.raises(Error) as caught:
        call(*args, **kwargs)
    return caught.value


# --- kinds of handlers ---

def sync(x):
    return {"y": x + 1}


async def asynchronous(x):
    await asyncio.sleep(0.001)
    return {"y": x + 1}


def asking(request):
    return {"y": request.inputs["x"] + 1}


class Object:
    def __call__(self, x):
        return {"y": x + 1}


class AsyncObject:
    async def __call__(self, x):
        return {"y": x + 1}


KINDS = {
    "sync": (sync, {}), "async": (asynchronous, {}), "eager": (asynchronous, {"eager": True}),
    "threads": (sync, {"threads": 2}), "request": (asking, {}), "class": (Object, {}), "async class": (AsyncObject, {}),
    "batched": (sync, {"batching": Batching(4)}), "async batched": (asynchronous, {"batching": Batching(4)}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("beside", [False, True])
def test_a_call_is_answered(kind, beside):
    handler, options = KINDS[kind]
    app, declare = made(**options)
    declare(handler)
    if beside:  # the same in a deployment with an event loop
        app.model("other")(asynchronous)
    with app.test_client() as client:
        result = client.infer("m", {"x": X}, id="7")
        assert list(result) == ["y"] and result["y"].tolist() == [2, 3] and result["y"].dtype == np.float32
        assert (result.id, result.model_name, result.model_version) == ("7", "m", "1")
        result["y"][0] = 5  # it is the caller's


@pytest.mark.parametrize("kind", KINDS)
def test_from_an_event_loop(kind):
    handler, options = KINDS[kind]
    app, declare = made(**options)
    declare(handler)

    async def main():
        async with app.test_client() as client:
            results = await asyncio.gather(*(client.infer_async("m", {"x": [float(i)]}) for i in range(20)))
            return [float(r["y"][0]) for r in results] + [float(client.infer("m", {"x": X})["y"][0])]

    assert asyncio.run(main()) == [i + 1.0 for i in range(20)] + [2]


def test_a_handler_that_is_not_async_sees_no_event_loop():
    app, declare = made()
    declare(lambda: np.array(asyncio.run(asyncio.sleep(0, 3))))

    async def main():
        with app.test_client() as client:
            return int(client.infer("m")["output0"]), int((await client.infer_async("m"))["output0"])

    assert asyncio.run(main()) == (3, 3)
    app.model("other")(asynchronous)
    assert asyncio.run(main()) == (3, 3)


def test_handlers_that_are_not_async_run_in_the_thread_that_asks():
    """So that a debugger stops where the test is."""
    app, declare = made()
    declare(lambda: np.array(threading.get_ident()))
    with app.test_client() as client:
        assert client.infer("m")["output0"] == threading.get_ident()


def run_program(code):
    """In a process of its own: what hangs or crashes there fails this test only."""
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", code], capture_output=True, text=True, timeout=120,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})  # fmt: skip
    assert done.returncode == 0, (done.returncode, done.stderr[-4000:])
    return done.stdout


def test_quick_handlers_beside_an_async_one():
    """After some quick calls they run on the event loop's thread, which goes on after each."""
    assert run_program("""
import anyserve, asyncio, numpy as np
app = anyserve.AnyServe()
@app.model("a")
async def a(x):
    await asyncio.sleep(0)
    assert asyncio.current_task()
    return x
@app.model("s")
def s(x):
    return x
@app.model("refuses", inputs={"x": anyserve.Tensor("FP32", [1])})
def refuses(x):
    raise ValueError("no")
with app.test_client() as client:
    for i in range(100):
        assert client.infer("s", {"x": [i]})["output0"].tolist() == [i]
    for i in range(100):
        try:
            client.infer("refuses", {"x": [i]})
        except anyserve.Error as e:
            assert "ValueError: no" in e.message
        assert client.infer("a", {"x": [i]})["output0"].tolist() == [i]
        assert client.infer("s", {"x": [i]})["output0"].tolist() == [i]
print("ended")
""") == "ended\n"


def test_many_at_once():
    app, declare = made()
    running = set()

    @declare
    async def m(x):
        running.add(int(x[0]))
        while len(running) < 50:
            await asyncio.sleep(0.001)
        return x

    async def main():
        with app.test_client() as client:
            return await asyncio.gather(*(client.infer_async("m", {"x": [i]}) for i in range(50)))

    assert [int(r["output0"][0]) for r in asyncio.run(main())] == list(range(50))


# --- what a request says ---

def test_what_a_handler_sees():
    app, declare = made(inputs={"x": Tensor("INT8", [-1]), "t": Tensor("BYTES", [-1])})
    seen = []

    @declare
    def m(request):
        assert isinstance(request, Request)
        seen.append((request.id, dict(request.parameters), dict(request.metadata), request.model_version,
                     request.deadline, request.cancelled, {k: v.tolist() for k, v in request.inputs.items()}))
        assert not request.inputs["x"].flags.writeable and request.inputs["x"].ctypes.data % 64 == 0
        return Response({"y": request.inputs["x"]}, {"said": 1})

    with app.test_client() as client:
        result = client.infer("m", {"x": [1, -2], "t": ["é", b"\0"]}, id="7",
                              parameters={"b": True, "i": 3, "f": 0.5, "s": "t", "timeout": 5},
                              metadata={"X-Who": "me", "k-bin": b"\1"})  # fmt: skip
    assert result.parameters == {"said": 1}
    assert seen == [("7", {"b": True, "i": 3, "f": 0.5, "s": "t"}, {"x-who": "me", "k-bin": b"\1"}, "1", None, False,
                     {"x": [1, -2], "t": ["é".encode(), b"\0"]})]  # fmt: skip


@pytest.mark.parametrize(("datatype", "value", "expected"), [
    ("FP32", [1, 2.5], [1, 2.5]), ("FP64", (1, 2), [1, 2]), ("INT64", [2**62], [2**62]), ("UINT8", [255], [255]),
    ("BOOL", [True, False], [True, False]), ("BYTES", ["a", b"b"], [b"a", b"b"]), ("FP16", [[1], [2]], [[1], [2]]),
    ("BYTES", np.array(["ab", "c"]), [b"ab", b"c"]), ("INT32", np.array([1, 2], ">i4"), [1, 2]),
    ("FP32", np.float32(3), 3), ("FP64", [], []), ("FP32", np.zeros((0, 3), np.float32), []),
    ("INT16", np.arange(6, dtype=np.int16)[::2], [0, 2, 4]),
])  # fmt: skip
def test_values(datatype, value, expected):
    app, declare = made(inputs={"x": Tensor(datatype)})
    declare(lambda x: x)
    with app.test_client() as client:
        assert client.infer("m", {"x": value})["output0"].tolist() == expected


def test_versions_and_outputs():
    app = AnyServe()
    for v in ("2", "10", "beta"):
        app.model("m", version=v)(lambda v=np.array(v): {"a": v, "b": np.array(1), "c": np.array(2)})
    with app.test_client() as client:
        assert client.infer("m")["a"].tolist() == b"10"
        assert client.infer("m", version="beta").model_version == "beta"
        assert list(client.infer("m", outputs=["c", "a"])) == ["c", "a"]
        error = refused(client.infer, "m", outputs=["d"])
        assert (error.code, error.message) == ("INVALID_ARGUMENT", "model 'm' has no output 'd'")


# --- errors ---

def test_errors_carry_what_the_handler_raised():
    for asynchronously in (False, True):
        app, declare = made()

        def boom(x):
            raise KeyError("k") if x[0] else Error("NOT_FOUND", "nothing there")

        async def aboom(x):
            return boom(x)

        declare(aboom if asynchronously else boom)
        with app.test_client() as client:
            error = refused(client.infer, "m", {"x": [1]})
            assert (error.code, error.message) == ("INTERNAL", "model 'm' raised KeyError: 'k'")
            assert isinstance(error.__cause__, KeyError)
            error = refused(client.infer, "m", {"x": [0]})
            assert (error.code, error.message) == ("NOT_FOUND", "nothing there")
            # what one raised is not said of the next
            assert refused(client.infer, "m", {"y": [1]}).__cause__ is not error.__cause__
        with app.test_client(debug_errors=True) as client:
            assert "Traceback" in refused(client.infer, "m", {"x": [1]}).message


def test_a_long_text_is_whole():
    app, declare = made()

    def m(n):
        raise Error("ABORTED", "é" * int(n))

    declare(m)
    with app.test_client() as client:
        assert refused(client.infer, "m", {"n": np.int64(5000)}).message == "é" * 5000
        assert refused(client.infer, "m", {"n": np.int64(20000)}).message == "é" * 8000  # as a worker cuts it


@pytest.mark.parametrize(("inputs", "text"), [
    ({}, "input 'x' of model 'm' is missing"), ({"x": X, "z": X}, "model 'm' has no input 'z' (inputs: x)"),
    ({"x": X.astype(float)}, "input 'x': datatype FP64, model 'm' expects FP32"), ({"x": ["a"]}, "input 'x': data[0]: 'a' is no number"),
    ({"x": [[1], [1, 2]]}, "input 'x': data is not nested evenly"), ({"x": [1e39]}, "input 'x': data[0]: 1e+39 does not fit FP32"),
])  # fmt: skip
def test_inputs_are_checked(inputs, text):
    ran = []
    app, declare = made(inputs=ONE)
    declare(lambda x: ran.append(1))
    with app.test_client() as client:
        error = refused(client.infer, "m", inputs)
    assert (error.code, error.message, ran) == ("INVALID_ARGUMENT", text, [])


def test_outputs_are_checked():
    app, declare = made(outputs={"y": Tensor("FP32", [2])})
    declare(lambda n: {"y": np.zeros(int(n), np.float32)})
    with app.test_client() as client:
        assert client.infer("m", {"n": np.int64(2)})["y"].shape == (2,)
        error = refused(client.infer, "m", {"n": np.int64(3)})
        assert error.code == "INTERNAL" and "'y'" in error.message and "FP32 [2] is declared" in error.message


def test_names_that_there_are_not():
    app, declare = made()
    declare(sync)
    with app.test_client() as client:
        assert str(refused(client.infer, "n")) == "NOT_FOUND: unknown model 'n'"
        assert str(refused(client.infer, "m", version="3")) == "NOT_FOUND: model 'm' has no version '3'"
        assert str(refused(client.infer, "")) == "INVALID_ARGUMENT: the model name is empty"


def test_what_no_client_could_send():
    app, declare = made()
    declare(lambda request: np.array(1))
    with app.test_client() as client:
        for wrong, text in (({"inputs": [1]}, "inputs is a mapping"), ({"id": 7}, "id is a str"),
                            ({"metadata": {"k": 1}}, "metadata 'k' is str"),
                            ({"inputs": {"x": [1j]}}, "input 'x': complex128"), ({"inputs": {1: [1]}}, "the name")):
            with pytest.raises(TypeError, match=text):
                client.infer("m", **wrong)


@pytest.mark.parametrize("asynchronously", [False, True])
def test_what_ends_a_program_ends_the_test(asynchronously):
    """Ctrl-C in a handler is the test's."""
    app, declare = made()

    def m():
        raise KeyboardInterrupt

    declare(m)
    with app.test_client() as client, pytest.raises(KeyboardInterrupt):
        client.infer("m")


# --- streams ---

def count(n):
    for i in range(int(n)):
        yield np.array([i])


async def acount(n):
    for i in range(int(n)):
        await asyncio.sleep(0)
        yield np.array([i])


@pytest.mark.parametrize("handler", [count, acount])
def test_a_stream_of_answers(handler):
    app, declare = made()
    declare(handler)
    with app.test_client() as client:
        assert [int(r["output0"][0]) for r in client.stream("m", {"n": np.int64(100)})] == list(range(100))
        assert list(client.stream("m", {"n": np.int64(0)})) == []
        error = refused(client.infer, "m", {"n": np.int64(1)})
        assert error.code == "UNIMPLEMENTED" and "stream" in error.message
        error = refused(list, client.stream("m", {"k": np.int64(1)}))
        assert error.code == "INVALID_ARGUMENT"

        async def main():
            return [int(r["output0"][0]) async for r in client.stream_async("m", {"n": np.int64(100)})]

        assert asyncio.run(main()) == list(range(100))


@pytest.mark.parametrize("asynchronous_handler", [False, True])
def test_a_handler_runs_as_far_as_its_client_reads(asynchronous_handler):
    app, declare = made()
    made_up, ended = [], threading.Event()

    def forever():
        try:
            while True:
                made_up.append(1)
                yield np.array([len(made_up)])
        finally:
            ended.set()

    async def aforever():
        try:
            while True:
                made_up.append(1)
                yield np.array([len(made_up)])
        finally:
            ended.set()

    declare(aforever if asynchronous_handler else forever)
    with app.test_client() as client:
        stream = client.stream("m")
        assert [int(next(stream)["output0"][0]) for _ in range(3)] == [1, 2, 3]
        assert len(made_up) == 3 and not ended.is_set()
        stream.close()
        assert ended.is_set()
        assert list(stream) == []

        async def main():
            async with client.stream_async("m") as stream:
                async for _ in stream:
                    break

        ended.clear()
        asyncio.run(main())
        assert ended.is_set()


def test_an_error_within_a_stream():
    app, declare = made()

    @declare
    def m():
        yield np.array(1)
        raise ValueError("half way")

    with app.test_client() as client:
        stream = client.stream("m")
        assert next(stream)["output0"] == 1
        error = refused(next, stream)
        assert error.message == "model 'm' raised ValueError: half way" and isinstance(error.__cause__, ValueError)


def test_a_stream_of_requests():
    app, declare = made(inputs={"x": Tensor("INT64", [1])})
    taken = []

    @declare
    async def m(requests: AsyncIterator[Request]):
        async for r in requests:
            taken.append(int(r.inputs["x"][0]))
            yield r.inputs["x"] * 2

    with app.test_client() as client:
        assert [int(r["output0"][0]) for r in client.stream("m", ({"x": [i]} for i in range(100)))] \
            == list(range(0, 200, 2))  # fmt: skip
        assert [int(r["output0"][0]) for r in client.stream("m", {"x": [4]})] == [8]
        error = refused(list, client.stream("m", [{"x": [1]}, {"x": np.array([1.0])}]))
        assert error.code == "INVALID_ARGUMENT" and "FP64" in error.message
        with pytest.raises(ValueError, match="at least one"):
            client.stream("m", [])

        async def talk():
            """The next question depends on the answer."""
            answers: asyncio.Queue = asyncio.Queue()
            await answers.put(1)

            async def questions():
                while (x := await answers.get()) < 1000:
                    yield {"x": [x]}

            async for r in client.stream_async("m", questions()):
                await answers.put(int(r["output0"][0]))
            return answers.qsize()

        assert asyncio.run(talk()) == 0
        taken.clear()
        endless = iter(int, 1)
        stream = client.stream("m", ({"x": [0]} for _ in endless))
        next(stream)
        stream.close()
        assert len(taken) < 100  # bounded: no more is read than the handler has room for
    app2, declare2 = made()
    declare2(count)
    with app2.test_client() as client, pytest.raises(TypeError, match="one request at a time"):
        client.stream("m", [{"n": [1]}])


# --- hooks, contexts, the end ---

def test_hooks_run_as_in_a_worker():
    app, declare = made()
    seen = []

    @declare
    class M:
        def __init__(self):
            seen.append("made in " + get_replica_context().replica)

        def reconfigure(self, config):
            seen.append(config)

        def check_health(self):
            seen.append("well")

        def __call__(self):
            return np.array(get_replica_context().rank)

        def __del__(self):
            seen.append("gone")

    app.deployment(user_config={"k": 1})
    with app.test_client() as client:
        assert seen == ["made in test_client-0", {"k": 1}, "well"]
        assert client.infer("m")["output0"] == 0
        client.check_health()
        client.reconfigure({"k": 2})
        assert seen[3:] == ["well", {"k": 2}]
    del client
    gc.collect()
    assert seen[-1] == "gone"
    with pytest.raises(RuntimeError, match="no replica"):
        get_replica_context()
    with app.test_client(user_config=5):
        assert seen[-2:] == [5, "well"]


@pytest.mark.parametrize("asynchronously", [False, True])
def test_hooks_that_wait(asynchronously):
    app, declare = made()

    class M:
        async def reconfigure(self, config):
            await asyncio.sleep(0)
            self.config = config

        async def check_health(self):
            await asyncio.sleep(0)
            if self.config == "bad":
                raise ValueError("unwell")

        def __call__(self):
            return np.array(self.config)

    declare(M)
    if asynchronously:
        app.model("other")(asynchronous)

    def check():
        with app.test_client(user_config="a") as client:
            assert client.infer("m")["output0"].tolist() == b"a"
            client.reconfigure("bad")
            error = refused(client.check_health)
            assert (error.code, error.message) == ("INTERNAL", "check_health of m: ValueError: unwell")

    async def main():
        check()

    check()
    asyncio.run(main())


def test_a_start_that_fails_says_why():
    app, declare = made()

    @declare
    class M:
        def __init__(self):
            raise OSError("no weights")

        def __call__(self):
            pass

    with pytest.raises(RuntimeError, match="constructing M failed") as caught:
        app.test_client().start()
    assert isinstance(caught.value.__cause__, OSError)
    with pytest.raises(DeclarationError, match="declares no models"), AnyServe().test_client():
        pass
    app, declare = made()
    declare(sync)
    with pytest.raises(DeclarationError, match="user_config"), app.test_client(user_config=1):
        pass
    for hook in ("reconfigure", "check_health"):
        app, declare = made()
        declare(type("N", (), {"__call__": lambda self: None, hook: lambda self, *a: 1 / 0}))
        app.model("other")(asynchronous)
        with pytest.raises(RuntimeError, match=hook), app.test_client(user_config=1 if hook == "reconfigure" else None):
            pass


def test_several_deployments():
    app = AnyServe()

    def who():
        return np.array(get_replica_context().deployment)

    async def awho():
        await asyncio.sleep(0)
        return np.array(get_replica_context().deployment)

    app.model("a", deployment="one")(who)
    app.model("b", deployment="two")(awho)
    app.model("c", deployment="three", threads=2)(who)
    app.model("d", deployment="two")(who)
    with app.test_client() as client:
        for model, name in (("a", b"one"), ("b", b"two"), ("c", b"three"), ("d", b"two")):
            assert client.infer(model)["output0"].tolist() == name


def test_the_end():
    app, declare = made()
    cancelled = threading.Event()

    @declare
    async def m():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    client = app.test_client()
    got = []

    def ask():
        try:
            client.infer("m")
        except Error as e:
            got.append(e.code)

    client.start()
    thread = threading.Thread(target=ask)
    thread.start()
    while not client._locals[0].link.ongoing:
        time.sleep(0.001)
    client.close()
    client.close()
    thread.join()
    assert cancelled.is_set() and got == ["CANCELLED"]
    with pytest.raises(RuntimeError, match="closed"):
        client.infer("m")


@pytest.mark.parametrize("handler", [count, acount])
def test_the_end_of_a_stream_that_nobody_reads(handler):
    app, declare = made()
    declare(handler)
    with app.test_client() as client:
        stream = client.stream("m", {"n": np.int64(1000)})
        next(stream)
    with pytest.raises(Error, match="CANCELLED"):
        list(stream)


@pytest.mark.parametrize("beside", [False, True])
def test_the_end_of_a_generator_that_nobody_reads(beside):
    app, declare = made()
    closed = []

    @declare
    def m():
        try:
            while True:
                yield np.array(1)
        finally:
            closed.append(threading.current_thread())

    if beside:
        app.model("other")(asynchronous)
    with app.test_client() as client:
        streams = [client.stream("m") for _ in range(2)]  # of the second none is read: beside a loop it has to wait
        next(streams[0])
    assert closed
    for stream in streams:
        with pytest.raises(Error, match="CANCELLED"):
            list(stream)
    for thread in closed:
        thread.join(30)
        assert not thread.is_alive()


def test_a_request_that_is_given_up_is_cancelled():
    app, declare = made()
    started, cancelled = threading.Event(), threading.Event()

    @declare
    async def m():
        started.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()

    async def main():
        task = asyncio.create_task(client.infer_async("m"))
        while not started.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with app.test_client() as client:
        asyncio.run(main())
        assert cancelled.wait(10)


def test_a_handler_that_calls_another():
    app, declare = made()
    declare(lambda x: client.infer("n", {"x": x})["output0"] + 1)
    app.model("n")(lambda x: x * 2)
    with app.test_client() as client:
        assert client.infer("m", {"x": [3]})["output0"].tolist() == [7]
    app.model("o")(asynchronous)

    @app.model("waits")
    async def waits(x):
        return client.infer("n", {"x": x})["output0"]

    @app.model("awaits")
    async def awaits(x):
        return (await client.infer_async("n", {"x": x}))["output0"]

    with app.test_client() as client:
        error = refused(client.infer, "waits", {"x": [3]})
        assert "use await client.infer_async" in error.message
        assert client.infer("awaits", {"x": [3]})["output0"].tolist() == [6]


def test_nothing_is_left_behind():
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    class M:
        def __call__(self, x):
            return x

    def once(*handlers, **options):
        app = AnyServe()
        for i, h in enumerate(handlers):
            app.model("m%d" % i, outputs={"output0": Tensor("FP32", labels=["a"])}, **options)(h)
        with app.test_client() as client:
            for i in range(len(handlers)):
                client.infer("m%d" % i, {"x": X})
            objects.append(weakref.ref(client._locals[0]))
            objects.append(weakref.ref(client._locals[0].bindings[0].handler))

    objects = []
    once(asynchronous_x, M)
    gc.collect()
    before, threads = descriptors(), threading.active_count()
    for _ in range(5):
        once(M)
        once(asynchronous_x, M)
    for _ in range(5):
        app = AnyServe()
        app.model("m", threads=3)(lambda x: x)
        with app.test_client() as client:
            client.infer("m", {"x": X})
    del client, app
    deadline = time.monotonic() + 30
    while threading.active_count() > threads and time.monotonic() < deadline:
        time.sleep(0.001)  # threads that were told to end
    gc.collect()
    assert (descriptors(), threading.active_count()) == (before, threads)
    assert [o() for o in objects if o() is not None and not callable(o())] == []
    assert not any(isinstance(o(), M) for o in objects)


@pytest.mark.parametrize("beside", [False, True])
def test_a_refused_call_is_let_go(beside, monkeypatch):
    app, declare = made(inputs=ONE)
    declare(lambda x: x)
    if beside:
        app.model("other")(asynchronous)

    @app.model("talks", deployment="talking")
    async def talks(requests: AsyncIterator[Request]):
        async for r in requests:
            yield r.inputs["x"]

    made_calls = []
    init = local.Call.__init__

    def noted(self, *args):
        init(self, *args)
        made_calls.append(weakref.ref(self))

    monkeypatch.setattr(local.Call, "__init__", noted)

    async def talk():
        client.stream_async("talks", [{"x": [1.0]}])  # nobody reads it
        return [float(r["output0"][0]) async for r in client.stream_async("talks", [{"x": [1.0]}])]

    with app.test_client() as client:
        for _ in range(3):
            assert refused(client.infer, "m", {"y": X}).code == "INVALID_ARGUMENT"
            assert refused(list, client.stream("m", {"y": X})).code == "INVALID_ARGUMENT"
            assert asyncio.run(talk()) == [1]
        locals_ = [weakref.ref(o) for o in client._locals]
    del client
    gc.collect()
    assert made_calls and not any(r() for r in made_calls + locals_)


async def asynchronous_x(x):
    return x


@pytest.mark.parametrize("handler", ["return x", "raise ValueError()", "raise anyserve.Error('ABORTED', '')", "yield x"])
@pytest.mark.parametrize("declared", ["threads=2", "", "beside"])
def test_it_is_closed_while_a_thread_still_ends_a_call(handler, declared):
    """Who asked has the answer before the thread that ran the handler is through with the request."""
    if (handler, declared) == ("yield x", "threads=2"):
        return  # refused: a generator has a thread of its own
    assert run_program(f"""
import anyserve, os, threading
from anyserve.testing import local
import numpy as np
app = anyserve.AnyServe()
@app.model("m"{", threads=2" if declared == "threads=2" else ""})
def m(x):
    {handler}
if {declared == "beside"}:
    @app.model("a")
    async def a(x):
        return x
def answer_of(client):
    try:
        list(client.stream("m", {{"x": [1.0]}})) if {handler == "yield x"} else client.infer("m", {{"x": [1.0]}})
    except anyserve.Error:
        pass
def descriptors():
    return sorted(os.listdir("/proc/self/fd"))
answered = local.Call._done
def slowly(self, *args):
    answered(self, *args)
    if threading.current_thread() is not threading.main_thread():
        closed.wait(0.3)
with app.test_client() as client:
    answer_of(client)  # what is loaded at first use
local.Call._done = slowly
for _ in range(2):
    before, closed = descriptors(), threading.Event()
    with app.test_client() as client:
        answer_of(client)
    closed.set()
    assert descriptors() == before, (before, descriptors())
print("ended")
""") == "ended\n"


def test_a_handler_in_a_thread_cannot_close_its_client():
    app, declare = made(threads=1)
    declare(lambda: client.close())
    with app.test_client() as client:
        assert "a handler cannot close the client that runs it" in refused(client.infer, "m").message
    app, declare = made()

    @declare
    def m():
        yield client.close()

    with app.test_client() as client:
        assert "a handler cannot close the client that runs it" in refused(list, client.stream("m")).message


def test_numpy_is_all_it_needs():
    code = """import anyserve, numpy, sys
app = anyserve.AnyServe()
app.model("m")(lambda x: x)
with app.test_client() as c:
    c.infer("m", {"x": [1]})
sys.exit("asyncio" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env={**os.environ, "PYTHONPATH": str(PACKAGE)})


# --- parameters of single tensors ---

TENSOR_PARAMETERS = {"content_type": "np", "n": -1, "big": 2**64 - 1, "flag": True, "ratio": 0.5}


def test_parameters_of_tensors_go_in_and_come_out():
    app, model = made()

    @model
    def codec(request):
        return Response(dict(request.inputs), output_parameters=request.input_parameters)

    with app.test_client() as client:
        r = client.infer("m", {"x": X, "y": X, "z": X}, input_parameters={"x": TENSOR_PARAMETERS, "z": {"k": 1}})
        assert r.output_parameters == {"x": TENSOR_PARAMETERS, "z": {"k": 1}}
        r = client.infer("m", {"x": X, "y": X}, outputs=["y"], input_parameters={"x": {"k": 1}})
        assert r.output_parameters == {}
        assert client.infer("m", {"x": X}).output_parameters == {}
        r = asyncio.run(client.infer_async("m", {"x": X}, input_parameters={"x": {"k": "v"}}))
        assert r.output_parameters == {"x": {"k": "v"}}


def test_parameters_of_tensors_in_streams():
    app, model = made()

    @model
    async def codec(requests: AsyncIterator[Request]):
        async for r in requests:
            said = r.input_parameters.get("x")
            yield Response({"y": r.inputs["x"]}, output_parameters={"y": said} if r.inputs["x"][0] else None)

    with app.test_client() as client:
        got = list(client.stream("m", [{"x": [1]}, {"x": [0]}, {"x": [2]}], input_parameters={"x": {"k": 1}}))
    assert [r.output_parameters for r in got] == [{"y": {"k": 1}}, {}, {"y": {"k": 1}}]


def test_parameters_of_tensors_that_are_none():
    app, model = made()

    @model
    def codec(request):
        return Response(dict(request.inputs), output_parameters={"x": {"binary_data_size": 1}})

    with app.test_client() as client:
        e = refused(client.infer, "m", {"x": X}, input_parameters={"x": {"binary_data_size": 1}})
        assert str(e) == "INVALID_ARGUMENT: input 'x': parameter 'binary_data_size' is the server's own"
        e = refused(client.infer, "m", {"x": X}, input_parameters={"x": {"k": [1]}})
        assert e.code == "INVALID_ARGUMENT" and "parameter 'k' is a boolean, a number or a text" in str(e)
        e = refused(client.infer, "m", {"x": X}, input_parameters={"x": {str(i): i for i in range(1025)}})
        assert str(e) == "INVALID_ARGUMENT: parameters: more than 1024 entries, those of inputs included"
        with pytest.raises(TypeError, match="input_parameters name the input 'z', which is not given"):
            client.infer("m", {"x": X}, input_parameters={"z": {}})
        e = refused(client.infer, "m", {"x": X}, input_parameters={"x": {str(i): i for i in range(1024)}})
        assert "parameter 'binary_data_size' of output 'x' is the server's own" in str(e)
