"""The example command that the server prints when it starts: it calls one of the models."""

from __future__ import annotations

import math
import shlex
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from .declared_model import Model
from .signature import Tensor

MOST = 64  # most values that are written out; more are read from a pipe
SIZES = {"BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2, "UINT32": 4, "INT32": 4,
         "FP32": 4, "UINT64": 8, "INT64": 8, "FP64": 8}  # fmt: skip
WORDS = ("hello", "world", "again")


class _Input(NamedTuple):
    name: str
    datatype: str
    shape: Optional[Tuple[int, ...]]
    is_declared: bool


def _inputs(m: Model) -> Optional[List[_Input]]:
    """The inputs; if none are declared, guessed from the handler's parameters. None: they cannot be known."""
    declared = m.signature.inputs
    if declared is not None:
        return [_Input(n, t.datatype, _shape(t, m.batching is not None), True) for n, t in declared.items()]
    params = m.signature.params
    if m.stream is not None or any(p.is_request for p in params) or m.signature.var_keyword:
        return None
    return [_Input(p.name, "FP32", None, False) for p in params if p.required]


def _shape(t: Tensor, batched: bool) -> Optional[Tuple[int, ...]]:
    shape = t.served_shape(batched)
    if shape is None:
        return None
    free = 2 if len(shape) == 1 else 1
    return tuple(free if n == -1 else n for n in shape)


def _values(i: _Input, factor: int, n: int) -> List[str]:
    if i.datatype == "BYTES":
        return [WORDS[k % len(WORDS)] for k in range(n)]
    if i.datatype == "BOOL":
        return ["true" if k % 2 == 0 else "false" for k in range(n)]
    return [str((k % 9 + 1) * factor) for k in range(n)]  # 90 fits every datatype


def _nested(values: Sequence[str], shape: Sequence[int]) -> str:
    if len(shape) <= 1:
        return ",".join(values) if len(shape) == 0 else "[%s]" % ",".join(values)
    n = len(values) // shape[0]
    return "[%s]" % ",".join(_nested(values[k * n : (k + 1) * n], shape[1:]) for k in range(shape[0]))


def _argument(i: _Input, factor: int) -> Optional[str]:
    """NAME=VALUE; None: it cannot be written."""
    n = 2 if i.shape is None else math.prod(i.shape)
    if not 1 <= n <= MOST or any(c in "=:" or c.isspace() or not c.isprintable() for c in i.name):
        return None
    values = _values(i, factor, n)
    text = ",".join(values) if i.shape is None or len(i.shape) <= 1 else _nested(values, i.shape)
    return "%s%s=%s" % (i.name, "" if i.is_declared else ":" + i.datatype, text)


def _command(m: Model, versions: int) -> Optional[str]:
    inputs = _inputs(m)
    if inputs is None:
        return None
    command, piped = ["anyserve", "infer", m.name], 0
    for k, i in enumerate(inputs):
        text = _argument(i, 1 if k == 0 else 10)
        if text is None and i.is_declared and i.shape and not piped and i.datatype in SIZES:
            piped = math.prod(i.shape) * SIZES[i.datatype]
            text = i.name + "=@raw:-"
        if text is None or text.endswith("@raw:-") and (not piped or "=" in i.name or ":" in i.name):
            return None
        command += ["--input", text]
    if versions > 1:
        command += ["--model-version", m.version]
    if m.decoupled:
        command += ["--stream"]
    text = " ".join(map(shlex.quote, command))
    return "head -c %d /dev/zero | %s" % (piped, text) if piped else text


def command_for(models: Sequence[Model]) -> Optional[str]:
    """A command for the first model with known inputs; models that declare them come first. Options may be appended.
    None: there is no such model."""
    for m in sorted(models, key=lambda m: m.signature.inputs is None):
        command: Any = _command(m, sum(other.name == m.name for other in models))
        if command is not None:
            return str(command)
    return None
