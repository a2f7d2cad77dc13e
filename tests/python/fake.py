"""A dispatcher in Python, for one worker at a time. It builds frames with struct and uses no code of ours.

It is written from docs/protocol/link.md alone, so it also shows that the page says enough.
"""

import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / os.environ.get("ANYSERVE_BUILD", "build/release") / "python"

# an interpreter that lacks the modules in $ANYSERVE_TEST_WITHOUT
WITHOUT = [sys.executable, str(ROOT / "tests/python/without.py")]

HELLO, REGISTER, REGISTERED, OPEN, DATA, END_FRAME, ERROR = 1, 2, 3, 5, 6, 7, 8
RECALL, RETURNED, CANCEL, CREDIT, CONTROL, PING, PONG = 10, 11, 13, 14, 15, 18, 19
DRAIN, GOODBYE, OPTIONS, TRAFFIC, ROUTER = 20, 21, 22, 24, 29
HEALTH, RECONFIGURE = 1, 2  # ops of CONTROL
END, MSG = 1, 2
INLINE = 64 << 10
FRAME_MAX = 1 << 20

DTYPES = ["", "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64",
          "FP16", "FP32", "FP64", "BYTES", "BF16"]  # fmt: skip
NUMPY = {"BOOL": "?", "UINT8": "u1", "UINT16": "u2", "UINT32": "u4", "UINT64": "u8", "INT8": "i1",
         "INT16": "i2", "INT32": "i4", "INT64": "i8", "FP16": "f2", "FP32": "f4", "FP64": "f8",
         "BF16": "V2"}  # fmt: skip
OF_NUMPY = {np.dtype(v): k for k, v in NUMPY.items()}
STATUS = ["OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
          "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
          "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
          "UNAUTHENTICATED"]  # fmt: skip


class Refused(Exception):
    """The worker answered with ERROR."""

    def __init__(self, code, flags, message):
        super().__init__(f"{STATUS[code]}: {message}")
        self.code, self.flags, self.message = STATUS[code], flags, message


def pad(b, to):
    return b + bytes(-len(b) % to)


def frame(kind, payload=b"", stream=0, flags=0):
    return pad(struct.pack("<IBBHQ", len(payload), kind, flags, 0, stream) + payload, 64)


def raw_of(value):
    """(datatype, shape, bytes) of an array, a list of bytes, or of such a triple itself."""
    if isinstance(value, tuple):
        return value
    if isinstance(value, list):
        return "BYTES", [len(value)], b"".join(struct.pack("<I", len(b)) + b for b in value)
    return OF_NUMPY[value.dtype], list(value.shape), value.tobytes()


def encode_open(stream, target, inputs, params=(), meta=(), rid="", timeout=0, end=END):
    """The frames of one request; `end` 0: more messages may follow."""
    table, body = b"", b""
    for name, value in inputs.items():
        dtype, shape, data = raw_of(value)
        body = pad(body, 64)
        n = name.encode()
        table += struct.pack("<IIQQQ", len(n) | DTYPES.index(dtype) << 16 | len(shape) << 24, 0, 0,
                             len(body), len(data))  # fmt: skip
        table += struct.pack(f"<{len(shape)}q", *shape) + pad(n, 8)
        body += data
    for name, value in dict(params).items():
        n, s = name.encode(), b""
        kind, v = 2, 0
        if isinstance(value, bool):
            kind, v = 1, struct.pack("<Q", value)
        elif isinstance(value, int):
            kind, v = (2, struct.pack("<q", value)) if value < 2**63 else (5, struct.pack("<Q", value))
        elif isinstance(value, float):
            kind, v = 4, struct.pack("<d", value)
        else:
            kind, v, s = 3, bytes(8), value.encode()
        table += struct.pack("<II", len(n) | kind << 16, len(s)) + v + pad(n + s, 8)
    for key, value in meta:
        k, v = key.encode(), value if isinstance(value, bytes) else value.encode()
        table += struct.pack("<II", len(k), len(v)) + pad(k + v, 8)
    table += pad(rid.encode(), 8)
    fixed = struct.pack("<QQQIIIIQ", target << 32 | 1, timeout, len(body), len(inputs),
                        len(dict(params)), len(meta), len(rid.encode()), len(table))  # fmt: skip
    if len(body) > INLINE:
        frames = [frame(OPEN, fixed + table, stream)]
        step = FRAME_MAX - 16
        for at in range(0, len(body), step):
            piece = body[at : at + step]
            frames.append(frame(DATA, piece, stream, end if at + step >= len(body) else 0))
        return b"".join(frames)
    head = fixed + table
    if body:
        head = pad(bytes(16) + head, 64)[16:] + body
    return frame(OPEN, head, stream, end)


