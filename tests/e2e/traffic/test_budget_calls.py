"""What processes that call hold of the dispatcher's memory: as clients do, each has a share of one budget."""

import contextlib
import fcntl
import os
import pickle
import termios

import pytest

from support import wait
from support.protocol import link
from support.protocol.link import Worker

pytestmark = pytest.mark.core

MIB = 1 << 20
LIMIT = 16 * MIB
EXHAUSTED = 8


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("serve_chain:chain", "--max-inflight-bytes", LIMIT, "--max-answer-bytes", LIMIT,
                        "--call-credit-bytes", 4 * MIB)


def held(server, what="inflight_bytes"):
    return server.status()["server"][what]


def settle(server, driver):
    """All that it has sent is read, and none of its calls is open any more."""
    def is_settled():
        unread = bytearray(4)
        fcntl.ioctl(driver.sock, termios.TIOCOUTQ, unread)
        s = server.status()["server"]
        return not any(unread) and s["unanswered"] == 0 and s["inflight_bytes"] == 0
    wait.until(is_settled, lambda: str(server.status()["server"]))


class Driver(Worker):
    def __init__(self, server):
        with open(os.path.join(server.folder_of_port(), "driver-token")) as f:
            token = f.read().strip()
        super().__init__(server, "", "driver", token, capabilities=link.CAP_CALLS | link.CAP_DRIVER)
        self.greeted()
        self.send(link.target(0, "default", "Back"))

    def error_of(self, stream):
        f = self.next(link.ERROR, link.CREDIT)
        while f.type == link.CREDIT:
            f = self.next(link.ERROR, link.CREDIT)
        assert f.stream == stream
        return int.from_bytes(f.payload[:4], "little"), f.payload[24:].decode()


def test_many_processes_each_at_its_window(server, client):
    """Bodies that are sent but for their last bytes: no handler will take them."""
    body = link.pickled(bytes(4 * MIB))
    with contextlib.ExitStack() as stack:
        drivers, refused = [], 0
        for _ in range(12):
            d = stack.enter_context(Driver(server))
            d.send(link.open_call(2, body[:-64], body_len=len(body), end=False))
            drivers.append(d)
        for d in drivers:  # a ping is answered behind all of that
            d.send(link.frame(link.PING, bytes(8)))
            f = d.next(link.PONG, link.ERROR, link.CREDIT)
            while f.type == link.CREDIT:
                f = d.next(link.PONG, link.ERROR, link.CREDIT)
            if f.type == link.ERROR:
                assert int.from_bytes(f.payload[:4], "little") == EXHAUSTED
                assert b"does not fit into --max-inflight-bytes" in f.payload
                refused += 1
        assert 0 < refused < 12
        assert 8 * MIB <= held(server) <= LIMIT
        with Driver(server) as small:  # there is room for what is small, of processes and of clients
            small.send(link.open_call(2, link.pickled(b"not a pickle")))
            f = small.next(link.DATA, link.CREDIT)
            while f.type == link.CREDIT:
                f = small.next(link.DATA, link.CREDIT)
            assert f.stream == 2
        assert client.call("ServerReady").ready
    wait.until(lambda: held(server) == 0, lambda: f"{held(server)} bytes are still held")


BATCH, BATCHES = 32, 16


def test_one_that_does_not_read_its_answers(server):
    """Its calls are refused before they are executed; those that it reads later are all there."""
    call = link.pickled(pickle.dumps(((b"x" * 60_000,), {})))
    executed = server.counts("Back")["completed"]
    with Driver(server) as d:
        for first in range(2, 2 + 2 * BATCH * BATCHES, 2 * BATCH):
            for stream in range(first, first + 2 * BATCH, 2):
                d.send(link.open_call(stream, call))
            settle(server, d)
        assert held(server, "answer_bytes") <= LIMIT // 2 + BATCH * len(call) + MIB
        ends = {}
        while len(ends) < BATCH * BATCHES:
            f = d.next(link.DATA, link.ERROR, link.CREDIT)
            if f.type in (link.DATA, link.ERROR) and f.stream not in ends:
                ends[f.stream] = f.type
                if f.type == link.ERROR:
                    assert int.from_bytes(f.payload[:4], "little") == EXHAUSTED
                    assert b"no room for an answer" in f.payload, f.payload
        refused = sum(kind == link.ERROR for kind in ends.values())
        assert 0 < refused < BATCH * BATCHES
        assert server.counts("Back")["completed"] - executed == BATCH * BATCHES - refused
        d.send(link.open_call(2 + 2 * BATCH * BATCHES, call))  # it has read: it may call again
        while d.next(link.DATA, link.CREDIT).type != link.DATA:
            pass
    wait.until(lambda: held(server) == 0 and held(server, "answer_bytes") == 0, lambda: str(server.status()["server"]))
