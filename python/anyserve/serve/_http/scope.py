"""Requests of HTTP as a replica sees them: the types of ASGI, and what a request says of itself.

The extension makes the scope, in C, of what the dispatcher has parsed and checked; see `Http` in anyserve/_native.pyi.
"""

from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, List, MutableMapping, Optional, Protocol, Tuple

from .._calls.transport import CallMeta
from ..context import _RequestContext

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = List[Tuple[bytes, bytes]]


class HttpRequest(Protocol):
    """One request of HTTP, until its answer is complete. `receive` and `send` are those of ASGI."""

    scope: Dict[str, Any]
    id: str
    model_id: str  # of the header serve_multiplexed_model_id
    session_id: str  # of the header x-session-id
    deadline: Optional[float]
    beyond: bool
    status: int  # of the answer; 0: it has not begun
    started: bool  # the head of the answer has been sent
    complete: bool  # the answer was given whole
    cancelled: bool  # the client has gone, or its time is over: send raises OSError, receive gives http.disconnect
    disconnected: bool  # of a websocket: receive() has said that it is over
    ended: bool  # complete, or failed; nothing can be sent any more

    def receive(self) -> Awaitable[Message]: ...

    def send(self, message: Message) -> Awaitable[None]: ...

    def respond(self, status: int, headers: Headers, body: bytes) -> Awaitable[None]:
        """The whole answer. RuntimeError: it has begun."""

    def drop(self) -> None:
        """Forgets the head of an answer that was given to `send`, but has not been sent."""

    def fail(self, status: int, text: str) -> None:
        """Ends the request with an error: the client gets 500, or where the answer has begun, its connection or stream is
        reset; a websocket that was accepted is closed with 1011."""


def meta_of(http: HttpRequest, application: str, deployment: str) -> CallMeta:
    return CallMeta(application, deployment, "__call__", True, http.id, http.model_id, http.session_id, http.deadline)


class HttpContext(_RequestContext):
    """The request context of a request of HTTP; making it is cheap."""

    __slots__ = ("http",)

    is_http_request = True
    grpc_context = None

    def __init__(self, meta: CallMeta, http: HttpRequest) -> None:
        self._meta, self.http = meta, http

    @property
    def route(self) -> str:  # type: ignore[override]
        return self.http.scope["root_path"] or "/"

    def access(self, error: Optional[BaseException]) -> Tuple[str, str, int]:
        """(method, route, status) for the access log."""
        if isinstance(error, asyncio.CancelledError):
            status = 499
        else:
            status = self.http.status or (200 if error is None else getattr(error, "status_code", 500))
        return self.http.scope.get("method", "WS"), self.route, status
