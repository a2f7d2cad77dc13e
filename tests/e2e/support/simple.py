"""A worker of the simple socket protocol by hand (docs/PROTOCOL.md, part 20), so that it can also lie.

`Simple` listens, registers over management.sock, and gives every request to `handle` in a thread of its connection.
What `handle` returns is sent: a ModelInferResponse, bytes as they are, or None: the connection is closed.
"""

import json
import os
import socket
import struct
import threading

from . import oip
from .http import Unix


def manage(server, rpc, **fields):
    """(HTTP status, answer) of a management call."""
    c = Unix(os.path.join(server.folder_of_port(), "management.sock"))
    try:
        c.request("POST", f"/anyserve.WorkerManagement/{rpc}", json.dumps(fields), {"content-type": "application/json"})
        answer = c.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        c.close()


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


def echo(q):
    r = oip.message("ModelInferResponse", model_name=q.model_name, model_version=q.model_version, id=q.id)
    for tensor, raw in zip(q.inputs, q.raw_input_contents):
        r.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)
        r.raw_output_contents.append(raw)
    return r


def error(q, status, text):
    r = oip.message("ModelInferResponse", id=q.id)
    oip.set_parameter(r.parameters, "anyserve_error", status)
    oip.set_parameter(r.parameters, "anyserve_error_message", text)
    return r


class Simple:
    def __init__(self, server, model, worker="w", handle=echo, slots=1, version="1", idempotent=False, **fields):
        self.server, self.model, self.worker, self.version, self.handle = server, model, worker, version, handle
        self.options = {"max_ongoing_requests": slots, "idempotent": idempotent}
        self.fields = fields
        self.path = os.path.join(server.folder_of_port(), "workers", f"{worker}.{model.replace('/', '-')}.sock")
        self.connections = []
        self.taken = 0
        self.listen()

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

    def register(self):
        code, answer = manage(self.server, "RegisterModel", model_name=self.model, model_version=self.version,
                              worker_address=f"unix://{self.path}", worker_id=self.worker, options=self.options,
                              **self.fields)
        assert code == 200, answer
        return int(answer["epoch"])

    def unregister(self):
        return manage(self.server, "UnregisterModel", model_name=self.model, model_version=self.version,
                      worker_id=self.worker)

    def die(self):
        """As a process that is killed: its sockets end, their names stay."""
        for s in [self.listener, *self.connections]:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        self.connections.clear()

    def __enter__(self):
        self.register()
        return self

    def __exit__(self, *_):
        self.unregister()
        self.die()
        os.unlink(self.path)
