"""A worker by hand: docs/protocol/link.md in pure Python, so that it can also lie."""

import dataclasses
import fcntl
import mmap
import os
import socket
import struct
import time

import numpy as np

from .. import wait
from . import oip

HELLO, REGISTER, REGISTERED, UNREGISTER, OPEN, DATA, END, ERROR, STARTED, RECALL, RETURNED, BATCH, CANCEL, CREDIT, \
    CONTROL, ATTACH, DETACH, PING, PONG, DRAIN, GOODBYE = range(1, 22)
F_END, F_MSG, F_OPTIONAL = 0x01, 0x02, 0x80
CAP_RECALL, CAP_CANCEL, CAP_PAGE, CAP_CALLS, CAP_DRIVER = 1, 2, 4, 32, 64
TARGET = 25
ERROR_RETRY, ERROR_STARTED = 1, 2
INLINE, FRAME_MAX = 65536, 1 << 20
MAGIC, PAGE_MAGIC, PAGE_SIZE = 0x4B4C5341, 0x47505341, 4096
DATATYPES = ["", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32",
             "FP64", "BYTES", "BF16"]
PARAM_CODES = {1: "<?7x", 2: "<q", 4: "<d", 5: "<Q"}


def pad(data, to):
    return data + bytes(-len(data) % to)


def frame(type, payload=b"", stream=0, flags=0):
    return pad(struct.pack("<IBBHQ", len(payload), type, flags, 0, stream) + payload, 64)


# --- messages ---

def tensor_record(name, datatype, shape, offset, length):
    name = name.encode() if isinstance(name, str) else name
    return (struct.pack("<HBBIQQQ", len(name), datatype, len(shape), 0, 0, offset, length)
            + struct.pack(f"<{len(shape)}q", *shape) + pad(name, 8))


def param_record(name, value):
    name, text = name.encode(), b""
    if isinstance(value, bool):
        kind, raw = 1, struct.pack("<Q", value)
    elif isinstance(value, int):
        kind, raw = 2, struct.pack("<q", value)
    elif isinstance(value, float):
        kind, raw = 4, struct.pack("<d", value)
    else:
        kind, raw, text = 3, bytes(8), value.encode()
    return struct.pack("<HBBI", len(name), kind, 0, len(text)) + raw + pad(name + text, 8)


def body_of(arrays):
    """(offsets, bytes): each tensor at a multiple of 64, the last one not padded."""
    offsets, body = [], b""
    for array in arrays:
        body = pad(body, 64)
        offsets.append(len(body))
        body += oip.raw_of(array)
    return offsets, body


def message_payload(table, n_tensors, n_params, body, service=0, body_len=None):
    """Fixed part, table and inline body of an answer."""
    n = len(body) if body_len is None else body_len
    head = struct.pack("<QQQIIIIII", 0, service, n, n_tensors, n_params, 0, 0, len(table), 0) + table
    return pad(head + bytes(16), 64)[:-16] + body if body and n <= INLINE else head


def message(stream, outputs, parameters=None, service=0, more=False):
    """All frames of an answer, or, with `more`, of one message of it."""
    end = 0 if more else F_END
    arrays = {name: np.asarray(a) for name, a in outputs.items()}
    offsets, body = body_of(arrays.values())
    table = b"".join(tensor_record(name, DATATYPES.index(oip.datatype_of(a)), a.shape, at, len(oip.raw_of(a)))
                     for (name, a), at in zip(arrays.items(), offsets))
    table += b"".join(param_record(k, v) for k, v in (parameters or {}).items())
    payload = message_payload(table, len(arrays), len(parameters or {}), body, service)
    if len(body) <= INLINE:
        return frame(DATA, payload, stream, F_MSG | end)
    parts = [body[i:i + FRAME_MAX - 16] for i in range(0, len(body), FRAME_MAX - 16)]
    return frame(DATA, payload, stream, F_MSG) + b"".join(
        frame(DATA, part, stream, end if i + 1 == len(parts) else 0) for i, part in enumerate(parts))


def error(stream, code, text=b"", flags=0, service=0):
    return frame(ERROR, struct.pack("<IIQII", code, flags, service, len(text), 0) + text, stream)


def hello(token, replica, deployment, capabilities=CAP_RECALL | CAP_CANCEL, low=1, high=1, magic=MAGIC,
          max_message=1 << 40):
    texts = [t.encode() if isinstance(t, str) else t for t in (token, replica, deployment, "by hand")]
    return frame(HELLO, struct.pack("<IHHQQQIHHHHI", magic, low, high, capabilities, 0, max_message, os.getpid(),
                                    *map(len, texts), 0) + b"".join(texts))


def signature_entry(name, datatype, shape, labels=()):
    name = name.encode()
    texts = b"".join(struct.pack("<H", len(t)) + t for t in labels)
    return (struct.pack("<HBBI", len(name), DATATYPES.index(datatype), len(shape), len(labels))
            + struct.pack(f"<{len(shape)}q", *shape) + pad(name, 8) + pad(texts, 8))


