"""``serve.multiplexed``: a replica that holds several models, those that were used last."""

from __future__ import annotations

import asyncio
import functools
import inspect
import time
import traceback
from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, List, Optional, Set

from ..runtime.log import log_event
from . import context
from ._calls.transport import current_request
from ._decorated import LOADER, Decorated
from ._replica.finalizer import call_del
from .metrics import LATENCY_BUCKETS_MS, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from ._replica.core import ReplicaCore

__all__ = ["get_multiplexed_model_id", "multiplexed"]

UNLIMITED = -1


class _Metrics:
    """Under Ray's names."""

    def __init__(self) -> None:
        self.load_ms = Histogram("serve_multiplexed_model_load_latency_ms", "The time it takes to load a model.",
                                 LATENCY_BUCKETS_MS)  # fmt: skip
        self.unload_ms = Histogram("serve_multiplexed_model_unload_latency_ms", "The time it takes to unload a model.",
                                   LATENCY_BUCKETS_MS)  # fmt: skip
        self.number = Gauge("serve_num_multiplexed_models", "The number of models loaded on the current replica.")
        self.ids = Gauge("serve_registered_multiplexed_model_id", "The model id registered on the current replica.",
                         ("model_id",))  # fmt: skip
        self.requests = Counter("serve_multiplexed_get_model_requests_counter",
                                "The counter for get model requests on the current replica.")  # fmt: skip
        self.loads = Counter("serve_multiplexed_models_load_counter", "The counter for loaded models on the current replica.")
        self.unloads = Counter("serve_multiplexed_models_unload_counter",
                               "The counter for unloaded models on the current replica.")  # fmt: skip


