"""Requests that a new replica executes before it gets any (`warmup_requests`, docs/guide/replicas.md).

They are parsed here, with the rules for the body of POST /v2/models/MODEL/infer (docs/protocol/rest.md). The
extension runs them in the same way as requests that come by the link.
"""

from __future__ import annotations

import math
import queue
import re
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, NamedTuple, NoReturn, Sequence, Tuple, TypeVar

import numpy as np

from ..app import Model
from ..arrays import pack_bytes
from ..code.target import EX_DECLARATION, EX_RAISED, stop
from ..errors import STATUS_NAMES, DeclarationError, is_int
from .log import log_event
from .options import check_options

if TYPE_CHECKING:
    import asyncio

    from .._native import Link

_INTEGERS = {t: np.dtype(t.lower()) for t in
             ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")}  # fmt: skip
_FLOATS = {"FP16": np.float16, "FP32": np.float32, "FP64": np.float64, "BF16": np.float32}
_HANDLED_BY_THE_SERVER = {"binary_data_output", "priority", "timeout", "triton_enable_empty_final_response"}

T = TypeVar("T")
Tensor = Tuple[str, str, Tuple[int, ...], bytes]


class Warmup(NamedTuple):
    """One entry of `warmup_requests`."""

    where: str  # for messages
    model: int  # its number in the deployment
    name: str
    times: int
    tensors: List[Tensor]
    parameters: Dict[str, Any]
    id: str


# --- parsing a request ---

def _refuse(text: str, *args: Any) -> NoReturn:
    raise DeclarationError(text % args)


def _flat(where: str, data: Any) -> List[Any]:
    """The elements in order, from evenly nested lists or a flat one."""
    level = data if isinstance(data, list) else [data]
    while any(isinstance(v, list) for v in level):
        if not all(isinstance(v, list) and len(v) == len(level[0]) for v in level):
            _refuse("%s: data is not nested evenly", where)
        level = [v for inner in level for v in inner]
    return level


def _integers(where: str, datatype: str, values: List[Any]) -> bytes:
    bounds = np.iinfo(_INTEGERS[datatype])
    for i, v in enumerate(values):
        if not is_int(v):
            _refuse("%s: data[%d]: %r is no integer", where, i, v)
        if not bounds.min <= v <= bounds.max:
            _refuse("%s: data[%d]: %d does not fit %s", where, i, v, datatype)
    return np.array(values, _INTEGERS[datatype]).tobytes()


def _floats(where: str, datatype: str, values: List[Any]) -> bytes:
    for i, v in enumerate(values):
        if isinstance(v, bool) or not isinstance(v, (int, float)):
            _refuse("%s: data[%d]: %r is no number", where, i, v)
    with np.errstate(over="ignore"):
        array = np.array([float(v) for v in values]).astype(_FLOATS[datatype])
    if datatype == "BF16":  # the upper half of FP32, rounded to nearest even
        bits = array.view(np.uint32)
        half = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        array = np.where(np.isnan(array), 0x7FC0, half).astype(np.uint16)
        too_large = array & 0x7FFF == 0x7F80
    else:
        too_large = np.isinf(array)
    for i in np.flatnonzero(too_large).tolist():
        if math.isfinite(values[i]):
            _refuse("%s: data[%d]: %r does not fit %s", where, i, values[i], datatype)
    return array.tobytes()


def _elements(where: str, datatype: str, values: List[Any]) -> bytes:
    if datatype in _INTEGERS:
        return _integers(where, datatype, values)
    if datatype in _FLOATS:
        return _floats(where, datatype, values)
    of = {"BOOL": (bool, "neither true nor false"), "BYTES": (str, "no text")}.get(datatype)
    if of is None:
        _refuse("%s: there is no datatype %r", where, datatype)
    for i, v in enumerate(values):
        if not isinstance(v, of[0]):
            _refuse("%s: data[%d]: %r is %s", where, i, v, of[1])
    if datatype == "BOOL":
        return bytes(values)
    return pack_bytes(v.encode("utf-8") for v in values)


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, dict) or not isinstance(value.get("name"), str) or not value["name"]:
        _refuse("an input is an object with a name, not %r", value)
    where, shape = "input %r" % value["name"], value.get("shape")
    if not isinstance(value.get("datatype"), str):
        _refuse("%s: datatype is missing", where)
    if not isinstance(shape, list) or not all(is_int(n) and n >= 0 for n in shape) or len(shape) > 32:
        _refuse("%s: shape must be an array of at most 32 sizes", where)
    if "data" not in value:
        _refuse("%s: data is missing; binary data and shared memory are not for this request", where)
    values = _flat(where, value["data"])
    if len(values) != math.prod(shape):
        _refuse("%s: %d elements in data, shape %s needs %d", where, len(values), shape, math.prod(shape))
    return value["name"], value["datatype"], tuple(shape), _elements(where, value["datatype"], values)


