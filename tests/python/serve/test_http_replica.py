"""A worker of a serve deployment gets requests of HTTP, against a dispatcher in Python."""

import json
import re
import struct

import pytest
from fake import CANCEL, CREDIT, frame
from fake_calls import Refused
from fake_http import BEYOND_HTTP, WINDOW, HttpWorker

PLAIN = """
import asyncio
import contextlib
import contextvars
import dataclasses
import datetime
import enum
import threading
import numpy as np
import pydantic
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.background import BackgroundTask
from anyserve import serve
from anyserve.serve._calls.transport import CallMeta, current_request, current_transport
from anyserve.serve.context import _serve_request_context
from anyserve.serve.exceptions import BackPressureError

log = []


class Item(pydantic.BaseModel):
    name: str
    when: datetime.date = datetime.date(2026, 1, 2)


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Point:
    x: int
    y: int


VALUES = {
    "str": "grüße",
    "bytes": b"\\x00\\xff",
    "none": None,
    "dict": {"b": [1, 2.5, None, True], "ü": "ü"},
    "list": [1, {"a": (2, 3)}],
    "set": {7},
    "numpy": {"array": np.arange(3, dtype="f4"), "scalar": np.int64(3), "bool": np.bool_(True)},
    "nan": float("nan"),
    "model": Item(name="x"),
    "models": [Item(name="y")],
    "enum": {"c": Colour.RED},
    "point": Point(1, 2),
    "keys": {1: "int", Colour.RED: "enum"},
    "error": {"e": ValueError("text")},
    "int": 7,
    "bytearray": bytearray(b"x"),
    "class": Item,
}


class Main:
    async def __call__(self, request):
        self.log = log
        return await getattr(self, request.url.path.strip("/").replace("-", "_"))(request)

    async def echo(self, request):
        return await request.body()

    async def scope(self, request):
        scope = dict(request.scope)
        scope["raw_path"] = scope["raw_path"].decode("latin-1")
        scope["query_string"] = scope["query_string"].decode("latin-1")
        scope["headers"] = [[k.decode("latin-1"), v.decode("latin-1")] for k, v in scope["headers"]]
        return scope

    async def value(self, request):
        return VALUES[request.query_params["of"]]

    async def response(self, request):
        return Response("made", 201, {"X-Custom": "Yes", "content-type": "text/made"})

    async def background(self, request):
        async def later():
            log.append("background ran")

        return JSONResponse({"a": 1}, background=BackgroundTask(later))

    async def stream(self, request):
        async def pieces():
            for i in range(int(request.query_params["n"])):
                yield b"%d;" % i

        return StreamingResponse(pieces(), media_type="text/pieces")

    async def big(self, request):
        return b"x" * int(request.query_params["n"])

    async def sum(self, request):
        total, n = 0, 0
        async for piece in request.stream():
            total += len(piece)
            n += 1
        return {"bytes": total, "pieces": n}

    async def raise_error(self, request):
        raise ValueError("from the handler")

    async def http_error(self, request):
        from starlette.exceptions import HTTPException

        raise HTTPException(404)

    async def busy(self, request):
        raise BackPressureError(3, 3, 429, 1.2)

    async def fail_in_stream(self, request):
        async def pieces():
            yield b"first"
            raise ValueError("half way")

        return StreamingResponse(pieces())

    async def made_generator(self, request):
        async def lines():
            for i in range(3):
                yield {"i": i}

        return lines()

    async def context(self, request):
        c = _serve_request_context.get()
        return [c.request_id, c.route, c.app_name, c.multiplexed_model_id, c.session_id, c.is_http_request,
                serve.get_multiplexed_model_id()]

    async def nested(self, request):
        return await current_transport().call(CallMeta("default", "Other"), (1,), {}, current_request.get())

    async def forever(self, request):
        log.append("begun")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def disconnect(self, request):
        log.append("begun")
        try:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            log.append("disconnect")
        except asyncio.CancelledError:
            log.append("cancelled")
            raise

    async def bad_header(self, request):
        return Response("x", headers={"x-a": "b"}) if False else _Bad()

    async def many_headers(self, request):
        r = Response("x")
        r.raw_headers += [(b"x-%d" % i, b"v") for i in range(1100)]
        return r

    async def log_of(self, request):
        return log

    async def unawaited(self, request):
        return Sending(Sending.unawaited)

    async def given_up(self, request):
        return Sending(Sending.given_up)

    async def tasks(self, request):
        return Sending(Sending.tasks)


class Sending(Response):
    # pieces of 64 KiB, in the ways of applications
    def __init__(self, pieces):
        super().__init__()
        self.pieces = pieces

    async def __call__(self, scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await self.pieces(self, lambda: send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True}))
        await send({"type": "http.response.body"})

    async def unawaited(self, send):
        with self.refused() as r:
            for r.n in range(1000):
                send()

    async def given_up(self, send):
        with self.refused() as r:
            for r.n in range(1000):
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(send(), 0.001)

    @contextlib.contextmanager
    def refused(self):
        try:
            yield self
        except RuntimeError as e:
            log.append([self.n, str(e)])
            raise

    async def tasks(self, send):
        async def one():
            await send()

        await asyncio.gather(*[one() for _ in range(300)])


class _Bad(Response):
    def init_headers(self, headers=None):
        self.raw_headers = [("text", b"x")]


class Sync:
    def __call__(self, request):
        return {"main": threading.current_thread() is threading.main_thread(), "path": request.url.path,
                "id": _serve_request_context.get().request_id}


class NoArguments:
    def __call__(self):
        return "nothing needed"


class Generator:
    def __call__(self, request):
        for i in range(3):
            yield "line %d\\n" % i


class AsyncGenerator:
    async def __call__(self, request):
        for i in range(3):
            yield {"i": i}


class Methods:
    def other(self):
        return 1


async def function(request):
    return "function " + request.method


deployments = {"Main": (Main, (), {}, {"max_ongoing_requests": 8}), "Sync": (Sync, (), {}, {}),
               "NoArguments": (NoArguments, (), {}, {}), "Generator": (Generator, (), {}, {}),
               "AsyncGenerator": (AsyncGenerator, (), {}, {}), "Methods": (Methods, (), {}, {}),
               "function": (function, (), {}, {})}
"""


