"""The cases of the library websockets: its clients talk to the server, where the cases have the library's own server.

    tests/asyncio/test_connection.py, tests/sync/test_connection.py   the remote side of a connection is an application; what it
                                                                      gets are messages, so frames are compared as messages
    tests/asyncio/test_client.py, tests/asyncio/test_server.py        serve() makes an application of the handler of the case
"""

import asyncio
import contextlib
import http
import socket
import time
import unittest
from types import SimpleNamespace

import exchange
from exchange import HOST, PORT, SECONDS, Exchange
from websockets.exceptions import NegotiationError
from websockets.frames import Close, Opcode
from websockets.http11 import Request, Response
from websockets.protocol import State

NOT_ASGI = "an ASGI application cannot do this: "
CLOSING = 2  # seconds that the two sides of a case have to close; some cases do not
PAUSE = 0.05  # in which a message that must not come would come


def skip(why):
    raise unittest.SkipTest(why)


# --- test_connection.py ---


class Remote:
    """The remote side of a connection: an application that notes what it gets, and sends what the case says."""

    def __init__(self):
        self.got = []  # str, bytes, or the code of a close
        self.read = 0  # of them by recv
        self.made = Exchange(self.answer)
        self.accepted = asyncio.Event()

    async def answer(self, scope, receive, send):
        self.to_client = send
        await receive()
        await send({"type": "websocket.accept"})
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                self.got.append(message["code"])
                return
            self.got.append(message["bytes"] if message.get("text") is None else message["text"])

    def open_socket(self):
        """A socket on which the handshake is over."""
        s = socket.create_connection((HOST, PORT), SECONDS)
        s.sendall(b"GET / HTTP/1.1\r\nhost: test\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-version: 13\r\n"
                  b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n%s: %s\r\n\r\n" % self.made.field)  # fmt: skip
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            piece = s.recv(1)
            assert piece, answer
            answer += piece
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        s.settimeout(None)
        return s

    def message(self, data, text):
        if not isinstance(data, (str, bytes, bytearray, memoryview)):
            parts = list(data)
            data = type(parts[0])().join(parts)
        if text and not isinstance(data, str):
            skip(NOT_ASGI + "send bytes as a text")
        return {"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data}

    async def send_message(self, message):
        with contextlib.suppress(OSError):
            await self.to_client(message)

    async def close_now(self, code, reason):
        with contextlib.suppress(OSError, RuntimeError):
            await self.to_client({"type": "websocket.close", "code": int(code), "reason": reason})

    def until_closed(self):
        """Yields until the connection of the case knows that it is closed."""
        ends = time.monotonic() + CLOSING
        while self.local.protocol.state is not State.CLOSED and time.monotonic() < ends:
            yield

    def expect(self, frames):
        """What an application gets of these frames."""
        expected = []
        for frame in frames:
            if frame.opcode is Opcode.CONT:
                expected[-1] += bytes(frame.data)
            elif frame.opcode in (Opcode.TEXT, Opcode.BINARY):
                expected.append(bytes(frame.data))
            elif frame.opcode is Opcode.CLOSE:
                expected.append(Close.parse(frame.data).code)
        return expected

    def taken(self):
        got, self.got = self.got, []
        return [g.encode() if isinstance(g, str) else g for g in got]

    def __getattr__(self, name):
        skip(NOT_ASGI + name)


class AsyncRemote(Remote):
    async def on_replica(self, coroutine):
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, exchange.loop))

    async def send(self, data, text=None):
        if hasattr(data, "__aiter__"):
            data = [part async for part in data]
        await self.on_replica(self.send_message(self.message(data, text)))

    async def close(self, code=1000, reason=""):
        await self.on_replica(self.close_now(code, reason))
        for _ in self.until_closed():
            await asyncio.sleep(0.001)

    async def recv(self):
        while not self.got:
            await asyncio.sleep(0.001)
        return self.got.pop(0)

    async def __aiter__(self):
        while isinstance(message := await self.recv(), (str, bytes)):
            yield message


