"""A raw HTTP/2 client, for what no gRPC library would send."""

import dataclasses
import socket

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from .. import wait
from . import oip

GOAWAY = 7  # type of frame


@dataclasses.dataclass
class Reply:
    headers: dict = dataclasses.field(default_factory=dict)
    trailers: dict = dataclasses.field(default_factory=dict)
    data: bytes = b""
    ended: bool = False
    reset: object = None  # error code of RST_STREAM

    @property
    def all(self):
        return {**self.headers, **self.trailers}

    @property
    def grpc_status(self):
        value = self.all.get("grpc-status")
        return None if value is None else int(value)

    @property
    def grpc_message(self):
        return self.all.get("grpc-message", "")


class H2:
    def __init__(self, host, port, tls=None):
        """tls: an ssl.SSLContext."""
        self.sock = socket.create_connection((host, port), wait.SECONDS)
        if tls:
            self.sock = tls.wrap_socket(self.sock, server_hostname=host)
        config = h2.config.H2Configuration(header_encoding="utf-8", validate_outbound_headers=False,
                                           normalize_outbound_headers=False)
        self.conn = h2.connection.H2Connection(config)
        self.replies = {}
        self.goaways = []  # last stream ids
        self._in = b""
        self.is_reading = True  # False: windows are not opened again
        self.deaf = set()  # streams whose own windows are not opened again
        self._unread = []
        self.conn.initiate_connection()
        self.flush()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def flush(self):
        if out := self.conn.data_to_send():
            self.sock.sendall(out)

    # --- sending ---

    def open(self, headers, end=False):
        stream = self.conn.get_next_available_stream_id()
        self.replies[stream] = Reply()
        self.conn.send_headers(stream, headers, end_stream=end)
        self.flush()
        return stream

    def open_grpc(self, method="ModelInfer", extra=(), end=False, content_type="application/grpc",
                  service=oip.SERVICE, te="trailers"):
        te = [("te", te)] if te else []
        return self.open([(":method", "POST"), (":scheme", "http"), (":path", f"/{service}/{method}"),
                          (":authority", "localhost"), ("content-type", content_type), *te, *extra], end)

    def send(self, stream, data, end=False):
        """As far as the server's window and patience allow: less when the stream was answered."""
        view = memoryview(data)
        while len(view) and not self.replies[stream].ended and self.replies[stream].reset is None:
            room = min(self.conn.local_flow_control_window(stream), self.conn.max_outbound_frame_size, len(view))
            if room == 0:
                self.read()
                continue
            self.conn.send_data(stream, bytes(view[:room]), end_stream=end and room == len(view))
            view = view[room:]
            self.flush()
        if not len(data) and end:
            self.conn.end_stream(stream)
            self.flush()

    def request(self, method, path, headers=(), body=None):
        """A plain HTTP request and its reply."""
        stream = self.open([(":method", method), (":scheme", "http"), (":path", path), (":authority", "localhost"),
                            *headers], end=body is None)
        if body is not None:
            self.send(stream, body, end=True)
        return self.reply(stream)

    def grpc(self, frames, method="ModelInfer", extra=(), content_type="application/grpc", service=oip.SERVICE):
        """A call whose body is exactly these bytes."""
        stream = self.open_grpc(method, extra, content_type=content_type, service=service)
        self.send(stream, frames, end=True)
        return self.reply(stream)

    # --- receiving ---

    def resume(self):
        """Opens the windows that were kept shut."""
        self.is_reading = True
        for n, stream in self._unread:
            self.conn.acknowledge_received_data(n, stream)
        self._unread = []
        self.flush()

    def read(self):
        """One read and its events; False at the end of the connection."""
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            data = b""
        if not data:
            return False
        for event in self.conn.receive_data(self._without_goaway(data)):
            self._on(event)
        self.flush()
        return True

    def _without_goaway(self, data):
        """Whole frames; GOAWAY is noted and withheld, because h2 takes it for the end of all streams."""
        self._in += data
        frames = b""
        while len(self._in) >= 9 and len(self._in) >= (total := 9 + int.from_bytes(self._in[:3], "big")):
            frame, self._in = self._in[:total], self._in[total:]
            if frame[3] == GOAWAY:
                self.goaways.append(int.from_bytes(frame[9:13], "big"))
            else:
                frames += frame
        return frames

    def _on(self, event):
        reply = self.replies.get(getattr(event, "stream_id", None))
        if reply is None:
            return
        if isinstance(event, h2.events.ResponseReceived):
            reply.headers = dict(event.headers)
        elif isinstance(event, h2.events.TrailersReceived):
            reply.trailers = dict(event.headers)
        elif isinstance(event, h2.events.DataReceived):
            reply.data += event.data
            if event.stream_id in self.deaf:
                self.conn.increment_flow_control_window(event.flow_controlled_length)  # the connection's alone
            elif self.is_reading:
                self.conn.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            else:
                self._unread.append((event.flow_controlled_length, event.stream_id))
        elif isinstance(event, h2.events.StreamEnded):
            reply.ended = True
        elif isinstance(event, h2.events.StreamReset):
            reply.reset = event.error_code

    def reply(self, stream):
        """The whole reply of a stream."""
        reply = self.replies[stream]
        while not reply.ended and reply.reset is None and self.read():
            pass
        return reply


def messages_of(data):
    """The messages of a body, as (compressed flag, bytes)."""
    found, at = [], 0
    while at < len(data):
        n = int.from_bytes(data[at + 1:at + 5], "big")
        assert len(data) >= at + 5 + n
        found.append((data[at], data[at + 5:at + 5 + n]))
        at += 5 + n
    return found


def prefixed(message, compressed=0, length=None):
    """A gRPC frame."""
    return bytes([compressed]) + (len(message) if length is None else length).to_bytes(4, "big") + message
