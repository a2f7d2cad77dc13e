"""The dispatcher of fake_calls.py, for requests of HTTP: link.md section 17."""

import struct

from fake import CANCEL, CREDIT, DATA, END, END_FRAME, ERROR, INLINE, MSG, OPEN, Refused, frame, pad
from fake_calls import CallWorker

HTTP = 2
WINDOW = 256 << 10
WHOLE, BEYOND_HTTP = 4, 2


class Answer:
    """What the worker has answered to one request so far."""

    def __init__(self):
        self.status, self.headers, self.body = 0, [], bytearray()
        self.chunks = []  # the pieces of the body, as they came
        self.ended, self.error = False, None
        self.window = WINDOW

    def __getitem__(self, name):
        """The value of the only header of this name."""
        (value,) = [v for k, v in self.headers if k == name]
        return value

    def names(self):
        return [k for k, _ in self.headers]

    def add(self, piece):
        if piece:
            self.chunks.append(bytes(piece))
            self.body += piece


class HttpWorker(CallWorker):
    def greet(self, refuse=0):
        self.https, self.room = {}, {}
        return super().greet(refuse)

    def request(self, method="GET", path="/", body=b"", headers=(), *, root="", query="", whole=True, rid="r1", timeout=0,
                version=11, flags=0, scheme="http", peer="10.0.0.1:5000", server="127.0.0.1:8000", host="test"):  # fmt: skip
        """Sends a request with a small body, or without `whole` the first bytes of one; returns its stream."""
        stream, self.next = self.next, self.next + 2
        (model,) = [m for m in self.models.values() if m.flags & 32]
        texts = [t.encode() for t in (method, scheme, host, path, query, root, peer, server)]
        fields = [("host", host), *headers]
        table = struct.pack("<8I", *map(len, texts))
        for key, value in fields:
            k, v = key.encode("latin-1"), value.encode("latin-1")
            table += struct.pack("<II", len(k), len(v)) + pad(k + v, 8)
        table += rid.encode() + b"".join(texts)
        table = pad(table, 8)
        flags |= WHOLE if whole else 0
        head = struct.pack("<BBBBIQQQIIII", HTTP, 0, version, 0, model.number, timeout, len(body), 0, len(fields), len(rid),
                           len(table), flags) + table  # fmt: skip
        payload = pad(bytes(16) + head, 64)[16:] + body if body else head
        assert len(body) <= INLINE
        self.https[stream], self.room[stream] = Answer(), WINDOW
        self.send(frame(OPEN, payload, stream, END if whole else 0))
        return stream

    def more(self, stream, data=b"", end=False):
        """Further bytes of the body, as far as there is room."""
        while len(data) > self.room[stream]:
            piece, data = data[: self.room[stream]], data[self.room[stream] :]
            if piece:
                self.more(stream, piece)
            while not self.room[stream]:
                self._other(*self.receive())
        self.room[stream] -= len(data)
        self.send(frame(DATA, data, stream, END if end else 0))

    def cancel(self, stream, code=1):
        self.send(frame(CANCEL, struct.pack("<Q", code), stream))

    def grant(self, stream, n):
        self.https[stream].window += n
        self.send(frame(CREDIT, struct.pack("<IIIIQ", 0, 0, 0, 0, n), stream))

    def finish(self, stream, until=lambda a: a.ended, grant=True):
        """Reads until the answer is as wished, by default complete; raises Refused where it failed."""
        a = self.https[stream]
        while not until(a):
            if a.error:
                raise a.error
            if a.ended:
                raise AssertionError("the answer has ended")
            self._other(*self.receive())
            if grant and a.window < WINDOW // 2 and not a.ended:
                self.grant(stream, WINDOW)
        return a

    def fetch(self, *args, **kwargs):
        """One request and its whole answer."""
        return self.finish(self.request(*args, **kwargs))

    def _other(self, kind, flags, s, payload):
        a = self.https.get(s)
        if a is None:
            super()._other(kind, flags, s, payload)
            return
        assert not a.ended and not a.error, "a frame after the end"
        if kind == DATA and flags & MSG:
            self._head(a, payload)
        elif kind == DATA:
            assert a.status and len(payload) <= a.window, "a body before its head, or beyond its window"
            a.window -= len(payload)
            a.add(payload)
        elif kind == CREDIT:
            assert struct.unpack_from("<IIII", payload) == (0, 0, 0, 0)
            self.room[s] += struct.unpack_from("<Q", payload, 16)[0]
            return
        elif kind == ERROR:
            code, eflags, _, n, _ = struct.unpack_from("<IIQII", payload)
            a.error = Refused(code, eflags, payload[24 : 24 + n].decode())
        else:
            assert kind == END_FRAME, kind
            a.ended = True
        if flags & END:
            a.ended = True

    @staticmethod
    def _head(a, payload):
        kind, what, a_status, _, _, size, zero, n, zero2, n_table, zero3 = struct.unpack_from("<BBHIQQQIIII", payload)
        assert (kind, what, zero, zero2, zero3) == (HTTP, 1, 0, 0, 0) and not a.status and a_status > 100
        a.status = a_status
        at = 48
        for _ in range(n):
            n_key, n_value = struct.unpack_from("<II", payload, at)
            text = payload[at + 8 : at + 8 + n_key + n_value].decode("latin-1")
            a.headers.append((text[:n_key], text[n_key:]))
            at += 8 + n_key + n_value + -(n_key + n_value) % 8
        at = 48 + n_table
        at += -(at + 16) % 64
        a.add(payload[at : at + size] if size else b"")
        assert not size or at + size == len(payload)
