"""Runs the scaling policy of the user's own: a function, or a class that is constructed once.

The controller asks with the facts of one deployment, or of all deployments of an application, and gets numbers of replicas. What
a policy returns as its state is kept here, and given to its next call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import inspect
import json
import math
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple

from ...code.copied import user_traceback
from ...errors import STATUS_NAMES
from ...replica import DeploymentID, ReplicaID
from ...runtime.log import log_event
from ...stop import FAULTS
from .._payload import text_of
from ..config import AutoscalingConfig, AutoscalingContext, TimeStampedValue

DEFAULT_LIMIT = 1.0  # seconds
INVALID, FAILED, EXHAUSTED, DEADLINE = (STATUS_NAMES.index(n) for n in
                                        ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED"))  # fmt: skip
LOOK_BACK = 30.0  # seconds: the default of look_back_period_s
MAX_REPLICAS = 1_000_000  # a larger answer is an error

Outcome = Tuple[int, str]
Series = List[Tuple[float, float]]  # times and values, in order


class PolicyError(ValueError):
    """What a policy has returned is no number of replicas."""


class NoAnswer(Exception):
    """A policy has not answered, for a reason that is not its code's."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Raised(Exception):
    """A policy has raised this."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


def replicas_of(value: Any) -> int:
    """The number of replicas that a policy has returned; fractions are rounded up. PolicyError."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        try:
            value = float(value)  # a number of numpy
        except (TypeError, ValueError):
            raise PolicyError("%r is no number of replicas" % (value,)) from None
    if not math.isfinite(value):
        raise PolicyError("%r is no number of replicas" % (value,))
    number: int = math.ceil(value)
    if not 0 <= number <= MAX_REPLICAS:
        raise PolicyError("%r is no number of replicas: 0 to %d" % (value, MAX_REPLICAS))
    return number


def _aggregate(series: Series, how: str, now: float) -> float:
    """One number for values that each hold until the next one, and the last until now: Ray Serve's aggregation functions."""
    if how == "max":
        return max(v for _, v in series)
    if how == "min":
        return min(v for _, v in series)
    ends = [t for t, _ in series[1:]] + [max(now, series[-1][0] + 1e-3)]
    total = ends[-1] - series[0][0]
    return sum(v * (end - t) for (t, v), end in zip(series, ends)) / total


class Statistics:
    """What the replicas of one deployment have recorded (record_autoscaling_stats), by metric name and replica.

    A question of the controller has what is new. Kept are the values of the last look_back_period_s, and the last one of each."""

    def __init__(self) -> None:
        self._series: Dict[str, Dict[str, Series]] = {}

    def add(self, stats: Mapping[str, Any]) -> None:
        """stats: by replica, a pair of a time (seconds since the epoch) and a dict of numbers. KeyError, TypeError, ValueError."""
        for replica, (at, values) in stats.items():
            for by_replica in self._series.values():
                series = by_replica.get(replica)
                if series and series[-1][0] > at:  # the machine's clock was set back
                    del by_replica[replica]
            for name, value in values.items():
                series = self._series.setdefault(name, {}).setdefault(replica, [])
                if not series or series[-1][0] < at:  # it may be said again
                    series.append((float(at), float(value)))
            for name in [n for n in self._series if n not in values]:  # it is not recorded any more
                self._series[name].pop(replica, None)

    def prune(self, running: Iterable[str], since: float) -> None:
        """Only these replicas are left, and values that held after `since`."""
        left = set(running)
        for name, by_replica in list(self._series.items()):
            for replica in [r for r in by_replica if r not in left]:
                del by_replica[replica]
            for series in by_replica.values():
                n = sum(t < since for t, _ in series)
                del series[: min(n, len(series) - 1)]
            if not by_replica:
                del self._series[name]

    def raw(self, ident: DeploymentID) -> Dict[str, Dict[ReplicaID, List[TimeStampedValue]]]:
        return {name: {ReplicaID(r, ident): [TimeStampedValue(t, v) for t, v in series] for r, series in by_replica.items()}
                for name, by_replica in self._series.items()}  # fmt: skip

    def aggregated(self, ident: DeploymentID, how: str, now: float) -> Dict[str, Dict[ReplicaID, float]]:
        return {name: {ReplicaID(r, ident): _aggregate(series, how, now) for r, series in by_replica.items()}
                for name, by_replica in self._series.items()}  # fmt: skip


