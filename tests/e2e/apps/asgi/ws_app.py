"""Websockets by plain ASGI: what the application does is the last part of the path."""

import asyncio
import os

from anyserve import serve

log = []  # what has happened, for the tests


async def until_close(receive, on_message=None):
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            log.append(["disconnect", message["code"], message.get("reason")])
            return message
        if on_message is not None:
            await on_message(message)


async def echo(scope, receive, send):
    await send({"type": "websocket.accept"})

    async def back(message):
        await send({"type": "websocket.send", **{k: message[k] for k in ("text", "bytes") if k in message}})

    await until_close(receive, back)


async def info(scope, receive, send):
    """Says what the scope has, and how large each further message is."""
    import json

    await send({"type": "websocket.accept", "subprotocol": (scope["subprotocols"] or [None])[0],
                "headers": [(b"X-Made-By", b"handler"), (b"set-cookie", b"a=b")]})  # fmt: skip
    shown = {k: scope[k] for k in ("type", "path", "root_path", "scheme", "subprotocols", "http_version", "extensions", "state")}
    shown["method"] = "method" in scope
    shown["query"] = scope["query_string"].decode()
    shown["headers"] = [[k.decode(), v.decode()] for k, v in scope["headers"]]
    await send({"type": "websocket.send", "text": json.dumps(shown)})
    await until_close(receive)


async def close(scope, receive, send):
    """Closes with the code and reason of the first message."""
    await send({"type": "websocket.accept"})
    code, reason = (await receive())["text"].split(" ", 1)
    await send({"type": "websocket.close", "code": int(code), "reason": reason})
    log.append(await receive())


async def returns(scope, receive, send):
    await send({"type": "websocket.accept"})


async def raises(scope, receive, send):
    await send({"type": "websocket.accept"})
    await receive()
    raise RuntimeError("of the handler")


async def late(scope, receive, send):
    """Accepts when the file is there whose name is the query."""
    log.append("late began")
    while not os.path.exists(scope["query_string"].decode()):
        await asyncio.sleep(0.01)
    await send({"type": "websocket.accept"})
    await until_close(receive)


async def raises_before(scope, receive, send):
    raise RuntimeError("before the handshake")


async def never(scope, receive, send):
    return


async def deny(scope, receive, send):
    await send({"type": "websocket.close"})


async def deny_with_body(scope, receive, send):
    await send({"type": "websocket.http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Basic")]})
    await send({"type": "websocket.http.response.body", "body": b"who ", "more_body": True})
    await send({"type": "websocket.http.response.body", "body": b"are you"})


async def wrong_protocol(scope, receive, send):
    await send({"type": "websocket.accept", "subprotocol": "not-offered"})
    await until_close(receive)


async def misuses(scope, receive, send):
    """Tells what each wrong message raises."""
    await send({"type": "websocket.accept"})
    for message in ({"type": "websocket.accept"}, {"type": "websocket.send"}, {"type": "websocket.send", "text": b"x"},
                    {"type": "http.response.start", "status": 200}, {"type": "websocket.close", "code": 1005},
                    {"type": "websocket.close", "reason": 3}, {"text": "x"}, 7):  # fmt: skip
        try:
            await send(message)
            await send({"type": "websocket.send", "text": "nothing"})
        except Exception as e:
            await send({"type": "websocket.send", "text": type(e).__name__})
    await send({"type": "websocket.close"})
    try:
        await send({"type": "websocket.send", "text": "late"})
    except Exception as e:
        log.append([type(e).__name__, str(e)])


async def flood(scope, receive, send):
    """Sends as many messages of 64 KiB as the first one says, and logs how many it could."""
    await send({"type": "websocket.accept"})
    n = int((await receive())["text"])
    sent = 0
    try:
        for sent in range(n):
            log.append(["flood", sent])
            await send({"type": "websocket.send", "bytes": b"x" * 65536})
    finally:
        log.append(["flooded", sent])
    await until_close(receive)


async def blocked_misuses(scope, receive, send):
    """Tells what wrong data raise at once, and while messages wait for a client that does not read."""
    await send({"type": "websocket.accept"})
    raised = []

    async def misuse():
        for data in ({"text": "\ud800"}, {"bytes": [1, 2]}):
            try:
                await send({"type": "websocket.send", **data})
            except Exception as e:
                raised.append(type(e).__name__)

    await misuse()
    waiting = None
    while waiting is None or waiting.done():
        waiting = asyncio.create_task(send({"type": "websocket.send", "bytes": b"x" * 65536}))
        await asyncio.sleep(0)
    await misuse()
    log.append(["misuses", *raised])
    await waiting
    await send({"type": "websocket.send", "text": "end"})
    await until_close(receive)


async def unawaited(scope, receive, send):
    await send({"type": "websocket.accept"})
    try:
        for _ in range(1000):
            send({"type": "websocket.send", "bytes": b"x" * 65536})
    except RuntimeError as e:
        log.append(["unawaited", str(e)])
        raise


async def slow(scope, receive, send):
    """Reads nothing until it is told by /go."""
    await send({"type": "websocket.accept"})
    await go.wait()
    total = 0

    async def count(message):
        nonlocal total
        total += len(message.get("bytes") or message.get("text"))
        await send({"type": "websocket.send", "text": str(total)})

    await until_close(receive, count)


async def size(scope, receive, send):
    await send({"type": "websocket.accept"})

    async def tell(message):
        await send({"type": "websocket.send", "text": str(len(message.get("bytes", message.get("text"))))})

    await until_close(receive, tell)


async def large(scope, receive, send):
    """Sends one message of so many bytes."""
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "bytes": b"y" * int((await receive())["text"])})
    await until_close(receive)


async def sends_after(scope, receive, send):
    """Goes on sending when its client has gone."""
    await send({"type": "websocket.accept"})
    await until_close(receive)
    try:
        await send({"type": "websocket.send", "text": "late"})
        log.append("sent")
    except OSError as e:
        log.append(["OSError", str(e)])


go = asyncio.Event()


async def page(scope, send, name):
    import json

    if name == "go":
        go.set()
    body = json.dumps({"log": log, "pid": os.getpid()} if name == "log" else None).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


class App:
    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while (await receive())["type"] != "lifespan.shutdown":
                await send({"type": "lifespan.startup.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        name = scope["path"].rsplit("/", 1)[1]
        if scope["type"] == "http":
            await page(scope, send, name)
            return
        assert (await receive()) == {"type": "websocket.connect"}
        await globals()[name](scope, receive, send)


@serve.deployment(max_ongoing_requests=10000)
@serve.ingress(App())
class Sockets:
    pass


@serve.deployment
class Plain:
    def __call__(self, request):
        return "plain"


sockets = Sockets.bind()
plain = Plain.bind()
