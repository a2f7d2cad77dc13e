"""Signatures: the input and output tensors of a model, declared or inferred from annotations."""

from __future__ import annotations

import collections.abc
import functools
import inspect
import os
import re
import typing
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from . import request_param
from .errors import DeclarationError, is_int

__all__ = ["Response", "Tensor"]

DATATYPES = (
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
    "FP16", "FP32", "FP64", "BYTES", "BF16",
)  # fmt: skip
MAX_DIMS = 32
MAX_LABELS, MAX_LABEL_BYTES, MAX_LABELS_BYTES = 65536, 1024, 512 * 1024


def _read_labels(path: Union[str, "os.PathLike[str]"]) -> List[str]:
    try:
        with open(path, encoding="utf-8-sig") as f:
            lines = f.read().split("\n")
    except (OSError, UnicodeError) as e:
        raise DeclarationError("cannot read the labels of %r: %s" % (os.fspath(path), e)) from None
    return lines if lines[-1] else lines[:-1]


def _labels(labels: Any) -> Tuple[str, ...]:
    """Checks labels. The limits are those of one message to the server."""
    if isinstance(labels, (str, os.PathLike)):
        labels = _read_labels(labels)
    elif not isinstance(labels, collections.abc.Sequence) or isinstance(labels, (bytes, bytearray)):
        raise DeclarationError("labels are a list of texts or the name of a file, not %r" % (labels,))
    if not 1 <= len(labels) <= MAX_LABELS:
        raise DeclarationError("labels are 1 to %d, not %d" % (MAX_LABELS, len(labels)))
    total = 0
    for i, label in enumerate(labels):
        if not isinstance(label, str):
            raise DeclarationError("label %d is a text, not %r" % (i, label))
        if any(c in label for c in "\0\n\r"):
            raise DeclarationError("label %d is one line without NUL, not %r" % (i, label))
        try:
            n = len(label.encode("utf-8"))
        except UnicodeEncodeError:
            raise DeclarationError("label %d cannot be written in UTF-8: %r" % (i, label)) from None
        if n > MAX_LABEL_BYTES:
            raise DeclarationError("label %d has %d bytes, over %d" % (i, n, MAX_LABEL_BYTES))
        total += 2 + n
    if total > MAX_LABELS_BYTES:
        raise DeclarationError("the labels take %d bytes, over %d" % (total, MAX_LABELS_BYTES))
    return tuple(labels)


class Tensor:
    """One entry of a signature: a datatype of the protocol and a shape.

    ``Tensor("FP32", [-1, 4])``: -1 means any size; without a shape, any shape is allowed. A Tensor
    may also be used as an annotation: ``x: Annotated[np.ndarray, Tensor("FP32", [-1, 4])]``.

    ``labels`` are the names of the classes of an output, in order: a list of texts, or the name of a
    file with one label per line, which is read at once. Clients that request a classification get
    them; an empty text means that a class has no label.
    """

    __slots__ = ("datatype", "labels", "shape")

    datatype: str
    labels: Optional[Tuple[str, ...]]
    shape: Optional[Tuple[int, ...]]

    def __init__(
        self,
        datatype: str,
        shape: Optional[Sequence[int]] = None,
        *,
        labels: Union[None, str, "os.PathLike[str]", Sequence[str]] = None,
    ) -> None:
        if datatype not in DATATYPES:
            raise DeclarationError(
                "%r is no datatype; one of: %s" % (datatype, ", ".join(DATATYPES))
            )
        if shape is not None:
            try:
                dims = tuple(shape)
            except TypeError:
                raise DeclarationError("shape is a list of sizes, not %r" % (shape,)) from None
            if len(dims) > MAX_DIMS:
                raise DeclarationError("a shape has at most %d dimensions" % MAX_DIMS)
            for size in dims:
                if not is_int(size) or not -1 <= size < 2**63:
                    raise DeclarationError(
                        "sizes of a shape are integers >= -1, not %r in %r" % (size, shape)
                    )
            shape = dims
        self.datatype = datatype
        self.shape = shape
        self.labels = None if labels is None else _labels(labels)
        if self.labels is not None and datatype in ("BYTES", "BOOL"):
            raise DeclarationError("labels are for classes, which %s has none of" % datatype)

    def check_labels(self, name: str, batched: bool) -> None:
        """Checks that there are as many labels as classes, if the shape says how many classes there are."""
        shape = self.served_shape(batched)
        if self.labels is None or shape is None:
            return
        classes = 1
        for size in shape[1:] if len(shape) > 1 else shape:  # the first counts items
            if size < 0:
                return
            classes *= size
        if len(self.labels) != classes:
            raise DeclarationError(
                "output %r has %d labels for %d classes" % (name, len(self.labels), classes)
            )

    def served_shape(self, batched: bool) -> Optional[Tuple[int, ...]]:
        """The shape for clients: with batching the first dimension is the number of items."""
        return (-1, *self.shape) if batched and self.shape is not None else self.shape

    def __repr__(self) -> str:
        text = repr(self.datatype)
        if self.shape is not None:
            text += ", %r" % list(self.shape)
        if self.labels is not None:
            text += ", labels=<%d>" % len(self.labels)
        return "Tensor(%s)" % text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> Tuple[Any, ...]:
        return self.datatype, self.shape, self.labels


