"""The clients of a case: Starlette's TestClient and the ASGI transport of httpx, with a connection to the server in the place of
the call of the application.

The lifespan of an application runs as in a deployment of its own (anyserve.serve._http.lifespan), on the event loop of the replica.
"""

import asyncio
import contextlib
import socket
import ssl

import anyio
import exchange
from exchange import HOST, PORT, SECONDS, Exchange
from starlette import testclient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from anyserve.serve._http.lifespan import Lifespan

httpx = testclient.httpx
TIMEOUTS = {"connect": SECONDS, "read": SECONDS, "write": SECONDS, "pool": SECONDS}
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # to make one for each client takes long
OF_HANDSHAKE = {"host", "connection", "upgrade", "user-agent"}


def of_lib(lib, request, field):
    """The request as it is sent to the server."""
    url = lib.URL(scheme="http", host=HOST, port=PORT, raw_path=request.url.raw_path)
    more = [] if "host" in request.headers else [(b"host", request.url.netloc)]
    if not isinstance(request.stream, lib.ByteStream) and not {"content-length", "transfer-encoding"} & set(request.headers):
        more.append((b"transfer-encoding", b"chunked"))
    headers = [*more, *request.headers.raw, field]
    return lib.Request(request.method, url, headers=headers, stream=request.stream,
                       extensions={**request.extensions, "timeout": TIMEOUTS, "target": request.url.raw_path})  # fmt: skip


class Body(httpx.SyncByteStream):
    """The body of an answer. At its end what the application has raised is raised, too."""

    def __init__(self, stream, exchange, raises):
        self.stream, self.exchange, self.raises = stream, exchange, raises

    def __iter__(self):
        try:
            yield from self.stream
        except httpx.TransportError:
            if self.raises:
                self.exchange.raise_error()
            raise
        self.end()

    def end(self):
        if self.raises:
            self.exchange.raise_error()
        self.exchange.wait()

    def close(self):
        self.stream.close()
        self.end()


class Transport(httpx.BaseTransport):
    """In the place of starlette.testclient._TestClientTransport."""

    def __init__(self, app, portal_factory, raise_server_exceptions=True, root_path="", *, client, app_state):
        self.app, self.raises, self.root_path, self.state = app, raise_server_exceptions, root_path, app_state
        self.transport = httpx.HTTPTransport(verify=NO_TLS)
        self.open = []

    def handle_request(self, request):
        scheme = request.url.scheme
        made = Exchange(self.app, self.root_path, scheme if scheme in ("https", "wss") else None, self.state)
        if scheme in ("ws", "wss"):
            raise testclient._Upgrade(Session(request, made))
        try:
            got = self.transport.handle_request(of_lib(httpx, request, made.field))
        except httpx.TransportError:
            if self.raises:
                made.raise_error()
            raise
        self.open = [e for e in self.open if not e.ended.is_set()] + [made]
        response = httpx.Response(got.status_code, headers=got.headers.raw, stream=Body(got.stream, made, self.raises),
                                  extensions=got.extensions, request=request)  # fmt: skip
        if made.debug is not None:
            response.extensions["http.response.debug"] = made.debug
            for name in "template", "context":
                if name in made.debug:
                    setattr(response, name, made.debug[name])
        return response

    def close(self):
        self.transport.close()
        for made in self.open:
            made.wait()


