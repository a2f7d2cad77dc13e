"""The driver's client of the control API: a server that ends in the middle."""

import socket
import sys
import threading

import pytest
from fake import PACKAGE

sys.path.insert(0, str(PACKAGE))
from anyserve.serve._driver.client import ControlClient, NoServer  # noqa: E402


@pytest.fixture
def client(tmp_path):
    """Of a server that closes each connection without reading the request: the client's socket is reset."""
    path = str(tmp_path / "control.sock")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        s.listen()

        def serve():
            while True:
                try:
                    c, _ = s.accept()
                except OSError:
                    return
                c.recv(1, socket.MSG_PEEK)
                c.close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield ControlClient(path)
        s.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize(
    "act", [lambda c: c.status(), lambda c: list(c.events()), lambda c: c.upload("a", bytes(16 << 20)), lambda c: c.delete("x")]
)
def test_a_connection_that_is_reset_is_no_server(client, act):
    for _ in range(5):
        with pytest.raises(NoServer):
            act(client)