@pytest.fixture(scope="module")
def main(start_module):
    return start_module(PLAIN, "app.py", "Main", kind=HttpWorker)


def test_registration(main, start):
    assert [m.flags for m in main.models.values()] == [32 | 64]
    assert [m.flags for m in start(PLAIN, "app.py", "Methods", kind=HttpWorker).models.values()] == [32]


def test_echo(main):
    answer = main.fetch("POST", "/echo", b"some bytes")
    assert (answer.status, bytes(answer.body), answer.headers) == (200, b"some bytes", [("content-type", "text/plain")])


def test_scope(main):
    answer = main.fetch("GET", "/pre/scope/../a%20b%C3%BC%zz", query="q=%20&r", root="/pre", rid="the-id", version=20,
                        headers=[("x-a", "1"), ("x-a", "2"), ("accept", "caf\xe9")])  # fmt: skip
    assert answer.status == 500  # there is no such method; the scope is asked for by the next one
    answer = main.fetch("GET", "/scope/", query="q=%20&r", rid="the-id", version=20, peer="[::1]:77", root="",
                        headers=[("x-a", "1"), ("x-a", "2"), ("accept", "caf\xe9")])  # fmt: skip
    scope = json.loads(answer.body)
    assert scope == {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.4"}, "http_version": "2", "server": ["127.0.0.1", 8000],
        "client": ["::1", 77], "scheme": "http", "method": "GET", "root_path": "", "path": "/scope/", "raw_path": "/scope/",
        "query_string": "q=%20&r",
        "headers": [["host", "test"], ["x-a", "1"], ["x-a", "2"], ["accept", "caf\xe9"], ["x-request-id", "the-id"]],
    }  # fmt: skip


def test_the_clients_request_id_is_not_added_again(main):
    scope = json.loads(main.fetch("GET", "/scope", rid="mine", headers=[("x-request-id", "mine")]).body)
    assert scope["headers"] == [["host", "test"], ["x-request-id", "mine"]]


