"""Bodies of calls and of their answers: docs/protocol/link.md, "payload bodies".

A body is a pickle (protocol 5) with its buffers beside it, so that arrays are neither copied into the pickle nor out of it:
they arrive as read-only views. Large bytes and texts go beside it, too, where they are an argument, a keyword argument or a
result, or stand in a list, tuple or dict that is one and has nothing but plain values; they arrive as what they were. What pickle cannot take (functions and classes of `__main__`, lambdas) goes by cloudpickle. The
answers of other calls stand in a body as they came, undecoded: its parts.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
import traceback
import types
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from ._arrays import lighten, lighten_call
from ._calls.transport import Argument, Held
from .exceptions import RayError, RayTaskError, made_error

__all__ = ["BYTES", "Body", "EXCEPTION", "PICKLE", "decode_answer", "decode_call", "decode_exception", "encode_answer",
           "encode_call", "encode_exception", "encode_plain_answer",
           "encode_plain_exception", "pack", "parse", "text_of", "traceback_of"]  # fmt: skip

PICKLE, BYTES = 1, 2  # codecs
EXCEPTION = 1  # a flag of answers

MAX_BUFFERS = 4096
MAX_PARTS = 256
MAX_METHOD = 1024
ALIGN = 64
_HEAD = struct.Struct("<BBHIQII")  # codec, flags, method_len, n_buffers, data_len, n_parts, lease
_MODULE_OF_SCRIPT = b"__main__"

Bytes = Union[bytes, bytearray, memoryview]


class Body(NamedTuple):
    """A body, apart from how it is laid out. A part is a whole body; while it is not there yet, its call."""

    data: Any
    buffers: Sequence[Any] = ()
    parts: Sequence[Any] = ()
    method: str = ""  # "": __call__
    codec: int = PICKLE
    flags: int = 0


# --- layout ---


def _up(n: int, to: int) -> int:
    return -n % to


def pack(body: Body) -> bytes:
    """The bytes of a body. ValueError: it is beyond what a body may have."""
    method = body.method.encode()
    data = memoryview(body.data).cast("B")
    buffers = [_flat(b) for b in body.buffers]
    parts = [_flat(p) for p in body.parts]
    _check_method(method)
    if len(buffers) > MAX_BUFFERS or len(parts) > MAX_PARTS:
        raise ValueError("a body has at most %d buffers and %d parts, not %d and %d"
                         % (MAX_BUFFERS, MAX_PARTS, len(buffers), len(parts)))  # fmt: skip
    out = bytearray(_HEAD.pack(body.codec, body.flags, len(method), len(buffers), data.nbytes, len(parts), 0))
    out += struct.pack("<%dQ" % (len(buffers) + len(parts)), *(b.nbytes for b in (*buffers, *parts)))
    out += method + bytes(_up(len(method), 8))
    out += data
    for piece in (*buffers, *parts):
        out += bytes(_up(len(out), ALIGN))
        out += piece
    return bytes(out)


def _check_method(name: bytes) -> None:
    if len(name) > MAX_METHOD:
        raise ValueError("a method's name has at most %d bytes, not %d" % (MAX_METHOD, len(name)))


def _flat(buffer: Any) -> memoryview:
    return buffer.raw() if isinstance(buffer, pickle.PickleBuffer) else memoryview(buffer).cast("B")


def parse(whole: Bytes) -> Body:
    """The body in these bytes, as read-only views of them. ValueError says what is wrong."""
    view = memoryview(whole).cast("B").toreadonly()
    size = view.nbytes
    if size < _HEAD.size:
        raise ValueError("a body of %d bytes is shorter than its head" % size)
    codec, flags, method_len, n_buffers, data_len, n_parts, lease = _HEAD.unpack_from(view)
    if codec not in (PICKLE, BYTES) or flags & ~EXCEPTION or lease:
        raise ValueError("codec %d, flags %d, lease %d: there are none such" % (codec, flags, lease))
    if n_buffers > MAX_BUFFERS or n_parts > MAX_PARTS:
        raise ValueError("a body has at most %d buffers and %d parts, not %d and %d"
                         % (MAX_BUFFERS, MAX_PARTS, n_buffers, n_parts))  # fmt: skip
    at = _HEAD.size + 8 * (n_buffers + n_parts)
    if at + method_len > size:
        raise ValueError("a body of %d bytes ends within its table" % size)
    lengths = struct.unpack_from("<%dQ" % (n_buffers + n_parts), view, _HEAD.size)
    method = str(view[at : at + method_len], "utf-8")
    at += method_len + _up(method_len, 8)
    if data_len > size or at + data_len > size:
        raise ValueError("a body of %d bytes ends within its data" % size)
    data = view[at : at + data_len]
    at += data_len
    pieces = []
    for n in lengths:
        at += _up(at, ALIGN)
        if n > size or at + n > size:
            raise ValueError("a body of %d bytes ends within its buffers" % size)
        pieces.append(view[at : at + n])
        at += n
    if at != size:
        raise ValueError("a body of %d bytes has %d beyond its end" % (size, size - at))
    return Body(data, pieces[:n_buffers], pieces[n_buffers:], method, codec, flags)


# --- pickles ---


class _Part:
    """The place of an argument that is the answer of another call."""

    __slots__ = ("index",)

    def __init__(self, index: int) -> None:
        self.index = index


class _PartPickler(pickle.Pickler):
    def persistent_id(self, value: Any) -> Optional[int]:
        return value.index if type(value) is _Part else None


class _PartUnpickler(pickle.Unpickler):
    def __init__(self, data: Any, buffers: Sequence[Any], parts: Sequence[Any]) -> None:
        super().__init__(io.BytesIO(data), buffers=buffers)
        self.parts = parts

    def persistent_load(self, index: Any) -> Any:
        return _value_of_part(self.parts[index])


def _value_of_part(part: Any) -> Any:
    body = part if isinstance(part, Body) else parse(part)
    value = decode_answer(body)
    if body.flags & EXCEPTION:
        raise value
    return value


def _by_cloudpickle(value: Any, take: Callable[[pickle.PickleBuffer], Any], parts: bool) -> bytes:
    from . import _pickler

    if not parts:
        return _pickler.dumps(value, take)

    class Pickler(_pickler.Pickler):
        persistent_id = _PartPickler.persistent_id

    out = io.BytesIO()
    Pickler(out, take).dump(value)
    return out.getvalue()


def _registered_by_value() -> bool:
    """Whether the program asked cloudpickle to send some module by value."""
    module = sys.modules.get("cloudpickle")
    return bool(module and module.list_registry_pickle_by_value())


# --- large bytes and texts ---

LARGE = 32 << 10  # bytes, or characters, from which on one goes beside the pickle: below, it costs as much as it saves
_MAX_SCAN = 16  # a longer list, tuple or dict is not looked into
_HEAVY = frozenset((bytes, bytearray, str))
_CONTAINERS = frozenset((list, tuple, dict))
_WATCHED = _HEAVY | _CONTAINERS
_PLAIN = frozenset((bytes, bytearray, str, int, float, bool, type(None)))


def _text(raw: Any) -> str:
    return str(raw, "utf-8", "surrogatepass")


class _Beside:
    """Pickles as the value, with the value's bytes beside the pickle. pickle itself offers no way for the built-in types."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __reduce__(self) -> Tuple[Any, ...]:
        value = self.value
        if type(value) is str:
            return _text, (pickle.PickleBuffer(value.encode("utf-8", "surrogatepass")),)
        if type(value) is bytearray:  # a copy: it may be changed before it is sent
            return bytearray, (pickle.PickleBuffer(bytes(value)),)
        return bytes, (pickle.PickleBuffer(value),)