def encode_input(stream, inputs, rid=""):
    """A further message of a stream that takes several; its body is small."""
    as_open = encode_open(stream, 0, inputs, rid=rid, end=0)
    (n,) = struct.unpack_from("<I", as_open)
    payload = bytearray(as_open[16 : 16 + n])
    payload[0:1] = b"\0"  # the kind is said in OPEN alone
    return frame(DATA, bytes(payload), stream, MSG)


def encode_credit(stream, messages, nbytes):
    return frame(CREDIT, struct.pack("<IIIIQ", 0, 0, messages, 0, nbytes), stream)


class Answer:
    """Outputs (arrays; lists of bytes for BYTES) and parameters of one response."""

    def __init__(self, payload):
        (_, self.service, self.body_len, n_tensors, n_params, _, _, _) = struct.unpack_from(
            "<QQQIIIIQ", payload
        )
        at = 48
        self.table, self.parameters = [], {}
        for _ in range(n_tensors):
            word, _, _, offset, nbytes = struct.unpack_from("<IIQQQ", payload, at)
            at += 32
            n, ndim = word & 0xFFFF, word >> 24
            shape = list(struct.unpack_from(f"<{ndim}q", payload, at))
            at += 8 * ndim
            name = payload[at : at + n].decode()
            at += n + -n % 8
            self.table.append((name, DTYPES[word >> 16 & 0xFF], shape, offset, nbytes))
        for _ in range(n_params):
            word, n_str = struct.unpack_from("<II", payload, at)
            n, kind, v = word & 0xFFFF, word >> 16, payload[at + 8 : at + 16]
            text = payload[at + 16 : at + 16 + n + n_str]
            at += 16 + (n + n_str) + -(n + n_str) % 8
            self.parameters[text[:n].decode()] = {
                1: lambda v=v: v[0] == 1,
                2: lambda v=v: struct.unpack("<q", v)[0],
                3: lambda t=text[n:]: t.decode(),
                4: lambda v=v: struct.unpack("<d", v)[0],
                5: lambda v=v: struct.unpack("<Q", v)[0],
            }[kind]()
        start = at + -(at + 16) % 64
        self.body = bytearray(payload[start:] if self.body_len <= INLINE else b"")
        self.datatypes = {row[0]: row[1] for row in self.table}

    def __getitem__(self, name):
        return self.outputs[name]

    @property
    def outputs(self):
        found = {}
        for name, dtype, shape, offset, nbytes in self.table:
            data = bytes(self.body[offset : offset + nbytes])
            assert offset % 64 == 0 and len(data) == nbytes
            if dtype == "BYTES":
                items = []
                while data:
                    n = struct.unpack_from("<I", data)[0]
                    items.append(data[4 : 4 + n])
                    data = data[4 + n :]
                assert len(items) == int(np.prod(shape))
                found[name] = items
            else:
                found[name] = np.frombuffer(data, NUMPY[dtype]).reshape(shape)
        return found


class Model:
    """The fields of a REGISTER frame."""

    def __init__(self, payload):
        (self.number, n_name, n_version, n_platform, self.flags, self.max_ongoing, self.budget, _,
         self.max_queued, n_in, n_out) = struct.unpack_from("<IHHHHIIIqII", payload)  # fmt: skip
        self.inputs, at = self._specs(payload, 40, n_in)
        self.outputs, at = self._specs(payload, at, n_out)
        self.name = payload[at : at + n_name].decode()
        self.version = payload[at + n_name : at + n_name + n_version].decode()
        if not self.flags & 2:
            self.inputs = None
        if not self.flags & 4:
            self.outputs = None
        self.idempotent = bool(self.flags & 1)

    @staticmethod
    def _specs(p, at, n):
        found = {}
        for _ in range(n):
            n_name, dtype, ndim, _ = struct.unpack_from("<HBBI", p, at)
            at += 8
            shape = None
            if ndim != 255:
                shape = list(struct.unpack_from(f"<{ndim}q", p, at))
                at += 8 * ndim
            found[p[at : at + n_name].decode()] = (DTYPES[dtype], shape)
            at += n_name + -n_name % 8
        return found, at


def read_options(payload):
    rows = [struct.unpack_from("<IIQ", payload, at) for at in range(0, len(payload), 16)]
    assert all(zero == 0 for _, zero, _ in rows)
    return {key: value for key, _, value in rows}


