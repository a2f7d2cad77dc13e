"""One replica of a serve deployment: constructs the user's object, runs its methods, and calls its hooks.

It knows neither the link nor HTTP: a worker process (runtime/serve_replica.py) and local testing mode drive it, each with a
transport of its own. Use it on one event loop; the user's sync methods run in threads beside it.

The order of a replica's life:

    start: __init__ -> startup of the ASGI application -> reconfigure -> check_health
    call, call_stream, call_http, reconfigure, check_health, routing_stats, autoscaling_stats
    stop:  running calls end -> shutdown of the ASGI application -> __del__ -> models are unloaded
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import functools
import inspect
import math
import os
import sys
import time
import traceback
import types
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, AsyncGenerator, Callable, Coroutine, Dict, List, Mapping, NamedTuple, Optional, Tuple

from ... import replica
from ...code.copied import user_traceback
from ...runtime.lifecycle import Hook, Hooks
from ...runtime.log import log_event
from ...stop import FAULTS
from . import log as _logging
from .. import context as _context
from .call_metrics import CallMetrics
from .finalizer import call_del
from .reports import Reporter, Send
from .sync_calls import NotGenerator, SyncCalls
from .._calls.transport import current_request
from .._decorated import has_loader
from .._payload import text_of, traceback_of
from ..exceptions import RayServeException, TaskCancelledError
from ..metrics import registry

if TYPE_CHECKING:
    from .._calls.transport import CallMeta

ASYNC, SYNC, ASYNC_GEN, GEN = "async", "sync", "async generator", "generator"  # how a method runs
MARK = "_anyserve_kind"  # a wrapper of ours says so here
IN_POOL_VARIABLE = "RAY_SERVE_RUN_SYNC_IN_THREADPOOL"
DEFAULT_LIMIT = 5  # max_ongoing_requests
_ASGI = "anyserve.serve._http.ingress"  # a class that it has made brings it
_GENERATORS = (types.GeneratorType, types.AsyncGeneratorType)


class Plan(NamedTuple):
    """How a method runs."""

    name: str
    call: Callable[..., Any]
    kind: str
    in_pool: bool  # in a thread beside the event loop


def _was_stopped(error: BaseException) -> bool:
    """Whether the call was cancelled, and its code raised this because it, or a call that it waits for, was: no fault of it."""
    return isinstance(error, (TaskCancelledError, concurrent.futures.CancelledError)) \
        and getattr(current_request.get(), "cancelled", False)  # fmt: skip


def _kind_of(method: Callable[..., Any]) -> str:
    marked = getattr(method, MARK, None)
    if isinstance(marked, str):
        return marked
    if not inspect.isroutine(method) and not isinstance(method, functools.partial):
        method = type(method).__call__
    if inspect.iscoroutinefunction(method):
        return ASYNC
    if inspect.isasyncgenfunction(method):
        return ASYNC_GEN
    return GEN if inspect.isgeneratorfunction(method) else SYNC


def _is_method(obj: Any, name: str) -> bool:
    try:
        return callable(getattr(obj, name, None))
    except Exception:  # of a property
        return False


class ReplicaCore:
    """
    func_or_class, init_args, init_kwargs: what is served.
    config: the deployment's options; `max_ongoing_requests`, `user_config` and `request_router_config` are read.
    context: which replica this is.
    shared: several replicas are in this process (local testing). Otherwise the process is this replica.
    """

    def __init__(self, func_or_class: Any, init_args: Tuple[Any, ...] = (), init_kwargs: Optional[Mapping[str, Any]] = None, *,
                 config: Any, context: replica.ReplicaContext, shared: bool = False) -> None:  # fmt: skip
        if not (inspect.isfunction(func_or_class) or inspect.isclass(func_or_class)):
            raise TypeError("deployment_def must be a function or class. Instead, its type was %s." % type(func_or_class))
        self.config = config
        self.context = context
        self.user_config = getattr(config, "user_config", None)
        self.servable: Any = None  # the function, or the object of the class
        self.is_asgi = False  # serve.ingress has made the class: an ASGI application answers requests of HTTP
        self.ongoing = 0  # calls that run or wait for a thread
        self.stage = ""  # the part of `start` that runs, for the text of a failure
        self.metrics: Optional[CallMetrics] = None
        self.on_ended: Optional[Callable[["CallMeta", float, Optional[BaseException]], None]] = None  # (call, seconds, error)
        self._def = func_or_class
        self._args, self._kwargs = tuple(init_args), dict(init_kwargs or {})
        self._shared = shared
        self._is_served = bool(getattr(func_or_class, "_anyserve_hooks", True))  # no actor: as_ray/_host.py
        self._limit = int(getattr(config, "max_ongoing_requests", None) or DEFAULT_LIMIT)
        self._in_pool = os.environ.get(IN_POOL_VARIABLE, "1") != "0"
        self._plans: Dict[str, Plan] = {}
        self._sync: Optional[SyncCalls] = None
        self._idle: Optional[asyncio.Event] = None  # set while `drain` waits and no call runs
        self._reporter: Optional[Reporter] = None
        self._is_multiplexed = inspect.isclass(func_or_class) and has_loader(func_or_class)
        self._multiplexers: List[Any] = []  # of multiplex.py, in the order of their first use
        self._stopped = False

    # --- start ---

    @property
    def max_ongoing_requests(self) -> int:
        return self._limit

    async def start(self) -> None:
        """Constructs the object, configures it and checks its health. Raises what user code raised; `describe_failure` makes
        a text of it."""
        self._sync = SyncCalls(asyncio.get_running_loop(), self._limit, self.context.deployment)
        if not self._shared:
            _context.set_process_core(self)
            replica.enter(self.context)
            self.configure_logging(getattr(self.config, "logging_config", None))
        await self._in_context(self._start())

    def configure_logging(self, config: Optional[Mapping[str, Any]]) -> "ContextVar[str]":
        """Sets up the logs of this process. config: `logging_config` of the deployment. Returns the context variable that the
        extension shall set to the id of a tensor request (Link.trace)."""
        self.on_ended = _logging.log_call if _logging.has_access_log(config) else None
        return _logging.configure(config, self.context)

    def describe_failure(self, error: BaseException) -> str:
        """What the log and the deployment's message say of a failed `start`: the traceback begins in the user's code."""
        tb = error.__traceback__
        while tb is not None and tb.tb_frame.f_code.co_filename != __file__:
            tb = tb.tb_next
        return "%s failed:\n\n%s" % (self.stage, user_traceback(error.with_traceback(tb or error.__traceback__)))

    async def _start(self) -> None:
        self.metrics = CallMetrics(self)
        name = getattr(self._def, "__name__", str(self._def))
        self.stage = "constructing %s" % name
        if inspect.isclass(self._def):
            # apart, since __init__ may be async
            self.servable = self._make()
            made = self.servable.__init__(*self._args, **self._kwargs)
            if inspect.isawaitable(made):
                await made
            await self._start_asgi()
        else:
            self.servable = self._def
        self._change_context(dataclasses.replace(self.context, servable_object=self.servable))
        self.stage = "reconfigure of %s" % name
        await self._reconfigure(self.user_config, self.context.rank)
        self.stage = "check_health of %s" % name
        await self._check_health()

    async def _start_asgi(self) -> None:
        """Of a class that serve.ingress has made."""
        if _ASGI not in sys.modules:
            return
        from .._http import ingress, responses

        self.is_asgi = ingress.is_ingress(self._def)
        if self.is_asgi:
            self._limit_pool()
            self.stage = "startup of the ASGI application of %s" % self._def.__name__
            await ingress.start(self.servable, responses.UNAVAILABLE, responses.answer_unavailable)

    def _limit_pool(self) -> None:
        """Sync routes and dependencies of FastAPI run in the pool of this library, which starlette uses."""
        from anyio.to_thread import current_default_thread_limiter

        current_default_thread_limiter().total_tokens = self._limit

    def _make(self) -> Any:
        """Ray calls __new__ without arguments; classes that define it get those of __init__, as Python does."""
        kind: Any = self._def
        if kind.__new__ is object.__new__:
            return kind.__new__(kind)
        return kind.__new__(kind, *self._args, **self._kwargs)

    def _change_context(self, new: replica.ReplicaContext) -> None:
        self.context = new
        if not self._shared:
            replica.enter(new)

    def _here(self) -> None:
        """The code that runs in this context is this replica's."""
        _context._core_here.set(self)
        replica.within.set(lambda: self.context)

    async def _in_context(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Runs the coroutine so that get_replica_context() in it is this replica's."""
        if not self._shared:
            return await coro

        async def run() -> Any:
            self._here()
            return await coro

        return await asyncio.get_running_loop().create_task(run())

    # --- calls ---

    def plan(self, method: str) -> Plan:
        """How a method runs. RayServeException names those that exist."""
        is_function = inspect.isfunction(self._def)
        if is_function:
            method = "__call__"  # a function is all of its methods
        known = self._plans.get(method)
        if known is not None:
            return known
        if is_function:
            call: Any = self._def
            name = call.__name__
        else:
            call, name = getattr(self.servable, method, None), method
            if not callable(call):
                raise RayServeException(
                    "Tried to call a method '%s' that does not exist. Available methods: %s." % (method, self.methods()))  # fmt: skip
        kind = _kind_of(call)
        made = Plan(name, call, kind, self._in_pool and kind in (SYNC, GEN))
        if inspect.getattr_static(self.servable, method, None) is not None:  # a __getattr__ makes names without end
            self._plans[method] = made
        return made

    def methods(self) -> List[str]:
        """The methods that callers can name, without those like __call__."""
        return [n for n in dir(self.servable) if not n.startswith("__") and _is_method(self.servable, n)]

    def _enter(self, meta: "CallMeta", context: Optional["_context._RequestContext"] = None) -> None:
        if self._shared:
            self._here()
        _context._serve_request_context.set(context or _context.CallContext(meta))
        self.ongoing += 1

    def _leave(self, meta: "CallMeta", began: float, error: Optional[BaseException], route: str = "") -> None:
        self.ongoing -= 1
        if self._idle is not None and not self.ongoing:
            self._idle.set()
        seconds = time.perf_counter() - began
        if error is not None and _was_stopped(error):
            error = asyncio.CancelledError()
        if self.metrics is not None:
            self.metrics.ended(route, seconds, error)
        if self.on_ended is not None:
            self.on_ended(meta, seconds, error)
        if error is not None and isinstance(error, Exception) and not self._shared and self._is_served:
            log_event("warn", "handler_raised", traceback_of(error) + "\n", deployment=self.context.deployment, method=meta.method,
                      request=meta.request_id, **({"route": route} if route else {}), error=text_of(error))  # fmt: skip

    async def call(self, meta: "CallMeta", args: Tuple[Any, ...] = (), kwargs: Mapping[str, Any] = {}, *,
                   beyond: bool = False) -> Any:  # fmt: skip
        """Runs a method with one result. Run it in a task, or at least in a context, of its own: it sets context variables.
        A sync method that has begun is not interrupted by a cancellation: this ends when the method does.

        beyond: the call was admitted beyond max_ongoing_requests; a sync method starts at once.
        """
        began = time.perf_counter()
        self._enter(meta)
        try:
            plan = self._plans.get(meta.method) or self.plan(meta.method)
            if plan.kind is ASYNC:
                result = await plan.call(*args, **kwargs)
            else:
                result = await self._call(plan, args, kwargs, beyond)
            if type(result) in _GENERATORS:
                raise _no_generator(plan)
        except BaseException as e:
            self._leave(meta, began, e)
            if isinstance(e, (SystemExit, KeyboardInterrupt)):  # it ends only the call that it is in
                raise RuntimeError("%s: %s" % (type(e).__name__, e)) from e
            raise
        self._leave(meta, began, None)
        return result

    async def _call(self, plan: Plan, args: Tuple[Any, ...], kwargs: Mapping[str, Any], beyond: bool) -> Any:
        """Of a method that is not async."""
        if plan.kind is not SYNC:
            raise _no_generator(plan)
        if plan.in_pool:
            assert self._sync is not None
            result = await self._sync.run(functools.partial(plan.call, *args, **kwargs), beyond)
        else:
            result = plan.call(*args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    async def call_stream(self, meta: "CallMeta", args: Tuple[Any, ...] = (), kwargs: Mapping[str, Any] = {}, *,
                          beyond: bool = False) -> AsyncGenerator[Any, None]:  # fmt: skip
        """Runs a method with any number of results. Iterate it in one task, which is its own, and close it (`aclose`): an
        async generator that has not ended gets a CancelledError where it stands, a sync one GeneratorExit."""
        began = time.perf_counter()
        error: Optional[BaseException] = None
        self._enter(meta)
        try:
            async with contextlib.aclosing(self._iterate(self.plan(meta.method), args, kwargs, beyond)) as items:
                async for item in items:
                    yield item
        except GeneratorExit:
            error = asyncio.CancelledError()
            raise
        except BaseException as e:
            error = e
            if isinstance(e, (SystemExit, KeyboardInterrupt)):
                raise RuntimeError("%s: %s" % (type(e).__name__, e)) from e
            raise
        finally:
            self._leave(meta, began, error)
            del error  # it has this frame

    async def _iterate(self, plan: Plan, args: Tuple[Any, ...], kwargs: Mapping[str, Any],
                       beyond: bool) -> AsyncGenerator[Any, None]:  # fmt: skip
        make = functools.partial(plan.call, *args, **kwargs)
        if plan.in_pool:
            assert self._sync is not None
            try:
                async with contextlib.aclosing(self._sync.iterate(make, beyond)) as items:
                    async for item in items:
                        yield item
                return
            except NotGenerator as e:
                made = e.value
        else:
            made = make()
        if inspect.isawaitable(made):
            made = await made
        if inspect.isgenerator(made):
            with contextlib.closing(made):
                for item in made:
                    yield item
            return
        if not inspect.isasyncgen(made):
            raise _no_stream(plan)
        ended = False
        try:
            async for item in made:
                yield item
            ended = True
        finally:
            if not ended:
                try:
                    await made.athrow(asyncio.CancelledError())
                except (StopAsyncIteration, asyncio.CancelledError):
                    pass

    # --- requests of HTTP (serve/_http/handler.py) ---

    async def call_http(self, meta: "CallMeta", context: "_context._RequestContext",
                        run: Callable[[], Coroutine[Any, Any, None]]) -> None:  # fmt: skip
        """Runs what answers a request, as a call of this replica. Run it in a task of its own; it raises what `run` raises."""
        began = time.perf_counter()
        self._enter(meta, context)
        try:
            try:
                await run()
            except (SystemExit, KeyboardInterrupt) as e:  # it ends only the request that it is in
                raise RuntimeError("%s: %s" % (type(e).__name__, e)) from e
        except BaseException as e:
            self._leave(meta, began, e, context.route)
            raise
        self._leave(meta, began, None, context.route)

    def run_plan(self, plan: Plan, args: Tuple[Any, ...], beyond: bool) -> Coroutine[Any, Any, Any]:
        """The result of a method with one."""
        if plan.kind is ASYNC:
            return plan.call(*args)  # type: ignore[no-any-return]
        return self._call(plan, args, {}, beyond)

    def iterate_plan(self, plan: Plan, args: Tuple[Any, ...], beyond: bool) -> AsyncGenerator[Any, None]:
        """The results of a generator. Close it."""
        return self._iterate(plan, args, {}, beyond)

    def iterate_made(self, plan: Plan, made: Any, beyond: bool) -> AsyncGenerator[Any, None]:
        """The same of a generator that a method has returned."""
        sync = inspect.isgenerator(made)
        return self._iterate(Plan(plan.name, lambda: made, GEN if sync else ASYNC_GEN, sync and self._in_pool), (), {}, beyond)

    # --- hooks ---

    def find_hook(self, name: str) -> Optional[Callable[..., Any]]:
        """A method of the object that the server calls, if it is there."""
        method = getattr(self.servable, name, None) if inspect.isclass(self._def) and self._is_served else None
        return method if callable(method) else None

    @property
    def takes_rank(self) -> bool:
        """Whether `reconfigure` has a parameter `rank`."""
        method = self.find_hook("reconfigure")
        return method is not None and "rank" in inspect.signature(method).parameters

    @property
    def hooks(self) -> Hooks:
        """For runtime/lifecycle.py, which answers the server's health checks and reconfigurations of a worker process."""
        name = getattr(self._def, "__name__", str(self._def))
        return Hooks([Hook(name, self._reconfigure_hook, self.takes_rank)], [Hook(name, self.check_health)])

    async def _reconfigure_hook(self, config: Any, rank: Any = None) -> None:
        await self._in_context(self._reconfigure(config, rank))
        self.user_config = config

    async def _run_hook(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls a hook; sync ones in a thread, for which no slot is used."""
        call = functools.partial(method, *args, **kwargs)
        if self._in_pool and _kind_of(method) is SYNC:
            assert self._sync is not None
            result = await self._sync.run(call, beyond=True)
        else:
            result = call()
        return await result if inspect.isawaitable(result) else result

    async def _reconfigure(self, config: Any, rank: Any) -> None:
        takes_rank = self.takes_rank
        if config is None and not takes_rank:
            return
        if inspect.isfunction(self._def):
            raise ValueError("deployment_def must be a class to use user_config or rank")
        method = self.find_hook("reconfigure")
        if method is None:
            raise RayServeException("user_config or rank specified but deployment %s missing reconfigure method"
                                    % (self.context.replica_id.deployment_id,))  # fmt: skip
        await self._run_hook(method, config, **({"rank": rank} if takes_rank else {}))

    async def reconfigure(self, user_config: Any, rank: Any = None, world_size: Optional[int] = None) -> None:
        """Gives the object a new configuration, or a new rank. rank: an int, or a ReplicaRank; None: it does not change.
        `reconfigure` of the object is called if user_config changed, or if it takes the rank and that changed. If it
        raises, the former context stays, and this raises the same."""
        old = self.context
        new = old
        if rank is not None:
            new = dataclasses.replace(old, rank=rank, local_rank=getattr(rank, "local_rank", old.local_rank),
                                      node_rank=getattr(rank, "node_rank", old.node_rank))  # fmt: skip
        if world_size is not None:
            new = dataclasses.replace(new, world_size=world_size)
        changed = user_config != self.user_config or (new.rank != old.rank and self.takes_rank)
        self._change_context(new)
        if changed:
            try:
                await self._in_context(self._reconfigure(user_config, new.rank))
            except BaseException:
                self._change_context(old)
                raise
        self.user_config = user_config

    def set_context(self, new: replica.ReplicaContext) -> None:
        """A new rank or number of replicas, which lifecycle.py received. The object stays what it was."""
        self._change_context(dataclasses.replace(new, servable_object=self.servable))

    def set_max_ongoing_requests(self, limit: int) -> None:
        """Changes how many sync methods run at once."""
        self._limit = limit
        if self._sync is not None:
            self._sync.resize(limit)
        if self.is_asgi:
            self._limit_pool()

    async def _check_health(self) -> None:
        method = self.find_hook("check_health")
        if method is not None:
            await self._run_hook(method)

    async def check_health(self) -> None:
        """Calls `check_health`, if the object has it. Raises what that raises."""
        await self._in_context(self._check_health())

    async def routing_stats(self) -> Optional[Dict[str, Any]]:
        """What `record_routing_stats` returns. None: there is no such method."""
        return await self._stats("record_routing_stats")

    async def autoscaling_stats(self) -> Optional[Dict[str, Any]]:
        """What `record_autoscaling_stats` returns. None: there is no such method."""
        stats = await self._stats("record_autoscaling_stats")
        for name, value in (stats or {}).items():
            if not isinstance(name, str) or not name:
                raise TypeError("record_autoscaling_stats: names are texts that are not empty, not %r" % (name,))
            if not isinstance(value, (int, float)):
                raise TypeError("record_autoscaling_stats: %r is a number, not %s" % (name, type(value).__name__))
            if not math.isfinite(value):
                raise ValueError("record_autoscaling_stats: %r is a finite number, not %r" % (name, value))
        return stats

    async def _stats(self, name: str) -> Optional[Dict[str, Any]]:
        method = self.find_hook(name)
        if method is None:
            return None
        stats = await self._in_context(self._run_hook(method))
        if not isinstance(stats, dict):
            raise TypeError("%s returns a dict, not %s" % (name, type(stats).__name__))
        return stats

    # --- reports ---

    def report_to(self, send: Optional[Send]) -> None:
        """From now on, `send(kind, text)` is called on the event loop with what the dispatcher shall know (REPORT), now and
        when it changes. Call it again after a new connection. None: no longer."""
        if self._reporter is not None:
            self._reporter.end()
        self._reporter = None if send is None else Reporter(self, send)
        if self._reporter is not None:
            self._reporter.start()

    def add_multiplexer(self, multiplexer: Any) -> None:
        """A loader of models was used first; multiplex.py calls this."""
        self._multiplexers.append(multiplexer)

    def models_changed(self) -> None:
        if self._reporter is not None:
            self._reporter.send_models()

    def number_of_models(self) -> int:
        return sum(map(len, self._multiplexers))

    def model_ids(self) -> Optional[List[str]]:
        """The multiplexed models that are loaded or being loaded. None: the replica has no loader, as far as is known: its class
        has none, and no other one was used."""
        if not self._multiplexers and not self._is_multiplexed:
            return None
        return sorted({i for m in self._multiplexers for i in m.model_ids()})

    # --- end ---

    async def drain(self) -> None:
        """Waits until no call runs. New ones are not refused: whoever sends them decides that."""
        while self.ongoing:
            if self._idle is None:
                self._idle = asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    async def stop(self, timeout: Optional[float] = None) -> None:
        """Waits for calls that run, at most `timeout` seconds (None: until they end), then calls `__del__` of the object,
        sync or async, and unloads its models. What `__del__` raises is logged. A second call does nothing."""
        if self._stopped:
            return
        self._stopped = True
        try:
            await asyncio.wait_for(self.drain(), timeout)
        except asyncio.TimeoutError:
            log_event("warn", "stopped_with_calls", deployment=self.context.deployment, ongoing=self.ongoing)
        await self._in_context(self._end())
        self.report_to(None)
        if self.metrics is not None:
            self.metrics.end()
        if self._shared:
            registry.drop(self)
        if self._sync is not None:
            self._sync.end(0)
        if not self._shared and _context.current_core() is self:
            _context.set_process_core(None)

    async def _end(self) -> None:
        try:
            if self.is_asgi:
                from .._http import ingress

                await ingress.stop(self.servable)
            if self.servable is not None and not inspect.isfunction(self._def):
                await call_del(self.servable)
            for multiplexer in self._multiplexers:
                await multiplexer.unload_all()
        except FAULTS as e:
            log_event("warn", "shutdown_failed", "".join(traceback.format_exception(e)), deployment=self.context.deployment,
                      error="Exception during graceful shutdown of replica: %s" % e)  # fmt: skip


def _no_generator(plan: Plan) -> TypeError:
    return TypeError("Method '%s' returned a generator. You must use `handle.options(stream=True)` to call generators on a "
                     "deployment." % plan.name)  # fmt: skip


def _no_stream(plan: Plan) -> TypeError:
    return TypeError("Called method '%s' with `handle.options(stream=True)` but it did not return a generator." % plan.name)
