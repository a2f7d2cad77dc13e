"""What the server asks of the replica itself: is it well, and here is another configuration.

User code answers, by name: methods ``reconfigure`` and ``check_health`` of a served object, and
functions of these names in the module. They run in the thread that runs handlers (in an event loop
if the worker has one, else between two requests), one question at a time.
"""

from __future__ import annotations

import faulthandler
import inspect
import signal
from types import ModuleType
from typing import Any, Callable, Coroutine, Dict, Iterable, List, NamedTuple, Optional, Tuple

from .. import replica
from ..code.target import EX_DECLARATION, EX_RAISED, FAULTS, stop, user_traceback
from ..errors import STATUS_NAMES, DeclarationError
from .log import log_event
from .options import check_options

HEALTH, RECONFIGURE = 1, 2  # enum as_worker_ask_op
DUMP_SIGNAL = signal.SIGVTALRM
INVALID, FAILED, INTERNAL = (STATUS_NAMES.index(n) for n in ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "INTERNAL"))

Outcome = Tuple[int, str]


class Hook(NamedTuple):
    owner: str  # for people
    call: Callable[..., Any]
    takes_rank: bool = False


def _rank_of(owner: str, call: Callable[..., Any]) -> bool:
    """Whether reconfigure takes (user_config, rank); DeclarationError where neither form fits."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # made in C
        return False
    for args in ((None, 0), (None,)):
        try:
            signature.bind(*args)
        except TypeError:
            continue
        return len(args) == 2
    raise DeclarationError("%s.reconfigure is called as reconfigure(user_config) or"
                           " reconfigure(user_config, rank); it takes %s" % (owner, signature))  # fmt: skip


def _owners(handlers: Iterable[Tuple[str, Any]], module: Optional[ModuleType]) -> List[Tuple[str, Any]]:
    """Where hooks may be, each once: served objects, then the module."""
    owners: Dict[int, Tuple[str, Any]] = {}
    for name, handler in handlers:
        if inspect.ismethod(handler):
            handler = handler.__self__
        if not inspect.isroutine(handler):
            owners.setdefault(id(handler), (name, handler))
    return list(owners.values()) + ([(module.__name__, module)] if module else [])


def _find(owner: Any, name: str) -> Optional[Callable[..., Any]]:
    call = getattr(owner, name, None)
    if isinstance(owner, ModuleType):
        # a function that was imported from elsewhere is not meant
        return call if inspect.isfunction(call) and call.__module__ == owner.__name__ else None
    return call if callable(call) else None


def _is_async(hook: Hook) -> bool:
    call = hook.call if inspect.isroutine(hook.call) else type(hook.call).__call__
    return inspect.iscoroutinefunction(call)


class Care:
    """The replica's own affairs. `link` is set before anything is asked."""

    def __init__(self, handlers: Iterable[Tuple[str, Any]], module: Optional[ModuleType],
                 given: replica.Given, declared: Dict[str, Any]):  # fmt: skip
        owners = _owners(handlers, module)
        found = [(n, _find(o, "reconfigure"), _find(o, "check_health")) for n, o in owners]
        self.reconfigures = [Hook(n, r, _rank_of(n, r)) for n, r, _ in found if r]
        self.checks = [Hook(n, c) for n, _, c in found if c]
        self.declared = {k: v for k, v in declared.items() if k != "user_config"}
        self.user_config = declared.get("user_config") if given.user_config is None else given.user_config
        self.options = self._options(given.options)
        self.needs_loop = any(map(_is_async, self.reconfigures + self.checks))
        self.context = given.context
        self.tell: Callable[[Dict[str, Any]], None] = lambda options: None
        self.enter: Callable[[replica.ReplicaContext], None] = replica.enter
        if self.user_config is not None and not self.reconfigures:
            raise DeclarationError(
                "deployment %r has a user_config, but neither its models' classes nor its module has"
                " reconfigure(user_config)" % self.context.deployment
            )

    def _options(self, said: Dict[str, Any]) -> Dict[str, Any]:
        """What the server says is all that it has to say: what it does not name is as the code says."""
        options = {**self.declared, **check_options(said)}
        options.pop("user_config", None)
        return check_options(options)

    # --- user code ---

    @staticmethod
    async def _call(hook: Hook, *args: Any) -> None:
        outcome = hook.call(*args)
        if inspect.isawaitable(outcome):
            await outcome

    async def _configure(self, hook: Hook, config: Any, rank: int) -> None:
        await self._call(hook, *((config, rank) if hook.takes_rank else (config,)))

    async def begin(self) -> None:
        """Before the first request. Raises Stop: the replica cannot start."""
        for hook in self.reconfigures:
            if self.user_config is None and not hook.takes_rank:
                continue
            try:
                await self._configure(hook, self.user_config, self.context.rank)
            except FAULTS as e:
                stop(EX_RAISED, "reconfigure of %s failed:\n\n%s" % (hook.owner, user_traceback(e)))
        for hook in self.checks:
            try:
                await self._call(hook)
            except FAULTS as e:
                stop(EX_RAISED, "check_health of %s failed at the start:\n\n%s" % (hook.owner, user_traceback(e)))

    # --- questions ---

    async def answer(self, op: int, text: str) -> Outcome:
        return await (self._check() if op == HEALTH else self._reconfigure(text))

    async def _check(self) -> Outcome:
        for hook in self.checks:
            try:
                await self._call(hook)
            except FAULTS as e:
                return INTERNAL, "check_health of %s: %s: %s" % (hook.owner, type(e).__name__, e)
        return 0, ""

    async def _reconfigure(self, text: str) -> Outcome:
        try:
            said = replica.parse(text)
            fixed = sorted(set(said) - set(replica.CHANGING))
            if fixed:
                raise ValueError("%s cannot change while a replica runs" % ", ".join(fixed))
            options = self._options(said["options"]) if "options" in said else self.options
        except (ValueError, DeclarationError) as e:
            return INVALID, "reconfigure: %s" % e
        context = replica.context_of(said, self.context)
        config = said.get("user_config", self.user_config)
        if "user_config" in said and config is not None and not self.reconfigures:
            return FAILED, "reconfigure: nothing here takes a user_config"
        refused = await self._apply(config, context, "user_config" in said)
        if refused is not None:
            return refused
        self.user_config, self.options = config, options
        if "options" in said:
            self.tell(options)
        log_event("info", "reconfigured", rank=context.rank, world_size=context.world_size,
                  user_config="user_config" in said)  # fmt: skip
        return 0, ""

    async def _apply(self, config: Any, context: replica.ReplicaContext, changed: bool) -> Optional[Outcome]:
        """All hooks, or none: those that were called get the old configuration back."""
        moved = context.rank != self.context.rank
        hooks = [h for h in self.reconfigures if changed or (moved and h.takes_rank)]
        old = self.context
        self.context = context
        self.enter(context)  # what they look at is what they are told
        for i, hook in enumerate(hooks):
            try:
                await self._configure(hook, config, context.rank)
            except FAULTS as e:
                why = user_traceback(e)
                self.context = old
                self.enter(old)
                await self._restore(hooks[:i])
                log_event("warn", "reconfigure_failed", why + "\n", owner=hook.owner)
                return INTERNAL, "reconfigure of %s failed, the former configuration stays:\n\n%s" % (hook.owner, why)
        return None

    async def _restore(self, hooks: List[Hook]) -> None:
        for hook in hooks:
            try:
                await self._configure(hook, self.user_config, self.context.rank)
            except FAULTS as e:
                log_event("error", "reconfigure_failed", user_traceback(e) + "\n", owner=hook.owner, restoring=True)


