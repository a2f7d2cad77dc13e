"""A worker that serves a deployment of anyserve.serve: its calls by handles, and its tensor model if it has one.

The extension gives each call to `ServeReplica.on_call` on the event loop; its coroutine begins within the turn that reads the
call. What the object's methods, hooks and end mean is decided in serve/_replica/core.py.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, AsyncGenerator, Dict, Generator, List, Mapping, Optional, Tuple

from .. import _native, replica
from ..code.deployments import Deployment
from ..code.serve_code import DEFAULT_ONGOING
from ..declared_model import Model
from ..errors import STATUS_NAMES, DeclarationError
from ..serve import _payload
from ..serve._calls.native_transport import ReplicaTransport
from ..serve._calls.transport import CallMeta, current_request, set_process_transport
from ..serve._grpc import services as grpc_services
from ..serve._grpc.calls import RECORD as GRPC_RECORD
from ..serve._grpc.calls import GrpcCalls
from ..serve._grpc.services import Method as GrpcMethod
from ..serve._http.handler import HttpCalls
from ..serve._replica.core import ReplicaCore
from ..serve.context import CallContext, _serve_request_context
from ..signature import Param
from ..stop import EX_DECLARATION, EX_RAISED, FAULTS, stop
from . import event_loop, lifecycle
from .worker_loop import Binding, Server

CANCELLED, INTERNAL = (STATUS_NAMES.index(n) for n in ("CANCELLED", "INTERNAL"))
MODEL_ID, SESSION_ID = "serve_multiplexed_model_id", "serve_session_id"  # headers of a call


def _meta_of(call: Any, application: str, deployment: str) -> CallMeta:
    headers = call.metadata
    if not headers:
        return CallMeta(application, deployment, call.method, call.stream, call.id, "", "", call.deadline)
    return CallMeta(application, deployment, call.method, call.stream, call.id, headers.get(MODEL_ID, ""),
                    headers.get(SESSION_ID, ""), call.deadline)  # fmt: skip


def _arguments(call: Any) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Sets call.state if the caller sent bytes: it is written in another language, and reads no pickles."""
    value = call.load()
    if isinstance(value, bytes):
        call.state = True
        return (value,), {}
    if type(value) is not tuple or len(value) != 2:
        raise ValueError("the body of a call is no pair of arguments and keyword arguments")
    return value


class Calls:
    """Runs calls on a ReplicaCore, and answers them."""

    def __init__(self, core: ReplicaCore, application: str, deployment: str) -> None:
        self.core = core
        self.names = application, deployment
        self.grpc: Optional[GrpcCalls] = None

    def serve_grpc(self, methods: Mapping[str, GrpcMethod]) -> None:
        """From now on calls of gRPC clients run these methods."""
        self.grpc = GrpcCalls(self.core, *self.names, methods, _room)

    def on_call(self, call: Any) -> Any:
        """A coroutine that answers the call. The task that it gets is its own."""
        if self.grpc is not None and call.metadata and GRPC_RECORD in call.metadata:
            return self.grpc.run(call)
        return self.stream(call) if call.stream else self.unary(call)

    async def unary(self, call: Any) -> None:
        current_request.set(call)
        try:
            args, kwargs = _arguments(call)
            result = await self.core.call(_meta_of(call, *self.names), args, kwargs, beyond=call.beyond)
            del args, kwargs
            body = _payload.encode_plain_answer(result) if call.state else _payload.encode_answer(result)
            call.answer(body.codec, 0, body.data, body.buffers)
        except asyncio.CancelledError:
            _end_cancelled(call)
        except BaseException as e:
            if call.cancelled:  # nobody reads what it raised
                _end_cancelled(call)
            else:
                self.answer_error(call, e)

    async def stream(self, call: Any) -> None:
        current_request.set(call)
        try:
            args, kwargs = _arguments(call)
            results = self.core.call_stream(_meta_of(call, *self.names), args, kwargs, beyond=call.beyond)
            del args, kwargs
            async with contextlib.aclosing(results):
                while True:
                    if not call.room():
                        await _room(call)
                    try:
                        result = await results.__anext__()
                    except StopAsyncIteration:
                        break
                    body = _payload.encode_plain_answer(result) if call.state else _payload.encode_answer(result)
                    while not call.part(body.codec, 0, body.data, body.buffers):
                        await _room(call)
            call.finish()
        except asyncio.CancelledError:
            _end_cancelled(call)
        except BaseException as e:
            try:
                while not call.ended and not call.room():
                    await _room(call)
            except asyncio.CancelledError:
                _end_cancelled(call)
            else:
                self.answer_error(call, e)

    def answer_error(self, call: Any, error: BaseException) -> None:
        if call.ended:
            return
        try:
            body = _payload.encode_plain_exception(error) if call.state else _payload.encode_exception(error)
            call.answer(body.codec, body.flags, body.data, body.buffers)
        except Exception as e:  # it is too large
            call.fail(INTERNAL, "%s: its exception cannot be sent: %s" % (type(error).__name__, e))


def _door(calls: Calls, http: HttpCalls) -> Any:
    """What the extension calls with each call and each request of HTTP; it returns the coroutine that answers."""
    on_call, on_http, kind = calls.on_call, http.serve, _native.Http
    return lambda request: on_http(request) if type(request) is kind else on_call(request)


def _end_cancelled(call: Any) -> None:
    """The task ends well, since nobody awaits it; its caller has gone, or gets CANCELLED."""
    if not call.ended:
        call.fail(CANCELLED, "the call was cancelled")


async def _room(call: Any) -> None:
    """Waits until the caller takes another message."""
    call.room_waiter = asyncio.get_running_loop().create_future()
    if not call.room():
        await call.room_waiter


