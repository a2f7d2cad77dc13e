"""Serving one deployment: makes the handlers, keeps the link connected, and runs requests.

Only workers with an event loop import asyncio, and only where they first need it: that import takes a fifth of a start.
"""

from __future__ import annotations

import collections.abc
import contextvars
import functools
import os
import signal
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .. import __version__, _native, replica
from ..batching import Batching
from ..code.copied import user_traceback, users_path
from ..code.deployments import Deployment
from ..declared_model import Model
from ..errors import STATUS_NAMES, Error
from ..signature import Param, Response, place_of
from ..stop import EX_DECLARATION, EX_DENIED, EX_RAISED, FAULTS, stop
from . import lifecycle, options
from .log import log_event
from .pool import Pool

if TYPE_CHECKING:
    import asyncio

MAX_PREFETCH = 256
MAX_MESSAGE = 2**62  # no limit here: the server bounds it
CONNECT_TIMEOUT = 10.0  # seconds, for connecting and registering
BACKOFF = (0.01, 0.02, 0.05, 0.1, 0.25)  # seconds between attempts; the last one repeats
TEXT_MAX = 16000  # longest error text that a client gets, bytes
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
SWITCH_DEFAULT = 0.005  # seconds after which Python makes a thread release the interpreter …
SWITCH_SHORT = 0.0005  # … where sync handlers run beside an event loop

_native.set_response_type(Response)
collections.abc.Coroutine.register(_native.Call)


# (model, place of its code, exception) -> gRPC status and text for the client
OnError = Callable[[str, str, BaseException], Tuple[int, str]]
# name, datatype, shape, labels
Spec = Tuple[str, str, Optional[Tuple[int, ...]], Optional[Tuple[str, ...]]]


class Binding(NamedTuple):
    """A model as the extension reads it."""

    name: str
    version: str
    where: str
    handler: Callable[..., Any]
    submit: Optional[Callable[[Any], Any]]
    is_async: bool
    eager: bool
    decoupled: bool
    streams_inputs: bool
    idempotent: bool
    params: Sequence[Param]
    n_kwonly: int
    var_keyword: bool
    inputs: Optional[List[Spec]]
    outputs: Optional[List[Spec]]
    max_ongoing_requests: int
    batching: Optional[Tuple[int, int, Tuple[int, ...], bool, bool]]
    pool: Optional[Pool]  # the threads behind `submit`
    opaque: bool = False  # called by handles only
    http: bool = False  # with opaque: it also gets requests of HTTP


def _construct(m: Model) -> Any:
    if not isinstance(m.handler, type):
        return m.handler
    try:
        return m.handler()
    except FAULTS as e:
        stop(EX_RAISED, "model %r: constructing %s failed:\n\n%s"
             % (m.name, m.handler.__name__, user_traceback(e)))  # fmt: skip


def make_handlers(deployment: Deployment) -> List[Any]:
    """The callable objects of all models; classes are constructed."""
    handlers = [_construct(m) for m in deployment.models]
    if any(m.is_async for m in deployment.models):
        import asyncio  # noqa: F401  in a warm spare, before it is needed
    return handlers


def _specs(side: Any, batched: bool) -> Any:
    """The shapes that clients see: with batching, declared shapes are those of one item."""
    if side is None:
        return None
    return [(n, t.datatype, t.served_shape(batched), t.labels) for n, t in side.items()]


def _batching(b: Optional[Batching]) -> Any:
    if b is None:
        return None
    return (b.max_batch_size, round(b.max_wait_ms * 1e6), b.preferred_sizes, b.ragged, b.as_list)


def bind(m: Model, handler: Any, pool: Optional[Pool] = None) -> Binding:
    """What the extension needs to call the handler."""
    s = m.signature
    if m.stream is not None:
        from .streams import with_requests

        handler = with_requests(handler, m.stream)
    return Binding(
        m.name, m.version, "" if m.opaque else place_of(m.handler, users_path), handler, pool.submit if pool else None,
        m.is_async, m.eager, m.decoupled, m.stream is not None, m.idempotent, s.params, s.n_kwonly, s.var_keyword,
        _specs(s.inputs, m.batching is not None), _specs(s.outputs, m.batching is not None),
        m.max_ongoing_requests, _batching(m.batching), pool, m.opaque, m.http,
    )  # fmt: skip


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace")[:TEXT_MAX].decode("utf-8", "ignore")


