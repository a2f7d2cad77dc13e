"""Protobuf by hand, for messages that no serializer would write."""

VARINT, I64, LEN, GROUP, END, I32 = 0, 1, 2, 3, 4, 5


def varint(n):
    out = bytearray()
    n &= (1 << 64) - 1
    while n >= 0x80:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def tag(number, wire):
    return varint(number << 3 | wire)


def field(number, value):
    """A length-delimited field of bytes or str, or a varint."""
    if isinstance(value, int):
        return tag(number, VARINT) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return tag(number, LEN) + varint(len(value)) + value


def _read_varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def fields(data):
    """(number, varint or bytes) of a message that has only those."""
    at = 0
    while at < len(data):
        key, at = _read_varint(data, at)
        value, at = _read_varint(data, at)
        if key & 7 == LEN:
            value, at = data[at:at + value], at + value
        yield key >> 3, value


def group(number, inner=b""):
    return tag(number, GROUP) + inner + tag(number, END)


def tensor(name="x", datatype="FP32", shape=(1,), contents=b""):
    dims = b"".join(varint(d) for d in shape)
    return field(1, name) + field(2, datatype) + (field(3, dims) if dims else b"") + contents


def request(model="echo", tensors=(), raws=(), extra=b""):
    return (field(1, model) + b"".join(field(5, t) for t in tensors) + b"".join(field(7, r) for r in raws) + extra)
