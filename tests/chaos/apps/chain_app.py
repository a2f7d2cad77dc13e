"""Chains of deployments: what the scenarios `chain` and `http_chain` serve.

`app`: three that may all be repeated. `web`: an ingress and one below it, neither of which says so. `marked`: an ingress that may be
repeated, before the same one. They answer a request to PATH/ID with the id; /ws is a websocket that gives messages back.
CHAOS_JOURNAL names a folder: each execution in `web` is a line with the request's id, in a file of the process, below the
deployment's folder.
"""

import asyncio
import os

import numpy as np
from anyserve import serve

NAP = 0.010  # seconds


@serve.deployment(num_replicas=2, max_ongoing_requests=100, idempotent=True)
class Leaf:
    async def __call__(self, n):
        await asyncio.sleep(NAP)
        return n


@serve.deployment(num_replicas=2, max_ongoing_requests=100, idempotent=True)
class Middle:
    def __init__(self, leaf):
        self.leaf = leaf

    async def __call__(self, n):
        return await self.leaf.remote(n)


@serve.deployment(name="nap", num_replicas=2, max_ongoing_requests=100, idempotent=True)
class Front:
    def __init__(self, middle):
        self.middle = middle

    async def __call__(self, id: np.ndarray, pad: np.ndarray):
        return {"id": np.array([await self.middle.remote(int(id[0]))])}


app = Front.bind(Middle.bind(Leaf.bind()))


# --- over HTTP ---

journal = None


def note(name, n):
    """One write: a line is never torn, and stays when the process is killed."""
    global journal
    folder = os.environ.get("CHAOS_JOURNAL")
    if not folder:
        return
    if journal is None:
        journal = os.open(os.path.join(folder, name, str(os.getpid())), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(journal, b"%d\n" % n)


@serve.deployment(num_replicas=2, max_ongoing_requests=100)
class Below:
    async def __call__(self, n):
        note("Below", n)
        await asyncio.sleep(NAP)
        return n


async def answer(scope, receive, send):
    """To a request of HTTP, whichever method it has."""
    message = {"more_body": True}
    while message.get("more_body"):
        message = await receive()
    n = int(scope["path"].rpartition("/")[2])
    note("Web", n)
    got = b"%d" % await serve.get_deployment_handle("Below", "web").remote(n)
    await send({"type": "http.response.start", "status": 200,
                "headers": [(b"x-id", got), (b"content-length", b"%d" % len(got)), (b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": got})


async def give_back(receive, send):
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


class Site:
    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            await answer(scope, receive, send)
        elif scope["type"] == "websocket":
            await give_back(receive, send)
        else:  # lifespan
            while (message := await receive())["type"] == "lifespan.startup":
                await send({"type": message["type"] + ".complete"})
            await send({"type": message["type"] + ".complete"})


site = Site()


@serve.deployment(num_replicas=2, max_ongoing_requests=100)
@serve.ingress(site)
class Web:
    def __init__(self, below):
        pass


@serve.deployment(num_replicas=2, max_ongoing_requests=100, idempotent=True)
@serve.ingress(site)
class Marked:
    pass


web = Web.bind(Below.bind())
marked = Marked.bind()
