"""Requests that a new replica executes before it gets any (`warmup_requests`, docs/guide/replicas.md).

They are parsed here, with the rules for the body of POST /v2/models/MODEL/infer (docs/protocol/rest.md). The
extension runs them in the same way as requests that come by the link.
"""

from __future__ import annotations

import math
import queue
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from ..arrays import Message, as_elements, as_parameters, flatten, refuse
from ..declared_model import Model, default_version
from ..errors import STATUS_NAMES, DeclarationError, is_int
from ..stop import EX_DECLARATION, EX_RAISED, stop
from .log import log_event
from .options import check_options

if TYPE_CHECKING:
    import asyncio

    from .._native import Link


class Warmup(NamedTuple):
    """One entry of `warmup_requests`."""

    where: str  # for messages
    model: int  # its number in the deployment
    name: str
    times: int
    message: Message


# --- parsing a request ---


def _tensor(value: Any) -> Tuple[Any, ...]:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        refuse("an input is an object with a name, not %r", value)
    where, shape = "input %r" % value["name"], value.get("shape")
    if not isinstance(value.get("datatype"), str):
        refuse("%s: datatype is missing", where)
    if not isinstance(shape, list) or not all(is_int(n) and n >= 0 for n in shape) or len(shape) > 32:
        refuse("%s: shape must be an array of at most 32 sizes", where)
    if "data" not in value:
        refuse("%s: data is missing; binary data and shared memory are not for this request", where)
    values = flatten(where, value["data"])
    if len(values) != math.prod(shape):
        refuse("%s: %d elements in data, shape %s needs %d", where, len(values), shape, math.prod(shape))
    return value["name"], value["datatype"], tuple(shape), as_elements(where, value["datatype"], values)


def _check_outputs(value: Any, model: Model) -> None:
    declared = model.signature.outputs
    for o in value if isinstance(value, list) else refuse("outputs must be an array"):
        if not isinstance(o, dict) or not isinstance(o.get("name"), str):
            refuse("an output is an object with a name, not %r", o)
        if declared is not None and o["name"] not in declared:
            refuse("model %r has no output %r", model.name, o["name"])


# --- choosing the model ---


def _model_of(models: Sequence[Model], entry: Dict[str, Any]) -> int:
    names = sorted({m.name for m in models})
    name, version = entry.get("model"), entry.get("model_version")
    if name is None and len(names) > 1:
        refuse("model is needed, the deployment has several: %s", ", ".join(names))
    found = [m for m in models if name is None or m.name == name]
    if not found:
        refuse("the deployment has no model %r; it has %s", name, ", ".join(names))
    if version is not None:
        found = [m for m in found if m.version == version]
    if not found:
        refuse("there is no version %r of model %r", version, name or names[0])
    return models.index(default_version(found, lambda m: m.version))


def _read(models: Sequence[Model], entry: Dict[str, Any], where: str) -> Warmup:
    number, request = _model_of(models, entry), entry["request"]
    if not isinstance(request.get("inputs"), list):
        refuse("inputs must be an array")
    if not isinstance(request.get("id", ""), str):
        refuse("id must be a text")
    _check_outputs(request.get("outputs", []), models[number])
    return Warmup(where, number, models[number].name, int(entry.get("count", 1)),
                  Message([_tensor(t) for t in request["inputs"]], as_parameters(request.get("parameters", {})),
                          request.get("id", ""), {}))  # fmt: skip


def plan(models: Sequence[Model], value: Any) -> List[Warmup]:
    """Parses all entries, before any code runs. Raises Stop if an entry is wrong."""
    plans: List[Warmup] = []
    try:
        entries = check_options({"warmup_requests": value})["warmup_requests"]
    except DeclarationError as e:
        stop(EX_DECLARATION, str(e))
    for i, entry in enumerate(entries):
        where = "warmup_requests[%d]" % i
        try:
            plans.append(_read(models, entry, where))
        except (DeclarationError, UnicodeEncodeError) as e:
            stop(EX_DECLARATION, "%s: %s" % (where, e))
    return plans


# --- execution ---

def _check_outcome(w: Warmup, run: int, status: int, text: str) -> None:
    if status:
        stop(EX_RAISED, "%s: model %r failed in run %d of %d: %s: %s"
             % (w.where, w.name, run + 1, w.times, STATUS_NAMES[status], text))  # fmt: skip


def _start(link: Link, w: Warmup, done: Callable[[int, str], Any]) -> None:
    refused = link.local(None, None, done).start(w.model, w.message, False, 0)
    if refused is not None:
        stop(EX_DECLARATION, "%s: %s" % (w.where, refused))


def _report(plans: Sequence[Warmup], began: float) -> None:
    log_event("info", "warmed_up", requests=sum(w.times for w in plans), seconds="%.3f" % (time.monotonic() - began))


def run(link: Link, plans: Sequence[Warmup]) -> None:
    """Runs the requests one after the other. Raises Stop if one fails."""
    began = time.monotonic()
    ends: "queue.SimpleQueue[Tuple[int, str]]" = queue.SimpleQueue()
    for w in plans:
        for i in range(w.times):
            _start(link, w, lambda status, text: ends.put((status, text)))
            _check_outcome(w, i, *ends.get())
    _report(plans, began)


async def run_async(link: Link, plans: Sequence[Warmup]) -> None:
    """The same on an event loop; a handler may end in another thread."""
    import asyncio

    began, loop = time.monotonic(), asyncio.get_running_loop()
    for w in plans:
        for i in range(w.times):
            end: "asyncio.Future[Tuple[int, str]]" = loop.create_future()
            _start(link, w, lambda status, text: loop.call_soon_threadsafe(end.set_result, (status, text)))
            _check_outcome(w, i, *await end)
    _report(plans, began)
