"""A control API that says what a test wants: for commands, in a runtime folder like a server's. Not a server of ours."""

import fcntl
import json
import os
import socketserver
import threading
from http.server import BaseHTTPRequestHandler


def change(deployment, step="added", application="shop", **more):
    return {"application": application, "deployment": deployment, "step": step, **more}


def row(status, deployment=None, replica=None, application="shop", message="", **more):
    kind = "replica" if replica else "deployment" if deployment else "application"
    return {"kind": kind, "application": application, **({"deployment": deployment} if deployment else {}),
            **({"replica": replica} if replica else {}), "status": status, "message": message, **more}


SYNCED = {"kind": "synced"}


class Control:
    """answers: (method, path) → (status, JSON or text). streams: the events of each connection that asks for them, in
    order; None in one keeps it open, the end of a list ends it."""

    def __init__(self, folder, port=7777):
        self.answers, self.streams, self.asked = {}, [], []
        self.runtime = str(folder)
        self.released = threading.Event()
        place = os.path.join(self.runtime, str(port))
        os.makedirs(place, mode=0o700)
        self.lock = open(os.path.join(place, "lock"), "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.server = socketserver.ThreadingUnixStreamServer(os.path.join(place, "control.sock"), self._handler())
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def close(self):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()
        self.lock.close()

    def _handler(control):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = False  # there is none on a unix socket

            def log_message(self, *_):
                pass

            def _serve(self):
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                control.asked.append((self.command, self.path, body))
                if self.path == "/api/serve/events":
                    self._events(control.streams.pop(0))
                    return
                status, answer = control.answers.get((self.command, self.path), (404, {"error": "not found"}))
                data = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = do_DELETE = _serve

            def _events(self, events):
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                for event in events:
                    if event is None:
                        control.released.wait()
                        break
                    data = f"data: {json.dumps(event)}\n\n".encode()
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                self.close_connection = True

        return Handler
