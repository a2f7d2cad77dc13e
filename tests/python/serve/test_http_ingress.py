"""serve.ingress: FastAPI and other ASGI applications in a replica, their lifespan, and what they do wrong."""

import json
import socket
import sys
import threading

import pytest
from fake import PACKAGE
from fake_calls import Refused
from fake_http import HttpWorker

sys.path.insert(0, str(PACKAGE))
from fastapi import APIRouter, FastAPI  # noqa: E402

from anyserve import serve  # noqa: E402

API = """
import asyncio
import threading
from contextlib import asynccontextmanager
from typing import Annotated, List, Optional

import fastapi
from fastapi import APIRouter, BackgroundTasks, Depends, FastAPI, File, HTTPException, Request, UploadFile
from fastapi.responses import PlainTextResponse, StreamingResponse
from pydantic import BaseModel
from starlette.middleware.base import BaseHTTPMiddleware
from anyserve import serve
from anyserve.serve.exceptions import BackPressureError

log = []


@asynccontextmanager
async def lifespan(app):
    print("startup", flush=True)
    yield {"made": "at startup"}
    print("shutdown", flush=True)


app = FastAPI(lifespan=lifespan)


@app.middleware("http")
async def token(request: Request, call_next):
    if request.headers.get("authorization") == "wrong":
        return PlainTextResponse("no", 401)
    response = await call_next(request)
    response.headers["x-from-middleware"] = "1"
    return response


def common(q: Optional[str] = None, limit: int = 10):
    return {"q": q, "limit": limit, "main": threading.current_thread() is threading.main_thread()}


class Item(BaseModel):
    name: str
    secret: str = "hidden"


class Shown(BaseModel):
    name: str


router = APIRouter(prefix="/routed")


class Base:
    @app.get("/inherited")
    def inherited(self):
        return self.greeting


@serve.deployment
@serve.ingress(app)
class Api(Base):
    def __init__(self, greeting):
        print("init", flush=True)
        self.greeting = greeting
        self.n = 0

    def reconfigure(self, config):
        print("reconfigure %s" % config, flush=True)

    def __del__(self):
        print("del", flush=True)

    @app.get("/greet/{name}")
    async def greet(self, name: str, times: int = 1):
        return "%s %s" % (self.greeting, name * times)

    @app.get("/count")
    def count(self):
        self.n += 1
        return self.n

    @app.post("/items", response_model=Shown, status_code=201)
    async def items(self, item: Item):
        return item

    @app.get("/depends")
    async def depends(self, common: Annotated[dict, Depends(common)]):
        return common

    @app.post("/upload")
    async def upload(self, files: List[UploadFile] = File()):
        return {f.filename: len(await f.read()) for f in files}

    @app.get("/state")
    async def state(self, request: Request):
        request.state.mine = "set here"
        return [request.state.made, request.state.mine]

    @app.get("/missing")
    async def missing(self):
        raise HTTPException(404, "there is no such thing")

    @app.get("/fails")
    async def fails(self):
        raise ValueError("in a route")

    @app.get("/busy")
    async def busy(self):
        raise BackPressureError(1, 1)

    @app.get("/stream")
    async def stream(self):
        async def events():
            for i in range(3):
                yield "data: %d\\n\\n" % i

        return StreamingResponse(events(), media_type="text/event-stream")

    @app.get("/later")
    async def later(self, tasks: BackgroundTasks):
        tasks.add_task(log.append, "later")
        return "first"

    @app.get("/log")
    async def get_log(self):
        return log

    @app.get("/url")
    async def url(self, request: Request):
        return [str(request.url), request.scope["root_path"], request.url_for("url").path]

    def by_handle(self, x):
        return x + self.n


mounted = FastAPI()


@mounted.get("/inner")
def inner(request: Request):
    return [request.scope["path"], request.scope["root_path"]]


app.mount("/late", mounted)  # after the decorator: the deployment does not have it
target = Api.func_or_class


class Unmounted:
    pass


outer = FastAPI()
outer.mount("/sub", mounted)
Mounted = serve.ingress(outer)()

deployments = {"Api": (target, ("hello",), {}, {"user_config": {"a": 1}}), "Mounted": (Mounted, (), {}, {})}
"""