def _is_heavy(value: Any) -> bool:
    """Whether it goes beside the pickle, or something in it does."""
    kind = type(value)
    if kind in _HEAVY:
        return len(value) >= LARGE
    if kind in _CONTAINERS and len(value) <= _MAX_SCAN:
        for v in value.values() if kind is dict else value:
            if type(v) in _HEAVY and len(v) >= LARGE:
                return True
    return False


def _beside(value: Any, made: Dict[int, Any]) -> Any:
    """What is pickled in place of the value. made: what was made so far in this pickle, by id: what is one object stays one."""
    if not _is_heavy(value):
        return value
    found = made.get(id(value))
    if found is None:
        found = made[id(value)] = _copy(value, made) if type(value) in _CONTAINERS else _Beside(value)
    return found


def _copy(value: Any, made: Dict[int, Any]) -> Any:
    """A list, tuple or dict with its large values beside the pickle; the same one if it has others than plain values, which
    could refer to it."""
    kind = type(value)
    if not all(type(v) in _PLAIN for v in (value.values() if kind is dict else value)):
        return value
    if kind is dict:
        return {k: _beside(v, made) for k, v in value.items()}
    return kind([_beside(v, made) for v in value])


_dumps = pickle.dumps


def _dump(value: Any) -> Tuple[bytes, List[pickle.PickleBuffer]]:
    """The pickle of what has no parts, and the buffers beside it."""
    buffers: List[pickle.PickleBuffer] = []
    try:
        data = _dumps(value, 5, buffer_callback=buffers.append)
    except (pickle.PicklingError, AttributeError, TypeError, NotImplementedError):
        return _dump_in_full(value)
    # a class of the driver's script is found by its name here, not in a replica
    if _MODULE_OF_SCRIPT in data or len(buffers) > MAX_BUFFERS or ("cloudpickle" in sys.modules and _registered_by_value()):
        return _dump_in_full(value)
    return data, buffers


