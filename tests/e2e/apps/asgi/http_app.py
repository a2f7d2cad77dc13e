"""An ASGI application below a route: what it does is written in the path."""

import asyncio
import hashlib
import json
import os
import threading
import urllib.parse

from anyserve import serve
from anyserve.serve.utils import get_trace_context

log = []
held = asyncio.Event()


def headers_of(scope):
    return [[k.decode("latin-1"), v.decode("latin-1")] for k, v in scope["headers"]]


async def body_of(receive):
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError("the client has gone")
        yield message.get("body", b"")
        if not message.get("more_body"):
            return


class Answer:
    def __init__(self, send):
        self.send = send

    async def start(self, status=200, headers=()):
        await self.send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def body(self, data, more=False):
        await self.send({"type": "http.response.body", "body": data, "more_body": more})

    async def json(self, value):
        await self.start(200, [(b"content-type", b"application/json")])
        await self.body(json.dumps(value).encode())


async def info(scope, receive, a, q):
    names = ("type", "method", "path", "root_path", "http_version", "scheme", "client", "server")
    await a.json({**{n: scope[n] for n in names}, "raw_path": scope["raw_path"].decode(), "query": scope["query_string"].decode(),
                  "headers": headers_of(scope), "pid": os.getpid()})


async def echo(scope, receive, a, q):
    body = b"".join([part async for part in body_of(receive)])
    await a.start(200, [(b"content-length", b"%d" % len(body))])
    await a.body(body)


async def count(scope, receive, a, q):
    """Reads a body without keeping it."""
    log.append(q.get("name", "count") + " began")
    n, digest = 0, hashlib.sha256()
    try:
        async for part in body_of(receive):
            n += len(part)
            digest.update(part)
    except (ConnectionError, asyncio.CancelledError):
        log.append(q.get("name", "count") + " lost its client")
        raise
    await a.json({"n": n, "sha256": digest.hexdigest()})


async def unread(scope, receive, a, q):
    """Answers without reading the body."""
    await a.json({"unread": True})


