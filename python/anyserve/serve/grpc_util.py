"""What a handler of a gRPC service gets beside its message: the context of the call, and the messages of a client's stream."""

from __future__ import annotations

import asyncio
import base64
import re
from typing import Any, AsyncIterator, Dict, List, Optional, Sequence, Tuple, TypeVar

__all__ = ["RayServegRPCContext", "gRPCInputStream"]

T = TypeVar("T")
_KEY = re.compile(r"[0-9a-z_.-]+")
_MAX_TRAILERS = 60
_ENCODINGS = ("identity", "deflate", "gzip")  # by the number of a grpc.Compression
_MAX_DETAILS = 4096  # bytes of grpc-message, encoded: AS_GRPC_MESSAGE_MAX


class gRPCInputStream(AsyncIterator[T]):
    """The messages of a client that sends any number of them: `async for message in stream`."""

    def __init__(self, request_iterator: AsyncIterator[T], *, cancel_event: Optional[asyncio.Event] = None) -> None:
        self._messages = request_iterator
        self._cancelled = cancel_event or asyncio.Event()
        self._exhausted = False

    def __aiter__(self) -> "gRPCInputStream[T]":
        return self

    async def __anext__(self) -> T:
        """The next message. StopAsyncIteration: there is none, or the stream was cancelled."""
        if self._exhausted or self._cancelled.is_set():
            self._exhausted = True
            raise StopAsyncIteration
        try:
            return await self._messages.__anext__()
        except StopAsyncIteration:
            self._exhausted = True
            raise

    def is_cancelled(self) -> bool:
        """Whether the client has gone, or `cancel` was called."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """No further message is given."""
        self._cancelled.set()

    @property
    def is_exhausted(self) -> bool:
        """Whether the end was reached."""
        return self._exhausted


def _decoded(key: str, value: str) -> Any:
    if not key.endswith("-bin"):
        return value
    try:
        return base64.b64decode(value + "=" * (-len(value) % 4))
    except ValueError:  # the client has sent no base64
        return value.encode()


class RayServegRPCContext:
    """The context of one call, for a method with a parameter `grpc_context`: what the client has sent beside its messages,
    and what it gets beside the answer. With the names of grpcio's ServicerContext."""

    def __init__(self, metadata: Sequence[Tuple[str, Any]], peer: str, request_id: str) -> None:
        self._metadata = list(metadata)
        self._by_key: Dict[str, Any] = dict(self._metadata)
        self._peer = peer
        self._code: Any = 0
        self._details = ""
        self._compression: Optional[str] = None
        self._trailing_metadata: List[Tuple[str, Any]] = [("request_id", request_id)]

    @classmethod
    def _of_block(cls, block: str, request_id: str) -> "RayServegRPCContext":
        """Of the record of a call: docs/protocol/link.md, section 18."""
        lines = block.split("\n")
        return cls([(k, _decoded(k, v)) for k, v in zip(lines[2::2], lines[3::2])], lines[1], request_id)

    def auth_context(self) -> Dict[str, Any]:
        """Empty: the server has no TLS."""
        return {}

    def code(self) -> Any:
        """The status that was set; 0: none was."""
        return self._code

    def details(self) -> str:
        return self._details

    def request_id(self) -> Optional[str]:
        return self._by_key.get("request_id")

    def application(self) -> Optional[str]:
        return self._by_key.get("application")

    def multiplexed_model_id(self) -> Optional[str]:
        return self._by_key.get("multiplexed_model_id")

    def traceparent(self) -> Optional[str]:
        return self._by_key.get("traceparent")

    def tracestate(self) -> Optional[str]:
        return self._by_key.get("tracestate")

    def invocation_metadata(self) -> List[Tuple[str, Any]]:
        """What the client has sent; values of "-bin" keys are bytes: decoded, or as they came where they are no base64."""
        return self._metadata

    def peer(self) -> str:
        """The client's address, like "ipv4:127.0.0.1:50000"."""
        return self._peer

    def peer_identities(self) -> Optional[bytes]:
        return None

    def peer_identity_key(self) -> Optional[str]:
        return None

    def trailing_metadata(self) -> List[Tuple[str, Any]]:
        return self._trailing_metadata

    def set_code(self, code: Any) -> None:
        """The status of the call, a grpc.StatusCode; also of one whose method raises."""
        self._code = code

    def set_compression(self, compression: Any) -> None:
        """How the answer is compressed, a grpc.Compression, if the client reads that. Counts more than
        `--response-compression`. Without effect on streams of answers."""
        if isinstance(compression, bool) or not isinstance(compression, int) or not 0 <= compression < len(_ENCODINGS):
            raise ValueError("%r is no grpc.Compression" % (compression,))
        self._compression = _ENCODINGS[compression]

    def set_details(self, details: str) -> None:
        """The text of the status; default of an exception: its own."""
        self._details = details

    def set_trailing_metadata(self, trailing_metadata: Sequence[Tuple[str, Any]]) -> None:
        """What the client gets at the end, after `request_id`; replaces what was set before."""
        kept = [pair for pair in self._trailing_metadata if pair[0] == "request_id"][:1]
        self._trailing_metadata = kept + list(trailing_metadata)