def _values(facts: Mapping[str, Mapping[str, float]], ident: DeploymentID) -> Dict[str, Dict[ReplicaID, float]]:
    return {name: {ReplicaID(r, ident): v for r, v in by_replica.items()} for name, by_replica in facts.items()}


def context_of(facts: Mapping[str, Any], state: Dict[str, Any], stats: Optional[Statistics] = None) -> AutoscalingContext:
    """The context that a policy gets, of the facts of one deployment as the controller sends them.

    stats: of its replicas; adds what is new in the facts. Its values are those of now."""
    ident = DeploymentID(facts["deployment"], facts["application"])
    config = facts.get("config") or {}
    stats = stats or Statistics()
    stats.add(facts.get("stats", {}))
    now = facts.get("current_time") or time.time()
    stats.prune(facts.get("running_replicas", ()), now - config.get("look_back_period_s", LOOK_BACK))
    raw = stats.raw(ident)
    aggregated = {**stats.aggregated(ident, config.get("aggregation_function", "mean"), now),
                  **_values(facts.get("aggregated_metrics", {}), ident)}  # fmt: skip
    return AutoscalingContext(
        deployment_id=ident, deployment_name=ident.name, app_name=ident.app_name,
        current_num_replicas=facts["current_num_replicas"], target_num_replicas=facts["target_num_replicas"],
        running_replicas=[ReplicaID(r, ident) for r in facts.get("running_replicas", ())],
        total_num_requests=facts["total_num_requests"], total_queued_requests=facts.get("total_queued_requests", 0),
        aggregated_metrics=aggregated, raw_metrics=raw,
        capacity_adjusted_min_replicas=facts["capacity_adjusted_min_replicas"],
        capacity_adjusted_max_replicas=facts["capacity_adjusted_max_replicas"], policy_state=state,
        last_scale_up_time=facts.get("last_scale_up_time"), last_scale_down_time=facts.get("last_scale_down_time"),
        current_time=facts.get("current_time"), config=_config_of(facts.get("config")),
    )  # fmt: skip


def _config_of(config: Optional[Mapping[str, Any]]) -> Optional[AutoscalingConfig]:
    return None if config is None else AutoscalingConfig(**config)


