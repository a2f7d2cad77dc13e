"""Requests of HTTP in a replica: from the request that the link brings to its answer.

An ASGI application gets scope, receive and send. Any other handler gets a starlette Request, if it takes an argument, and returns a
value (responses.py). What goes wrong is logged with the id of the request, and ends this request only.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, AsyncGenerator, Optional, Tuple

from ...errors import STATUS_NAMES
from .._calls.transport import current_request
from .._payload import text_of, traceback_of
from . import responses
from .scope import HttpContext, HttpRequest, meta_of

if TYPE_CHECKING:
    from .._replica.core import ReplicaCore

CANCELLED, INTERNAL = (STATUS_NAMES.index(n) for n in ("CANCELLED", "INTERNAL"))
METHOD = "__call__"
DISCONNECT = "WebSocketDisconnect"  # starlette's


def takes_request(handler: Any) -> bool:
    """Whether a handler has a parameter; else it is called without the request."""
    try:
        return bool(inspect.signature(handler).parameters)
    except (TypeError, ValueError):
        return True


class ASGIFault(RuntimeError):
    """An ASGI application has not kept to the specification."""


class HttpCalls:
    """Runs requests on a ReplicaCore, and answers them.

    debug: the client gets the traceback of an exception, instead of "Internal Server Error"."""

    def __init__(self, core: "ReplicaCore", application: str, deployment: str, debug: bool = False) -> None:
        self.core = core
        self.names = application, deployment
        self.debug = debug
        self._request: Any = None  # starlette's class
        self._takes_request: Optional[bool] = None

    def prepare(self) -> None:
        """Imports starlette, so that the first request does not wait for it. It is not needed where no handler gets it."""
        try:
            self._load()
        except ImportError:
            pass

    def _load(self) -> Any:
        from starlette.requests import Request

        self._request = Request
        return Request

    async def serve(self, http: HttpRequest) -> None:
        """Answers the request. The task that runs it is its own."""
        current_request.set(http)
        meta = meta_of(http, *self.names)
        try:
            await self.core.call_http(meta, HttpContext(meta, http), functools.partial(self._run, http))
        except asyncio.CancelledError:
            if not http.ended:
                http.fail(CANCELLED, "the request was cancelled")
        except BaseException as e:  # it was logged
            await self._answer_error(http, e)

    async def _run(self, http: HttpRequest) -> None:
        try:
            if http.scope["type"] == "websocket":
                await self._run_websocket(http, self.core)
            elif self.core.is_asgi:
                await self._run_asgi(http, self.core.servable)
            else:
                await self._run_plain(http)
        except Exception:
            if http.cancelled:  # it could not send
                raise asyncio.CancelledError from None
            raise

    async def _run_asgi(self, http: HttpRequest, servable: Any) -> None:
        http.scope["state"] = servable._serve_asgi_lifespan.state.copy()
        result = await servable(http.scope, http.receive, http.send)
        if http.complete or http.ended:
            return
        if result is not None:
            raise ASGIFault("ASGI callable should return None, but returned %r." % (result,))
        raise ASGIFault("ASGI callable returned without %s response." % ("completing" if http.status else "starting"))

    async def _run_websocket(self, http: HttpRequest, core: "ReplicaCore") -> None:
        """A handler that returns closes the websocket; one that is no ASGI application denies it, as one without such a route
        does. An exception that only says that the client has closed is no error."""
        if not core.is_asgi:
            await http.respond(403, [], b"")
            return
        http.scope["state"] = core.servable._serve_asgi_lifespan.state.copy()
        try:
            await core.servable(http.scope, http.receive, http.send)
        except Exception as e:
            if not (http.disconnected and (isinstance(e, ConnectionError) or type(e).__name__ == DISCONNECT)):
                raise
        if http.complete or http.ended:
            return
        if http.status != 101:
            raise ASGIFault("ASGI callable returned without sending handshake.")
        with contextlib.suppress(ConnectionError):  # the client has gone meanwhile
            await http.send({"type": "websocket.close", "code": 1000})

    async def _run_plain(self, http: HttpRequest) -> None:
        core = self.core
        plan = core.plan(METHOD)
        if self._takes_request is None:
            self._takes_request = takes_request(plan.call)
        args: Tuple[Any, ...] = ()
        if self._takes_request:
            args = ((self._request or self._load())(http.scope, http.receive, http.send),)
        if plan.kind.endswith("generator"):
            await self._stream(http, core.iterate_plan(plan, args, http.beyond))
            return
        result = await core.run_plan(plan, args, http.beyond)
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            await self._stream(http, core.iterate_made(plan, result, http.beyond))
        elif responses.is_response(result):
            await result(http.scope, http.receive, http.send)
        else:
            await http.respond(200, *responses.encode(result))

    async def _stream(self, http: HttpRequest, items: AsyncGenerator[Any, None]) -> None:
        async with contextlib.aclosing(items):
            await responses.send_items(http, items)

    async def _answer_error(self, http: HttpRequest, error: BaseException) -> None:
        if http.ended:
            return
        text = text_of(error)
        if http.started:
            http.fail(INTERNAL, text)
            return
        trace = traceback_of(error) + "\n" if self.debug else None
        status, headers, body = responses.encode_error(error, trace)
        if status == 500 and self.core.is_asgi:
            headers = responses.TEXT
        try:
            http.drop()
            await http.respond(status, headers, body)
        except asyncio.CancelledError:
            if not http.ended:
                http.fail(CANCELLED, "the request was cancelled")
        except Exception as e:
            if not http.ended:
                http.fail(INTERNAL, "%s; and it cannot be answered: %s" % (text, e))