@pytest.fixture(scope="module")
def api(start_module):
    return start_module(API, "app.py", "Api", kind=HttpWorker)


def get(worker, path, **more):
    answer = worker.fetch("GET", path, **more)
    assert answer.status == 200, bytes(answer.body)
    return json.loads(answer.body)


def test_routes_that_are_methods(api):
    assert get(api, "/greet/you", query="times=2") == "hello youyou"
    assert get(api, "/count") + 1 == get(api, "/count")
    assert get(api, "/inherited") == "hello"
    assert api.result(api.call("by_handle", 5)) >= 5


def test_order_at_the_start(api):
    api.wait_output("init\nstartup\nreconfigure {'a': 1}\n")


def test_models_and_validation(api):
    answer = api.fetch("POST", "/items", b'{"name": "n"}', [("content-type", "application/json")])
    assert (answer.status, json.loads(answer.body)) == (201, {"name": "n"})
    answer = api.fetch("POST", "/items", b"{}", [("content-type", "application/json")])
    assert answer.status == 422 and json.loads(answer.body)["detail"][0]["loc"] == ["body", "name"]


def test_dependencies(api):
    assert get(api, "/depends", query="q=x") == {"q": "x", "limit": 10, "main": False}


def test_upload(api):
    body = (b'--b\r\ncontent-disposition: form-data; name="files"; filename="a.txt"\r\n\r\nabc\r\n'
            b'--b\r\ncontent-disposition: form-data; name="files"; filename="b.txt"\r\n\r\n%s\r\n--b--\r\n' % bytes(300000))  # fmt: skip
    stream = api.request("POST", "/upload", body[:60000], [("content-type", "multipart/form-data; boundary=b")], whole=False)
    api.more(stream, body[60000:], end=True)
    assert json.loads(api.finish(stream).body) == {"a.txt": 3, "b.txt": 300000}


def test_request_state_and_middleware(api):
    assert get(api, "/state") == ["at startup", "set here"]
    assert api.fetch("GET", "/state")["x-from-middleware"] == "1"
    answer = api.fetch("GET", "/state", headers=[("authorization", "wrong")])
    assert (answer.status, bytes(answer.body)) == (401, b"no")


def test_errors(api):
    answer = api.fetch("GET", "/missing")
    assert (answer.status, json.loads(answer.body)) == (404, {"detail": "there is no such thing"})
    answer = api.fetch("GET", "/fails", rid="id-of-failure")
    assert (answer.status, bytes(answer.body)) == (500, b"Internal Server Error")
    assert answer["content-type"] == "text/plain; charset=utf-8"
    api.wait_output("id-of-failure", "ValueError: in a route")
    answer = api.fetch("GET", "/busy")
    assert answer.status == 503 and answer.body.startswith(b"Request dropped due to backpressure")
    assert api.fetch("GET", "/nowhere").status == 404
    assert api.fetch("DELETE", "/count").status == 405


def test_event_stream(api):
    answer = api.fetch("GET", "/stream")
    assert (bytes(answer.body), answer["content-type"]) == (b"data: 0\n\ndata: 1\n\ndata: 2\n\n", "text/event-stream; charset=utf-8")


def test_background_task(api):
    assert get(api, "/later") == "first"
    while "later" not in get(api, "/log"):
        pass


def test_root_path(api):
    assert get(api, "/pre/url", root="/pre") == ["http://test/pre/url", "/pre", "/pre/url"]
    assert b'"servers":[{"url":"/pre"}]' in api.fetch("GET", "/pre/openapi.json", root="/pre").body


def test_the_application_is_frozen(api, start):
    assert api.fetch("GET", "/late/inner").status == 404
    assert get(start(API, "app.py", "Mounted", kind=HttpWorker), "/p/sub/inner", root="/p") == ["/p/sub/inner", "/p/sub"]


def test_order_at_the_end(start):
    from fake import DRAIN, frame

    worker = start(API, "app.py", "Api", kind=HttpWorker)
    worker.send(frame(DRAIN))
    assert worker.process.wait(30) == 0
    worker.wait_output("shutdown", "del")
    assert worker.output.index("shutdown") < worker.output.index("\ndel")