def _check_parameters(value: Dict[str, Any]) -> None:
    for k, v in value.items():
        if not isinstance(v, (int, float, str)) or (isinstance(v, int) and not -(2**63) <= v < 2**64):
            _refuse("parameter %r is a boolean, a number or a text, not %r", k, v)


def _parameters(value: Any) -> Dict[str, Any]:
    if not isinstance(value, dict):
        _refuse("parameters must be an object")
    _check_parameters(value)
    return {k: v for k, v in value.items() if k not in _HANDLED_BY_THE_SERVER}


def _check_outputs(value: Any, model: Model) -> None:
    declared = model.signature.outputs
    for o in value if isinstance(value, list) else _refuse("outputs must be an array"):
        if not isinstance(o, dict) or not isinstance(o.get("name"), str):
            _refuse("an output is an object with a name, not %r", o)
        if declared is not None and o["name"] not in declared:
            _refuse("model %r has no output %r", model.name, o["name"])


# --- choosing the model ---

def _natural(version: str) -> List[Tuple[int, int]]:
    """A sort key with the server's order of versions: runs of digits are numbers."""
    tokens = re.findall(r"[0-9]+|[^0-9]", version)
    return [(48, int(t)) if t[0] in "0123456789" else (ord(t), 0) for t in tokens]


def default_version(all: Sequence[T], version: Callable[[T], str]) -> T:
    """What the server calls for a request without a version: that with the highest integer, else the last version."""
    integers = [m for m in all if re.fullmatch("[0-9]+", version(m))]
    return max(integers or all, key=lambda m: _natural(version(m)))


def _model_of(models: Sequence[Model], entry: Dict[str, Any]) -> int:
    names = sorted({m.name for m in models})
    name, version = entry.get("model"), entry.get("model_version")
    if name is None and len(names) > 1:
        _refuse("model is needed, the deployment has several: %s", ", ".join(names))
    found = [m for m in models if name is None or m.name == name]
    if not found:
        _refuse("the deployment has no model %r; it has %s", name, ", ".join(names))
    if version is not None:
        found = [m for m in found if m.version == version]
    if not found:
        _refuse("there is no version %r of model %r", version, name or names[0])
    return models.index(default_version(found, lambda m: m.version))


def _read(models: Sequence[Model], entry: Dict[str, Any], where: str) -> Warmup:
    number, request = _model_of(models, entry), entry["request"]
    if not isinstance(request.get("inputs"), list):
        _refuse("inputs must be an array")
    if not isinstance(request.get("id", ""), str):
        _refuse("id must be a text")
    _check_outputs(request.get("outputs", []), models[number])
    return Warmup(where, number, models[number].name, int(entry.get("count", 1)),
                  [_tensor(t) for t in request["inputs"]], _parameters(request.get("parameters", {})),
                  request.get("id", ""))  # fmt: skip


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
    refused = link.local(None, None, done).start(w.model, w.tensors, w.parameters, w.id, {}, False, 0)
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
