"""Websockets through a real server, by the client of `websockets`: the scope, messages, subprotocols, denials."""

import json
import socket
import threading

import pytest
from support import wait
from support.process.memory import Peak
from support.protocol.websocket import BINARY, TEXT, Raw, connect, frame, log, page, start, wait_log
from websockets.exceptions import ConnectionClosed, InvalidStatus

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = start(tmp_path_factory.mktemp("ws"))
    yield s
    s.stop()


def closed(ws):
    """(code, reason) that the server closes with."""
    with pytest.raises(ConnectionClosed) as end:
        while True:
            ws.recv(timeout=wait.SECONDS)
    return end.value.rcvd.code, end.value.rcvd.reason


def denied(server, path, **options):
    with pytest.raises(InvalidStatus) as answer:
        connect(server, path, **options)
    return answer.value.response


def test_texts_and_bytes_come_back(server):
    with connect(server, "/echo") as ws:
        for message in ("hello", b"\x00\xff", "", b"", "ü€😀", b"x" * 125, b"x" * 126, "y" * 65535, b"z" * 65536, b"\x01" * 1_000_000):
            ws.send(message)
            assert ws.recv(timeout=wait.SECONDS) == message


def test_fragments_are_one_message(server):
    with connect(server, "/echo") as ws:
        ws.send(["one ", "two ", "three"])
        assert ws.recv(timeout=wait.SECONDS) == "one two three"


def test_many_messages_keep_their_order(server):
    with connect(server, "/echo") as ws:
        for i in range(2000):
            ws.send(str(i))
        assert [ws.recv(timeout=wait.SECONDS) for _ in range(2000)] == [str(i) for i in range(2000)]


def test_the_scope(server):
    fields = {"X-Request-ID": "mine", "Cookie": "c=d"}
    with connect(server, "/info?a=1&b=%20", subprotocols=["v2", "v1"], additional_headers=fields) as ws:
        scope = json.loads(ws.recv(timeout=wait.SECONDS))
        assert ws.subprotocol == "v2"
        made = ws.response.headers
        assert made["x-made-by"] == "handler" and made["set-cookie"] == "a=b" and made["x-request-id"] == "mine"
        assert "sec-websocket-extensions" not in made
    headers = dict(scope.pop("headers"))
    assert headers["cookie"] == "c=d" and headers["x-request-id"] == "mine" and headers["host"] == server.address
    assert "upgrade" not in headers and "connection" not in headers
    assert scope == {"type": "websocket", "path": "/info", "root_path": "", "scheme": "ws", "subprotocols": ["v2", "v1"],
                     "http_version": "1.1", "extensions": {"websocket.http.response": {}}, "state": {}, "method": False,
                     "query": "a=1&b=%20"}  # fmt: skip


def test_who_closes_says_how(server):
    with connect(server, "/close") as ws:
        ws.send("4001 enough")
        assert closed(ws) == (4001, "enough")
    wait_log(server, {"type": "websocket.disconnect", "code": 4001})
    with connect(server, "/close") as ws:
        ws.send("1000 " + "é" * 100)  # a reason has at most 123 bytes
        assert closed(ws) == (1000, "é" * 61)
    with connect(server, "/echo") as ws:
        ws.close(4002, "from the client")
    wait_log(server, ["disconnect", 4002, "from the client"])


def test_a_client_that_vanishes_is_1006(server):
    ws = connect(server, "/echo")
    ws.send("x")
    assert ws.recv(timeout=wait.SECONDS) == "x"
    ws.socket.shutdown(socket.SHUT_RDWR)
    wait_log(server, ["disconnect", 1006, ""])
    ws.close()


def test_what_is_sent_to_a_client_that_has_gone_is_an_OSError(server):
    with connect(server, "/sends_after"):
        pass
    wait_log(server, ["OSError", "the client of the websocket has gone"])


def test_a_handler_that_returns_closes(server):
    with connect(server, "/returns") as ws:
        assert closed(ws) == (1000, "")


def test_a_handler_that_raises_is_1011(server):
    with connect(server, "/raises") as ws:
        ws.send("x")
        assert closed(ws)[0] == 1011
    with connect(server, "/echo") as ws:  # the replica lives
        ws.send("x")
        assert ws.recv(timeout=wait.SECONDS) == "x"


