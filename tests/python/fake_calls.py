"""The dispatcher of fake.py, for workers that serve calls and make calls: link.md section 16."""

import pickle
import struct
import sys
from pathlib import Path

from fake import CREDIT, DATA, END, END_FRAME, ERROR, FRAME_MAX, INLINE, MSG, OPEN, STATUS, Refused, Worker, frame, pad

TARGET, REPORT = 25, 26
CALLS = 0x20
STREAM, BEYOND = 1, 2
PICKLE, BYTES, EXCEPTION = 1, 2, 1
HARNESS = Path(__file__).with_name("serve_worker.py")


def pack(data, buffers=(), parts=(), method="", codec=PICKLE, flags=0):
    """The bytes of a payload body."""
    name, pieces = method.encode(), [*buffers, *parts]
    out = struct.pack("<BBHIQII", codec, flags, len(name), len(buffers), len(data), len(parts), 0)
    out += struct.pack(f"<{len(pieces)}Q", *map(len, pieces)) + pad(name, 8) + data
    for piece in pieces:
        out = pad(out, 64) + bytes(piece)
    return out


class Body:
    """A payload body that came from the worker."""

    def __init__(self, raw):
        self.raw = raw = bytes(raw)
        self.codec, self.flags, n_name, n_buffers, n_data, n_parts, lease = struct.unpack_from("<BBHIQII", raw)
        assert lease == 0
        at = 24
        lengths = struct.unpack_from(f"<{n_buffers + n_parts}Q", raw, at)
        at += 8 * len(lengths)
        self.method = raw[at : at + n_name].decode()
        at += n_name + -n_name % 8
        self.data = raw[at : at + n_data]
        at += n_data
        pieces = []
        for n in lengths:
            at += -at % 64
            pieces.append(raw[at : at + n])
            at += n
        assert at == len(raw)
        self.buffers, self.parts = pieces[:n_buffers], pieces[n_buffers:]

    @property
    def value(self):
        return self.data if self.codec == BYTES else pickle.loads(self.data, buffers=self.buffers)


class Raised(Exception):
    """The answer is an exception: (type name, message, traceback)."""


class OpenedCall:
    """A call that the worker has opened."""

    def __init__(self, stream, payload):
        self.stream = stream
        kind, self.timeout, self.body_len, self.parent, n_meta, n_id, n_table, self.flags = struct.unpack_from("<QQQQIIII", payload)
        assert kind & 0xFF == 3
        self.target = kind >> 32
        at, self.meta = 48, {}
        for _ in range(n_meta):
            n_key, n_value = struct.unpack_from("<II", payload, at)
            text = payload[at + 8 : at + 8 + n_key + n_value].decode()
            self.meta[text[:n_key]] = text[n_key:]
            at += 8 + n_key + n_value + -(n_key + n_value) % 8
        self.id = payload[at : at + n_id].decode()
        at = 48 + n_table
        at += -(at + 16) % 64
        self.bytes = bytearray(payload[at:]) if self.body_len <= INLINE else bytearray()

    @property
    def body(self):
        return Body(self.bytes)