def register(name, version="1", model=0, max_ongoing=1, budget=1, max_queued=0, idempotent=False, inputs=None,
             outputs=None, platform="by hand", decoupled=False, streams_inputs=False, opaque=False):
    """inputs, outputs: rows of name, datatype, shape, and labels (bytes) if any; None: not declared."""
    texts = [t.encode() if isinstance(t, str) else t for t in (name, version, platform)]
    flags = idempotent * 1 | (inputs is not None) * 2 | (outputs is not None) * 4 | decoupled * 8 | streams_inputs * 16 | opaque * 32
    entries = [signature_entry(*row) for row in (*(inputs or ()), *(outputs or ()))]
    return frame(REGISTER, struct.pack("<IHHHHIIIqII", model, *map(len, texts), flags, max_ongoing, budget, 0,
                                       max_queued, len(inputs or ()), len(outputs or ()))
                 + b"".join(entries) + b"".join(texts))


def credit(slots, prefetch=0, stream=0, messages=0, bytes=0):
    return frame(CREDIT, struct.pack("<IIIIQ", slots, prefetch, messages, 0, bytes), stream)


def end(stream, service=0):
    return frame(END, struct.pack("<Q", service), stream)


def ids(type, streams):
    return frame(type, struct.pack(f"<{len(streams)}Q", *streams))


# --- calls ---

def target(number, application, deployment):
    texts = application.encode(), deployment.encode()
    return frame(TARGET, struct.pack("<IHH", number, *map(len, texts)) + b"".join(texts))


def pickled(data, method=""):
    """A payload body without buffers and parts."""
    return struct.pack("<BBHIQII", 1, 0, len(method), 0, len(data), 0, 0) + pad(method.encode(), 8) + data


def open_call(stream, body, target=0, parent=0, flags=0, body_len=None, end=True):
    """OPEN of a call. A body of more than INLINE bytes follows in DATA frames; body_len: only announced, so far."""
    n = len(body) if body_len is None else body_len
    head = struct.pack("<BBHIQQQIIII", 3, 0, 0, target, 0, n, parent, 0, 0, 0, flags)
    if n <= INLINE:
        return frame(OPEN, pad(head + bytes(16), 64)[:-16] + body, stream, F_END)
    parts = [body[i:i + FRAME_MAX - 16] for i in range(0, len(body), FRAME_MAX - 16)]
    return frame(OPEN, head, stream) + b"".join(
        frame(DATA, part, stream, F_END if end and i + 1 == len(parts) else 0) for i, part in enumerate(parts))


# --- what comes in ---

@dataclasses.dataclass
class Frame:
    type: int
    flags: int
    stream: int
    payload: bytes


@dataclasses.dataclass
class Request:
    """An OPEN, decoded."""
    stream: int
    target: int
    timeout: int
    id: str
    inputs: dict
    parameters: dict
    headers: dict