def read_router(payload):
    """policy, the header of sessions and {key: value} of a ROUTER frame."""
    n_policy, n_header, n, zero = struct.unpack_from("<4I", payload)
    rows = [struct.unpack_from("<IIQ", payload, 16 + 16 * i) for i in range(n)]
    texts = payload[16 + 16 * n :]
    assert zero == 0 and len(texts) == n_policy + n_header
    return texts[:n_policy].decode(), texts[n_policy:].decode(), {key: value for key, _, value in rows}


def read_traffic(payload):
    """canary (or None), mirror and fallback of a TRAFFIC frame; in parts of 100,000."""
    is_canary, canary, mirror, n = struct.unpack_from("<4I", payload)
    assert is_canary in (0, 1) and len(payload) == 16 + n
    return canary if is_canary else None, mirror, payload[16:].decode()


class Worker:
    """A worker process and the dispatcher's end of its link."""

    capabilities = 7

    def after_hello(self):
        """What a dispatcher sends directly after its HELLO."""

    def __init__(self, *args, python=(sys.executable,), cwd=None, env=None):
        self.folder = tempfile.TemporaryDirectory(prefix="as-py-", dir="/tmp")
        self.path = os.path.join(self.folder.name, "link")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.listener.settimeout(60)
        self.log = []
        self.printed = threading.Condition()
        self.process = subprocess.Popen(
            [*python, "-m", "anyserve.worker", *map(str, args)], cwd=cwd, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(PACKAGE), "ANYSERVE_LINK": self.path,
                 "ANYSERVE_TOKEN": "t0ken", "ANYSERVE_REPLICA": "test#0", **(env or {})},
        )  # fmt: skip
        self.reader = threading.Thread(target=self._read_log, daemon=True)
        self.reader.start()
        self.sock = None

    def _read_log(self):
        for line in self.process.stdout:
            with self.printed:
                self.log.append(line)
                self.printed.notify_all()

    @property
    def output(self):
        return "".join(self.log)

    def wait_output(self, *texts, timeout=30):
        """Waits until all of them were printed, since the pipe is slower than the link."""
        with self.printed:
            assert self.printed.wait_for(lambda: all(t in self.output for t in texts), timeout), self.output

    def wait_output_after(self, length, *texts, timeout=30):
        """The same, in what follows the first `length` characters."""
        with self.printed:
            came = self.printed.wait_for(lambda: all(t in self.output[length:] for t in texts), timeout)
            assert came, self.output[length:]

    # --- the link ---

    def send(self, data):
        self.sock.sendall(data)

    def _exactly(self, n):
        while len(self.buffer) < n:
            data = self.sock.recv(1 << 20)
            if not data:
                raise EOFError
            self.buffer += data
        data = bytes(self.buffer[:n])
        del self.buffer[:n]
        return data

    def receive(self):
        """(type, flags, stream, payload) of the next frame."""
        head = self._exactly(64)
        n, kind, flags, zero, stream = struct.unpack_from("<IBBHQ", head)
        assert zero == 0
        rest = self._exactly((16 + n + -(16 + n) % 64) - 64)
        return kind, flags, stream, (head + rest)[16 : 16 + n]

    def expect(self, kind):
        got = self.receive()
        assert got[0] == kind, got
        return got

    def greet(self, refuse=0):
        """Accepts and registers until the worker has granted its slots."""
        self.sock, _ = self.listener.accept()
        self.sock.settimeout(60)
        self.buffer, self.models, self.next, self.answers = bytearray(), {}, 1, {}
        self.options, self.traffic, self.router = {}, None, None
        data, fds, _, _ = socket.recv_fds(self.sock, 1 << 20, 4)
        self.buffer += data
        self.page = fds[0]
        _, _, _, hello = self.expect(HELLO)
        lens = struct.unpack_from("<4H", hello, 36)
        texts, at = [], 48
        for n in lens:
            texts.append(hello[at : at + n].decode())
            at += n
        self.token, self.replica, self.deployment, self.peer = texts
        self.send(frame(HELLO, struct.pack("<IHHQQQI4HI", 0x4B4C5341, 1, 1, self.capabilities, 1, 1 << 30, 1, 0, 0,
                                           0, 0, 0)))  # fmt: skip
        self.after_hello()
        while True:
            kind, _, _, payload = self.receive()
            if kind == CREDIT:
                self.slots, self.prefetch = struct.unpack_from("<II", payload)
                return self
            if kind == OPTIONS:
                self.options = read_options(payload)
                continue
            if kind == TRAFFIC:
                assert not self.models, "a canary must be known before its models"
                self.traffic = read_traffic(payload)
                continue
            if kind == ROUTER:
                self.router = read_router(payload)
                continue
            assert kind == REGISTER
            m = Model(payload)
            self.models[m.name, "calls" if m.flags & 32 else m.version] = m
            text = b"not here" if refuse else b""
            self.send(frame(REGISTERED, struct.pack("<IIII", m.number, m.number, refuse, len(text)) + text))
            if refuse:
                return self

    def ask(self, name, inputs=None, version="1", params=(), meta=(), rid="", timeout=0, credit=None):
        """Sends a request; returns its stream. A decoupled model is granted `credit`."""
        stream = self.next
        self.next += 2
        model = self.models[name, version]
        end = 0 if model.flags & 16 else END
        frames = encode_open(stream, model.number, inputs or {}, params, meta, rid, timeout, end)
        if model.flags & 8:
            frames += encode_credit(stream, *(credit or (1 << 20, 1 << 40)))
        self.send(frames)
        return stream

    def parts(self, stream):
        """The Answers of a stream as they come, until its end; raises Refused where it ends so. Small ones."""
        while True:
            kind, flags, s, payload = self.receive()
            if s != stream:
                self._other(kind, flags, s, payload)
            elif kind == ERROR:
                code, eflags, _, n, _ = struct.unpack_from("<IIQII", payload)
                raise Refused(code, eflags, payload[24 : 24 + n].decode())
            elif kind == END_FRAME:
                return
            elif kind == DATA:
                yield Answer(payload)
                if flags & END:
                    return
            else:
                assert kind == CREDIT, kind

    def end_inputs(self, stream):
        self.send(frame(END_FRAME, bytes(8), stream))

    def _other(self, kind, flags, s, payload):
        if kind == PING:
            self.send(frame(PONG, payload))
        elif kind == ERROR:
            code, eflags, _, n, _ = struct.unpack_from("<IIQII", payload)
            self.answers[s] = Refused(code, eflags, payload[24 : 24 + n].decode())
        elif kind == OPTIONS:
            self.options = read_options(payload)
        elif kind == TRAFFIC:
            self.traffic = read_traffic(payload)
        elif kind == ROUTER:
            self.router = read_router(payload)
        elif kind == CREDIT and s == 0:
            self.slots, self.prefetch = struct.unpack_from("<II", payload)
        elif kind == CONTROL:
            op, reply, code, n, zero = struct.unpack_from("<HHIII", payload)
            assert (reply, zero) == (1, 0)
            self.answers["control", s] = STATUS[code], payload[16 : 16 + n].decode()
        elif kind == DATA and flags & MSG:
            answer = Answer(payload)
            self.answers[s if flags & END else ("part", s)] = answer
        elif kind == DATA:
            self.answers["part", s].body += payload
            if flags & END:
                self.answers[s] = self.answers.pop(("part", s))
        else:
            raise AssertionError(f"frame type {kind}")

    def answer(self, stream):
        """The Answer of the stream; raises Refused. Others that come meanwhile are kept."""
        while stream not in self.answers:
            self._other(*self.receive())
        got = self.answers.pop(stream)
        if isinstance(got, Refused):
            raise got
        return got

    def infer(self, name, inputs=None, **kwargs):
        return self.answer(self.ask(name, inputs, **kwargs))

    def begin_control(self, op, text=""):
        """Sends a CONTROL; returns its stream."""
        stream, text = self.next + 1_000_000, text.encode()
        self.next += 2
        self.send(frame(CONTROL, struct.pack("<HHIII", op, 0, 0, len(text), 0) + text, stream))
        return stream

    def control_answer(self, stream):
        """(status, text)"""
        while ("control", stream) not in self.answers:
            self._other(*self.receive())
        return self.answers.pop(("control", stream))

    def control(self, op, text=""):
        return self.control_answer(self.begin_control(op, text))

    def cancel(self, stream, reason=1):
        self.send(frame(CANCEL, struct.pack("<Q", reason), stream))

    # --- the process ---

    def wait(self):
        """Waits until it ends by itself; returns its exit code."""
        code = self.process.wait(60)
        self.reader.join(60)
        return code

    def drain(self):
        """Ends it as a dispatcher does in good order."""
        self.send(frame(DRAIN))
        assert self.expect(GOODBYE)
        return self.wait()

    def close(self):
        self.process.kill()
        self.wait()
        if self.sock:
            self.sock.close()
        self.listener.close()
        self.folder.cleanup()