class Response:
    """A handler returns it to send parameters together with the outputs.

    outputs: an array, a dict or a tuple, as a handler returns them.
    parameters: a mapping of names to bool, int, float or str, for the response.
    output_parameters: a mapping of names of outputs to mappings like that, for these outputs.
    """

    __slots__ = ("outputs", "parameters", "output_parameters")

    def __init__(
        self,
        outputs: Any,
        parameters: Optional[Mapping[str, Any]] = None,
        output_parameters: Optional[Mapping[str, Mapping[str, Any]]] = None,
    ) -> None:
        self.outputs = outputs
        self.parameters = dict(parameters) if parameters else None
        self.output_parameters = output_parameters or None

    def __repr__(self) -> str:
        text = ", output_parameters=%r" % self.output_parameters if self.output_parameters else ""
        return "Response(%r, %r%s)" % (self.outputs, self.parameters, text)


class Param(typing.NamedTuple):
    """A parameter of a handler, which the worker fills in by name."""

    name: str
    required: bool
    default: Any
    is_request: bool = False  # it gets the request, or those of a batch


class Signature(typing.NamedTuple):
    """How a handler is called, and the inputs and outputs that it declares. The last n_kwonly params are keyword-only."""

    params: Tuple[Param, ...]
    n_kwonly: int
    var_keyword: bool
    inputs: Optional[Dict[str, Tensor]]
    outputs: Optional[Dict[str, Tensor]]


def check_side(side: Any, what: str) -> Optional[Dict[str, Tensor]]:
    """A declared `inputs` or `outputs`, checked and copied."""
    if side is None:
        return None
    if not isinstance(side, Mapping):
        raise DeclarationError("%s is a dict of name to Tensor, not %r" % (what, side))
    for name, tensor in side.items():
        if not isinstance(name, str) or not name or len(name.encode("utf-8", "replace")) > 65535:
            raise DeclarationError("%r in %s is no name of a tensor" % (name, what))
        if not isinstance(tensor, Tensor):
            raise DeclarationError("%s[%r] is a Tensor(datatype, shape), not %r" % (what, name, tensor))
        if tensor.labels is not None and what == "inputs":
            raise DeclarationError("inputs[%r] has labels, which are for outputs" % name)
    return dict(side)


def _function_of(handler: Any) -> Tuple[Callable[..., Any], bool]:
    """The function that will run, and whether its first parameter is the instance."""
    if inspect.isclass(handler):
        call = getattr(handler, "__call__", None)
        if not inspect.isfunction(call):
            raise DeclarationError("class %s has no __call__" % handler.__name__)
        return call, True
    return handler, False


def _code_of(handler: Any) -> Callable[..., Any]:
    """The function that has the code; of a callable object its class's __call__."""
    function, _ = _function_of(handler)
    is_function = inspect.isroutine(function) or isinstance(function, functools.partial)
    return function if is_function else type(function).__call__


def place_of(handler: Any, path_of: Callable[[str], str]) -> str:
    """File and line of the handler, for messages. path_of: turns its path into the one that the user knows."""
    function = _code_of(handler)
    while isinstance(function, functools.partial):
        function = function.func
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:  # implemented in C
        return type(handler).__name__
    path = path_of(code.co_filename)
    near = os.path.relpath(path)
    return "%s:%d" % (path if near.startswith("..") else near, code.co_firstlineno)


