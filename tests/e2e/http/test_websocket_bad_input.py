"""What is wrong in a handshake or in a frame ends that websocket with the code that RFC 6455 says, and nothing else."""

import contextlib
import socket

import pytest
from support import wait
from support.protocol.websocket import BINARY, CLOSE, PING, PONG, TEXT, Raw, connect, frame, handshake, page, start, wait_log

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = start(tmp_path_factory.mktemp("ws"), "--websocket-max-message", "100K", "--websocket-max-fragments", "8")
    yield s
    s.stop()


@pytest.fixture(scope="module")
def other(server):
    """A websocket that all of this does not concern."""
    with connect(server, "/echo") as ws:
        yield ws


@pytest.fixture(autouse=True)
def unharmed(other):
    yield
    other.send("still here")
    assert other.recv(timeout=wait.SECONDS) == "still here"


def status(server, request):
    with socket.create_connection((server.host, server.port), wait.SECONDS) as s, s.makefile("rb") as file:
        s.sendall(request)
        head = [file.readline()]
        while head[-1] not in (b"\r\n", b""):
            head.append(file.readline())
        length = [int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length")]
        return int(head[0].split()[1]), b"".join(head).decode().lower(), file.read(length[0]).decode() if length else ""


HANDSHAKES = [
    ({"key": ""}, 400, "sec-websocket-key is missing"),
    ({"key": "short"}, 400, "sec-websocket-key is not base64 of 16 bytes"),
    ({"fields": ["Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]}, 400, "a second sec-websocket-key"),
    ({"version": ""}, 426, "sec-websocket-version is missing"),
    ({"version": "8"}, 426, "sec-websocket-version is not 13"),
    ({"method": "POST"}, 400, "the method of a websocket's handshake is GET"),
    ({"fields": ["Content-Length: 3"]}, 400, "a websocket's handshake has no body"),
    ({"fields": ["Sec-WebSocket-Protocol: a b"]}, 400, "sec-websocket-protocol is not a list of tokens"),
]


@pytest.mark.parametrize(("change", "code", "why"), HANDSHAKES)
def test_handshakes(server, change, code, why):
    body = b"abc" if "Content-Length: 3" in change.get("fields", []) else b""  # an error waits for a short body
    got, head, text = status(server, handshake("/echo", **change) + body)
    assert (got, text) == (code, why)
    assert ("sec-websocket-version: 13" in head) == (code == 426)


def test_a_request_that_asks_for_no_websocket_is_an_ordinary_one(server):
    for change in ({"upgrade": ""}, {"connection": ""}, {"upgrade": "h2c"}, {"connection": "keep-alive"}):
        assert status(server, handshake("/log", **change))[0] == 200


FRAMES = [
    ("unmasked", [frame(TEXT, b"hi", mask=None)], 1002, "a frame without a mask"),
    ("reserved bit", [frame(TEXT, b"hi", reserved=0x40)], 1002, "a frame with a reserved bit"),
    ("reserved opcode", [frame(3, b"hi")], 1002, "a frame with a reserved opcode"),
    ("reserved control", [frame(11)], 1002, "a frame with a reserved opcode"),
    ("long ping", [b"\x89\xfe\x00\x7emask" + bytes(126)], 1002, "the head of a frame is malformed"),
    ("ping in parts", [frame(PING, b"x", fin=False)], 1002, "the head of a frame is malformed"),
    ("continuation", [frame(0, b"x")], 1002, "a continuation without a message"),
    ("two at once", [frame(TEXT, b"x", fin=False), frame(TEXT, b"y")], 1002, "a message inside another one"),
    ("length", [b"\x82\xfe\x00\x01mask"], 1002, "the head of a frame is malformed"),
    ("2^63", [b"\x82\xff\x80" + bytes(7) + b"mask"], 1002, "the head of a frame is malformed"),
    ("huge", [b"\x82\xff\x7f" + b"\xff" * 7 + b"mask1"], 1009, "a message that is too big"),
    ("too big", [b"\x82\xff" + (100 * 1024 + 1).to_bytes(8, "big") + b"mask1"], 1009, "a message that is too big"),
    ("too big together", [frame(BINARY, bytes(102400), fin=False), frame(0, b"x")], 1009, "a message that is too big"),
    ("many fragments", [frame(TEXT, b"", fin=False), *[frame(0, b"", fin=False)] * 8], 1009, "a message of too many fragments"),
    ("bad UTF-8", [frame(TEXT, b"\xc0\x80")], 1007, "a text is not UTF-8"),
    ("half a character", [frame(TEXT, b"\xe2\x82")], 1007, "a text is not UTF-8"),
    ("close of a byte", [frame(CLOSE, b"x")], 1002, "a close of one byte"),
    ("close 1005", [frame(CLOSE, (1005).to_bytes(2, "big"))], 1002, "a close code that may not be sent"),
    ("close reason", [frame(CLOSE, (1000).to_bytes(2, "big") + b"\xff")], 1007, "the reason of a close is not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("frames", "code", "why"), [row[1:] for row in FRAMES], ids=[row[0] for row in FRAMES])
def test_frames(server, frames, code, why):
    """The handler is told the same."""
    with Raw(server) as raw:
        raw.send(frame(TEXT, b"before"))
        assert raw.read_frame() == (TEXT, b"before")
        for data in frames:
            raw.send(data)
        assert raw.read_close() == (code, why)
        assert raw.at_end()
    wait_log(server, ["disconnect", code, why])


def test_the_largest_message_and_the_most_fragments(server):
    with Raw(server) as raw:
        raw.send(frame(BINARY, b"z" * 102400))
        assert raw.read_frame() == (BINARY, b"z" * 102400)
        for i in range(8):
            raw.send(frame(TEXT if i == 0 else 0, b"x", fin=i == 7))
        assert raw.read_frame() == (TEXT, b"x" * 8)


def test_frames_that_come_byte_by_byte(server):
    with Raw(server) as raw:
        def send(data):
            for byte in data:
                raw.send(bytes([byte]))

        send(frame(TEXT, b"slow"))
        assert raw.read_frame() == (TEXT, b"slow")
        send(frame(PONG) + frame(PING, b"p"))
        assert raw.read_frame() == (PONG, b"p")
        send(frame(CLOSE, (3000).to_bytes(2, "big") + b"bye"))
        assert raw.read_close() == (3000, "")
        assert raw.at_end()
    wait_log(server, ["disconnect", 3000, "bye"])


def test_frames_behind_the_handshake_in_one_packet(server):
    with Raw(server, accept=False) as raw:
        raw.sock.sendall(frame(TEXT, b"early"))
        assert b"101" in raw.read_head()
        assert raw.read_frame() == (TEXT, b"early")


def test_a_flood_of_pings_by_a_client_that_reads_nothing(server):
    """The server stops reading it, and holds no more than what its sockets take."""
    raw = Raw(server, receive_buffer=4096)
    raw.sock.settimeout(1)
    sent, pings = 0, frame(PING, bytes(125)) * 1000
    with contextlib.suppress(TimeoutError), raw:
        while sent < 256 << 20:
            raw.send(pings)
            sent += len(pings)
    assert sent < 256 << 20


def test_messages_that_never_end(server):
    """A hundred websockets with half a message each: closing them gives all of the memory back."""
    def held():
        return int(server.metrics().split("\nanyserve_live_bytes ")[1].split()[0])

    before = held()
    raws = [Raw(server) for _ in range(100)]
    for raw in raws:
        raw.send(frame(BINARY, bytes(50000), fin=False))
        raw.send(frame(PING))
        assert raw.read_frame() == (PONG, b"")
    assert held() - before < 100 * (102400 + 30000)
    for raw in raws:
        raw.close()
    wait.until(lambda: held() - before < 1 << 20, lambda: f"{held()} bytes, {before} before")


def test_a_wrong_subprotocol_of_the_handler(server):
    got, _, text = status(server, handshake("/wrong_protocol", ["Sec-WebSocket-Protocol: a"]))
    assert (got, text) == (500, "the handler chose a subprotocol that the client has not offered")
    assert page(server, "/log")["pid"]