class CallWorker(Worker):
    """A worker of serve deployments. `deployments` of its app.py: name -> (class or function, args, kwargs, options)."""

    capabilities = 7 | CALLS
    credit = 1024, 64 << 20

    def __init__(self, *args, python=(sys.executable, str(HARNESS)), **kwargs):
        super().__init__(*args, python=python, **kwargs)

    def greet(self, refuse=0):
        self.targets, self.opened, self.reports, self.messages = {}, {}, {}, {}
        self.partial, self.granted, self.cancels = {}, {}, set()
        return super().greet(refuse)

    def after_hello(self):
        self.send(frame(CREDIT, struct.pack("<IIIIQ", 0, 0, self.credit[0], 0, self.credit[1])))

    def call(self, method="", *args, stream=False, meta=(), rid="r1", timeout=0, body=None, beyond=False, credit=None, **kwargs):
        """Sends a call; returns its stream."""
        number, self.next = self.next, self.next + 2
        (model,) = [m for m in self.models.values() if m.flags & 32]
        if body is None:
            buffers = []
            data = pickle.dumps((args, kwargs), protocol=5, buffer_callback=lambda b: buffers.append(b.raw()))
            body = pack(data, buffers, method=method)
        table = b""
        for key, value in meta:
            table += struct.pack("<II", len(key), len(value)) + pad((key + value).encode(), 8)
        table += pad(rid.encode(), 8)
        head = struct.pack("<QQQQIIII", model.number << 32 | 3, timeout, len(body), 0, len(meta), len(rid), len(table),
                           (STREAM if stream else 0) | (BEYOND if beyond else 0)) + table  # fmt: skip
        self.send(self._message(OPEN, number, head, body, END))
        if stream:
            messages, size = credit or (1 << 20, 1 << 40)
            self.send(frame(CREDIT, struct.pack("<IIIIQ", 0, 0, messages, 0, size), number))
        return number

    @staticmethod
    def _message(kind, stream, head, body, end, first=0):
        if len(body) <= INLINE:
            return frame(kind, pad(bytes(16) + head, 64)[16:] + body, stream, first | end)
        frames, step = [frame(kind, head, stream, first)], FRAME_MAX - 16
        for at in range(0, len(body), step):
            frames.append(frame(DATA, body[at : at + step], stream, end if at + step >= len(body) else 0))
        return b"".join(frames)

    def result(self, stream):
        """The value of the answer; raises Refused, or Raised."""
        return self.value_of(self.answer(stream))

    @staticmethod
    def value_of(body):
        if body.flags & EXCEPTION:
            raise Raised(*pickle.loads(body.data)[:3])
        return body.value

    def items(self, stream):
        """The values of the messages of a stream, as they come; raises Refused where it ends so, or Raised."""
        while True:
            queue = self.messages.get(stream, [])
            while queue:
                yield self.value_of(queue.pop(0))
            if stream in self.answers:
                last = self.answers.pop(stream)
                if isinstance(last, Exception):
                    raise last
                if last is not None:
                    yield self.value_of(last)
                return
            self._other(*self.receive())

    # --- calls of the worker ---

    def next_call(self):
        """The next call that the worker opens, when its body is here."""
        while True:
            for stream in sorted(self.opened):
                if len(self.opened[stream].bytes) == self.opened[stream].body_len:
                    return self.opened.pop(stream)
            self._other(*self.receive())

    def reply(self, call, value=None, end=True, **kwargs):
        """Sends a message of its answer; by default the only one, or the last."""
        buffers = []
        data = pickle.dumps(value, protocol=5, buffer_callback=lambda b: buffers.append(b.raw()))
        self.reply_body(call, pack(data, buffers, **kwargs), end)

    def reply_body(self, call, body, end=True):
        head = struct.pack("<QQQQIIII", 3, 0, len(body), 0, 0, 0, 0, 0)
        self.send(self._message(DATA, call.stream, head, body, END if end else 0, MSG))

    def end(self, call):
        self.send(frame(END_FRAME, bytes(8), call.stream))

    def refuse(self, call, status, text, flags=0):
        text = text.encode()
        self.send(frame(ERROR, struct.pack("<IIQII", STATUS.index(status), flags, 0, len(text), 0) + text, call.stream))

    def wait_for_cancel(self, call):
        while call.stream not in self.cancels:
            self._other(*self.receive())

    def _other(self, kind, flags, s, payload):
        if kind == TARGET:
            number, n_app, n_name = struct.unpack_from("<IHH", payload)
            text = payload[8 : 8 + n_app + n_name].decode()
            self.targets[number] = text[:n_app], text[n_app:]
        elif kind == REPORT:
            self.reports[struct.unpack_from("<I", payload)[0]] = payload[8:].decode()
        elif kind == OPEN:
            assert s % 2 == 0
            self.opened[s] = OpenedCall(s, payload)
        elif kind == 13 and s % 2 == 0:  # CANCEL
            self.cancels.add(s)
        elif kind == CREDIT and s and s % 2 == 0:
            messages = struct.unpack_from("<IIIIQ", payload)[2]
            self.granted[s] = self.granted.get(s, 0) + messages
        elif kind == DATA and s in self.opened and not flags & MSG:
            self.opened[s].bytes += payload
        elif kind == DATA and flags & MSG and payload[0] == 3:
            self._begin_answer(s, flags, payload)
        elif kind == DATA and s in self.partial:
            body, size = self.partial[s]
            body += payload
            if len(body) == size:
                del self.partial[s]
                self._add_answer(s, flags, Body(body))
        elif kind == END_FRAME:
            self.answers[s] = None
        else:
            super()._other(kind, flags, s, payload)

    def _begin_answer(self, s, flags, payload):
        first, _, size = struct.unpack_from("<QQQ", payload)
        assert first & 0xFF == 3
        at = 48 + -(48 + 16) % 64
        body = bytearray(payload[at:]) if size <= INLINE else bytearray()
        if len(body) == size:
            self._add_answer(s, flags, Body(body))
        else:
            self.partial[s] = body, size

    def _add_answer(self, s, flags, body):
        if flags & END:
            self.answers[s] = body
        else:
            self.messages.setdefault(s, []).append(body)


__all__ = ["BEYOND", "Body", "BYTES", "CallWorker", "EXCEPTION", "PICKLE", "Raised", "Refused", "pack"]
