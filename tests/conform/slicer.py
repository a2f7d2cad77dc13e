"""A TCP proxy that sends every byte in a segment of its own, both ways.

What a peer may do with HTTP/2's bytes on their way: no frame, prefix or message comes in one piece.
"""

import os
import select
import socket
import threading


def shutdown(sock, how):
    try:
        sock.shutdown(how)
    except OSError:
        pass  # it is over already


class Slicer:
    """Listens on 127.0.0.1 at `port` and passes bytes on to `target`, n at a time. Use it with `with`."""

    def __init__(self, target, n=1):
        self.target = target
        self.n = n
        self.sent = [0, 0]  # bytes to the server, to the client
        self.heard = 0  # of those to the server: what was sent before it had ended its side
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._sockets = set()
        self._threads = []

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def __enter__(self):
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)  # accept returns
        with self._lock:
            for s in self._sockets:
                shutdown(s, socket.SHUT_RDWR)
        for t in self._threads:
            t.join()
        self._listener.close()

    def _start(self, run, *args):
        t = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(t)
        t.start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._start(self._serve, client)

    def _serve(self, client):
        with client, socket.create_connection(self.target) as server:
            pair = {client, server}
            for s in pair:
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._sockets |= pair
            back = threading.Thread(target=self._pass, args=(server, client, 1), daemon=True)
            back.start()
            self._pass(client, server, 0)
            back.join()
            with self._lock:
                self._sockets -= pair

    def _pass(self, source, sink, way):
        """Until the source ends; then the sink hears of it. What a sink does not want is thrown away."""
        wanted, listens = True, way == 0
        end = select.poll()
        end.register(sink, select.POLLRDHUP)
        try:
            while chunk := source.recv(65536):
                try:
                    for i in range(0, len(chunk) if wanted else 0, self.n):
                        piece = chunk[i:i + self.n]
                        listens = listens and not end.poll(0)
                        sink.sendall(piece)
                        os.sched_yield()  # so that the reader gets it before the next one is there
                        self.sent[way] += len(piece)
                        self.heard += len(piece) if listens else 0
                except OSError:
                    wanted = False
        except OSError:
            pass  # the source has gone without a word
        shutdown(sink, socket.SHUT_WR)
