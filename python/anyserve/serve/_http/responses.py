"""What a handler that is no ASGI application may return, as the answer to a request of HTTP, as under Ray Serve:

    str                       text/plain; charset=utf-8
    bytes, None               text/plain
    a starlette Response      as it says
    a generator, sync or not  its items, as they come: texts and bytes as above, other values as lines of JSON
                              (application/x-ndjson)
    anything else             application/json; ValueError or TypeError: it cannot be encoded
"""

from __future__ import annotations

import math
import sys
from typing import Any, AsyncIterator, Optional, Tuple

from ..exceptions import BackPressureError, DeploymentUnavailableError
from .jsonable import dumps
from .scope import Headers, HttpRequest

TEXT: Headers = [(b"content-type", b"text/plain; charset=utf-8")]
PLAIN: Headers = [(b"content-type", b"text/plain")]
JSON: Headers = [(b"content-type", b"application/json")]
LINES: Headers = [(b"content-type", b"application/x-ndjson")]
ERROR = b"Internal Server Error"
UNAVAILABLE = (BackPressureError, DeploymentUnavailableError)

Answer = Tuple[int, Headers, bytes]


def is_response(value: Any) -> bool:
    """Whether it is a starlette Response: only code that has imported starlette has made one."""
    responses = sys.modules.get("starlette.responses")
    return responses is not None and isinstance(value, responses.Response)


def encode(value: Any) -> Tuple[Headers, bytes]:
    if isinstance(value, str):
        return TEXT, value.encode()
    if value is None or isinstance(value, bytes):
        return PLAIN, value or b""
    return JSON, dumps(value)


def encode_error(error: BaseException, trace: Optional[str] = None) -> Answer:
    """trace: the traceback, if the client shall see it."""
    if isinstance(error, BackPressureError):
        retry = error.retry_after_s
        more = [] if retry is None else [(b"retry-after", b"%d" % max(0, math.ceil(retry)))]
        return error.status_code, more, error.message.encode()
    if isinstance(error, DeploymentUnavailableError):
        return 503, [], error.message.encode()
    return (500, [], ERROR) if trace is None else (500, TEXT, trace.encode("utf-8", "replace"))


async def send_items(http: HttpRequest, items: AsyncIterator[Any]) -> None:
    """Streams what a generator gives. The first item decides the content type."""
    lines = None
    async for item in items:
        if lines is None:
            lines = not isinstance(item, (str, bytes))
            headers = LINES if lines else TEXT if isinstance(item, str) else PLAIN
            await http.send({"type": "http.response.start", "status": 200, "headers": headers})
        if lines:
            body = dumps(item) + b"\n"
        else:
            body = item.encode() if isinstance(item, str) else item
        await http.send({"type": "http.response.body", "body": body, "more_body": True})
    if lines is None:
        await http.send({"type": "http.response.start", "status": 200, "headers": PLAIN})
    await http.send({"type": "http.response.body"})


def answer_unavailable(_: Any, error: Any) -> Any:
    """For the exception handlers of an application."""
    from starlette.responses import Response

    status, headers, body = encode_error(error)
    return Response(body, status, {k.decode(): v.decode() for k, v in headers})