RAW = """
import asyncio
from anyserve import serve

START = {"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", b"text/plain")]}
seen = []


def body(data, more=False):
    return {"type": "http.response.body", "body": data, "more_body": more}


async def fine(scope, receive, send):
    await send(START)
    await send(body(b"a", True))
    await send(body(memoryview(b"b")))


async def never(scope, receive, send):
    pass


async def half(scope, receive, send):
    await send(START)
    await send(body(b"a", True))


async def only_start(scope, receive, send):
    await send(START)


async def body_first(scope, receive, send):
    await send(body(b"x"))


async def starts_twice(scope, receive, send):
    await send(START)
    await send(START)


async def after_end(scope, receive, send):
    await send(START)
    await send(body(b"whole"))
    try:
        await send(body(b"more"))
    except RuntimeError as e:
        seen.append(str(e))
        raise


async def text(scope, receive, send):
    await send(START)
    await send(body("text"))


async def no_dict(scope, receive, send):
    await send("http.response.start")


async def no_type(scope, receive, send):
    await send({})


async def no_status(scope, receive, send):
    await send({"type": "http.response.start"})


async def bad_status(scope, receive, send):
    await send({"type": "http.response.start", "status": 99})


async def text_header(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [("a", b"b")]})


async def odd_header(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"a",)]})


async def returns(scope, receive, send):
    return "a value"


async def raises(scope, receive, send):
    raise ValueError("raw")


async def exits(scope, receive, send):
    raise SystemExit(3)


async def raises_late(scope, receive, send):
    await send(START)
    await send(body(b"a", True))
    raise ValueError("late")


async def reads_on(scope, receive, send):
    seen.append([m["type"] for m in [await receive(), await receive()]] if False else (await receive())["type"])
    await send(START)
    await send(body(b"done"))
    seen.append((await receive())["type"])


async def tasks(scope, receive, send):
    first = await asyncio.create_task(receive())
    listener = asyncio.create_task(receive())
    await asyncio.gather(*[asyncio.ensure_future(send(m)) for m in (START, body(first["body"], True))])
    await asyncio.sleep(0)
    assert not listener.done()
    await asyncio.wait_for(send(body(b"!")), 5)
    assert (await listener)["type"] == "http.disconnect"


async def cancelled_receive(scope, receive, send):
    while (await receive())["more_body"]:
        pass
    try:
        await asyncio.wait_for(receive(), 0.01)
    except asyncio.TimeoutError:
        await send(START)
        await send(body(b"timed out"))


async def sends_on(scope, receive, send):
    await send(START)
    await send(body(b"begun", True))
    while (await receive())["type"] != "http.disconnect":
        pass
    try:
        await send(body(b"more"))
    except OSError as e:
        seen.append(str(e))
        raise


async def unawaited(scope, receive, send):
    send(START)
    send(body(bytes(1 << 20), True))
    send(body(b"end"))


async def show(scope, receive, send):
    await send(START)
    await send(body(repr(seen).encode()))


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        assert (await receive())["type"] == "lifespan.startup"
        await send({"type": "lifespan.startup.complete"})
        assert (await receive())["type"] == "lifespan.shutdown"
        await send({"type": "lifespan.shutdown.complete"})
        return
    return await globals()[scope["path"][1:]](scope, receive, send)


def build():
    return app


Raw = serve.ingress(build)()


async def no_lifespan(scope, receive, send):
    raise KeyError("lifespan is not for me")


async def failing(scope, receive, send):
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "no database"})


async def deaf(scope, receive, send):
    if scope["type"] == "http":
        await send(START)
        await send(body(b"deaf"))


class Late:
    def __init__(self):
        self.text = b"built late"

    async def __serve_build_asgi_app__(self):
        async def late(scope, receive, send):
            if scope["type"] == "lifespan":
                return await app(scope, receive, send)
            await send(START)
            await send(body(self.text))

        return late


deployments = {"Raw": (Raw, (), {}, {}), "NoLifespan": (serve.ingress(lambda: no_lifespan)(), (), {}, {}),
               "Deaf": (serve.ingress(lambda: deaf)(), (), {}, {}), "Failing": (serve.ingress(lambda: failing)(), (), {}, {}), "Late": (serve.ingress()(Late), (), {}, {})}
"""


