"""Turns values that users write into the arrays that handlers get, for requests that are made in Python."""

from __future__ import annotations

import collections.abc
import struct
from typing import Any, Dict, Iterable

import numpy as np

_DATATYPES = {np.dtype(t.lower()): t for t in
              ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")}  # fmt: skip
_DATATYPES.update({np.dtype(np.bool_): "BOOL", np.dtype(np.float16): "FP16", np.dtype(np.float32): "FP32",
                   np.dtype(np.float64): "FP64"})  # fmt: skip


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