def run_alone(coro: Coroutine[Any, Any, Any]) -> Any:
    """A coroutine that nothing in it suspends: without an event loop."""
    try:
        coro.send(None)
    except StopIteration as e:
        return e.value
    coro.close()
    raise RuntimeError("reconfigure and check_health of a worker without an event loop wait for something")


class Alone:
    """Runs what Care does where handlers need no event loop; its own is made for async hooks."""

    def __init__(self, care: Care) -> None:
        self._runner = None
        if care.needs_loop:
            import asyncio

            self._runner = asyncio.Runner()

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(coro) if self._runner else run_alone(coro)

    def close(self) -> None:
        if self._runner:
            self._runner.close()


def dump_on_signal() -> int:
    """The signal at which this process prints where its threads are; 0: user code has it."""
    if signal.getsignal(DUMP_SIGNAL) != signal.SIG_DFL:
        return 0
    try:
        faulthandler.register(DUMP_SIGNAL, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError, AttributeError):
        return 0
    return int(DUMP_SIGNAL)


def make(handlers: Iterable[Tuple[str, Any]], module: Optional[ModuleType], given: replica.Given,
         declared: Dict[str, Any]) -> Care:  # fmt: skip
    """Care for what the code declares; Stop where that cannot be."""
    try:
        return Care(handlers, module, given, declared)
    except DeclarationError as e:
        stop(EX_DECLARATION, str(e))