@pytest.mark.parametrize(
    "name, content_type, body",
    [
        ("str", "text/plain; charset=utf-8", "grüße".encode()),
        ("bytes", "text/plain", b"\x00\xff"),
        ("none", "text/plain", b""),
        ("dict", "application/json", b'{"b":[1,2.5,null,true],"\\u00fc":"\\u00fc"}'),
        ("list", "application/json", b'[1,{"a":[2,3]}]'),
        ("set", "application/json", b"[7]"),
        ("numpy", "application/json", b'{"array":[0.0,1.0,2.0],"scalar":3,"bool":true}'),
        ("nan", "application/json", b"NaN"),
        ("model", "application/json", b'{"name":"x","when":"2026-01-02"}'),
        ("models", "application/json", b'[{"name":"y","when":"2026-01-02"}]'),
        ("enum", "application/json", b'{"c":"red"}'),
        ("point", "application/json", b'{"x":1,"y":2}'),
        ("keys", "application/json", b'{"1":"int","red":"enum"}'),
        ("error", "application/json", b'{"e":"text"}'),
        ("int", "application/json", b"7"),
    ],
)
def test_values(main, name, content_type, body):
    answer = main.fetch("GET", "/value", query="of=" + name)
    assert (answer.status, answer["content-type"], bytes(answer.body)) == (200, content_type, body)


@pytest.mark.parametrize("name", ["bytearray", "class"])
def test_what_cannot_be_encoded(main, name):
    answer = main.fetch("GET", "/value", query="of=" + name)
    assert (answer.status, answer.headers, bytes(answer.body)) == (500, [], b"Internal Server Error")


def test_response_object(main):
    answer = main.fetch("GET", "/response")
    assert (answer.status, bytes(answer.body)) == (201, b"made")
    assert (answer["x-custom"], answer["content-type"], answer["content-length"]) == ("Yes", "text/made", "4")


def test_background_task_runs_after_the_answer(main):
    assert json.loads(main.fetch("GET", "/background").body) == {"a": 1}
    while b"background ran" not in main.fetch("GET", "/log_of").body:
        pass


def test_streaming_response(main):
    answer = main.fetch("GET", "/stream", query="n=50")
    assert bytes(answer.body) == b"".join(b"%d;" % i for i in range(50))
    assert answer["content-type"] == "text/pieces; charset=utf-8" and "content-length" not in answer.names()


def test_generators(main, start):
    answer = start(PLAIN, "app.py", "Generator", kind=HttpWorker).fetch()
    assert (answer.status, bytes(answer.body)) == (200, b"line 0\nline 1\nline 2\n")
    assert answer["content-type"] == "text/plain; charset=utf-8"
    lines = b'{"i":0}\n{"i":1}\n{"i":2}\n'
    for answer in (start(PLAIN, "app.py", "AsyncGenerator", kind=HttpWorker).fetch(), main.fetch("GET", "/made-generator")):
        assert (bytes(answer.body), answer["content-type"]) == (lines, "application/x-ndjson")


def test_large_answer_waits_for_the_reader(main):
    n = 20 << 20
    stream = main.request("GET", "/big", query="n=%d" % n)
    answer = main.finish(stream, lambda a: len(a.body) >= WINDOW + (64 << 10), grant=False)
    assert (len(answer.body), answer.ended) == (WINDOW + (64 << 10), False)
    main.fetch("GET", "/log_of")  # others go on
    assert len(answer.body) == WINDOW + (64 << 10)
    main.grant(stream, 0)  # a grant of nothing changes nothing
    main.grant(stream, WINDOW)
    assert bytes(main.finish(stream).body) == b"x" * n


@pytest.mark.parametrize("how", ["unawaited", "given_up"])
def test_sends_that_nobody_awaits_are_bounded(main, how):
    """While the client does not read. What was sent is dropped with the answer."""
    stream = main.request("GET", "/" + how)
    main.finish(stream, lambda a: len(a.body) >= WINDOW + (64 << 10), grant=False)
    with pytest.raises(Refused):
        main.finish(stream, grant=False)
    sent, text = json.loads(main.fetch("GET", "/log_of").body)[-1]
    assert text == "send is to be awaited: 64 messages that nobody awaits wait for the client"
    assert sent == (WINDOW >> 16) + 1 + 64


def test_any_number_of_tasks_may_await_their_sends(main):
    assert len(main.fetch("GET", "/tasks").body) == 300 << 16


