"""The application that is attacked: it gives bodies back, and counts what it should never have been asked."""

import json

from anyserve import serve

LARGE = bytes(1 << 20)
counts = {"smuggled": 0, "cut": 0, "whole": 0}


async def read(receive):
    """A body; None: its client has gone before the end."""
    parts = []
    while (message := await receive())["type"] == "http.request":
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)
    return None


class Application:
    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] == "lifespan.startup":
                await send({"type": message["type"] + ".complete"})
            await send({"type": message["type"] + ".complete"})
            return
        path, body = scope["path"], await read(receive)
        if body is None:
            counts["cut"] += 1
            return
        counts["whole"] += path == "/echo"
        counts["smuggled"] += path == "/smuggled"
        answer = {"/large": LARGE, "/counts": json.dumps(counts).encode()}.get(path, body)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(answer))]})
        await send({"type": "http.response.body", "body": answer})


application = Application()


@serve.deployment(max_ongoing_requests=2000)
@serve.ingress(application)
class Echo:
    pass


app = Echo.bind()
