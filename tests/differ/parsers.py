"""Three readers of HTTP/1.1: wire/h1/h1 (through h1_filter), llhttp (httptools) and h11.

Each gives for an input the complete requests that it read, and whether it found a fault behind them.
"""

import os
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import h11
import httptools

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("ANYSERVE_BUILD", "build/release")
FILTER = BUILD / "tests/differ/h1_filter"
# Fields that wire/h1/h1 keeps to itself.
HIDDEN = {b"connection", b"keep-alive", b"proxy-connection", b"upgrade", b"expect", b"transfer-encoding",
          b"host", b"content-type", b"te", b"grpc-timeout", b"grpc-encoding"}


@dataclass
class Request:
    method: bytes = b""
    path: bytes = b""
    host: bytes = b""
    headers: list = field(default_factory=list)  # names in lower case, without HIDDEN
    body: bytes = b""
    absolute: bool = False  # the target, so that its path and host need splitting


@dataclass
class Read:
    requests: list = field(default_factory=list)
    fault: str | None = None
    stopped: bool = False  # it reads no further for a reason that is no fault


# --- wire/h1/h1 ---

def ours(inputs):
    blob = b"".join(struct.pack("=I", len(i)) + i for i in inputs)
    out = subprocess.run([FILTER], input=blob, stdout=subprocess.PIPE, check=True).stdout
    at, results, read, request = 0, [], Read(), None
    while at < len(out):
        what, (n,) = out[at:at + 1], struct.unpack_from("=I", out, at + 1)
        text = out[at + 5:at + 5 + n]
        at += 5 + n
        if what == b"M":
            request = Request(method=text)
        elif what == b"P":
            request.path = text
        elif what == b"H":
            request.host = text
        elif what == b"N":
            request.headers.append((text,))
        elif what == b"V":
            request.headers[-1] += (text,)
        elif what == b"D":
            request.body += text
        elif what == b"E":
            read.requests.append(request)
        elif what == b"X":
            read.fault = text.decode()
        elif what == b".":
            results.append(read)
            read = Read()
    assert len(results) == len(inputs)
    return results


# --- the others ---

def _fill(request, headers):
    for name, value in headers:
        name, value = name.lower(), value.strip(b" \t")
        if name == b"host" and not request.host:
            request.host = value
        elif name not in HIDDEN:
            request.headers.append((name, value))
    return request


class _Llhttp:
    def __init__(self):
        self.read = Read()

    def on_message_begin(self):
        self.target, self.headers, self.body, self.trailers = b"", [], b"", False

    def on_url(self, url):
        self.target += url

    def on_header(self, name, value):
        if not self.trailers:
            self.headers.append((name, value))

    def on_headers_complete(self):
        self.trailers = True
        self.method = self.parser.get_method()

    def on_body(self, body):
        self.body += body

    def on_message_complete(self):
        request = Request(self.method, self.target, body=self.body, absolute=self.target[:1] not in (b"/", b"*"))
        self.read.requests.append(_fill(request, self.headers))
        self.read.stopped |= not self.parser.should_keep_alive()


def llhttp(data):
    reader = _Llhttp()
    reader.parser = httptools.HttpRequestParser(reader)
    try:
        reader.parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        reader.read.stopped = True
    except httptools.HttpParserError as e:
        reader.read.fault = str(e) or type(e).__name__
    return reader.read


def h11_(data):
    read, conn = Read(), h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    conn.receive_data(data)
    request = None
    try:
        while True:
            event = conn.next_event()
            if event in (h11.NEED_DATA, h11.PAUSED):
                return read
            if isinstance(event, h11.Request):
                request = Request(event.method, event.target,
                                  absolute=event.target[:1] not in (b"/", b"*"))
                _fill(request, event.headers)
            elif isinstance(event, h11.Data):
                request.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                read.requests.append(request)
                conn.send(h11.Response(status_code=404, headers=[(b"content-length", b"0")]))
                conn.send(h11.EndOfMessage())
                if conn.our_state is h11.MUST_CLOSE or conn.their_state is h11.MUST_CLOSE:
                    read.stopped = True
                    return read
                conn.start_next_cycle()
    except h11.RemoteProtocolError as e:
        read.fault = str(e)
        return read


# --- judgement ---

def _same(a, b):
    """Is b, read by another, the request a of ours?"""
    path, host = b.path, a.host
    if b.absolute:
        rest = path.split(b"://", 1)[-1]
        cut = min((i for i in (rest.find(b"/"), rest.find(b"?")) if i >= 0), default=len(rest))
        path = rest[cut:] if rest[cut:cut + 1] == b"/" else b"/" + rest[cut:]
    else:
        host = b.host
    headers = [h for h in a.headers if h[0] not in HIDDEN]  # what came twice is shown
    theirs = [h for h in b.headers]
    return (a.method, a.path, a.host, headers, a.body) == (b.method, path, host, theirs, b.body)


def judge(data, mine, others):
    """What is wrong with our reading: None, or a text. Others: {name: Read}."""
    for i, request in enumerate(mine.requests):
        accepted = 0
        undecided = 0
        for name, read in others.items():
            if i < len(read.requests):
                accepted += 1
                if not _same(request, read.requests[i]):
                    return f"request {i + 1} differs from {name}'s: {request} {read.requests[i]}"
            elif read.fault is None:
                undecided += 1  # it stopped, or waits for more
        if not accepted and not undecided:
            return f"request {i + 1} is accepted by us alone: {[r.fault for r in others.values()]}"
    return None
