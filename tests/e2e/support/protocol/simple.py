"""A worker of the simple socket protocol by hand (docs/protocol/simple-worker.md), so that it can also lie.

`Echo` listens and gives every request to `handle` in a thread of its connection. What `handle` returns is sent: a
ModelInferResponse, bytes as they are, or None: the connection is closed. `Simple` registers over management.sock, too.
"""

import os
import socket
import struct
import threading

from . import oip
from .management import post, unix_path


def framed(message):
    body = message if isinstance(message, bytes) else message.SerializeToString()
    return struct.pack(">I", len(body)) + body


def _read(conn, n):
    data = b""
    while len(data) < n:
        chunk = conn.recv(n - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def take(conn):
    """The next request, or None at the end."""
    head = _read(conn, 4)
    body = head and _read(conn, struct.unpack(">I", head)[0])
    return None if body is None else oip.messages()["ModelInferRequest"].FromString(body)


def echo(q, model_name=None):
    r = oip.message("ModelInferResponse", model_name=q.model_name if model_name is None else model_name, model_version=q.model_version, id=q.id)
    for tensor, raw in zip(q.inputs, q.raw_input_contents):
        r.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        r.raw_output_contents.append(raw)
    return r


def error(q, status, text):
    r = oip.message("ModelInferResponse", id=q.id)
    oip.set_parameter(r.parameters, "anyserve_error", status)
    oip.set_parameter(r.parameters, "anyserve_error_message", text)
    return r


class Echo:
    def __init__(self, server, name="w", handle=echo):
        self.path = os.path.join(server.folder_of_port(), "workers", f"{name}.sock")
        self.handle = handle
        self.connections = []
        self.taken = 0
        self.listen()

    @property
    def address(self):
        return f"unix://{self.path}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.die()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def listen(self):
        if os.path.exists(self.path):
            os.unlink(self.path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen(64)
        threading.Thread(target=self._accept, args=(self.listener,), daemon=True).start()

    def _accept(self, listener):
        while True:
            try:
                conn, _ = listener.accept()
            except OSError:
                return
            self.connections.append(conn)
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        try:
            while (q := take(conn)) is not None:
                self.taken += 1
                answer = self.handle(q)
                if answer is None:
                    break
                conn.sendall(answer if isinstance(answer, bytes) else framed(answer))
        except OSError:
            pass
        conn.close()

    def die(self):
        """As a process that is killed: its sockets end, their names stay."""
        for s in [self.listener, *self.connections]:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        self.connections.clear()


class Simple(Echo):
    def __init__(self, server, model, worker="w", handle=echo, slots=1, version="1", idempotent=False, **fields):
        super().__init__(server, f"{worker}.{model.replace('/', '-')}", handle)
        self.management, self.model, self.worker, self.version = unix_path(server), model, worker, version
        self.options = {"max_ongoing_requests": slots, "idempotent": idempotent}
        self.fields = fields

    def call(self, rpc, **fields):
        """(HTTP status, answer) of a call about this worker."""
        return post(self.management, rpc, {"worker_id": self.worker, **fields})[::2]

    def register(self):
        code, answer = self.call("RegisterModel", model_name=self.model, model_version=self.version,
                                 worker_address=self.address, options=self.options, **self.fields)
        assert code == 200, answer
        return int(answer["epoch"])

    def unregister(self):
        return self.call("UnregisterModel", model_name=self.model, model_version=self.version)

    def __enter__(self):
        self.register()
        return self

    def __exit__(self, *_):
        self.unregister()
        super().__exit__()
