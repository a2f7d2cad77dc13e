"""Turns values that users write into tensors and parameters, for requests that are made in Python.

Values are either those of JSON, to which the rules for bodies of REST apply (docs/protocol/rest.md), or arrays."""

from __future__ import annotations

import collections.abc
import math
import struct
from typing import Any, Dict, Iterable, List, NamedTuple, NoReturn, Tuple

import numpy as np

from .errors import DeclarationError, is_int

_INTEGERS: Dict[str, "np.dtype[Any]"] = {t: np.dtype(t.lower()) for t in
             ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")}  # fmt: skip
# BF16 is computed as FP32, which is behind it here, so that it is the datatype of such an array
_FLOATS: Dict[str, "np.dtype[Any]"] = {"BF16": np.dtype("f4"), "FP16": np.dtype("f2"), "FP32": np.dtype("f4"),
                                       "FP64": np.dtype("f8")}  # fmt: skip
_DATATYPES = {d: t for t, d in {"BOOL": np.dtype(np.bool_), **_INTEGERS, **_FLOATS}.items()}

_HANDLED_BY_THE_SERVER = {"binary_data_output", "priority", "timeout", "triton_enable_empty_final_response"}

class Message(NamedTuple):
    """One request, or a further message of it, as the extension takes it."""

    tensors: List[Tuple[Any, ...]]  # name, datatype, shape, bytes, and a dict of parameters if it has any
    parameters: Dict[str, Any]
    id: str
    metadata: Dict[str, Any]


# --- arrays ---


def datatype_of(array: np.ndarray) -> str:
    """The protocol's datatype of an array from as_array; "": there is none."""
    if array.dtype == object:
        return "BYTES"
    if array.dtype.name == "bfloat16" or array.dtype.str == "|V2":  # with ml_dtypes, and without
        return "BF16"
    return _DATATYPES.get(array.dtype, "")


def _as_bytes(where: str, element: Any) -> bytes:
    if isinstance(element, str):
        return element.encode("utf-8")
    if isinstance(element, bytes):
        return element
    raise TypeError("%s: an element is %s, not str or bytes" % (where, type(element).__name__))


def as_array(where: str, value: Any) -> np.ndarray:
    """The array as a handler gets it: read-only, in this machine's byte order, BYTES as an object array of bytes. It
    shares the memory of `value` if possible. TypeError."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError("%s: a masked array has no form on the wire: fill it first" % where)
    if isinstance(value, (list, tuple)) and any(isinstance(v, (bytes, str)) for v in value):
        elements = value  # numpy would strip trailing NULs, and mix bytes with str
        value = np.empty(len(elements), object)
        value[:] = elements
    elif isinstance(value, bytes):
        value = np.array(value, object)
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as e:
        raise TypeError("%s: %s" % (where, e)) from None
    if array.dtype == object and array.shape == () and not isinstance(array[()], (str, bytes)):
        raise TypeError("%s: %s is no array of a datatype" % (where, type(array[()]).__name__))
    if array.dtype.kind in "USO":
        texts = np.empty(array.shape, object)
        texts.reshape(-1)[:] = [_as_bytes(where, v) for v in array.ravel().tolist()]
        array = texts
    elif not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not datatype_of(array):
        raise TypeError("%s: %s is no array of a datatype" % (where, array.dtype.name))
    array = array.view()
    array.flags.writeable = False
    return array


def tensor_bytes(array: np.ndarray) -> bytes:
    """The bytes of an array from as_array, as they are sent."""
    return pack_bytes(array.ravel().tolist()) if array.dtype == object else array.tobytes()


def pack_bytes(elements: Iterable[bytes]) -> bytes:
    """The elements of a BYTES tensor, as they are sent."""
    return b"".join(struct.pack("<I", len(v)) + v for v in elements)


def as_inputs(inputs: Any) -> Dict[str, np.ndarray]:
    """as_array for each value of a mapping. TypeError."""
    if not isinstance(inputs, collections.abc.Mapping):
        raise TypeError("inputs is a mapping of name to array, not %s" % type(inputs).__name__)
    for name in inputs:
        if not isinstance(name, str):
            raise TypeError("the name of an input is a str, not %s" % type(name).__name__)
    return {name: as_array("input %r" % name, value) for name, value in inputs.items()}


# --- values of JSON ---


def refuse(text: str, *args: Any) -> NoReturn:
    raise DeclarationError(text % args)


def flatten(where: str, data: Any) -> List[Any]:
    """The elements in order, from evenly nested lists or a flat one."""
    level = data if isinstance(data, list) else [data]
    while any(isinstance(v, list) for v in level):
        if not all(isinstance(v, list) and len(v) == len(level[0]) for v in level):
            refuse("%s: data is not nested evenly", where)
        level = [v for inner in level for v in inner]
    return level


def _integers(where: str, datatype: str, values: List[Any]) -> bytes:
    bounds = np.iinfo(_INTEGERS[datatype])
    for i, v in enumerate(values):
        if not is_int(v):
            refuse("%s: data[%d]: %r is no integer", where, i, v)
        if not bounds.min <= v <= bounds.max:
            refuse("%s: data[%d]: %d does not fit %s", where, i, v, datatype)
    return np.array(values, _INTEGERS[datatype]).tobytes()


def _floats(where: str, datatype: str, values: List[Any]) -> bytes:
    for i, v in enumerate(values):
        if isinstance(v, bool) or not isinstance(v, (int, float)):
            refuse("%s: data[%d]: %r is no number", where, i, v)
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
            refuse("%s: data[%d]: %r does not fit %s", where, i, values[i], datatype)
    data: bytes = array.tobytes()
    return data


def as_elements(where: str, datatype: str, values: List[Any]) -> bytes:
    """The bytes of a tensor with these elements, as they are sent. DeclarationError."""
    if datatype in _INTEGERS:
        return _integers(where, datatype, values)
    if datatype in _FLOATS:
        return _floats(where, datatype, values)
    of = {"BOOL": (bool, "neither true nor false"), "BYTES": (str, "no text")}.get(datatype)
    if of is None:
        refuse("%s: there is no datatype %r", where, datatype)
    for i, v in enumerate(values):
        if not isinstance(v, of[0]):
            refuse("%s: data[%d]: %r is %s", where, i, v, of[1])
    if datatype == "BOOL":
        return bytes(values)
    return pack_bytes(v.encode("utf-8") for v in values)


def check_parameters(value: Dict[str, Any]) -> None:
    """Checks the values of parameters. DeclarationError."""
    for k, v in value.items():
        if not isinstance(v, (int, float, str)) or (isinstance(v, int) and not -(2**63) <= v < 2**64):
            refuse("parameter %r is a boolean, a number or a text, not %r", k, v)


def as_parameters(value: Any) -> Dict[str, Any]:
    """The parameters of a request, checked, without those that the server handles. DeclarationError."""
    if not isinstance(value, dict):
        refuse("parameters must be an object")
    check_parameters(value)
    return {k: v for k, v in value.items() if k not in _HANDLED_BY_THE_SERVER}
