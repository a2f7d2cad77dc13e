"""Answers calls of gRPC clients: parses the messages, runs the method, and says how the call has ended."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Dict, Mapping, Optional, Tuple

from ...runtime.log import log_event
from .._calls.transport import CallMeta, current_request
from .._payload import BYTES
from ..exceptions import BackPressureError, DeploymentUnavailableError, gRPCStatusError
from ..grpc_util import RayServegRPCContext, encode_status, gRPCInputStream, status_number
from .services import Method

if TYPE_CHECKING:
    from .._replica.core import ReplicaCore

RECORD = "anyserve-grpc"  # the header of a call by a gRPC client
CONTEXT = "grpc_context"  # the parameter for the context
OK, CANCELLED, INVALID_ARGUMENT, DEADLINE, EXHAUSTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE = 0, 1, 3, 4, 8, 12, 13, 14
MAX_DETAILS = 4096
CUT = "... [truncated]"


class GrpcMeta(CallMeta):
    """That of a call by a gRPC client."""

    grpc_context: Any = None


class _BadMessage(Exception):
    """The client's bytes are no message of the method's type."""


def _cut(text: str) -> str:
    return text if len(text) <= MAX_DETAILS else text[: MAX_DETAILS - len(CUT)] + CUT


def status_of(error: BaseException, context: RayServegRPCContext) -> Tuple[int, str]:
    """Status and text of a call whose method has raised. What the method has set before counts first."""
    if context.code():
        return status_number(context.code()), context.details() or _cut(str(error))
    if isinstance(error, _BadMessage):
        return INTERNAL, str(error)
    if isinstance(error, gRPCStatusError):
        return status_number(error.grpc_code), error.grpc_details or _cut(str(error.original_exception))
    if isinstance(error, BackPressureError):
        return EXHAUSTED, error.message
    if isinstance(error, DeploymentUnavailableError):
        return UNAVAILABLE, error.message
    if isinstance(error, (TimeoutError, asyncio.TimeoutError)):
        return DEADLINE, "Request timed out."
    return INTERNAL, _cut(str(error))


def serialize(result: Any) -> bytes:
    """The bytes of a message. TypeError: it is none."""
    to_bytes = getattr(result, "SerializeToString", None)
    if to_bytes is None:
        raise TypeError("a method of a gRPC service returns a protobuf message, not %s" % type(result).__name__)
    return to_bytes()  # type: ignore[no-any-return]


class GrpcCalls:
    """Of one replica. methods: by path."""

    def __init__(self, core: "ReplicaCore", application: str, deployment: str, methods: Mapping[str, Method],
                 await_room: Callable[[Any], Any]) -> None:  # fmt: skip
        self.core = core
        self.names = application, deployment
        self.methods = methods
        self.await_room = await_room
        self._takes_context: Dict[str, bool] = {}

    def run(self, call: Any) -> Any:
        """A coroutine that answers the call."""
        return self.stream(call) if call.stream else self.unary(call)

    def _enter(self, call: Any) -> Tuple[Method, RayServegRPCContext, GrpcMeta]:
        current_request.set(call)
        block = call.metadata[RECORD]
        context = RayServegRPCContext._of_block(block, call.id)
        headers = call.metadata
        meta = GrpcMeta(*self.names, call.method, call.stream, call.id, headers.get("serve_multiplexed_model_id", ""),
                        headers.get("serve_session_id", ""), call.deadline)  # fmt: skip
        meta.grpc_context = context
        return self.methods.get(block.partition("\n")[0], _UNKNOWN), context, meta

    def _kwargs(self, name: str, context: RayServegRPCContext) -> Dict[str, Any]:
        takes = self._takes_context.get(name)
        if takes is None:
            takes = CONTEXT in inspect.signature(self.core.plan(name).call).parameters
            self._takes_context[name] = takes
        return {CONTEXT: context} if takes else {}

    async def unary(self, call: Any) -> None:
        method, context, meta = self._enter(call)
        data = b""
        try:
            message = _parse(method, call.load())
            result = await self.core.call(meta, (message,), self._kwargs(call.method, context), beyond=call.beyond)
            data = serialize(result)
            status = _set_status(context)
        except asyncio.CancelledError:
            _end_cancelled(call)
            return
        except BaseException as e:
            status = self._failed(call, e, context)
        self._end(call, data, status, context, context._compression)

    async def stream(self, call: Any) -> None:
        method, context, meta = self._enter(call)
        try:
            await self._run_stream(call, method, context, meta)
            status = _set_status(context)
        except asyncio.CancelledError:
            _end_cancelled(call)
            return
        except BaseException as e:
            status = self._failed(call, e, context)
        try:
            while not call.ended and not call.room():
                await self.await_room(call)
        except asyncio.CancelledError:
            _end_cancelled(call)
            return
        self._end(call, b"", status, context)

    async def _run_stream(self, call: Any, method: Method, context: RayServegRPCContext, meta: GrpcMeta) -> None:
        cancelled = asyncio.Event()
        first: Any
        if call.inputs:
            call.load()
            first = gRPCInputStream(_inputs(call, method, cancelled), cancel_event=cancelled)
        else:
            first = _parse(method, call.load())
        kwargs = self._kwargs(call.method, context)
        try:
            if not method.gives_parts:
                await self._send(call, await self.core.call(meta, (first,), kwargs, beyond=call.beyond))
                return
            async with contextlib.aclosing(self.core.call_stream(meta, (first,), kwargs, beyond=call.beyond)) as results:
                while True:
                    if not call.room():
                        await self.await_room(call)
                    try:
                        result = await results.__anext__()
                    except StopAsyncIteration:
                        return
                    await self._send(call, result)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async def _send(self, call: Any, result: Any) -> None:
        data = serialize(result)
        while not call.part(BYTES, 0, data, ()):
            await self.await_room(call)

    def _failed(self, call: Any, error: BaseException, context: RayServegRPCContext) -> Tuple[int, str]:
        try:
            return status_of(error, context)
        except Exception as e:
            return INTERNAL, "%s: %s" % (type(e).__name__, e)

    def _end(self, call: Any, data: bytes, status: Tuple[int, str], context: RayServegRPCContext,
             encoding: Optional[str] = None) -> None:  # fmt: skip
        if call.ended:
            return
        try:
            block = encode_status(*status, context.trailing_metadata(), encoding)
        except Exception as e:
            log_event("warn", "bad_metadata", method=call.method, request=call.id, error=str(e))
            data, block = b"", encode_status(INTERNAL, "trailing metadata: %s" % e, [("request_id", call.id)])
        try:
            call.answer(BYTES, 0, data, [block])
        except Exception as e:  # it is too large
            call.fail(INTERNAL, "%s: %s" % (type(e).__name__, e))


def _unknown(data: bytes) -> Any:
    raise _BadMessage("this replica does not serve the method: its grpc_servicer_functions are others")


_UNKNOWN = Method("", False, True, _unknown)


def _parse(method: Method, data: bytes) -> Any:
    try:
        return method.parse(data)
    except _BadMessage:
        raise
    except Exception as e:
        raise _BadMessage("Exception deserializing request: %s" % e) from e


def _set_status(context: RayServegRPCContext) -> Tuple[int, str]:
    """Of a method that has returned. ValueError: it has set none that exists."""
    return status_number(context.code() or OK), context.details() or ""


def _end_cancelled(call: Any) -> None:
    if not call.ended:
        call.fail(CANCELLED, "the call was cancelled")


async def _inputs(call: Any, method: Method, cancelled: asyncio.Event) -> AsyncIterator[Any]:
    while True:
        if call.cancelled or call.ended:
            cancelled.set()
            return
        data = call.next_input()
        if data is None:
            return
        if data is ...:
            call.input_waiter = asyncio.get_running_loop().create_future()
            await call.input_waiter
            continue
        yield _parse(method, data)