class ServeReplica(Server):
    """A worker process of a serve deployment, whose object was constructed."""

    def __init__(self, deployment: Deployment, given: replica.Given, core: ReplicaCore, transport: ReplicaTransport,
                 path: str, *args: Any) -> None:  # fmt: skip
        self.core = core
        assert deployment.serve is not None
        calls = Calls(core, deployment.serve.application, deployment.serve.name)
        http = HttpCalls(core, deployment.serve.application, deployment.serve.name, bool(args and args[2]))
        if deployment.serve.ingress:
            http.prepare()
            methods, _ = grpc_services.load()
            if methods:
                calls.serve_grpc(methods)
        tensors = [m if m.is_async else m._replace(threads=core.max_ongoing_requests) for m in deployment.models[1:]]
        deployment = deployment._replace(models=deployment.models[:1] + tensors)
        super().__init__(deployment, given, [_door(calls, http)] + [core.servable] * len(tensors), path, *args)
        self.transport = transport
        self.is_policy = deployment.serve is not None and deployment.serve.is_policy

    def make_lifecycle(self, deployment: Deployment, given: replica.Given, handlers: List[Any]) -> lifecycle.Lifecycle:
        try:
            made = lifecycle.Lifecycle(self.core.hooks, given, deployment.options)
        except DeclarationError as e:
            stop(EX_DECLARATION, str(e))
        made.context = self.core.context
        made.enter = self.core.set_context
        if deployment.serve is not None and deployment.serve.is_policy:
            made.scale = self.core.servable.scale
        return made

    async def begin(self) -> None:
        """The hooks were called when the object was constructed."""
        self.transport.use(self.link, False)
        if self.is_policy:
            self.core.servable.use_link(self.link)

    def configure_logging(self, settings: Dict[str, Any], context: replica.ReplicaContext) -> Any:
        return self.core.configure_logging(settings.get("logging_config"))

    def bind(self, model: Model, handler: Any) -> Binding:
        bound = super().bind(model, handler)
        if model.opaque:
            return bound
        asked = Param("request", True, None, True)
        return bound._replace(handler=_as_parent(handler, model, self.core.context.application),
                              params=[asked, *bound.params])  # fmt: skip

    def on_connected(self) -> None:
        self.transport.use(self.link, True)

    def apply_options(self, settings: Dict[str, Any]) -> None:
        super().apply_options(settings)
        self.core.set_max_ongoing_requests(settings.get("max_ongoing_requests", DEFAULT_ONGOING))


def _as_parent(handler: Any, model: Model, application: str) -> Any:
    """The handler of a tensor model, called with the Request first: calls that it makes have the request as their parent, and the
    request context (ids of the request, its model and its session) is that of the request."""

    def enter(request: Any) -> Any:
        headers = request.metadata
        meta = CallMeta(application, model.name, "__call__", model.decoupled, request.id or headers.get("x-request-id", ""),
                        headers.get(MODEL_ID, ""), headers.get(SESSION_ID, ""))  # fmt: skip
        return current_request.set(request), _serve_request_context.set(CallContext(meta))

    def leave(tokens: Any) -> None:
        current_request.reset(tokens[0])
        _serve_request_context.reset(tokens[1])

    if model.decoupled and model.is_async:

        async def generate(request: Any, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            enter(request)
            async with contextlib.aclosing(handler(*args, **kwargs)) as results:
                async for result in results:
                    yield result

        return generate
    if model.is_async:

        async def call(request: Any, *args: Any, **kwargs: Any) -> Any:
            enter(request)
            return await handler(*args, **kwargs)

        return call
    if model.decoupled:

        def generate_sync(request: Any, *args: Any, **kwargs: Any) -> Generator[Any, None, None]:
            tokens = enter(request)
            try:
                yield from handler(*args, **kwargs)
            finally:
                leave(tokens)

        return generate_sync

    def call_sync(request: Any, *args: Any, **kwargs: Any) -> Any:
        tokens = enter(request)
        try:
            return handler(*args, **kwargs)
        finally:
            leave(tokens)

    return call_sync


def _settings(deployment: Deployment, given: replica.Given) -> SimpleNamespace:
    """What ReplicaCore reads of the deployment's options."""
    options = {**deployment.options, **given.options}
    config = options.get("user_config") if given.user_config is None else given.user_config
    return SimpleNamespace(user_config=config, max_ongoing_requests=options.get("max_ongoing_requests", DEFAULT_ONGOING),
                           request_router_config=options.get("request_router_config"),
                           logging_config=options.get("logging_config"))  # fmt: skip


async def _construct(core: ReplicaCore) -> None:
    try:
        await core.start()
    except FAULTS as e:
        stop(EX_RAISED, core.describe_failure(e))


async def _serve(deployment: Deployment, given: replica.Given, path: str, *args: Any) -> None:
    code = deployment.serve
    assert code is not None
    core = ReplicaCore(code.func_or_class, code.init_args, code.init_kwargs, config=_settings(deployment, given),
                       context=given.context)  # fmt: skip
    transport = ReplicaTransport(path)
    set_process_transport(transport)
    await _construct(core)
    server = ServeReplica(deployment, given, core, transport, path, *args)
    core.report_to(server.link.report)
    try:
        await server.run_async()
    finally:
        transport.end()
        await core.stop()
        transport.close()
        server.link.close()


def serve(deployment: Deployment, given: replica.Given, path: str, token: str, name: str, debug: bool,
          stream_inputs: Tuple[int, int]) -> None:  # fmt: skip
    """Serves until it is drained. Raises Stop if that is not possible; arguments as of worker_loop.serve."""
    event_loop.run(_serve(deployment, given, path, token, name, debug, stream_inputs))