class _Load:
    """A model that is being loaded, and how many wait for it."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.waiting = 0
        self.dropped = False  # it was cancelled since nobody waited any more


class Multiplexer:
    """The models of one loader of one object. At most `limit` models are loaded or being loaded or unloaded at any time."""

    def __init__(self, load: Callable[[str], Any], limit: int, core: "ReplicaCore") -> None:
        self._load_model, self._limit, self._core = load, limit, core
        self._models: "OrderedDict[str, Any]" = OrderedDict()  # the least recently used one first
        self._loads: Dict[str, _Load] = {}
        self._taken = 0  # places in use
        self._waiting: Deque[asyncio.Future[None]] = deque()  # loads that wait for a place, in order
        self._metrics = _Metrics()
        core.add_multiplexer(self)

    def model_ids(self) -> List[str]:
        """The models that are loaded or being loaded."""
        return [*self._models, *(i for i in self._loads if i not in self._models)]

    async def get(self, model_id: str) -> Any:
        """The model, loaded if it is not there. Raises what loading it raises."""
        if not isinstance(model_id, str):
            raise TypeError("The model ID must be a string.")
        if not model_id:
            raise ValueError("The model ID cannot be empty.")
        self._metrics.requests.inc()
        while True:
            if model_id in self._models:
                self._models.move_to_end(model_id)
                return self._models[model_id]
            load = self._loads.get(model_id)
            if load is None:
                load = self._loads[model_id] = _Load(asyncio.ensure_future(self._load(model_id)))
                self._core.models_changed()
            load.waiting += 1
            try:
                await asyncio.wait([load.task])
            finally:
                load.waiting -= 1
                if not load.waiting and not load.task.done():  # all who wanted the model were cancelled
                    load.dropped = True
                    load.task.cancel()
            if not load.dropped or not load.task.cancelled():
                try:
                    return load.task.result()
                finally:
                    del load  # what it raises has this frame
            # those who began the load were cancelled: it begins again for this one

    def __len__(self) -> int:
        """How many are loaded."""
        return len(self._models)

    async def _load(self, model_id: str) -> Any:
        current_request.set(None)  # a load that several wait for is no part of the call that began it
        has_place = False
        try:
            await self._take_place()
            has_place = True
            began = time.perf_counter()
            self._metrics.loads.inc()
            model = await self._load_model(model_id)
            self._metrics.load_ms.observe((time.perf_counter() - began) * 1e3)
            self._models[model_id] = model
            self._metrics.ids.set(1, {"model_id": model_id})
            return model
        except Exception as e:
            log_event("warn", "model_load_failed", model_id=model_id, error="%s: %s" % (type(e).__name__, e))
            raise
        finally:
            if has_place and model_id not in self._models:
                self._taken -= 1
            del self._loads[model_id]
            self._changed()

    async def _take_place(self) -> None:
        """Returns when there is a place for another model: a free one, or that of the least recently used model, which is
        unloaded. Those who wait get places in order."""
        if self._limit == UNLIMITED:
            self._taken += 1
            return
        was_first = False
        while not self._has_place() or (self._waiting and not was_first):
            waiter = asyncio.get_running_loop().create_future()
            if was_first:
                self._waiting.appendleft(waiter)
            else:
                self._waiting.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
                self._wake()
                raise
            was_first = True
        if self._taken < self._limit:
            self._taken += 1
        else:
            try:
                await self._unload_oldest()  # its place is taken over
            except asyncio.CancelledError:
                self._taken -= 1
                self._wake()
                raise
        self._wake()

    def _has_place(self) -> bool:
        return self._taken < self._limit or bool(self._models)

    def _wake(self) -> None:
        """The first of those who wait can go on, if there is a place."""
        while self._waiting and self._has_place():
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _changed(self) -> None:
        self._metrics.number.set(self._core.number_of_models())
        self._core.models_changed()
        self._wake()

    async def _unload_oldest(self) -> None:
        model_id, model = self._models.popitem(last=False)
        self._metrics.unloads.inc()
        self._metrics.ids.forget({"model_id": model_id})
        self._metrics.number.set(self._core.number_of_models())
        self._core.models_changed()
        began = time.perf_counter()
        try:
            await call_del(model, in_thread=True)
        except Exception as e:
            log_event("warn", "model_unload_failed", "".join(traceback.format_exception(e)), model_id=model_id,
                      error="%s: %s" % (type(e).__name__, e))  # fmt: skip
        self._metrics.unload_ms.observe((time.perf_counter() - began) * 1e3)

    async def unload_all(self) -> None:
        """Unloads all models, the least recently used one first; loads that run are cancelled."""
        tasks: Set[asyncio.Task[Any]] = {load.task for load in self._loads.values()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        while self._models:
            await self._unload_oldest()
            self._taken -= 1


def multiplexed(func: Optional[Callable[..., Any]] = None, max_num_models_per_replica: int = 3) -> Any:
    """Decorates an async function or method that loads the model of an id: ``async def load(self, model_id)``.

    Calling it returns the model. A replica keeps the `max_num_models_per_replica` models that were used last (-1: all). When
    another one is needed, the least recently used one is unloaded before the new one is loaded; then `__del__` of the model,
    sync (in a thread) or async, is called, and not a second time when the object is collected.

    Other than in Ray Serve: loads of different models run at the same time, up to the limit, and calls for a loaded model never
    wait for a load; a load whose callers were all cancelled is cancelled; a `__del__` that raises is logged and fails no load;
    each decorated method of an object has models of its own; a sync function is refused also where the decorator has arguments.
    """
    if func is not None:
        if not callable(func):
            raise TypeError("The `multiplexed` decorator must be used with a function or method.")
        _check_loader(func)
    if not isinstance(max_num_models_per_replica, int):
        raise TypeError("max_num_models_per_replica must be an integer.")
    if max_num_models_per_replica != UNLIMITED and max_num_models_per_replica <= 0:
        raise ValueError("max_num_models_per_replica must be positive.")

    def decorate(loader: Callable[..., Any]) -> Callable[..., Any]:
        _check_loader(loader)

        @functools.wraps(loader)
        async def wrapper(*args: Any) -> Any:
            owner = decorated.owner(args)
            if not args:
                raise TypeError(_ARGUMENTS % "no arguments are provided.")
            if len(args) != (1 if owner is None else 2):
                raise TypeError(_ARGUMENTS % "more than one arguments.")

            def make() -> Multiplexer:
                core = context.current_core()
                if core is None:
                    raise RuntimeError("`@serve.multiplex` can only be used within a deployment (failed to retrieve Serve "
                                       "replica context).")  # fmt: skip
                return Multiplexer(functools.partial(loader, *args[:-1]), max_num_models_per_replica, core)

            return await decorated.value(owner, make).get(args[-1])

        decorated = Decorated(wrapper)
        setattr(wrapper, LOADER, True)
        return wrapper

    return decorate if func is None else decorate(func)


_ARGUMENTS = "Functions decorated with `@serve.multiplexed` must take exactly onethe multiplexed model ID (str), but got %s"


def _check_loader(func: Any) -> None:
    if not inspect.iscoroutinefunction(func):
        raise TypeError("@serve.multiplexed can only be used to decorate async functions or methods.")
    if not 1 <= len(inspect.signature(func).parameters) <= 2:
        raise TypeError("@serve.multiplexed can only be used to decorate functions or methods with at least one "
                        "'model_id: str' argument.")  # fmt: skip


def get_multiplexed_model_id() -> str:
    """The id of the model that the current call names, "" if it names none. In a batched function: that of all calls of the
    batch, which are split by it."""
    batch = context._serve_batch_request_context.get()
    return (batch[0] if batch else context._serve_request_context.get()).multiplexed_model_id