def _dump_in_full(value: Any, parts: bool = False) -> Tuple[bytes, List[pickle.PickleBuffer]]:
    """The same for everything: parts, many buffers, what goes by cloudpickle."""
    buffers: List[pickle.PickleBuffer] = []

    def take(buffer: pickle.PickleBuffer) -> bool:
        """False: beside the pickle. Others than the first MAX_BUFFERS go into it."""
        if len(buffers) == MAX_BUFFERS:
            return True
        buffers.append(buffer)
        return False

    try:
        if parts:
            out = io.BytesIO()
            _PartPickler(out, protocol=5, buffer_callback=take).dump(value)
            data = out.getvalue()
        else:
            data = pickle.dumps(value, protocol=5, buffer_callback=take)
        if _MODULE_OF_SCRIPT not in data and not _registered_by_value():
            return data, buffers
    except (pickle.PicklingError, AttributeError, TypeError, NotImplementedError):
        pass  # cloudpickle says what is wrong, if it cannot either
    buffers.clear()
    return _by_cloudpickle(value, take, parts), buffers


def _load(data: Any, buffers: Sequence[Any], parts: Sequence[Any]) -> Any:
    if parts:
        return _PartUnpickler(data, [memoryview(b).toreadonly() for b in buffers], parts).load()
    if buffers:
        return pickle.loads(data, buffers=[memoryview(b).toreadonly() for b in buffers])
    return pickle.loads(data)


# --- calls ---