async def stream(scope, receive, a, q):
    """Chunks of a pattern, as many as the client reads."""
    n, size = int(q.get("n", 1 << 40)), int(q.get("size", 65536))
    chunk = bytes(i * 7 & 255 for i in range(256)) * (size // 256)
    await a.start(200, [(b"content-type", b"application/octet-stream")])
    stat = {"name": q.get("name"), "sent": 0}
    log.append(stat)
    try:
        for i in range(n):
            await a.body(chunk, i + 1 < n)
            stat["sent"] += size
    except (OSError, asyncio.CancelledError):
        log.append(str(q.get("name")) + " lost its client")
        raise


async def sized(scope, receive, a, q):
    await a.start(200, [(b"content-length", q["declared"].encode())])
    sent = int(q["sent"])
    if "whole" in q:
        await a.body(b"x" * sent)
        return
    await a.body(b"x" * (sent // 2), True)
    await a.body(b"x" * (sent - sent // 2))


async def head(scope, receive, a, q):
    await a.start(int(q.get("status", 200)), [(q[f"n{i}"].encode("latin-1"), q[f"v{i}"].encode("latin-1"))
                                            for i in range(9) if f"n{i}" in q])  # fmt: skip
    await a.body(q.get("body", "").encode())


async def hold(scope, receive, a, q):
    """Until it is released, or its client has gone."""
    log.append(q.get("name", "hold") + " began")
    try:
        await held.wait()
    except asyncio.CancelledError:
        log.append(q.get("name", "hold") + " lost its client")
        raise
    await a.json({"held": q.get("name")})


async def release(scope, receive, a, q):
    held.set()
    await a.json({})


async def again(scope, receive, a, q):
    held.clear()
    await a.json({})


async def logged(scope, receive, a, q):
    await a.json(log)


async def die(scope, receive, a, q):
    """Ends the process, unless it did so before."""
    try:
        os.close(os.open(q["file"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        await a.json({"second": os.getpid()})
        return
    if "behind" in q:
        await a.start(200, [(b"content-length", b"1000")] if q["behind"] == "sized" else [])
        await a.body(b"part", True)
    os._exit(7)


async def call_dying(scope, receive, a, q):
    """What a deployment behind this one answers, which ends its process the first time."""
    handle = serve.get_deployment_handle(q["deployment"], "chain")
    await a.json(await handle.remote(q["file"]))


async def die_alone(scope, receive, a, q):
    """Ends the process when its client has gone."""
    log.append(q["name"] + " began")
    try:
        await asyncio.Event().wait()
    finally:
        os._exit(7)


async def silent(scope, receive, a, q):
    return


async def fail(scope, receive, a, q):
    raise ValueError("on purpose")


async def until(scope, receive, a, q):
    """Reads the body, and answers when the file is there."""
    log.append(q["name"] + " began")
    n = 0
    async for part in body_of(receive):
        n += len(part)
    while not os.path.exists(q["file"]):
        await asyncio.sleep(0.01)
    await a.json(n)


async def forever(scope, receive, a, q):
    log.append("forever began")
    await asyncio.Event().wait()


# --- applications that do not keep to ASGI ---


async def only_start(scope, receive, a, q):
    await a.start()


async def body_first(scope, receive, a, q):
    await a.body(b"x")


async def starts_twice(scope, receive, a, q):
    await a.start()
    await a.start()


async def after_end(scope, receive, a, q):
    await a.start()
    await a.body(b"whole")
    await a.body(b"more")


async def text_body(scope, receive, a, q):
    await a.start()
    await a.body("text")


async def text_header(scope, receive, a, q):
    await a.start(200, [("a", b"b")])


async def text_message(scope, receive, a, q):
    await a.send("http.response.start")


async def no_type(scope, receive, a, q):
    await a.send({})


async def no_status(scope, receive, a, q):
    await a.send({"type": "http.response.start"})


async def returns(scope, receive, a, q):
    return "a value"


async def half(scope, receive, a, q):
    await a.start()
    await a.body(b"half", True)


async def fail_behind(scope, receive, a, q):
    await a.start()
    await a.body(b"half", True)
    raise ValueError("behind the head")


HANDLERS = {f.__name__: f for f in (
    info, echo, count, unread, stream, sized, head, hold, release, again, logged, die, call_dying, die_alone, silent, fail, until, forever, only_start,
    body_first, starts_twice, after_end, text_body, text_header, text_message, no_type, no_status, returns, half, fail_behind)}  # fmt: skip


class Application:
    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] == "lifespan.startup":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": message["type"] + ".complete"})
            return None
        q = dict(urllib.parse.parse_qsl(scope["query_string"].decode(), keep_blank_values=True))
        handler = HANDLERS.get(scope["path"].rpartition("/")[2], info)
        return await handler(scope, receive, Answer(send), q)


application = Application()


@serve.deployment(max_ongoing_requests=100)
@serve.ingress(application)
class Web:
    pass


@serve.deployment(max_ongoing_requests=1, max_queued_requests=1)
@serve.ingress(application)
class Narrow:
    pass


@serve.deployment(num_replicas=2, max_ongoing_requests=10)
@serve.ingress(application)
class Pair:
    pass


@serve.deployment(max_ongoing_requests=100)
class Plain:
    """What it returns is written in the query."""

    async def __call__(self, request):
        what = request.query_params.get("what", "text")
        if what == "items":
            return self.items()
        if what == "large":
            return b"x" * int(request.query_params["n"])
        cycle = {}
        cycle["self"] = cycle
        return {"text": "fine", "object": object(), "lock": threading.Lock(), "inside": [object()], "key": {object(): 1}, "cycle": cycle,
                "bytes": {"b": b"\xff"}}[what]  # fmt: skip

    async def items(self):
        yield "one"
        yield object()


@serve.deployment
class Deaf:
    async def other(self):
        pass


@serve.deployment(num_replicas=2)
class Dying:
    async def __call__(self, file):
        try:
            os.close(os.open(file, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return os.getpid()
        os._exit(7)


@serve.deployment(max_ongoing_requests=10)
@serve.ingress(application)
class Chain:
    def __init__(self, *behind):
        pass


web = Web.bind()
narrow = Narrow.bind()
pair = Pair.bind()
deaf = Deaf.bind()
chain = Chain.bind(Dying.bind(), Dying.options(name="Once", idempotent=False).bind())
plain = Plain.bind()


@serve.deployment
class Trace:
    def __call__(self):
        return get_trace_context() or {}


@serve.deployment
class Traced:
    def __init__(self, callee):
        self.callee = callee

    async def __call__(self, request):
        """The trace of the request, and that of a call which it makes."""
        return [get_trace_context() or {}, await self.callee.remote()]


traced = Traced.bind(Trace.bind())