@pytest.fixture(scope="module")
def raw(start_module):
    return start_module(RAW, "app.py", "Raw", kind=HttpWorker)


def test_plain_asgi(raw):
    answer = raw.fetch("GET", "/fine")
    assert (answer.status, bytes(answer.body), answer.headers) == (200, b"ab", [("content-type", "text/plain")])
    assert raw.fetch("POST", "/tasks", b"body").body == b"body!"
    assert raw.fetch("POST", "/cancelled_receive", b"body").body == b"timed out"
    assert len(raw.fetch("GET", "/unawaited").body) == (1 << 20) + 3


@pytest.mark.parametrize(
    "what, said",
    [
        ("never", "ASGI callable returned without starting response."),
        ("only_start", "ASGI callable returned without completing response."),
        ("body_first", "Expected ASGI message 'http.response.start', but got 'http.response.body'."),
        ("starts_twice", "Expected ASGI message 'http.response.body', but got 'http.response.start'."),
        ("text", "a bytes-like object is required, not 'str'"),
        ("no_dict", "send takes a dict, not <class 'str'>"),
        ("no_type", "KeyError: 'type'"),
        ("no_status", "KeyError: 'status'"),
        ("bad_status", "the status 99 of an answer is not between 101 and 999"),
        ("text_header", "a header is a pair of bytes, name and value, not ('a', b'b')"),
        ("odd_header", "a header is a pair of bytes, name and value, not (b'a',)"),
        ("returns", "ASGI callable should return None, but returned 'a value'."),
        ("raises", "ValueError: raw"),
        ("exits", "SystemExit: 3"),
    ],
)
def test_faults_before_the_answer_are_500(raw, what, said):
    answer = raw.fetch("GET", "/" + what, rid="id-" + what)
    assert (answer.status, bytes(answer.body)) == (500, b"Internal Server Error")
    raw.wait_output(said, "id-" + what)
    assert raw.fetch("GET", "/fine").body == b"ab"


@pytest.mark.parametrize("what", ["half", "raises_late"])
def test_faults_in_the_answer_reset_it(raw, what):
    with pytest.raises(Refused, match="INTERNAL"):
        raw.fetch("GET", "/" + what)
    assert raw.fetch("GET", "/fine").body == b"ab"


def test_after_the_end(raw):
    assert raw.fetch("GET", "/after_end").body == b"whole"
    raw.wait_output("Unexpected ASGI message 'http.response.body' sent, after response already completed.")
    assert raw.fetch("GET", "/reads_on").body == b"done"
    while b"'http.disconnect'" not in raw.fetch("GET", "/show").body:
        pass


def test_sending_to_a_client_that_has_gone(raw):
    stream = raw.request("GET", "/sends_on", headers=[("x-request-disconnect-disabled", "?1")])
    raw.finish(stream, lambda a: a.body == b"begun")
    length = len(raw.output)
    raw.cancel(stream)
    with pytest.raises(Refused, match="CANCELLED"):
        raw.finish(stream)
    assert b"the client does not wait for the answer any more" in raw.fetch("GET", "/show").body
    assert "handler_raised" not in raw.output[length:]


def test_application_that_the_class_builds(start):
    assert start(RAW, "app.py", "Late", kind=HttpWorker).fetch().body == b"built late"


def test_application_that_returns_from_its_lifespan_has_none(start):
    worker = start(RAW, "app.py", "Deaf", kind=HttpWorker)
    assert worker.fetch().body == b"deaf"


@pytest.mark.parametrize("name, said", [("NoLifespan", "lifespan is not for me"), ("Failing", "no database")])
def test_failed_startup_is_a_failed_constructor(start, name, said):
    worker = start(RAW, "app.py", name, kind=HttpWorker, greet=False)
    assert worker.process.wait(60) != 0
    worker.wait_output("ASGI lifespan startup failed. Check replica logs for details.", said)


# --- the decorator ---


def test_what_is_refused():
    app = FastAPI()
    with pytest.raises(ValueError, match="must be used with a class"):
        serve.ingress(app)(lambda: 1)
    with pytest.raises(ValueError, match="may not have __call__ method"):

        @serve.ingress(app)
        class Called:
            def __call__(self):
                pass

    with pytest.raises(ValueError, match="requires Empty to define `__serve_build_asgi_app__`"):

        @serve.ingress()
        class Empty:
            pass


