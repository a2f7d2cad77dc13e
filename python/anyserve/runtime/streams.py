"""Requests with several messages on an event loop: async generators, and handlers that take a stream."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable

if TYPE_CHECKING:
    from .._native import Request, Stream


class Requests:
    """What a parameter annotated ``AsyncIterator[Request]`` gets: the requests of one stream. The first is there at
    once; the iteration ends when the client has ended its side."""

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
    """The handler as the extension calls it. It only prepares the call, which `drive` makes: so a request that is
    cancelled before that leaves no coroutine that was never awaited."""

    def call(stream: "Stream") -> Any:
        return functools.partial(handler, **{name: Requests(stream)})

    return call


async def _room(stream: "Stream") -> None:
    while not stream.room():
        stream.room_waiter = waiter = asyncio.get_running_loop().create_future()
        await waiter


async def drive(stream: "Stream", result: Any) -> None:
    """Sends the results of a handler; asks it for the next one only when the client has room for it."""
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
