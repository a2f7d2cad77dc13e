"""A supervisor and a controller by hand: a real dispatcher that has nobody but us.

Messages are those of src/ctl/message/message.h; their numbers are read there.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from types import SimpleNamespace

from .. import paths, wait
from . import protobuf

TABLE = (paths.ROOT / "src/ctl/message/message.h").read_text()
TYPES = dict((name, n) for n, name in enumerate(re.findall(r"^    X\((\w+), [SDC]+, [SDC]+\)", TABLE, re.M), 1))
NAMES = {n: name for name, n in TYPES.items()}
FIELDS = {1: "type", 5: "number", 7: "id", 9: "replica", 10: "deployment", 11: "token", 12: "text"}  # of proto/state.proto


def encode(type, replica="", deployment="", token="", text="", id=0):
    values = {1: TYPES[type], 7: id, 9: replica, 10: deployment, 11: token, 12: text}
    return b"".join(protobuf.field(number, value) for number, value in values.items() if value)


def decode(data):
    """MODEL's text is binary: its bytes above 127 become surrogates."""
    found = {"number": 0, "id": 0, "replica": "", "token": "", "text": ""}
    for number, value in protobuf.fields(data):
        found[FIELDS.get(number)] = value if isinstance(value, int) else value.decode(errors="surrogateescape")
    return SimpleNamespace(**{**found, "type": NAMES[found["type"]]})


class Dispatcher:
    """`anyserve dispatcher` with our end of the control socket."""

    def __init__(self, *options):
        self.folder = tempfile.mkdtemp(prefix="as-", dir="/tmp")
        clients = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % clients.getsockname()[1]
        link = socket.socket(socket.AF_UNIX)
        link.bind(self.link_path())
        link.listen()
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(wait.SECONDS)
        fds = {"grpc": clients, "link": link, "control": theirs}
        self.log = open(os.path.join(self.folder, "log"), "w+")
        self.process = subprocess.Popen(
            [paths.BINARY, "dispatcher", "--fds=" + ",".join(f"{k}:{s.fileno()}" for k, s in fds.items()),
             "--runtime-dir", self.folder, *options],
            pass_fds=[s.fileno() for s in fds.values()], stderr=self.log, stdin=subprocess.DEVNULL)
        for s in fds.values():
            s.close()
        self.told = []  # what came and was not waited for

    def link_path(self):
        return os.path.join(self.folder, "link.sock")

    def say(self, type, **fields):
        self.control.sendall(encode(type, **fields))

    def next(self, *types):
        """The next message of these types; others are kept in `told`, but for SERVING and MODEL."""
        end = time.monotonic() + wait.SECONDS
        while time.monotonic() < end:
            m = decode(self.control.recv(1 << 16))
            if m.type in types:
                return m
            if m.type not in ("SERVING", "MODEL"):  # both come by themselves: a heartbeat, what a worker has registered
                self.told.append(m)
        raise AssertionError(f"{types} did not come, but {self.told}")

    def __enter__(self):
        self.next("SERVING")
        return self

    def __exit__(self, *failure):
        try:
            self.say("DRAIN")
            if not failure[0]:
                self.next("DRAINED")
                assert self.process.wait(wait.SECONDS) == 0
        finally:
            self.process.kill()
            self.process.wait()
            self.control.close()
            self.log.seek(0)
            text = self.log.read()
            self.log.close()
            shutil.rmtree(self.folder)
            print(text)
        assert not re.search(r"Sanitizer|runtime error|level=error", text), text
