"""Health checks and reconfiguration of a replica.

User code implements them in hooks: methods ``reconfigure`` and ``check_health`` of a served object, and functions of
these names in the module. They run in the thread that runs handlers (on the event loop if the worker has one, else
between two requests), one at a time.
"""

from __future__ import annotations

import faulthandler
import inspect
import signal
from types import ModuleType
from typing import Any, Callable, Coroutine, Dict, Iterable, List, NamedTuple, Optional, Tuple

from .. import replica
from ..code.copied import user_traceback
from ..errors import STATUS_NAMES, DeclarationError
from ..stop import EX_DECLARATION, EX_RAISED, FAULTS, stop
from .log import log_event
from .options import check_options

HEALTH, RECONFIGURE, SCALE = 1, 2, 6  # enum as_worker_ask_op
DUMP_SIGNAL = signal.SIGVTALRM
INVALID, FAILED, INTERNAL, UNIMPLEMENTED = (STATUS_NAMES.index(n) for n in
                                            ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "INTERNAL", "UNIMPLEMENTED"))  # fmt: skip

Outcome = Tuple[int, str]


class Hook(NamedTuple):
    owner: str  # for messages
    call: Callable[..., Any]
    takes_rank: bool = False


class Hooks(NamedTuple):
    """The hooks of all that a replica serves, in the order in which they are called."""

    reconfigures: List[Hook]
    checks: List[Hook]


def _rank_of(owner: str, call: Callable[..., Any]) -> bool:
    """Whether reconfigure takes (user_config, rank). DeclarationError if it takes neither that nor (user_config)."""
    try:
        signature = inspect.signature(call)
    except (TypeError, ValueError):  # implemented in C
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
    """The objects that may have hooks, each once: served objects, then the module."""
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
        # not a function that was imported from another module
        return call if inspect.isfunction(call) and call.__module__ == owner.__name__ else None
    return call if callable(call) else None


def _is_async(hook: Hook) -> bool:
    call = hook.call if inspect.isroutine(hook.call) else type(hook.call).__call__
    return inspect.iscoroutinefunction(call)


def find_hooks(handlers: Iterable[Tuple[str, Any]], module: Optional[ModuleType]) -> Hooks:
    """The hooks of served objects and their module. DeclarationError."""
    found = [(n, _find(o, "reconfigure"), _find(o, "check_health")) for n, o in _owners(handlers, module)]
    return Hooks([Hook(n, r, _rank_of(n, r)) for n, r, _ in found if r], [Hook(n, c) for n, _, c in found if c])


class Lifecycle:
    """The hooks of a replica, its configuration and its options."""

    def __init__(self, hooks: Hooks, given: replica.Given, declared: Dict[str, Any]):
        self.reconfigures, self.checks = hooks
        self.declared = {k: v for k, v in declared.items() if k != "user_config"}
        self.user_config = declared.get("user_config") if given.user_config is None else given.user_config
        self.options = self._options(given.options)
        self.needs_loop = any(map(_is_async, self.reconfigures + self.checks))
        self.context = given.context
        self.on_options: Callable[[Dict[str, Any]], None] = lambda options: None
        self.enter: Callable[[replica.ReplicaContext], None] = replica.enter
        self.scale: Optional[Callable[[str], Coroutine[Any, Any, Outcome]]] = None  # of a policy process
        if self.user_config is not None and not self.reconfigures:
            raise DeclarationError(
                "deployment %r has a user_config, but neither its models' classes nor its module has"
                " reconfigure(user_config)" % self.context.deployment
            )

    def _options(self, given: Dict[str, Any]) -> Dict[str, Any]:
        """All options: those that the server gives, and for the others the values from the code."""
        options = {**self.declared, **check_options(given)}
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
        """Calls the hooks before the first request. Raises Stop if one fails."""
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

    # --- CONTROL from the server ---

    async def answer(self, op: int, text: str) -> Outcome:
        if op == SCALE:
            return await self.scale(text) if self.scale is not None else (UNIMPLEMENTED, "this is no policy process")
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
            message = replica.parse(text)
            fixed = sorted(set(message) - set(replica.CHANGING))
            if fixed:
                raise ValueError("%s cannot change while a replica runs" % ", ".join(fixed))
            options = self._options(message["options"]) if "options" in message else self.options
        except (ValueError, DeclarationError) as e:
            return INVALID, "reconfigure: %s" % e
        context = replica.context_of(message, self.context)
        config = message.get("user_config", self.user_config)
        if "user_config" in message and config is not None and not self.reconfigures:
            return FAILED, "reconfigure: nothing here takes a user_config"
        refused = await self._apply(config, context, "user_config" in message)
        if refused is not None:
            return refused
        self.user_config, self.options = config, options
        if "options" in message:
            self.on_options(options)
        log_event("info", "reconfigured", rank=context.rank, world_size=context.world_size,
                  user_config="user_config" in message)  # fmt: skip
        return 0, ""

    async def _apply(self, config: Any, context: replica.ReplicaContext, changed: bool) -> Optional[Outcome]:
        """Calls all hooks. If one fails, those that were called before get the old configuration again."""
        rank_changed = context.rank != self.context.rank
        hooks = [h for h in self.reconfigures if changed or (rank_changed and h.takes_rank)]
        old = self.context
        self.context = context
        self.enter(context)  # get_replica_context() in a hook returns the new context
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


def run_without_loop(coro: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine that never suspends, without an event loop."""
    try:
        coro.send(None)
    except StopIteration as e:
        return e.value
    coro.close()
    raise RuntimeError("reconfigure and check_health of a worker without an event loop wait for something")


class HookRunner:
    """Runs hooks in a worker whose handlers need no event loop; async hooks get a loop of their own."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self._runner = None
        if lifecycle.needs_loop:
            import asyncio

            self._runner = asyncio.Runner()

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(coro) if self._runner else run_without_loop(coro)

    def close(self) -> None:
        if self._runner:
            self._runner.close()


def dump_on_signal() -> int:
    """The signal that makes this process print the stacks of its threads; 0: user code uses that signal."""
    if signal.getsignal(DUMP_SIGNAL) != signal.SIG_DFL:
        return 0
    try:
        faulthandler.register(DUMP_SIGNAL, all_threads=True, chain=False)
    except (OSError, RuntimeError, ValueError, AttributeError):
        return 0
    return int(DUMP_SIGNAL)


def make(handlers: Iterable[Tuple[str, Any]], module: Optional[ModuleType], given: replica.Given,
         declared: Dict[str, Any]) -> Lifecycle:  # fmt: skip
    """Raises Stop if what the code declares does not fit."""
    try:
        return Lifecycle(find_hooks(handlers, module), given, declared)
    except DeclarationError as e:
        stop(EX_DECLARATION, str(e))