# --- the end of a call, as lines: docs/protocol/link.md, section 18 ---


def status_number(code: Any) -> int:
    """0 … 16. code: a grpc.StatusCode, or a number. ValueError."""
    value = getattr(code, "value", code)
    number = value[0] if isinstance(value, tuple) else value
    if not isinstance(number, int) or not 0 <= number <= 16:
        raise ValueError("%r is no grpc.StatusCode" % (code,))
    return int(number)


def encode_details(text: str) -> str:
    """As grpc-message: what is not printable ASCII, and '%', is escaped; at most 4096 characters."""
    if len(text) <= _MAX_DETAILS and text.isascii() and text.isprintable() and "%" not in text and text == text.strip():
        return text
    out, room = [], _MAX_DETAILS
    for i, c in enumerate(text):
        plain = " " < c <= "~" and c != "%" or c == " " and 0 < i < len(text) - 1
        piece = c if plain else "".join("%%%02X" % b for b in c.encode("utf-8", "replace"))
        room -= len(piece)
        if room < 0:
            break
        out.append(piece)
    return "".join(out)


def _line(key: Any, value: Any) -> str:
    if not isinstance(key, str) or not _KEY.fullmatch(key) or key.startswith("grpc-"):
        raise ValueError("%r is no key of metadata: lower-case letters, digits, '_', '-' and '.'" % (key,))
    if key.endswith("-bin"):
        if not isinstance(value, (bytes, bytearray)):
            raise ValueError("the value of %r must be bytes, not %s" % (key, type(value).__name__))
        return base64.b64encode(value).decode().rstrip("=")
    text = value.decode("ascii", "replace") if isinstance(value, (bytes, bytearray)) else value
    if not isinstance(text, str) or not text.isascii() or not (text.isprintable() or not text):
        raise ValueError("the value of %r must be printable ASCII, not %r" % (key, value))
    return text.strip()


def encode_status(status: int, details: str, trailing_metadata: Sequence[Tuple[str, Any]], encoding: Optional[str] = None) -> bytes:
    """The last buffer of a call. encoding: how its message is compressed; None: as the server is set. ValueError: a key or a
    value cannot be sent."""
    if len(trailing_metadata) > _MAX_TRAILERS:
        raise ValueError("trailing metadata has at most %d entries, not %d" % (_MAX_TRAILERS, len(trailing_metadata)))
    lines = [str(status), encode_details(details)]
    for key, value in trailing_metadata:
        text = _line(key, value)
        lines += [key, text]
    if encoding is not None:
        lines += ["grpc-encoding", encoding]
    return "\n".join(lines).encode("ascii")