class Reader:
    """Takes records out of a table."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, n):
        self.at += n
        assert self.at <= len(self.data)
        return self.data[self.at - n:self.at]

    def unpack(self, code):
        return struct.unpack(code, self.bytes(struct.calcsize(code)))

    def align(self):
        self.at += -self.at % 8


def decode_open(f, body=None):
    """(Request, None), or (None, bytes of the body that are still to come)."""
    kind, _, zero, target, timeout, body_len, n_tensors, n_params, n_headers, id_len, table_len, zero2 = struct.unpack(
        "<BBHIQQIIIIII", f.payload[:48])
    assert (kind, zero, zero2) == (1, 0, 0)
    if body is None:
        if body_len > INLINE:
            assert not f.flags & F_END
            return None, body_len
        assert f.flags & F_END
        body = f.payload[len(f.payload) - body_len:]
        assert not body_len or (16 + len(f.payload) - body_len) % 64 == 0
    r, tensors, parameters, headers = Reader(f.payload[48:48 + table_len]), [], {}, {}
    for _ in range(n_tensors):
        n, datatype, ndim, place, zero, offset, length = r.unpack("<HBBIQQQ")
        assert (place, zero, offset % 64) == (0, 0, 0)
        shape = r.unpack(f"<{ndim}q")
        tensors.append((r.bytes(n).decode(), DATATYPES[datatype], shape, body[offset:offset + length]))
        r.align()
    for _ in range(n_params):
        n, kind, zero, n_text, raw = r.unpack("<HBBI8s")
        name = r.bytes(n).decode()
        parameters[name] = r.bytes(n_text).decode() if kind == 3 else struct.unpack(PARAM_CODES[kind], raw)[0]
        r.align()
    for _ in range(n_headers):
        n_key, n_value = r.unpack("<II")
        key = r.bytes(n_key).decode()
        headers[key] = r.bytes(n_value)
        r.align()
    request_id = r.bytes(id_len).decode()
    r.align()
    assert r.at == table_len
    inputs = {name: oip.array_of(datatype, shape, raw) for name, datatype, shape, raw in tensors}
    return Request(f.stream, target, timeout, request_id, inputs, parameters, headers), None


# --- the status page ---

class Page:
    def __init__(self, seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW, size=PAGE_SIZE, magic=PAGE_MAGIC):
        self.fd = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        struct.pack_into("<II", self.map, 0, magic, 1)
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)

    def started(self, stream):
        struct.pack_into("<Q", self.map, 8, stream)

    def close(self):
        self.map.close()
        os.close(self.fd)


# --- the worker ---

class Worker:
    """One link. With deployment given, it greets; serve(model) makes it ready."""

    def __init__(self, server, deployment="hand", replica="hand-0", token=None, page=None, greet=True, capabilities=0):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(wait.SECONDS)
        self.sock.connect(server.link_path())
        self._in = b""
        self.cancelled = {}  # stream → reason
        self._bodies = {}  # stream → [OPEN, bytes so far, bytes to come]
        if greet:
            capabilities = CAP_RECALL | CAP_CANCEL | (CAP_PAGE if page else 0) | capabilities
            self.send(hello(token or server.join_token(), replica, deployment, capabilities), page and page.fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data, fd=None):
        if fd is None:
            self.sock.sendall(data)
        else:
            assert socket.send_fds(self.sock, [data], [fd]) == len(data)

    def _fill(self, n):
        """False at the end of the socket."""
        while len(self._in) < n:
            try:
                data = self.sock.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                return False
            self._in += data
        return True

    def read(self):
        """The next frame, or None when the link has ended."""
        if not self._fill(16):
            return None
        n, kind, flags, zero, stream = struct.unpack("<IBBHQ", self._in[:16])
        total = 16 + n + (-(16 + n) % 64)
        if not self._fill(total):
            return None
        payload, rest, self._in = self._in[16:16 + n], self._in[16 + n:total], self._in[total:]
        assert zero == 0 and not any(rest)
        return Frame(kind, flags, stream, payload)

    def next(self, *types):
        """The next frame of these types; PING and CONTROL are answered in between, CANCEL is kept."""
        end = time.monotonic() + wait.SECONDS
        while True:
            f = self.read()
            assert f, f"the link ended, {types} did not come"
            assert time.monotonic() < end, f"{types} did not come"
            if f.type in types:
                return f
            if f.type == PING:
                self.send(frame(PONG, f.payload))
            elif f.type == CONTROL:
                op = struct.unpack("<H", f.payload[:2])[0]
                self.send(frame(CONTROL, struct.pack("<HHIII", op, 1, 0, 0, 0), f.stream))
            elif f.type == CANCEL:
                self.cancelled[f.stream] = struct.unpack("<Q", f.payload)[0]
            else:
                raise AssertionError(f"{f} came, not one of {types}")

    def greeted(self):
        """The dispatcher's HELLO: (epoch, replica, deployment)."""
        f = self.next(HELLO)
        magic, low, high, _, epoch, _, _, *lengths, zero = struct.unpack("<IHHQQQIHHHHI", f.payload[:48])
        assert (magic, low, high, zero) == (MAGIC, 1, 1, 0)
        r = Reader(f.payload[48:])
        _, replica, deployment, _ = (r.bytes(n).decode() for n in lengths)
        return epoch, replica, deployment

    def register(self, name, **fields):
        """(target, code, message) of the answer."""
        self.send(register(name, **fields))
        f = self.next(REGISTERED)
        model, target, code, n = struct.unpack("<IIII", f.payload[:16])
        assert model == fields.get("model", 0)
        return target, code, f.payload[16:16 + n].decode()

    def serve(self, name, slots=1, prefetch=0, **fields):
        """Registers one model and grants slots; its target."""
        self.greeted()
        target, code, text = self.register(name, budget=slots, max_ongoing=slots, **fields)
        assert code == 0, text
        self.send(credit(slots, prefetch))
        return target

    def take(self):
        """The next request, whole."""
        while True:
            f = self.next(OPEN, DATA)
            if f.type == OPEN:
                request, left = decode_open(f)
                if request:
                    return request
                self._bodies[f.stream] = [f, b"", left]
                continue
            row = self._bodies[f.stream]
            row[1] += f.payload
            assert len(row[1]) <= row[2]
            assert bool(f.flags & F_END) == (len(row[1]) == row[2])
            if f.flags & F_END:
                first, body, _ = self._bodies.pop(f.stream)
                return decode_open(first, body)[0]

    def answer(self, request, outputs=None, **fields):
        self.send(message(request.stream, request.inputs if outputs is None else outputs, **fields))

    def wait_end(self):
        """What the dispatcher said before it ended the link: its GOODBYE, or nothing."""
        said = ""
        while f := self.read():
            if f.type == GOODBYE:
                said = f.payload.decode()
        return said