def report(debug: bool, model: str, where: str, exc: BaseException) -> Tuple[int, str]:
    """Status and text for the client; the log gets the traceback."""
    if isinstance(exc, Error):
        return STATUS_NAMES.index(exc.code), _clean(exc.message)
    internal = STATUS_NAMES.index("INTERNAL")
    if isinstance(exc, _native.OutputError):
        log_event("warn", "bad_result", model=model, handler=where, error=exc)
        # clients must not learn the paths of the server
        return internal, _clean("%s (%s)" % (exc, os.path.basename(where)))
    trace = "".join(traceback.format_exception(type(exc), exc, exc.__traceback__))
    short = "%s: %s" % (type(exc).__name__, exc)
    log_event("warn", "handler_raised", trace, model=model, error=short)
    return internal, _clean(trace if debug else "model %r raised %s" % (model, short))


def _stop_if_refused(error: Tuple[str, str]) -> None:
    """Raises Stop, unless a later attempt may succeed."""
    name, why = error
    if name == "EDENIED":
        stop(EX_DENIED, "the dispatcher refuses this worker: %s" % why)
    if name in ("EEXISTS", "EINVALID"):
        stop(EX_DECLARATION, "the dispatcher refuses to serve this: %s" % why)


def _pauses() -> Iterator[float]:
    yield from BACKOFF
    while True:
        yield BACKOFF[-1]


def _warmups(deployment: Deployment, requests: Any) -> List[Any]:
    if not requests:
        return []
    from . import warmup  # imported only where it is used

    return warmup.plan(deployment.models, requests)


def _stop_listening(loop: asyncio.AbstractEventLoop) -> None:
    """The worker is ending: a stop signal now would meet an event loop that is being closed."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    for signum in STOP_SIGNALS:
        loop.remove_signal_handler(signum)
        signal.signal(signum, signal.SIG_IGN)


def make_link(deployment: Deployment, bindings: List[Binding], path: str, token: str, name: str,
              stream_inputs: Tuple[int, int], on_error: OnError) -> _native.Link:  # fmt: skip
    link = _native.Link(
        path, token, name, deployment.name, "anyserve-python " + __version__, bindings, deployment.budget,
        MAX_PREFETCH, deployment.max_queued_requests, MAX_MESSAGE, *stream_inputs, on_error,
    )  # fmt: skip
    if deployment.serve is not None and deployment.serve.ingress:
        from ..serve._grpc import services

        services.register(link)
    return link


def registrations(deployment: Deployment) -> List[bytes]:
    """How a replica would register each model of the deployment. Constructs no handler, and starts no thread of Python."""
    bindings = [bind(m, m.handler) for m in deployment.models]
    link = make_link(deployment, bindings, "none", "", "", (1, 1), functools.partial(report, False))
    try:
        return link.registrations()
    finally:
        link.close()


class Replica:
    """A deployment that can run requests: handlers, hooks and link. For a worker process (Server), or for tests within
    a program (testing/local.py)."""

    def __init__(self, deployment: Deployment, given: replica.Given, made: Optional[List[Any]], path: str, token: str,
                 name: str, stream_inputs: Tuple[int, int], on_error: OnError):  # fmt: skip
        handlers = make_handlers(deployment) if made is None else made
        self.bindings = [self.bind(m, h) for m, h in zip(deployment.models, handlers)]
        self.lifecycle = self.make_lifecycle(deployment, given, handlers)
        self.needs_loop = any(b.is_async for b in self.bindings)
        self.has_sync = any(not b.is_async and b.submit is None for b in self.bindings)
        self.link = make_link(deployment, self.bindings, path, token, name, stream_inputs, on_error)

    def bind(self, model: Model, handler: Any) -> Binding:
        return bind(model, handler, Pool(model.name, model.threads) if model.threads else None)

    def make_lifecycle(self, deployment: Deployment, given: replica.Given, handlers: List[Any]) -> lifecycle.Lifecycle:
        """Raises Stop if what the code declares does not fit."""
        named = [(m.name, h) for m, h in zip(deployment.models, handlers)]
        return lifecycle.make(named, deployment.module, given, deployment.options)

    def use_loop(self, loop: asyncio.AbstractEventLoop, on_news: Callable[[Optional[str]], Any],
                 sync_submit: Optional[Callable[[Any], Any]]) -> Tuple[int, Callable[[], Any]]:  # fmt: skip
        """Runs handlers on this event loop. Returns the link's descriptor, and a function that schedules its turn."""
        from .event_loop import can_start_eagerly
        from .streams import drive

        # A handler that ends schedules a turn; the handlers that the turn starts must not inherit its context.
        soon = functools.partial(loop.call_soon, self.link.turn, context=contextvars.copy_context())
        return self.link.use_loop(loop, loop.create_task, can_start_eagerly(loop), soon, drive, on_news, sync_submit), soon