class Session(testclient.WebSocketTestSession):
    """A websocket of a case: its messages are written as the application sees them."""

    def __init__(self, request, made):
        self.request, self.exchange = request, made
        self.accepted_subprotocol = self.extra_headers = self.connection = None
        self.over = False

    def __enter__(self):
        fields = self.request.headers
        offered = fields.get("sec-websocket-protocol")
        more = [(k.decode("latin-1"), v.decode("latin-1")) for k, v in [*fields.raw, self.exchange.field]
                if k.decode("latin-1").lower() not in OF_HANDSHAKE and not k.lower().startswith(b"sec-websocket-")]  # fmt: skip
        uri = str(self.request.url.copy_with(scheme="ws"))
        try:
            self.connection = connect(uri, sock=socket.create_connection((HOST, PORT), SECONDS), additional_headers=more, compression=None, proxy=None,
                                      subprotocols=[p.strip() for p in offered.split(",")] if offered else None,
                                      user_agent_header=fields.get("user-agent"), open_timeout=SECONDS,
                                      close_timeout=SECONDS, max_size=None)  # fmt: skip
        except InvalidStatus as e:
            self.deny(e.response)
        response = self.connection.response
        self.accepted_subprotocol = self.connection.subprotocol
        self.extra_headers = [(k.encode(), v.encode("latin-1")) for k, v in response.headers.raw_items()
                              if k.lower() not in ("upgrade", "connection", "sec-websocket-accept")]  # fmt: skip
        return self

    def deny(self, response):
        """The code of a close before accept() does not reach a client: the specification says that it is 403."""
        self.exchange.raise_error()
        closing = self.exchange.closing
        if closing is not None:
            assert (response.status_code, bytes(response.body or b"")) == (403, b""), response
            self._raise_on_close(closing)
        raise testclient.WebSocketDenialResponse(status_code=response.status_code, headers=list(response.headers.raw_items()),
                                                 content=bytes(response.body or b""))  # fmt: skip

    def __exit__(self, kind, error, trace):
        with contextlib.suppress(ConnectionClosed):
            self.connection.close(1000)
        if kind is None or issubclass(kind, testclient.WebSocketDisconnect):
            self.exchange.raise_error()
        self.exchange.wait()

    def send(self, message):
        kind = message["type"]
        if kind == "websocket.disconnect" and message.get("code") == 1006:  # it has no frame
            self.connection.socket.shutdown(socket.SHUT_RDWR)
        elif kind == "websocket.disconnect":
            self.connection.close(message.get("code", 1000), message.get("reason") or "")
        elif kind == "websocket.receive":
            data = message.get("bytes")
            self.connection.send(message["text"] if data is None else data)
        else:
            raise AssertionError(f"a client cannot send {kind}")

    def receive(self):
        try:
            data = self.connection.recv(SECONDS)
        except ConnectionClosed as e:
            self.exchange.raise_error()
            code, reason = (e.rcvd.code, e.rcvd.reason) if e.rcvd else (1006, "")
            return {"type": "websocket.close", "code": code, "reason": reason}
        return {"type": "websocket.send", "text" if isinstance(data, str) else "bytes": data}


class CaseLifespan(Lifespan):
    """Raises in the case what the application has raised; a deployment writes it into its log."""

    def __init__(self, app, state):
        self.error = None

        async def note(scope, receive, send):
            try:
                await app(scope, receive, send)
            except Exception as e:
                self.error = e
                raise

        super().__init__(note)
        self.state = state

    def run(self, stage):
        try:
            exchange.run_on_loop(stage())
        finally:
            if self.error is not None:
                raise self.error from None


def enter(client):
    client.lifespan_of_case = CaseLifespan(client.app, client.app_state)
    client.lifespan_of_case.run(client.lifespan_of_case.startup)
    return client


def leave(client, *_):
    client._transport.close()
    client.lifespan_of_case.run(client.lifespan_of_case.shutdown)


async def until_ended(made):
    """Without blocking: the case may run on the event loop of its application."""
    with anyio.move_on_after(SECONDS, shield=True):
        while made.begun and not made.ended.is_set():
            await asyncio.sleep(0.001)


def async_transport(lib):
    """ASGITransport of httpx or httpx2, over a connection."""

    class Body(lib.AsyncByteStream):
        def __init__(self, stream, exchange):
            self.stream, self.exchange = stream, exchange

        async def __aiter__(self):
            async for piece in self.stream:
                yield piece
            await until_ended(self.exchange)
            self.exchange.raise_error()

        async def aclose(self):
            await self.stream.aclose()
            await until_ended(self.exchange)

    class OverConnection(lib.AsyncBaseTransport):
        def __init__(self, app, raise_app_exceptions=True, root_path="", client=("127.0.0.1", 123)):
            self.app, self.root_path, self.raises = app, root_path, raise_app_exceptions
            self.transport = lib.AsyncHTTPTransport(verify=NO_TLS)

        async def handle_async_request(self, request):
            made = Exchange(self.app, self.root_path, "https" if request.url.scheme == "https" else None)
            try:
                got = await self.transport.handle_async_request(of_lib(lib, request, made.field))
            except BaseException:  # such as a cancellation: the connection is closed, which ends the application
                await until_ended(made)
                if self.raises:
                    made.raise_error()
                raise
            return lib.Response(got.status_code, headers=got.headers.raw, stream=Body(got.stream, made), extensions=got.extensions)

        async def aclose(self):
            await self.transport.aclose()

    return OverConnection


def is_left_out(item):
    """Why a case is not run, or None."""
    parameters = getattr(item, "callspec", None)
    if parameters and any(p == "trio" for p in parameters.params.values() if isinstance(p, str)):
        return "trio: replicas have the event loop of asyncio"
    return None


def adapt(module):
    """After the import of a module of cases."""


def install():
    testclient._TestClientTransport = Transport
    testclient.TestClient.__enter__ = enter
    testclient.TestClient.__exit__ = leave
    for name in "httpx", "httpx2":
        with contextlib.suppress(ImportError):
            lib = __import__(name)
            lib.ASGITransport = async_transport(lib)
