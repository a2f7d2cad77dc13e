"""The records of the frame POLICY (docs/protocol/link.md, section 19): what the server asks a policy process, and the answers.

The server's side is src/wire/frame/frame_policy.c, which checks what it reads; here the server is trusted to send what it should.
"""

from __future__ import annotations

import struct
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

REPLICA, GONE, ONGOING, ROUTE, BODY, ROUTED, COMPLETED, WITHDRAWN = range(1, 9)
READY, CHOICE, MORE, READ = range(32, 36)
CHOSEN, RAISED, UNKNOWN, NONE, BUSY = range(5)  # why an answer has no replica
WANTS_ROUTED, WANTS_COMPLETED = 1, 2
MAX_CHOICES = 8
HTTP, CALL = 2, 3  # kinds of a request's body

_HAS_MODELS, _HAS_STATS = 1, 2
_HEAD = struct.Struct("<II")
_REPLICA = struct.Struct("<IIIHHHHIII")
_ROUTE = struct.Struct("<QQQIIHHHHQ")
_BODY = struct.Struct("<QQII")
_EVENT = struct.Struct("<QII")
_CHOICE = struct.Struct("<QII")
_PAIR = struct.Struct("<II")


class Replica(NamedTuple):
    number: int
    max_ongoing: int
    ongoing: int
    name: str
    node: str
    zone: str
    models: Optional[str]  # JSON; None: as it was said before
    stats: Optional[str]


class Route(NamedTuple):
    id: int
    created: int  # ns of CLOCK_MONOTONIC
    kind: int
    method: str
    model_id: str
    session_id: str
    request_id: str
    body_len: int
    body: bytes
    before: int = 0  # the question before about this request, or 0


class Body(NamedTuple):
    id: int
    offset: int
    gone: bool
    data: bytes


class Event(NamedTuple):
    id: int
    number: int


def split(records: bytes) -> Iterator[Tuple[int, int, int]]:
    """Kind, beginning and end of each record."""
    at, size = 0, len(records)
    while at < size:
        kind, n = _HEAD.unpack_from(records, at)
        at += _HEAD.size
        yield kind, at, at + n
        at += (n + 7) & ~7


def _texts(data: bytes, at: int, lengths: Sequence[int]) -> Tuple[List[str], int]:
    out = []
    for n in lengths:
        out.append(data[at : at + n].decode("utf-8", "replace") if n else "")
        at += n
    return out, at


def replica(data: bytes, at: int) -> Replica:
    number, most, ongoing, name, node, zone, flags, models, stats, _ = _REPLICA.unpack_from(data, at)
    t, _ = _texts(data, at + _REPLICA.size, (name, node, zone, models, stats))
    return Replica(number, most, ongoing, t[0], t[1], t[2], t[3] if flags & _HAS_MODELS else None,
                   t[4] if flags & _HAS_STATS else None)  # fmt: skip


def counts(data: bytes, at: int, end: int) -> Iterator[Tuple[int, int]]:
    """Number and ongoing requests of replicas."""
    return _PAIR.iter_unpack(memoryview(data)[at:end])


def route(data: bytes, at: int, end: int) -> Route:
    ident, created, body_len, _, kind, method, model, session, request, before = _ROUTE.unpack_from(data, at)
    t, at = _texts(data, at + _ROUTE.size, (method, model, session, request))
    return Route(ident, created, kind, t[0], t[1], t[2], t[3], body_len, data[at:end], before)


def body(data: bytes, at: int, end: int) -> Body:
    ident, offset, flags, _ = _BODY.unpack_from(data, at)
    return Body(ident, offset, bool(flags & 1), data[at + _BODY.size : end])


def event(data: bytes, at: int) -> Event:
    ident, number, _ = _EVENT.unpack_from(data, at)
    return Event(ident, number)


def ready(wants: int) -> bytes:
    return _HEAD.pack(READY, _PAIR.size) + _PAIR.pack(wants, 0)


def choice(ident: int, reason: int, chosen: Sequence[Tuple[int, int]] = ()) -> bytes:
    """chosen: numbers of replicas, each with its rank; the ranks rise."""
    out = _HEAD.pack(CHOICE, _CHOICE.size + len(chosen) * _PAIR.size) + _CHOICE.pack(ident, reason, len(chosen))
    return out + b"".join([_PAIR.pack(*pair) for pair in chosen]) if chosen else out


def more(ident: int) -> bytes:
    return _HEAD.pack(MORE, _EVENT.size) + _EVENT.pack(ident, 0, 0)


def read(total: int) -> bytes:
    """So many bytes of records were read since the link began."""
    return _HEAD.pack(READ, _EVENT.size) + _EVENT.pack(total, 0, 0)