class Server(Replica):
    """A worker process: connects the link, and runs it until it is drained."""

    def __init__(self, deployment: Deployment, given: replica.Given, made: Optional[List[Any]], path: str, token: str,
                 name: str, debug: bool, stream_inputs: Tuple[int, int]):  # fmt: skip
        settings = {**deployment.options, **given.options}
        self.warmups = _warmups(deployment, settings.get(replica.WARMUP))
        traced = self.configure_logging(settings, given.context)
        super().__init__(deployment, given, made, path, token, name, stream_inputs, functools.partial(report, debug))
        os.register_at_fork(after_in_child=self.link.forked)
        self.dump_signal = lifecycle.dump_on_signal()
        self.lifecycle.on_options = self.apply_options
        self.send_options(self.lifecycle.options)
        self.link.trace(traced)

    def configure_logging(self, settings: Dict[str, Any], context: replica.ReplicaContext) -> Any:
        """The context variable that holds the request's id for log lines, or None."""
        if "logging_config" not in settings and __package__ + ".logging_config" not in sys.modules:
            return None
        from . import logging_config

        return logging_config.configure(settings.get("logging_config"), context)

    def send_options(self, settings: Dict[str, Any]) -> None:
        options.send_options(self.link.set_options, settings, self.dump_signal)
        options.send_traffic(self.link.set_traffic, settings)
        options.send_router(self.link.set_router, settings)

    def apply_options(self, settings: Dict[str, Any]) -> None:
        """New options, while it serves."""
        self.send_options(settings)
        self.link.trace(self.configure_logging(settings, self.lifecycle.context))

    def is_over(self, how: Optional[str], ends: bool) -> bool:
        """Whether the end of the link ends the worker, which may have been asked to (ends). Logs a link whose requests
        are lost; one that is lost without open requests counts as drained, and has an error."""
        if how != "drained" or (ends and self.link.error):
            log_event("info" if ends else "warn", "link_lost", reason=self.link.error,
                      action="ending, as it was asked to" if ends else "connecting again")  # fmt: skip
        return how == "drained" or ends

    # --- sync handlers: the extension runs the loop ---

    def connect(self) -> bool:
        """Tries until it is connected. False: it was asked to stop."""
        for pause in _pauses():
            if self.link.stopping:
                return False
            error = self.link.connect(CONNECT_TIMEOUT)
            if error is None:
                return True
            _stop_if_refused(error)
            time.sleep(pause)
        return False

    def run(self) -> None:
        hooks = lifecycle.HookRunner(self.lifecycle)
        hooks.run(self.lifecycle.begin())
        if self.warmups:
            from . import warmup

            warmup.run(self.link, self.warmups)
        self.link.on_ask(lambda op, text, ask: self.link.reply(ask, *hooks.run(self.lifecycle.answer(op, text))))
        for signum in STOP_SIGNALS:
            # Code that replaces Python's handler and restores it later (asyncio.run does, for SIGINT) restores this
            # one, which stops the worker.
            signal.signal(signum, lambda *_: self.link.stop())
            self.link.stop_on(signum)
        while self.connect():
            if self.is_over(self.link.run(), self.link.stopping):
                return

    # --- async handlers: an event loop ---

    async def _greet(self, news: asyncio.Event) -> Optional[Tuple[str, str]]:
        """One attempt to connect, in steps, since handlers of the lost link may still be running on the loop."""
        refused = self.link.connect_begin()
        if refused:
            return refused
        while True:
            news.clear()
            outcome = self.link.connect_step()
            if outcome is not False:
                return outcome
            await news.wait()

    async def connect_async(self, news: asyncio.Event) -> None:
        import asyncio

        for pause in _pauses():
            try:
                error = await asyncio.wait_for(self._greet(news), CONNECT_TIMEOUT)
            except asyncio.TimeoutError:
                self.link.connect_abort()
                error = ("EUNAVAILABLE", self.link.error)
            if error is None:
                return
            _stop_if_refused(error)
            await asyncio.sleep(pause)

    def _sync_submit(self) -> Optional[Callable[[Any], Any]]:
        """Submits sync handlers to a thread beside the event loop. None: there are no sync handlers."""
        if not self.has_sync:
            return None
        if sys.getswitchinterval() == SWITCH_DEFAULT:  # else the user's code has set it
            sys.setswitchinterval(SWITCH_SHORT)
        return Pool("handlers", 1).submit

    async def begin(self) -> None:
        """Calls the hooks before the first request."""
        await self.lifecycle.begin()

    def on_connected(self) -> None:
        """Called each time when the link is connected."""

    async def run_async(self) -> None:
        import asyncio

        from .event_loop import Loop

        loop = asyncio.get_running_loop()
        ended: "asyncio.Queue[str]" = asyncio.Queue()
        stopping = asyncio.Event()
        news = asyncio.Event()  # something has arrived on the link
        state: Dict[str, bool] = {"live": False}
        asks = set()

        async def answer(op: int, text: str, ask: Any) -> None:
            self.link.reply(ask, *await self.lifecycle.answer(op, text))

        def on_ask(op: int, text: str, ask: Any) -> None:
            task = loop.create_task(answer(op, text, ask))
            asks.add(task)
            task.add_done_callback(asks.discard)

        def on_news(how: Optional[str]) -> None:
            if not state["live"]:
                news.set()
            elif how is not None:
                state["live"] = False
                ended.put_nowait(how)

        def ask_to_stop() -> None:
            stopping.set()
            self.link.drain()

        await self.begin()
        self.link.on_ask(on_ask)
        fd, soon = self.use_loop(loop, on_news, self._sync_submit())
        if self.warmups:
            from . import warmup

            await warmup.run_async(self.link, self.warmups)
        for signum in STOP_SIGNALS:
            loop.add_signal_handler(signum, ask_to_stop)
        if isinstance(loop, Loop):
            self.link.wait_with(loop.link_selector.fileno())
            loop.link_selector.wait = self.link.wait
        else:
            loop.add_reader(fd, self.link.turn)
        try:
            while True:
                connecting = asyncio.ensure_future(self.connect_async(news))
                stop_asked = asyncio.ensure_future(stopping.wait())
                await asyncio.wait((connecting, stop_asked), return_when=asyncio.FIRST_COMPLETED)
                stop_asked.cancel()
                if not connecting.done():
                    connecting.cancel()
                    return
                connecting.result()
                state["live"] = True
                self.on_connected()
                soon()
                if self.is_over(await ended.get(), stopping.is_set()):
                    return
        finally:
            if isinstance(loop, Loop):
                loop.link_selector.wait = None
                self.link.wait_with(-1)
            else:
                loop.remove_reader(fd)
            _stop_listening(loop)


def serve(deployment: Deployment, given: replica.Given, made: Optional[List[Any]], path: str, token: str, name: str,
          debug: bool, stream_inputs: Tuple[int, int]) -> None:  # fmt: skip
    """Serves until it is drained. Raises Stop if that is not possible. made: the handlers; None: they are constructed
    here. stream_inputs: how many messages and bytes of one stream may wait for its handler."""
    if deployment.serve is not None:
        from . import serve_replica

        serve_replica.serve(deployment, given, path, token, name, debug, stream_inputs)
        return
    server = Server(deployment, given, made, path, token, name, debug, stream_inputs)
    if server.needs_loop:
        from . import event_loop

        event_loop.run(server.run_async())
    else:
        server.run()
    server.link.close()