def _is(handler: Any, *kinds: Callable[[Any], bool]) -> bool:
    function, _ = _function_of(handler)
    functions = (function, getattr(function, "__call__", None))
    return any(kind(f) for kind in kinds for f in functions)


def is_async(handler: Any) -> bool:
    """Whether calling the handler gives a coroutine or an async generator."""
    return _is(handler, inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def is_generator(handler: Any) -> bool:
    """Whether it gives its results one by one."""
    return _is(handler, inspect.isgeneratorfunction, inspect.isasyncgenfunction)


_STREAMS = (collections.abc.AsyncIterator, collections.abc.AsyncIterable)
_STREAM_TEXT = re.compile(r"(typing\.|collections\.abc\.|t\.)?Async(Iterator|Iterable)\b")


def stream_param(handler: Any) -> Optional[str]:
    """The parameter that gets a stream of requests (``requests: AsyncIterator[Request]``), or None."""
    hints = _hints(handler) or dict(getattr(_code_of(handler), "__annotations__", {}))
    for name, hint in hints.items():
        text = isinstance(hint, str) and _STREAM_TEXT.match(hint)
        if name != "return" and (text or hint in _STREAMS or typing.get_origin(hint) in _STREAMS):
            return str(name)
    return None


def check_stream(handler: Any, name: str) -> None:
    """Checks that a handler that gets a stream is async and has no other parameter."""
    params, _, var_keyword = _params(handler)
    if not is_async(handler):
        raise DeclarationError("parameter %r is a stream of requests: the handler must be async" % name)
    if len(params) != 1 or var_keyword:
        raise DeclarationError(
            "parameter %r is a stream of requests: there can be no other parameter" % name
        )


def _params(handler: Any) -> Tuple[List[Param], int, bool]:
    function, method = _function_of(handler)
    try:
        found = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError) as e:
        raise DeclarationError("cannot read the parameters of %r: %s" % (handler, e)) from None
    params, kwonly, var_keyword = [], [], False
    for p in found[1:] if method else found:
        row = Param(p.name, p.default is p.empty, None if p.default is p.empty else p.default)
        if p.kind is p.VAR_POSITIONAL:
            raise DeclarationError(
                "a handler takes inputs by name: *%s cannot be filled in" % p.name
            )
        if p.kind is p.VAR_KEYWORD:
            var_keyword = True
        elif p.kind is p.KEYWORD_ONLY:
            kwonly.append(row)
        else:
            params.append(row)
    return params + kwonly, len(kwonly), var_keyword


def _hints(handler: Any) -> Dict[str, Any]:
    function = _code_of(handler)
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as e:
        text = " ".join(str(a) for a in getattr(function, "__annotations__", {}).values())
        if "Tensor(" in text:
            raise DeclarationError("cannot read the annotations: %s" % e) from None
        return {}  # annotations that are not for us


def _tensor_of(hint: Any) -> Optional[Tensor]:
    for extra in getattr(hint, "__metadata__", ()):
        if isinstance(extra, Tensor):
            return extra
    return None


def _is_array(hint: Any) -> bool:
    """Whether it is np.ndarray, or that with a dtype; numpy need not be loaded."""
    origin = typing.get_origin(hint)
    if origin is typing.Annotated:
        return _is_array(typing.get_args(hint)[0])
    kind = origin or hint
    return getattr(kind, "__module__", None) == "numpy" and getattr(kind, "__name__", None) == "ndarray"


def takes_arrays(handler: Any) -> bool:
    """Whether all of its parameters, at least one, are annotated with np.ndarray and can be filled in by name."""
    try:
        params, _, var_keyword = _params(handler)
        hints = _hints(handler)
    except DeclarationError:
        return False
    return bool(params) and not var_keyword and all(_is_array(hints.get(p.name)) for p in params)


