"""Bytes to a server as they are, and what it answers, over HTTP/1.1."""

import re
import socket

from .. import wait

HOST = b"Host: h\r\n"


class Raw:
    def __init__(self, server):
        self.sock = socket.create_connection((server.host, server.port), wait.SECONDS)
        self.seen = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def send(self, data):
        """As far as it is taken: a server may have had enough in the middle."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass

    def until(self, pattern):
        """Reads until the pattern is in what came; False at the end of the connection."""
        while not re.search(pattern, self.seen, re.S):
            data = self.sock.recv(65536)
            if not data:
                return False
            self.seen += data
        return True

    def rest(self):
        """All that comes until the server ends the connection."""
        while data := self.sock.recv(65536):
            self.seen += data
        return self.seen

    def statuses(self):
        """Of the answers that have come so far; each must have a content-length, or be without a body."""
        found, text = [], self.seen
        while text:
            head, gap, text = text.partition(b"\r\n\r\n")
            assert gap and head.startswith(b"HTTP/1.1 "), head
            length = re.search(rb"(?i)\ncontent-length: (\d+)", head)
            found.append(int(head[9:12]))
            text = text[int(length[1]) if length else 0:]
        return found