class ScalingHost:
    def __init__(self, policy: Any, kwargs: Dict[str, Any]) -> None:
        """Constructs the policy, if it is a class. Raises what its code raises, and TypeError."""
        if inspect.isclass(policy):
            policy, kwargs = policy(**kwargs), {}
        if not callable(policy):
            raise TypeError("the autoscaling policy is no function and no class: %r" % (policy,))
        self._policy: Callable[..., Any] = functools.partial(policy, **kwargs) if kwargs else policy
        call = policy if inspect.isroutine(policy) else type(policy).__call__
        self._is_async = inspect.iscoroutinefunction(call)
        self._states: Dict[DeploymentID, Dict[str, Any]] = {}
        self._stats: Dict[DeploymentID, Statistics] = {}
        self._thread = concurrent.futures.ThreadPoolExecutor(1, "policy")
        self._running: Optional["asyncio.Future[Any]"] = None  # a call that has outlasted its limit

    async def answer(self, text: str) -> Outcome:
        """The answer to a question of the controller: 0 and JSON, or a status and why there is none."""
        try:
            question = json.loads(text)
            limit = float(question.get("limit_s", DEFAULT_LIMIT))
            many = question.get("contexts")
            facts: List[Dict[str, Any]] = [question["context"]] if many is None else many
            contexts = [self._context_of(f) for f in facts]
            self._forget_others({c.deployment_id for c in contexts})
        except (AttributeError, KeyError, TypeError, ValueError) as e:
            return INVALID, "the question is malformed: %s: %s" % (type(e).__name__, e)
        try:
            if many is None:
                decided = self._one(contexts[0], await self._call(contexts[0], limit))
            else:
                by_id = {c.deployment_id: c for c in contexts}
                decided = self._all(set(by_id), await self._call(by_id, limit))
            return 0, json.dumps(decided)
        except NoAnswer as e:
            return e.status, str(e)
        except PolicyError as e:
            return FAILED, "the policy has returned %s" % e
        except FAULTS as e:  # also of the objects that it has returned
            error = e.error if isinstance(e, Raised) else e
            text = text_of(error)
            log_event("warn", "policy_raised", user_traceback(error) + "\n", error=text)
            return FAILED, "the policy has raised " + text

    def _context_of(self, facts: Dict[str, Any]) -> AutoscalingContext:
        ident = DeploymentID(facts["deployment"], facts["application"])
        return context_of(facts, self._states.get(ident, {}), self._stats.setdefault(ident, Statistics()))

    def _forget_others(self, asked: Set[DeploymentID]) -> None:
        """A question is about all deployments for which the policy decides: one that is left out has gone, or has a fixed number
        of replicas now."""
        self._stats = {i: s for i, s in self._stats.items() if i in asked}
        self._states = {i: s for i, s in self._states.items() if i in asked}

    async def _call(self, context: Any, limit: float) -> Any:
        """Raises NoAnswer, and Raised with what the policy raises."""
        if self._running is not None and not self._running.done():
            raise NoAnswer(EXHAUSTED, "the policy's call before this one still runs")
        loop = asyncio.get_running_loop()
        self._running = loop.create_task(_outcome_async(self._policy, context)) if self._is_async else loop.run_in_executor(
            self._thread, _outcome, self._policy, context)  # fmt: skip
        await asyncio.wait({self._running}, timeout=limit)
        if not self._running.done():
            raise NoAnswer(DEADLINE, "the policy took longer than %g s" % limit)
        returned, error = self._running.result()
        if error is not None:
            raise Raised(error)
        return returned

    def _one(self, context: AutoscalingContext, returned: Any) -> Dict[str, Any]:
        number, state = _pair(returned)
        self._states[context.deployment_id] = state
        return {"replicas": replicas_of(number)}

    def _all(self, known: Set[DeploymentID], returned: Any) -> Dict[str, Any]:
        numbers, states = _pair(returned)
        if not isinstance(numbers, Mapping):
            raise PolicyError("%r, which is no dict of numbers by DeploymentID" % (numbers,))
        decided = {_known(known, i, "a number").name: _number_for(i, n) for i, n in numbers.items()}
        for ident, state in states.items():
            if not isinstance(state, (dict, type(None))):
                raise PolicyError("%r as the state of %s, which is no dict" % (state, _known(known, ident, "a state").name))
        self._states = {_known(known, i, "a state"): s or {} for i, s in states.items()}
        return {"replicas": decided}


# What a policy raises is a value: a task that raises SystemExit ends the loop's run, and no future takes a StopIteration.


def _outcome(policy: Callable[..., Any], context: Any) -> Tuple[Any, Optional[BaseException]]:
    try:
        return policy(context), None
    except BaseException as e:
        return None, e


async def _outcome_async(policy: Callable[..., Any], context: Any) -> Tuple[Any, Optional[BaseException]]:
    try:
        return await policy(context), None
    except GeneratorExit:
        raise
    except BaseException as e:
        return None, e


def _known(known: Set[DeploymentID], ident: Any, what: str) -> DeploymentID:
    if not isinstance(ident, DeploymentID) or ident not in known:
        raise PolicyError("%s for %r, which is no deployment that it was asked for" % (what, ident))
    return ident


def _number_for(ident: DeploymentID, value: Any) -> int:
    try:
        return replicas_of(value)
    except PolicyError as e:
        raise PolicyError("for %s: %s" % (ident.name, e)) from None


def _pair(returned: Any) -> Tuple[Any, Dict[str, Any]]:
    """What is decided, and the state. A policy may return the decision alone."""
    if isinstance(returned, tuple):
        if len(returned) != 2 or not isinstance(returned[1], (dict, type(None))):
            raise PolicyError("%r, which is no pair of a decision and a state (a dict)" % (returned,))
        return returned[0], returned[1] or {}
    return returned, {}