def _with_values(args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """The arguments with values in the place of those that stand for a value of this process."""

    def resolve(a: Any) -> Any:
        reply = a.reply if isinstance(a, Argument) else None
        return reply.value() if isinstance(reply, Held) else a

    return tuple(map(resolve, args)), {k: resolve(a) for k, a in kwargs.items()}


def encode_call(method: str, args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Body:
    """The body of a call. Its parts are the replies of those arguments that are an `Argument`, in order: the caller puts
    the bytes of their answers in their place when they are there (an answer with EXCEPTION fails the call instead)."""
    if len(method) > MAX_METHOD // 4:  # characters, of at most four bytes
        _check_method(method.encode())
    replies = [value.reply for value in args if isinstance(value, Argument)] if args else []
    if kwargs:
        replies += [value.reply for value in kwargs.values() if isinstance(value, Argument)]
    if replies and any(isinstance(r, Held) for r in replies):
        return encode_call(method, *_with_values(args, kwargs))
    for value in args if not kwargs else (*args, *kwargs.values()):
        if type(value) in _WATCHED and _is_heavy(value):
            made: Dict[int, Any] = {}
            args = tuple([_beside(a, made) for a in args])
            kwargs = {k: _beside(a, made) for k, a in kwargs.items()}
            break
    if replies:
        places = iter(range(len(replies)))
        args = tuple(_Part(next(places)) if isinstance(a, Argument) else a for a in args)
        kwargs = {k: _Part(next(places)) if isinstance(a, Argument) else a for k, a in kwargs.items()}
        if len(replies) > MAX_PARTS:
            raise ValueError("at most %d arguments of a call are responses, not %d" % (MAX_PARTS, len(replies)))
        data, buffers = _dump_in_full((args, kwargs), True)
    else:
        data, buffers = _dump(lighten_call(args, kwargs))
    return Body(data, buffers, replies, "" if method == "__call__" else method)


def decode_call(body: Body) -> Tuple[str, Tuple[Any, ...], Dict[str, Any]]:
    """Method, arguments and keyword arguments. Raises what unpickling raises; ValueError for a body that is no call."""
    if body.codec == BYTES:
        return body.method or "__call__", (bytes(body.data),), {}
    value = _load(body.data, body.buffers, body.parts)
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], tuple) or not isinstance(value[1], dict):
        raise ValueError("the body of a call is no pair of arguments and keyword arguments")
    return body.method or "__call__", value[0], value[1]


# --- answers ---


def encode_answer(value: Any) -> Body:
    """The body of a result, or of one of a stream's."""
    if type(value) in _WATCHED and _is_heavy(value):
        data, buffers = _dump(_beside(value, {}))
    else:
        data, buffers = _dump(lighten(value))
    return Body(data, buffers)


def encode_plain_answer(value: Any) -> Body:
    """The body of a result for a caller that sent bytes, in another language: TypeError if it is neither bytes nor text."""
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError("the caller sent bytes, so the answer must be bytes or str, not %s" % type(value).__name__)
    return Body(memoryview(value).cast("B"), codec=BYTES)


def decode_answer(body: Body) -> Any:
    """The result; for a body with EXCEPTION the exception, which is not raised."""
    if body.flags & EXCEPTION:
        return decode_exception(body)
    if body.codec == BYTES:
        return bytes(body.data)
    return _load(body.data, body.buffers, body.parts)


# --- exceptions ---


def _restore(kind: type, args: Tuple[Any, ...]) -> BaseException:
    """An exception whose class has an __init__ of its own, without calling it: it may want other arguments than `args`."""
    error = kind.__new__(kind, *args)
    for base in kind.__mro__:
        init = base.__dict__.get("__init__")
        if init is not None and not isinstance(init, types.FunctionType):
            init(error, *args)  # of the C class beneath, which keeps more than args
            break
    error.args = args
    return error  # type: ignore[no-any-return]


def _set_attributes(error: BaseException, attributes: Dict[str, Any]) -> None:
    error.__dict__.update(attributes)


def _reduce_exception(value: Any) -> Any:
    """For reducer_override: how an exception is pickled whose class has an __init__ of its own, and no __reduce__."""
    kind = type(value)
    if not issubclass(kind, BaseException) or not isinstance(kind.__init__, types.FunctionType):
        return NotImplemented
    if kind.__reduce__ is not BaseException.__reduce__ or kind.__reduce_ex__ is not object.__reduce_ex__:
        return NotImplemented
    # attributes apart, as they may refer to the exception itself
    return _restore, (kind, value.args), dict(value.__dict__), None, None, _set_attributes


