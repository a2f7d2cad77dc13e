"""What a controller tells the dispatcher about a replica: RETIRE, ASK. We are its supervisor, its controller and its workers."""

import struct

import numpy as np
import pytest

from support.protocol import link, oip
from support.protocol.supervisor import Dispatcher

pytestmark = [pytest.mark.core, pytest.mark.quick]

RECONFIGURE = 2


@pytest.fixture
def dispatcher():
    with Dispatcher() as d:
        for n in "01":
            d.say("TOKEN", replica=f"hand-{n}", deployment="hand", token=f"token-{n}")
        d.say("TOLD")
        yield d


@pytest.fixture
def join(dispatcher):
    """join(n) → the worker of token n, ready"""
    workers = []

    def join(n):
        workers.append(link.Worker(dispatcher, token=f"token-{n}"))
        workers[-1].serve("hand", slots=2)
        ready = dispatcher.next("READY")
        assert (ready.replica, ready.token, ready.text) == (f"hand-{n}", f"token-{n}", "hand:1")
        return workers[-1]
    yield join
    for w in workers:
        w.sock.close()


@pytest.fixture
def client(dispatcher):
    with oip.Client(dispatcher.address) as client:
        yield client


def ask(client):
    return client.begin("hand", {"x": np.ones(1)})


def test_retire_idle(dispatcher, join, client):
    join("0")
    dispatcher.say("RETIRE", replica="hand-0", token="token-0")
    retired = dispatcher.next("RETIRED")
    assert (retired.replica, retired.token) == ("hand-0", "token-0")
    other = join("1")
    calls = [ask(client) for _ in range(2)]
    for call in calls:
        other.answer(other.take())
    assert all(c.result() is not None for c in calls)


def test_retire_busy(dispatcher, join, client):
    """It is told when the last answer has come; what comes meanwhile goes to others."""
    worker = join("0")
    first = ask(client)
    request = worker.take()
    dispatcher.say("RETIRE", replica="hand-0", token="token-0")
    other = join("1")  # READY comes, and no RETIRED before it
    assert [m.type for m in dispatcher.told] == []
    second = ask(client)
    other.answer(other.take())
    assert second.result() is not None
    worker.answer(request)
    assert dispatcher.next("RETIRED").token == "token-0"
    assert first.result() is not None


def test_retire_somebody_unknown(dispatcher):
    dispatcher.say("RETIRE", replica="gone-7", token="no such token")
    assert dispatcher.next("RETIRED").token == "no such token"


def control(worker):
    f = worker.next(link.CONTROL)
    op, reply, code, n, zero = struct.unpack_from("<HHIII", f.payload)
    assert (reply, code, zero) == (0, 0, 0)
    return f.stream, op, f.payload[16:16 + n].decode()


def reply(worker, stream, op, code, text):
    worker.send(link.frame(link.CONTROL, struct.pack("<HHIII", op, 1, code, len(text), 0) + text.encode(), stream))


def test_ask(dispatcher, join):
    worker = join("0")
    for id, code, number, text in ((7, 0, 0, ""), (8, 13, 12, "Traceback: no")):
        dispatcher.say("ASK", replica="hand-0", token="token-0", id=id, text='reconfigure {"rank": 1}')
        stream, op, body = control(worker)
        assert (op, body) == (RECONFIGURE, '{"rank": 1}')
        reply(worker, stream, op, code, text)
        answer = dispatcher.next("ANSWER")
        assert (answer.replica, answer.token, answer.id, answer.number, answer.text) == \
            ("hand-0", "token-0", id, number, text)


def test_ask_what_there_is_not(dispatcher, join):
    join("0")
    dispatcher.say("ASK", replica="hand-0", token="token-0", id=1, text="dance {}")
    assert (dispatcher.next("ANSWER").number, dispatcher.told) == (14, [])
    dispatcher.say("ASK", replica="hand-1", token="token-1", id=2, text="reconfigure {}")
    answer = dispatcher.next("ANSWER")
    assert (answer.number, answer.id, answer.text) == (10, 2, "the replica is not connected")


def test_ask_a_worker_that_goes(dispatcher, join):
    worker = join("0")
    dispatcher.say("ASK", replica="hand-0", token="token-0", id=3, text="reconfigure {}")
    control(worker)
    worker.sock.close()
    answer = dispatcher.next("ANSWER")
    assert (answer.id, answer.number) == (3, 10)


def test_nothing_new_while_a_question_is_under_way(dispatcher, join, client):
    worker = join("0")
    dispatcher.say("ASK", replica="hand-0", token="token-0", id=4, text="reconfigure {}")
    stream, op, _ = control(worker)
    call = ask(client)
    dispatcher.say("ASK", replica="hand-0", token="token-0", id=5, text="reconfigure {}")
    assert (dispatcher.next("ANSWER").number) == 3  # the queue of one is full
    reply(worker, stream, op, 0, "")
    assert dispatcher.next("ANSWER").id == 4
    worker.answer(worker.take())
    assert call.result() is not None
