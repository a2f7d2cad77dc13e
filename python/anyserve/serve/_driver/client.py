"""The control API of a server, over its unix socket: HTTP/1.0, a connection for each request (docs/guide/control.md)."""

from __future__ import annotations

import json
import socket
from typing import Any, Dict, Iterator, Optional, Tuple
from urllib.parse import quote

__all__ = ["ControlClient", "ControlError", "NoServer"]

_LOST = "the server ended the connection: %s"
ANSWER_TIMEOUT = 600.0  # seconds: a deploy is answered when the code has been loaded once


class ControlError(Exception):
    """The server refused a request."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class NoServer(ConnectionError):
    """Nobody answers on the socket."""


def _connect(path: str, timeout: float) -> socket.socket:
    s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        s.settimeout(timeout)
        s.connect(path)
    except OSError as e:
        s.close()
        raise NoServer("no server answers on %s: %s" % (path, e.strerror or e)) from None
    return s


def _read_head(f: Any) -> Tuple[int, Dict[str, str]]:
    words = f.readline(65536).split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise NoServer("the server ended the connection")
    fields: Dict[str, str] = {}
    while True:
        line = f.readline(65536)
        if line in (b"\r\n", b"\n", b""):
            return int(words[1]), fields
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.strip().lower()] = value.strip()


def _error_of(status: int, body: bytes) -> ControlError:
    try:
        return ControlError(status, str(json.loads(body)["error"]))
    except (ValueError, KeyError, TypeError):
        return ControlError(status, "HTTP status %d: %s" % (status, body[:500].decode(errors="replace")))


class ControlClient:
    """Any thread; a request has a connection of its own."""

    def __init__(self, path: str) -> None:
        self.path = path

    def _send(self, method: str, target: str, body: Optional[bytes], timeout: float) -> Any:
        s = _connect(self.path, timeout)
        head = "%s %s HTTP/1.0\r\nHost: localhost\r\n" % (method, target)
        if body is not None:
            head += "Content-Length: %d\r\n" % len(body)
        try:
            s.sendall(head.encode() + b"\r\n")
            if body:
                s.sendall(body)
        except BrokenPipeError:
            pass  # it has answered early
        except OSError:
            s.close()
            raise
        f = s.makefile("rb")
        s.close()  # the file keeps the connection
        return f

    def request(self, method: str, target: str, body: Optional[bytes] = None, timeout: float = ANSWER_TIMEOUT) -> Any:
        """The answer, from JSON. ControlError; NoServer; TimeoutError."""
        with self._send(method, target, body, timeout) as f:
            try:
                status, fields = _read_head(f)
                answer = f.read(int(fields["content-length"])) if "content-length" in fields else f.read()
            except ConnectionResetError as e:
                raise NoServer(_LOST % e) from None
        if status != 200:
            raise _error_of(status, answer)
        return json.loads(answer) if fields.get("content-type", "").startswith("application/json") else answer.decode()

    def status(self, timeout: float = ANSWER_TIMEOUT) -> Dict[str, Any]:
        """Applications, deployments and replicas with their states."""
        answer: Dict[str, Any] = self.request("GET", "/api/serve/applications/", timeout=timeout)
        return answer

    def upload(self, name: str, content: bytes) -> None:
        self.request("PUT", "/api/serve/code/" + name, content)

    def put(self, application: Dict[str, Any]) -> Dict[str, Any]:
        """Serves one application, given by the keys of a deployment file, and changes no other one."""
        target = "/api/serve/applications/" + quote(application["name"], safe="")
        answer: Dict[str, Any] = self.request("PUT", target, json.dumps(application).encode())
        return answer

    def delete(self, name: str) -> None:
        self.request("DELETE", "/api/serve/applications/" + quote(name, safe=""))

    def events(self, timeout: Optional[float] = None) -> Iterator[Dict[str, Any]]:
        """Each state there is, then {"kind": "synced"}, then each change. NoServer at the end. timeout: between two lines,
        of which the server sends some even when nothing happens."""
        with self._send("GET", "/api/serve/events", None, ANSWER_TIMEOUT if timeout is None else timeout) as f:
            try:
                status, _ = _read_head(f)
                if status != 200:
                    raise _error_of(status, f.read())
                for line in f:
                    if line.startswith(b"data:"):
                        yield json.loads(line[5:])
            except ConnectionResetError as e:
                raise NoServer(_LOST % e) from None
        raise NoServer("the server ended the stream of events")
