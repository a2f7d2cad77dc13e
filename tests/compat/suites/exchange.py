"""What a case asks of the server, and which application answers it.

A client of a case adds the field x-exchange to its request. The replica takes the field off again, and gives the request to the
application that the field names. Everything else of the request and of the answer is as client, server and replica make it.
"""

import asyncio
import http.client
import itertools
import os
import threading
import time

SECONDS = 10  # that anything may take
HOST, PORT = "127.0.0.1", int(os.environ.get("ANYSERVE_PORT", "0"))
NAME = b"x-exchange"

_numbers = itertools.count(1)
_open = {}
loop = None  # of the replica
unnamed = None  # the exchange of requests that name none


def wait_ready():
    ends = time.monotonic() + 60
    while True:
        c = http.client.HTTPConnection(HOST, PORT, timeout=SECONDS)
        try:
            c.request("GET", "/", headers={NAME.decode(): "0"})
            if c.getresponse().status == 204:
                return
        except OSError:
            pass
        finally:
            c.close()
        if time.monotonic() > ends:
            raise TimeoutError("the server does not answer")
        time.sleep(0.05)


class Exchange:
    """One request or websocket, and the application that it is for.

    closing: the message by which the application has denied or closed a websocket."""

    count = 0  # of all that were made

    def __init__(self, app, root_path="", scheme=None, state=None):
        Exchange.count += 1
        self.app, self.root_path, self.scheme, self.state = app, root_path, scheme, state
        self.number = b"%d" % next(_numbers)
        self.ended = threading.Event()
        self.error = None
        self.debug = None
        self.closing = None
        self.begun = False
        _open[self.number] = self

    @property
    def field(self):
        return NAME, self.number

    async def run(self, scope, receive, send):
        self.begun = True
        scope["headers"] = [h for h in scope["headers"] if h[0] != NAME]
        scope["state"] = {} if self.state is None else self.state.copy()
        if self.root_path:
            scope["root_path"] = self.root_path
        if self.scheme:  # the server has no TLS: a proxy before it would say so
            scope["scheme"] = self.scheme

        async def note(message):
            if message["type"] == "http.response.debug":
                self.debug = message["info"]
                return
            if message["type"] == "websocket.close":
                self.closing = message
            await send(message)

        scope.setdefault("extensions", {})["http.response.debug"] = {}
        try:
            return await self.app(scope, receive, note)
        except BaseException as e:
            self.error = e
            raise
        finally:
            self.ended.set()

    def wait(self):
        """Until the application has returned."""
        if self.begun and not self.ended.wait(SECONDS):
            raise TimeoutError("the application has not ended")
        _open.pop(self.number, None)

    def raise_error(self):
        """Raises in the case what the application has raised."""
        self.wait()
        if self.error is not None and not isinstance(self.error, asyncio.CancelledError):
            raise self.error


async def answer(scope, receive, send):
    """The application of the deployment."""
    global loop
    if scope["type"] == "lifespan":
        loop = asyncio.get_running_loop()
        for stage in "startup", "shutdown":
            await receive()
            await send({"type": f"lifespan.{stage}.complete"})
        return None
    number = dict(scope["headers"]).get(NAME)
    if number == b"0":
        await send({"type": "http.response.start", "status": 204, "headers": []})
        return await send({"type": "http.response.body"})
    made = unnamed if number is None else _open[number]
    return await made.run(scope, receive, send)


def run_on_loop(coroutine, seconds=SECONDS):
    """The result of a coroutine that runs on the event loop of the replica."""
    future = asyncio.run_coroutine_threadsafe(coroutine, loop)
    try:
        return future.result(seconds)
    except TimeoutError:
        future.cancel()
        raise