def _mark_request(handler: Any, params: List[Param], hints: Dict[str, Any], batched: bool) -> List[Param]:
    """Marks the parameter that gets the request, if there is one."""
    function, _ = _function_of(handler)
    annotations = {p.name: p.annotation for p in inspect.signature(function).parameters.values()}
    special = request_param.find(_code_of(handler), {p.name: annotations[p.name] for p in params}, batched)
    if special is not None and _tensor_of(hints.get(special)) is not None:
        raise DeclarationError("parameter %r takes the request, but it is annotated with a Tensor" % special)
    return [p._replace(is_request=p.name == special) for p in params]


def _hint_for(params: List[Param]) -> str:
    return "" if any(p.is_request for p in params) else "; " + request_param.HINT


def _inferred_inputs(
    params: List[Param], hints: Dict[str, Any]
) -> Optional[Dict[str, Tensor]]:
    found = {}
    for p in params:
        tensor = _tensor_of(hints.get(p.name))
        if tensor is not None and not p.is_request:
            found[p.name] = tensor
    if not found:
        return None
    for p in params:
        if p.required and p.name not in found and not p.is_request:
            raise DeclarationError(
                "parameter %r needs an annotation with a Tensor, as the others have%s" % (p.name, _hint_for(params))
            )
    return found


_RESULTS = (
    collections.abc.Iterator, collections.abc.Iterable, collections.abc.Generator,
    collections.abc.AsyncIterator, collections.abc.AsyncIterable, collections.abc.AsyncGenerator,
)  # fmt: skip


def _inferred_outputs(hints: Dict[str, Any]) -> Optional[Dict[str, Tensor]]:
    hint = hints.get("return")
    if typing.get_origin(hint) in _RESULTS:
        hint = typing.get_args(hint)[0]  # each result of a generator
    single = _tensor_of(hint)
    if single is not None:
        return {"output0": single}
    if typing.get_origin(hint) is tuple:
        tensors = [_tensor_of(arg) for arg in typing.get_args(hint)]
        if tensors and all(t is not None for t in tensors):
            return {"output%d" % i: t for i, t in enumerate(tensors)}  # type: ignore[misc]
    return None


def _check_fit(
    params: List[Param], var_keyword: bool, inputs: Dict[str, Tensor]
) -> None:
    """Checks that every declared input has a parameter, and every required parameter an input."""
    names = [p.name for p in params]
    for p in params:
        if p.required and not p.is_request and p.name not in inputs:
            raise DeclarationError(
                "parameter %r is not among the inputs: %s%s" % (p.name, ", ".join(inputs) or "none", _hint_for(params))
            )
    if var_keyword or any(p.is_request for p in params):
        return
    for name in inputs:
        if name not in names:
            raise DeclarationError(
                "input %r has no parameter; the handler takes: %s"
                % (name, ", ".join(names) or "nothing")
            )


def _check_batched(params: List[Param], *sides: Optional[Dict[str, Tensor]]) -> None:
    if any(p.name == "request" and not p.is_request for p in params):
        raise DeclarationError("a handler with batching has `requests` (a list), not `request`")
    for side in sides:
        for name, tensor in (side or {}).items():
            if tensor.shape is not None and len(tensor.shape) == MAX_DIMS:
                raise DeclarationError(
                    "%r: with batching a shape has at most %d dimensions" % (name, MAX_DIMS - 1)
                )


def signature_of(
    handler: Any, inputs: Any = None, outputs: Any = None, batched: bool = False
) -> Signature:
    """The signature of a handler; what is declared overrides annotations."""
    params, n_kwonly, var_keyword = _params(handler)
    declared_in, declared_out = check_side(inputs, "inputs"), check_side(outputs, "outputs")
    hints = _hints(handler) if declared_in is None or declared_out is None else {}
    if stream_param(handler) is None:
        params = _mark_request(handler, params, hints, batched)
    if declared_in is None:
        declared_in = check_side(_inferred_inputs(params, hints), "inputs")
    if declared_out is None:
        declared_out = _inferred_outputs(hints)
    for name, tensor in (declared_out or {}).items():
        tensor.check_labels(name, batched)
    if stream_param(handler) is not None:
        return Signature((), 0, False, declared_in, declared_out)
    if declared_in is not None:
        _check_fit(params, var_keyword, declared_in)
    if batched:
        _check_batched(params, declared_in, declared_out)
    return Signature(tuple(params), n_kwonly, var_keyword, declared_in, declared_out)