@pytest.mark.parametrize("n", [0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, WINDOW, WINDOW + (64 << 10), WINDOW + (64 << 10) + 1])
def test_sizes_of_answers(main, n):
    assert len(main.fetch("GET", "/big", query="n=%d" % n).body) == n


def test_large_body_waits_for_the_handler(main):
    stream = main.request("POST", "/forever", b"y" * 1000, whole=False)
    main.more(stream, b"z" * WINDOW)
    assert main.room[stream] == 0
    main.fetch("GET", "/log_of")
    assert main.room[stream] == 0  # nothing was read, nothing is granted
    main.cancel(stream)
    with pytest.raises(Refused):
        main.finish(stream)


def test_body_in_pieces(main):
    stream = main.request("POST", "/sum", b"y" * 1000, whole=False)
    main.more(stream, bytes(5 << 20))
    main.more(stream, b"last", end=True)
    assert json.loads(main.finish(stream).body)["bytes"] == 1000 + (5 << 20) + 4


def test_body_whose_last_piece_is_empty(main):
    stream = main.request("POST", "/sum", b"", whole=False)
    main.more(stream, b"abc")
    main.more(stream, b"", end=True)
    assert json.loads(main.finish(stream).body)["bytes"] == 3


def test_body_that_is_not_read_is_dropped(main):
    stream = main.request("POST", "/response", b"y", whole=False)
    main.more(stream, b"never read")
    assert main.finish(stream).status == 201
    main.send(b"")
    main.room[stream] = 1 << 20
    main.more(stream, b"after the end", end=True)
    assert main.fetch("POST", "/echo", b"still here").body == b"still here"


def test_more_of_a_body_than_the_window_ends_the_link(start):
    worker = start(PLAIN, "app.py", "Main", kind=HttpWorker)
    stream = worker.request("POST", "/forever", b"y", whole=False)
    worker.room[stream] = 1 << 30
    worker.more(stream, bytes(WINDOW))
    worker.more(stream, b"1")
    with pytest.raises(EOFError):
        while True:
            worker.receive()
    worker.wait_output("more of a body than its stream takes")
    assert worker.greet().fetch("POST", "/echo", b"again").body == b"again"


def test_exception(main):
    answer = main.fetch("GET", "/raise-error", rid="id-of-it")
    assert (answer.status, answer.headers, bytes(answer.body)) == (500, [], b"Internal Server Error")
    main.wait_output("ValueError: from the handler", "id-of-it", "Traceback")
    assert re.search(r'Traceback \(most recent call last\):\n  File "[^"]*/app.py", line \d+, in __call__\n', main.output)  # none of ours
    assert main.fetch("GET", "/http-error").status == 500
    answer = main.fetch("GET", "/busy")
    assert (answer.status, answer["retry-after"], answer.names()) == (429, "2", ["retry-after"])
    assert bytes(answer.body) == b"Request dropped due to backpressure (num_queued_requests=3, max_queued_requests=3)."


def test_failure_in_a_stream_resets_it(main):
    with pytest.raises(Refused, match="INTERNAL: ValueError: half way"):
        main.fetch("GET", "/fail-in-stream", rid="halfway-id")
    main.wait_output("halfway-id")


def test_answers_that_cannot_be_sent(main):
    for path in ("/bad-header", "/many-headers"):
        answer = main.fetch("GET", path)
        assert (answer.status, bytes(answer.body)) == (500, b"Internal Server Error")
    main.wait_output("a header is a pair of bytes, name and value", "an answer has at most 1024 headers")


def test_context(main):
    answer = main.fetch("GET", "/context", rid="the-id", root="",
                        headers=[("serve-multiplexed-model-id", "m1"), ("x-session-id", "s1")])  # fmt: skip
    assert json.loads(answer.body) == ["the-id", "/", "default", "m1", "s1", True, "m1"]


def test_handles_work_inside(main):
    stream = main.request("GET", "/nested", rid="parent-id")
    call = main.next_call()
    assert (call.parent, call.id, call.body.value) == (stream, "parent-id", ((1,), {}))
    main.reply(call, "from the other")
    assert bytes(main.finish(stream).body) == b"from the other"