def test_unpicklable_application_is_named():
    app = FastAPI()
    with socket.socket() as connection:

        @app.get("/")
        def read():
            return connection.fileno()

        with pytest.raises(TypeError, match="Failed to serialize the ASGI app: variable connection of .*read, a socket, cannot be pickled"):
            serve.ingress(app)()


def test_locks_are_new_ones():
    app = FastAPI()
    app.state.lock = threading.Lock()
    assert issubclass(serve.ingress(app)(), object)


def test_routes_of_other_classes_are_left_out():
    app = FastAPI()
    router = APIRouter()

    class A:
        @app.get("/a")
        def a(self):
            return "a"

    class B:
        @app.get("/b")
        def b(self):
            return "b"

        @router.get("/included")
        def included(self):
            return "i"

    app.include_router(router, prefix="/r")
    serve.ingress(app)(A)
    wrapped = serve.ingress(app)(B)
    assert (wrapped.__name__, wrapped.__qualname__) == ("B", B.__qualname__)
    from anyserve.serve._http.ingress import _routes

    assert sorted(p + r.path for r, _, p in _routes(app)) == ["/b", "/r/included"]


def test_methods_without_self():
    app = FastAPI()
    with pytest.raises(serve.exceptions.RayServeException, match="``self`` as their first argument"):

        @serve.ingress(app)
        class A:
            @app.get("/a")
            def a():
                return 1


def test_subclass_with_sync_init():
    app = FastAPI()

    @serve.ingress(app)
    class A:
        def __init__(self):
            self.a = 1

    class Good(A):
        async def __init__(self):
            await super().__init__()

    assert Good
    with pytest.raises(TypeError, match="Bad.__init__ must be `async def`"):

        class Bad(A):
            def __init__(self):
                pass


def test_local_testing_mode():
    """As under Ray: the application starts and ends, and handles call methods; nothing listens for HTTP."""
    from contextlib import asynccontextmanager

    from anyserve.serve import local_testing

    seen = []

    def build():
        @asynccontextmanager
        async def lifespan(app):
            seen.append("startup")
            yield
            seen.append("shutdown")

        return FastAPI(lifespan=lifespan)

    @serve.deployment
    @serve.ingress(build)
    class A:
        def __init__(self, n):
            self.n = n

        def add(self, x):
            return self.n + x

        def __del__(self):
            seen.append("del")

    handle = local_testing.run(A.bind(2))
    assert handle.add.remote(3).result() == 5
    local_testing.shutdown()
    assert seen == ["startup", "shutdown", "del"]


class FakeHttp:
    """A request without a link."""

    id, model_id, session_id, deadline, beyond, status, cancelled = "r", "", "", None, False, 0, False
    started = complete = ended = False

    def __init__(self):
        self.scope, self.answer = {"type": "http", "method": "GET", "root_path": "", "path": "/", "headers": []}, None

    def drop(self):
        pass

    async def receive(self):
        return {"type": "http.disconnect"}

    async def send(self, message):
        raise OSError

    async def respond(self, *answer):
        self.answer, self.complete = answer, True


@pytest.mark.parametrize("debug", [False, True])
def test_traceback_for_clients(debug):
    import asyncio
    from types import SimpleNamespace

    from anyserve.replica import ReplicaContext
    from anyserve.serve._http.handler import HttpCalls
    from anyserve.serve._replica.core import ReplicaCore

    async def fails(request):
        raise ValueError("seen by the client")

    async def run():
        core = ReplicaCore(fails, config=SimpleNamespace(max_ongoing_requests=2), context=ReplicaContext("D-0", "D", "a"), shared=True)
        await core.start()
        http = FakeHttp()
        await HttpCalls(core, "a", "D", debug).serve(http)
        await core.stop()
        return http.answer

    status, headers, body = asyncio.run(run())
    assert (status, b"seen by the client" in body) == (500, debug)
    assert body.startswith(b"Traceback") if debug else (headers, body) == ([], b"Internal Server Error")