class _ExceptionPickler(pickle.Pickler):
    """Of an exception and of what it has: others in its arguments, its attributes, or its group."""

    def reducer_override(self, value: Any) -> Any:
        return _reduce_exception(value)


def _dump_exception(error: BaseException) -> bytes:
    """The pickle of an exception, which has no buffers beside it."""
    out = io.BytesIO()
    try:
        _ExceptionPickler(out, protocol=5).dump(error)
        data = out.getvalue()
        if _MODULE_OF_SCRIPT not in data and not _registered_by_value():
            return data
    except (pickle.PicklingError, AttributeError, TypeError, NotImplementedError):
        pass  # as in _dump_in_full
    from . import _pickler

    class Pickler(_pickler.Pickler):
        def reducer_override(self, value: Any) -> Any:
            found = _reduce_exception(value)
            return super().reducer_override(value) if found is NotImplemented else found

    out = io.BytesIO()
    Pickler(out).dump(error)
    return out.getvalue()


def _type_name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else "%s.%s" % (kind.__module__, kind.__qualname__)


def traceback_of(error: BaseException) -> str:
    """As Python prints it, without the frames of this package at its beginning."""
    tb = error.__traceback__
    while tb is not None and tb.tb_next is not None and _is_ours(tb.tb_frame.f_globals.get("__name__", "")):
        tb = tb.tb_next
    try:
        return "".join(traceback.format_exception(type(error), error, tb)).rstrip("\n")
    except Exception:  # its __str__ fails
        return text_of(error)


def text_of(error: BaseException) -> str:
    """Its class and its text. Never fails."""
    try:
        return "%s: %s" % (type(error).__name__, error)
    except Exception:
        return "%s: <no text: its __str__ raises>" % _type_name(type(error))


def _is_ours(module: str) -> bool:
    return module.startswith("anyserve.") or module == "concurrent.futures.thread"


def dump_cause(cause: BaseException) -> Tuple[Optional[bytes], str]:
    """The pickle of an exception and its text; or None and why there is none."""
    try:
        pickled = _dump_exception(cause)
    except Exception as e:
        return None, "%s: %s" % (type(e).__name__, e)
    try:
        return pickled, str(cause)
    except Exception:
        return pickled, ""


def encode_exception(error: BaseException) -> Body:
    """The body of an exception that user code raised. Never fails."""
    text = traceback_of(error)
    cause = error.cause if isinstance(error, RayTaskError) else error
    pickled, message = dump_cause(cause)
    return Body(pickle.dumps((_type_name(type(cause)), message, text, pickled), protocol=5), flags=EXCEPTION)


def decode_exception(body: Body) -> BaseException:
    """The exception in a body with EXCEPTION, as callers get it. It is not raised."""
    if body.codec == BYTES:
        text = str(body.data, "utf-8", "replace")
        return made_error("RayError", text, RayError(text))
    return load_error(*pickle.loads(body.data))


def load_error(type_name: str, message: str, text: str, pickled: Optional[bytes]) -> RayTaskError:
    """The exception that callers get. message: where `pickled` is None, why it is."""
    why = message
    if pickled is not None:
        try:
            cause = pickle.loads(pickled)
            if isinstance(cause, BaseException):
                return made_error(type_name, text, cause)
            why = "it unpickles to %s" % type(cause).__name__
        except Exception as e:
            why = "%s: %s" % (type(e).__name__, e)
    lost = RayError("Exception %s isn't serializable: %s.\nOriginal exception details:\n%s" % (type_name, why, text))
    return RayTaskError(type_name, text, lost)


def encode_plain_exception(error: BaseException) -> Body:
    """The same for a caller that sent bytes, in another language: a text."""
    return Body(traceback_of(error).encode(errors="backslashreplace"), flags=EXCEPTION, codec=BYTES)