class SyncRemote(Remote):
    def send(self, data, text=None):
        exchange.run_on_loop(self.send_message(self.message(data, text)))

    def close(self, code=1000, reason=""):
        exchange.run_on_loop(self.close_now(code, reason))
        for _ in self.until_closed():
            time.sleep(0.001)

    def recv(self):
        while not self.got:
            time.sleep(0.001)
        return self.got.pop(0)

    def __iter__(self):
        while isinstance(message := self.recv(), (str, bytes)):
            yield message


def wait_for_frames(remote, connection, frames):
    """Yields while they are not there."""
    expected = remote.expect(frames)
    ends = time.monotonic() + SECONDS
    while len(remote.got) < len(expected) and time.monotonic() < ends:
        yield
    if any(f.opcode is Opcode.PING for f in frames):  # the server answers it; the application does not see it
        while not frames_answered(connection) and time.monotonic() < ends:
            yield
        assert frames_answered(connection), "no pong came"


def frames_answered(connection):
    return not (connection.pending_pings if hasattr(connection, "pending_pings") else connection.pings)


def replace_asyncio(module, ms):
    class_ = module.ClientConnectionTests

    async def set_up(self):
        self.loop = asyncio.get_running_loop()
        self.remote_connection = AsyncRemote()
        sock = await self.loop.run_in_executor(None, self.remote_connection.open_socket)
        self.transport, self.connection = await self.loop.create_connection(
            lambda: module.Connection(module.Protocol(self.LOCAL), close_timeout=2 * ms), sock=sock)  # fmt: skip
        self.remote_connection.local = self.connection

    async def tear_down(self):
        await self.remote_connection.close()
        await self.connection.close()
        await self.loop.run_in_executor(None, self.remote_connection.made.wait)

    async def frames_sent(self, frames):
        for _ in wait_for_frames(self.remote_connection, self.connection, frames):
            await asyncio.sleep(0.001)
        self.assertEqual(self.remote_connection.taken(), self.remote_connection.expect(frames))

    async def frame_sent(self, frame):
        await frames_sent(self, [frame])

    async def no_frame_sent(self):
        await asyncio.sleep(PAUSE)
        self.assertEqual(self.remote_connection.taken(), [])

    async def wait(self):
        await asyncio.sleep(PAUSE)

    class_.asyncSetUp, class_.asyncTearDown, class_.wait_for_remote_side = set_up, tear_down, wait
    class_.assertFrameSent, class_.assertFramesSent, class_.assertNoFrameSent = frame_sent, frames_sent, no_frame_sent


def replace_sync(module, ms):
    class_ = module.ClientConnectionTests

    def set_up(self):
        self.remote_connection = SyncRemote()
        sock = self.remote_connection.open_socket()
        self.connection = module.Connection(sock, module.Protocol(self.LOCAL), close_timeout=2 * ms)
        self.remote_connection.local = self.connection

    def tear_down(self):
        self.remote_connection.close()
        self.connection.close()
        self.remote_connection.made.wait()

    def frames_sent(self, frames):
        for _ in wait_for_frames(self.remote_connection, self.connection, frames):
            time.sleep(0.001)
        self.assertEqual(self.remote_connection.taken(), self.remote_connection.expect(frames))

    def frame_sent(self, frame):
        frames_sent(self, [frame])

    def no_frame_sent(self):
        time.sleep(PAUSE)
        self.assertEqual(self.remote_connection.taken(), [])

    class_.setUp, class_.tearDown, class_.wait_for_remote_side = set_up, tear_down, lambda self: time.sleep(PAUSE)
    class_.assertFrameSent, class_.assertNoFrameSent = frame_sent, no_frame_sent


# --- test_client.py, test_server.py ---


