"""Websockets of tests: the client of `websockets`, and one that sends any bytes."""

import base64
import json
import os
import socket
import struct
import urllib.request

from websockets.sync.client import connect as _connect

from .. import paths, wait
from ..process.server import Server

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
FIN = 0x80


APPLICATION = f"""
applications:
  - name: ws
    import_path: ws_app:sockets
    working_dir: {paths.APPS / "asgi"}
    route_prefix: /
  - name: plain
    import_path: ws_app:plain
    working_dir: {paths.APPS / "asgi"}
    route_prefix: /plain
"""


def start(folder, *options):
    """A server with the applications of apps/asgi/ws_app.py; its files are in `folder`."""
    file = folder / "applications.yaml"
    file.write_text(APPLICATION)
    server = Server(file, "--state-dir", folder / "state", *options, verb="start")
    server.expected += ["handler_raised", "bad_answer", "websocket_fault"]
    return server


def connect(server, path, **options):
    options.setdefault("open_timeout", wait.SECONDS)
    options.setdefault("compression", None)
    return _connect(f"ws://{server.address}{path}", **options)


def page(server, path):
    """The JSON that the application answers over HTTP."""
    with urllib.request.urlopen(f"http://{server.address}{path}", timeout=wait.SECONDS) as answer:
        return json.load(answer)


def log(server, path="/log"):
    return page(server, path)["log"]


def wait_log(server, entry):
    wait.until(lambda: entry in log(server), lambda: f"{entry} is not in {log(server)}")


def frame(opcode, payload=b"", fin=True, mask=os.urandom(4), reserved=0):
    """mask None: none, which is against the rules."""
    n = len(payload)
    head = bytes([(FIN if fin else 0) | reserved | opcode])
    bit = 0 if mask is None else 0x80
    if n < 126:
        head += bytes([bit | n])
    elif n < 65536:
        head += bytes([bit | 126]) + struct.pack(">H", n)
    else:
        head += bytes([bit | 127]) + struct.pack(">Q", n)
    if mask is None:
        return head + payload
    key = (mask * (n // 4 + 1))[:n]
    return head + mask + (int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")).to_bytes(n, "big")


class Raw:
    """A client that says what it likes once the server has accepted."""

    def __init__(self, server, path="/echo", fields=(), accept=True, receive_buffer=None):
        self.sock = socket.socket()
        if receive_buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.sock.settimeout(wait.SECONDS)
        self.sock.connect((server.host, server.port))
        self.file = self.sock.makefile("rb")
        self.send(handshake(path, fields))
        if accept:
            self.head = self.read_head()
            assert self.head.startswith(b"HTTP/1.1 101 "), self.head

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.file.close()
        self.sock.close()

    def send(self, data):
        self.sock.sendall(data)

    def read_head(self):
        lines = []
        while not lines or lines[-1] not in (b"\r\n", b""):
            lines.append(self.file.readline())
        return b"".join(lines)

    def read_frame(self):
        """(opcode, payload); (None, b"") at the end of the connection."""
        head = self.file.read(2)
        if len(head) < 2:
            return None, b""
        n = head[1]
        assert n < 128, "a server masks nothing"
        if n > 125:
            n = int.from_bytes(self.file.read(2 if n == 126 else 8), "big")
        return head[0] & 15, self.file.read(n)

    def read_close(self):
        """(code, reason) of the next frame, which is a close, and then the connection ends."""
        opcode, payload = self.read_frame()
        assert opcode == CLOSE, (opcode, payload)
        return int.from_bytes(payload[:2], "big"), payload[2:].decode()

    def at_end(self):
        try:
            return self.file.read(1) == b""
        except ConnectionResetError:
            return True


def handshake(path, fields=(), key=None, version="13", method="GET", upgrade="websocket", connection="Upgrade"):
    rows = [f"{method} {path} HTTP/1.1", "Host: h"]
    rows += [f"Upgrade: {upgrade}"] if upgrade else []
    rows += [f"Connection: {connection}"] if connection else []
    key = base64.b64encode(os.urandom(16)).decode() if key is None else key
    rows += [f"Sec-WebSocket-Key: {key}"] if key else []
    rows += [f"Sec-WebSocket-Version: {version}"] if version else []
    return "\r\n".join([*rows, *fields, "", ""]).encode()