def test_cancel(main):
    stream = main.request("GET", "/forever")
    while b"begun" not in main.fetch("GET", "/log_of").body:
        pass
    main.cancel(stream)
    with pytest.raises(Refused, match="CANCELLED"):
        main.finish(stream)
    assert b"cancelled" in main.fetch("GET", "/log_of").body


def test_cancel_cancels_children(main):
    stream = main.request("GET", "/nested")
    call = main.next_call()
    main.cancel(stream)
    main.wait_for_cancel(call)
    main.refuse(call, "CANCELLED", "")
    with pytest.raises(Refused, match="CANCELLED"):
        main.finish(stream)


def test_disconnect_without_cancelling(main):
    stream = main.request("GET", "/disconnect", headers=[("x-request-disconnect-disabled", "?1")])
    main.fetch("GET", "/log_of")
    main.cancel(stream)
    with pytest.raises(Refused):
        main.finish(stream)
    assert b'"disconnect"' in main.fetch("GET", "/log_of").body


KEPT = """
import gc, sys

class Kept:
    kept = []

    async def __call__(self, request):
        if request.url.path == "/references":
            gc.collect()
            return [sys.getrefcount(http) for http in self.kept]
        self.kept.append(request.receive.__self__)
        return self.pieces()

    async def pieces(self):
        for _ in range(2):
            yield b"x" * (5 << 20)

deployments = {"Kept": (Kept, (), {}, {})}
"""


def test_room_that_comes_with_a_cancel(start):
    """The cancel has dropped what waited for room."""
    worker = start(KEPT, "app.py", "Kept", kind=HttpWorker)
    for has_room in (False, True):
        stream = worker.request("GET", "/")
        worker.finish(stream, lambda a: len(a.body) >= WINDOW + (64 << 10), grant=False)
        credit = frame(CREDIT, struct.pack("<IIIIQ", 0, 0, 0, 0, WINDOW), stream) if has_room else b""
        worker.send(credit + frame(CANCEL, struct.pack("<Q", 1), stream))  # read in one turn
        with pytest.raises(Refused, match="CANCELLED"):
            worker.finish(stream)
    assert json.loads(worker.fetch("GET", "/references").body) == [3, 3]  # the list, a variable and an argument


def test_beyond_the_slots(start):
    worker = start(PLAIN, "app.py", "Main", kind=HttpWorker)
    streams = [worker.request("GET", "/forever") for _ in range(worker.slots)]
    assert worker.fetch("GET", "/response", flags=BEYOND_HTTP).status == 201
    for stream in streams:
        worker.cancel(stream)


def test_sync_handler_runs_in_a_thread(start):
    answer = start(PLAIN, "app.py", "Sync", kind=HttpWorker).fetch("GET", "/x", rid="sync-id")
    assert json.loads(answer.body) == {"main": False, "path": "/x", "id": "sync-id"}


def test_handler_without_parameters_and_function(start):
    assert start(PLAIN, "app.py", "NoArguments", kind=HttpWorker).fetch().body == b"nothing needed"
    assert start(PLAIN, "app.py", "function", kind=HttpWorker).fetch("PUT").body == b"function PUT"


def test_requests_leave_nothing_behind(start):
    worker = start(PLAIN + """
import gc, sys

class Blocks:
    async def __call__(self, request):
        await request.body()
        gc.collect()
        return sys.getallocatedblocks()

deployments["Blocks"] = (Blocks, (), {}, {})
""", "app.py", "Blocks", kind=HttpWorker)  # fmt: skip
    for _ in range(100):
        worker.fetch("POST", "/", b"x")
    before = int(worker.fetch("POST", "/", b"x").body)
    for _ in range(300):
        worker.fetch("POST", "/", b"x")
    # a leak is a block for each request at least; Python's own caches take some now and then
    assert int(worker.fetch("POST", "/", b"x").body) - before < 250


def test_drain_waits_for_requests(start):
    from fake import DRAIN, frame

    worker = start(PLAIN, "app.py", "Main", kind=HttpWorker)
    stream = worker.request("POST", "/sum", b"x", whole=False)
    worker.send(frame(DRAIN))
    worker.more(stream, b"y", end=True)
    assert json.loads(worker.finish(stream).body)["bytes"] == 2
    assert worker.process.wait(30) == 0