def test_denials(server):
    assert denied(server, "/deny").status_code == 403
    answer = denied(server, "/deny_with_body")
    assert (answer.status_code, answer.headers["www-authenticate"], answer.body) == (401, "Basic", b"who are you")
    for path in ("/never", "/raises_before", "/wrong_protocol"):
        assert denied(server, path, subprotocols=["v1"]).status_code == 500


def test_messages_against_the_rules_raise(server):
    with connect(server, "/misuses") as ws:
        names = [ws.recv(timeout=wait.SECONDS) for _ in range(8)]
        assert names == ["RuntimeError", "TypeError", "TypeError", "RuntimeError", "ValueError", "TypeError", "KeyError", "TypeError"]
        assert closed(ws) == (1000, "")
    text = "Unexpected ASGI message 'websocket.send', after sending 'websocket.close' or response already completed."
    wait_log(server, ["RuntimeError", text])


def test_wrong_data_raise_also_while_others_wait_for_room(server):
    with connect(server, "/blocked_misuses", max_queue=1, max_size=None) as ws:
        wait_log(server, ["misuses", *["UnicodeEncodeError", "TypeError"] * 2])
        while (message := ws.recv(timeout=wait.SECONDS)) != "end":
            assert message == b"x" * 65536


def test_sends_that_nobody_awaits_are_bounded(server):
    with connect(server, "/unawaited", max_size=None) as ws:
        assert closed(ws)[0] == 1011
    wait_log(server, ["unawaited", "send is to be awaited: 64 messages that nobody awaits wait for the client"])


def test_a_client_that_does_not_read_stops_the_handler(server):
    """What a handler may send ahead is the window of the link and what the sockets take."""
    with connect(server, "/flood", max_queue=1, max_size=None) as ws:
        ws.send("100000")
        wait.until(lambda: any(e[0] == "flood" for e in log(server) if isinstance(e, list)), "the first message")
        before = -1

        def stands():
            nonlocal before
            last = max(e[1] for e in log(server) if isinstance(e, list) and e[0] == "flood")
            stood, before = last == before, last
            return stood

        wait.until(stands, "the handler sends on and on")
        assert 0 < before < 5000  # of 6.5 GB
        for _ in range(before + 10):
            assert len(ws.recv(timeout=wait.SECONDS)) == 65536
        ws.socket.shutdown(socket.SHUT_RDWR)  # close alone waits for the thread that reads
    wait.until(lambda: any(e[0] == "flooded" for e in log(server) if isinstance(e, list)), "the handler's end")


def test_a_handler_that_does_not_read_stops_the_client(server):
    """And what it has not read stays within the windows."""
    with connect(server, "/slow") as ws:
        ws.socket.settimeout(1)  # a blocked write shows at once
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 1 << 30:
                ws.socket.send(b"\x82\xff" + (1 << 16).to_bytes(8, "big") + bytes(4) + bytes(1 << 16))
                sent += 1 << 16
        assert sent < 64 << 20
    page(server, "/go")


def test_a_client_that_sends_without_a_pause(server):
    """Faster than the handler reads: the dispatcher holds what it has not passed on, and nothing of what it has."""
    n, size = 3000, 32768
    with Raw(server, "/size") as raw:
        raw.send(frame(BINARY, bytes(size)))
        assert raw.read_frame() == (TEXT, str(size).encode())
        peak = Peak("dispatcher", server.dispatcher)
        sender = threading.Thread(target=raw.send, args=(frame(BINARY, bytes(size)) * n,))
        sender.start()
        for _ in range(n):
            assert raw.read_frame() == (TEXT, str(size).encode())
        sender.join()
        peak.check()


def test_open_websockets_are_counted(server):
    wait.until(lambda: "\nanyserve_websockets 0\n" in server.metrics(), server.metrics)
    with connect(server, "/echo") as ws, connect(server, "/echo"):
        assert "\nanyserve_websockets 2\n" in server.metrics()
        ws.send("x")
        ws.recv(timeout=wait.SECONDS)
    wait.until(lambda: "\nanyserve_websockets 0\n" in server.metrics(), server.metrics)


def test_a_deployment_without_an_asgi_application_denies(server):
    assert denied(server, "/plain").status_code == 403