class Connection:
    """What the handler of a case gets: as much of websockets' ServerConnection as an application can give."""

    def __init__(self, scope, receive, send):
        self.receive, self.to_client = receive, send
        self.subprotocol = None
        path = scope["raw_path"].decode() + ("?" + scope["query_string"].decode() if scope["query_string"] else "")
        headers = [(k.decode(), v.decode("latin-1")) for k, v in scope["headers"]]
        self.request = Request(path, module_headers(headers))
        self.protocol = SimpleNamespace(state=SimpleNamespace(name="OPEN"), extensions=[])
        self.remote_address, self.local_address = scope["client"], scope["server"]

    def respond(self, status, text):
        headers = module_headers([("Content-Type", "text/plain; charset=utf-8")])
        return Response(int(status), http.HTTPStatus(status).phrase, headers, text.encode())

    async def recv(self):
        message = await self.receive()
        if message["type"] != "websocket.receive":
            raise StopAsyncIteration
        return message["bytes"] if message.get("text") is None else message["text"]

    async def send(self, data):
        await self.to_client({"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data})

    async def close(self, code=1000, reason=""):
        await self.to_client({"type": "websocket.close", "code": code, "reason": reason})

    def __aiter__(self):
        return self

    async def __anext__(self):
        return await self.recv()


def module_headers(items):
    from websockets.datastructures import Headers

    return Headers(items)


class Server:
    """What `async with serve(…)` gives the case."""

    def __init__(self):
        self.sockets = [SimpleNamespace(family=socket.AF_INET, getsockname=lambda: (HOST, PORT))]
        self.server = SimpleNamespace(_ssl_context=None)

    def __getattr__(self, name):
        skip("the case looks at websockets' own server: " + name)


CAN = {"subprotocols", "select_subprotocol", "process_request", "compression", "sock"}


class serve:  # noqa: N801  it has the name of what it replaces
    """In the place of websockets.asyncio.server.serve: connections that name no exchange go to the case's handler."""

    def __init__(self, handler, host=None, port=None, **options):
        unknown = sorted(set(options) - CAN)
        if unknown:
            skip("an option of websockets' own server: " + ", ".join(unknown))
        if options.get("compression", None) is False or isinstance(options.get("subprotocols"), str):
            skip("the case is about the arguments of websockets' own server")
        if "sock" in options:
            skip("the case gives the server its socket")
        self.handler, self.options = handler, options

    async def answer(self, scope, receive, send):
        ws = Connection(scope, receive, send)
        assert (await receive())["type"] == "websocket.connect"
        refuse = self.options.get("process_request")
        response = refuse(ws, ws.request) if refuse else None
        response = await response if asyncio.iscoroutine(response) else response
        if response is not None:
            headers = [(k.lower().encode(), v.encode()) for k, v in response.headers.raw_items()]
            await send({"type": "websocket.http.response.start", "status": response.status_code, "headers": headers})
            await send({"type": "websocket.http.response.body", "body": response.body})
            return
        offered, mine = scope["subprotocols"], self.options.get("subprotocols") or []
        choose = self.options.get("select_subprotocol")
        try:
            ws.subprotocol = choose(ws, offered) if choose else next((p for p in mine if p in offered), None)
        except NegotiationError:
            await send({"type": "websocket.http.response.start", "status": 400, "headers": []})
            await send({"type": "websocket.http.response.body"})
            return
        await send({"type": "websocket.accept", "subprotocol": ws.subprotocol})
        await self.handler(ws)

    async def __aenter__(self):
        if exchange.unnamed is not None:
            skip("the case has two servers")
        self.made = Exchange(self.answer)
        exchange.unnamed = self.made
        return Server()

    async def __aexit__(self, *_):
        exchange.unnamed = None

    def __await__(self):
        skip("the case looks at websockets' own server")


class unix_serve:  # noqa: N801
    def __init__(self, *_, **options):
        skip("a server on a unix socket")


def install():
    import websockets.asyncio.server as server

    server.serve, server.unix_serve = serve, unix_serve


def is_left_out(item):
    """Why a case is not run, or None."""
    if item.cls is not None and item.cls.__name__ == "ServerConnectionTests":
        return "the same cases, for the connections of websockets' own server"
    return None


def adapt(module):
    """After the import of a module of cases."""
    from tests.utils import MS

    if module.__name__ == "tests.asyncio.test_connection":
        replace_asyncio(module, MS)
    elif module.__name__ == "tests.sync.test_connection":
        replace_sync(module, MS)
