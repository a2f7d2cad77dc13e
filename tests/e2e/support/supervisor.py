"""A supervisor and a controller by hand: a real dispatcher that has nobody but us.

Messages are those of src/ctl/message/message.h; their numbers are read there.
"""

import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from types import SimpleNamespace

from . import paths, wait

TABLE = (paths.ROOT / "src/ctl/message/message.h").read_text()
TYPES = dict((name, n) for n, name in enumerate(re.findall(r"^    X\((\w+), [SDC]+, [SDC]+\)", TABLE, re.M), 1))
FORMAT = int(re.search(r"^#define AS_CTL_FORMAT +(\d+)u", TABLE, re.M)[1])
NAMES = {n: name for name, n in TYPES.items()}
FIXED = struct.Struct("<HHIIIIIQQ4H")
STARTING = 0  # the first state


def encode(type, replica="", deployment="", token="", text="", id=0):
    texts = [s.encode() for s in (replica, deployment, token, text)]
    return FIXED.pack(FORMAT, TYPES[type], STARTING, 0, 0, 0, 0, id, 0, *map(len, texts)) + b"".join(texts)


def decode(data):
    _, type, _, _, _, number, _, id, _, *lengths = FIXED.unpack_from(data)
    texts, at = [], FIXED.size
    for n in lengths:
        texts.append(data[at:at + n].decode())
        at += n
    assert at == len(data)
    replica, _, token, text = texts
    return SimpleNamespace(type=NAMES[type], number=number, id=id, replica=replica, token=token, text=text)


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
        """The next message of these types; others are kept in `told`."""
        end = time.monotonic() + wait.SECONDS
        while time.monotonic() < end:
            m = decode(self.control.recv(1 << 16))
            if m.type in types:
                return m
            if m.type != "SERVING":  # is said again and again
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
