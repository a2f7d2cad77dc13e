"""Requests with several messages: what an event loop does for async generators and for handlers
that take a stream."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable

if TYPE_CHECKING:
    from .._native import Request, Stream


class Requests:
    """The requests of one stream, as a handler's parameter annotated ``AsyncIterator[Request]``
    sees them: the first is there at once, the last is followed by the end of the iteration when
    the client has ended its side."""

    __slots__ = ("_stream",)

    def __init__(self, stream: "Stream") -> None:
        self._stream = stream

    def __aiter__(self) -> "AsyncIterator[Request]":
        return self

    async def __anext__(self) -> "Request":
        stream = self._stream
        while True:
            request = stream.next()
            if request is False:
                raise StopAsyncIteration
            if request is not None:
                return request
            if not stream.more():
                stream.input_waiter = waiter = asyncio.get_running_loop().create_future()
                await waiter


def with_requests(handler: Callable[..., Any], name: str) -> Callable[["Stream"], Any]:
    """The handler as the extension calls it. `drive` makes the real call in its first step: a request
    that is cancelled before that leaves no coroutine that nobody awaits."""

    def call(stream: "Stream") -> Any:
        return functools.partial(handler, **{name: Requests(stream)})

    return call


async def _room(stream: "Stream") -> None:
    while not stream.room():
        stream.room_waiter = waiter = asyncio.get_running_loop().create_future()
        await waiter


async def drive(stream: "Stream", result: Any) -> None:
    """Sends what the handler gives; it is asked for a result only when there is room for it."""
    if isinstance(result, functools.partial):
        result = result()
    if not inspect.isasyncgen(result):
        value = await result
        await _room(stream)
        stream.send(value)
        return
    async with contextlib.aclosing(result):
        if not stream.room():
            await _room(stream)
        async for value in result:
            stream.send(value)
            if not stream.room():
                await _room(stream)
