"""gRPC services of the user with any number of messages in one direction, or in both."""

import queue
import threading
import time

import pytest

pytestmark = pytest.mark.core
FIRST = (("application", "first"),)


def names(server, *texts):
    return [server.pb.Name(name=t, number=i) for i, t in enumerate(texts)]


def failure(call):
    """Status and text of a call, and that its last answer is not there."""
    with pytest.raises(Exception):  # noqa: B017
        list(call) if hasattr(call, "__next__") else call.result()
    return call.code().name, call.details()


def test_a_stream_of_answers(grpc_server):
    call = grpc_server.greeter.Count(grpc_server.pb.Name(number=1000), metadata=FIRST, timeout=60)
    assert [m.number for m in call] == list(range(1000))
    assert call.code() == grpc_server.grpc.StatusCode.OK and "request_id" in dict(call.trailing_metadata())
    assert list(grpc_server.greeter.Count(grpc_server.pb.Name(), metadata=FIRST, timeout=60)) == []


def test_large_answers_are_as_fast_as_the_client(grpc_server):
    data = bytes(1 << 20)
    call = grpc_server.greeter.Count(grpc_server.pb.Name(number=40, data=data), metadata=FIRST, timeout=60)
    assert [(m.number, m.data == data) for m in call] == [(i, True) for i in range(40)]


def test_a_stream_that_raises_in_the_middle(grpc_server):
    call = grpc_server.greeter.Count(grpc_server.pb.Name(name="raise", number=3), metadata=FIRST, timeout=60)
    assert [next(call).number for _ in range(3)] == [0, 1, 2]
    assert failure(call) == ("INTERNAL", "in the middle")


def test_a_method_that_gives_no_stream(grpc_server):
    call = grpc_server.greeter.Count(grpc_server.pb.Name(), metadata=[("application", "second")], timeout=60)
    code, text = failure(call)
    assert code == "INTERNAL" and "Tried to call a method 'Count' that does not exist." in text


@pytest.mark.parametrize("n", [0, 1, 5, 500])
def test_a_stream_of_messages(grpc_server, n):
    answer = grpc_server.greeter.Total(iter(names(grpc_server, *["x"] * n)), metadata=FIRST, timeout=60)
    assert answer.number == sum(range(n)) and answer.text == " ".join(["x"] * min(n, 10))


def test_a_method_that_does_not_read_on(grpc_server):
    many = (grpc_server.pb.Name(name="enough" if i == 3 else "x", number=1, data=bytes(100000)) for i in range(200))
    answer = grpc_server.greeter.Total(many, metadata=FIRST, timeout=60)
    assert answer.number == 4 and answer.text == "x x x enough"


def test_a_method_that_raises_while_messages_come(grpc_server):
    many = (grpc_server.pb.Name(name="raise" if i == 3 else "x") for i in range(50))
    assert failure(grpc_server.greeter.Total.future(many, metadata=FIRST, timeout=60)) == ("INTERNAL", "a message is wrong")


def test_messages_that_are_none(grpc_server):
    call = grpc_server.channel.stream_unary("/userdefined.Greeter/Total")
    code, text = failure(call.future(iter([b"\xff\xff\xff\xff"]), metadata=FIRST, timeout=60))
    assert code == "INTERNAL" and "Exception deserializing request" in text


@pytest.mark.parametrize("size", [0, 1000, 200_000, 3 << 20])
def test_large_messages_both_ways(grpc_server, size):
    given = [grpc_server.pb.Name(name=str(i), number=i, data=bytes([i]) * size) for i in range(8)]
    answers = list(grpc_server.greeter.Chat(iter(given), metadata=FIRST, timeout=60))
    assert [a.text for a in answers] == ["welcome", *(f"hello {i}" for i in range(8)), "bye"]
    assert all(a.data == bytes([i]) * size for i, a in enumerate(answers[1:-1]))


class Talk:
    """A stream in both directions, message by message."""

    def __init__(self, server, **options):
        self.pb, self.out = server.pb, queue.Queue()
        self.call = server.greeter.Chat(iter(self.out.get, None), metadata=FIRST, **options)

    def say(self, text):
        self.out.put(self.pb.Name(name=text))
        return next(self.call).text


def test_a_conversation(grpc_server):
    talk = Talk(grpc_server, timeout=60)
    assert next(talk.call).text == "welcome"  # before the client has said anything
    assert [talk.say(t) for t in ("a", "b", "c")] == ["hello a", "hello b", "hello c"]
    talk.out.put(None)
    assert [m.text for m in talk.call] == ["bye"]
    assert dict(talk.call.trailing_metadata())["kind"] == "chat"


def ongoing(server):
    rows = server.serve.status().applications["first"].deployments["Greeter"]
    return rows.status.value


def test_a_client_that_leaves_in_the_middle(grpc_server):
    for _ in range(20):  # more than the slots of the only replica
        talk = Talk(grpc_server)
        assert next(talk.call).text == "welcome"
        assert talk.say("a") == "hello a"
        talk.call.cancel()
        talk.out.put(None)
    assert ongoing(grpc_server) == "HEALTHY"
    assert grpc_server.greeter.Hello(grpc_server.pb.Name(name="on"), metadata=FIRST, timeout=60).text == "hello on"


def test_the_deadline_of_a_conversation(grpc_server):
    talk = Talk(grpc_server, timeout=1)
    assert next(talk.call).text == "welcome"
    assert failure(talk.call)[0] == "DEADLINE_EXCEEDED"
    talk.out.put(None)


def test_a_handler_that_does_not_read_holds_the_client_back(grpc_server):
    """Only a bounded number of bytes is taken from a client while nothing reads its answers."""
    sent = []

    def give():
        for i in range(400):
            sent.append(i)
            yield grpc_server.pb.Name(name="x", number=i, data=bytes(256 << 10))

    call = grpc_server.greeter.Chat(give(), metadata=FIRST, timeout=120)
    assert next(call).text == "welcome"
    seen, still = -1, 0
    until = time.monotonic() + 60
    while still < 20:  # until the client is held
        assert time.monotonic() < until
        still = still + 1 if len(sent) == seen else 0
        seen = len(sent)
        threading.Event().wait(0.05)
    assert len(sent) < 400
    assert sum(1 for _ in call) == 401


def test_many_conversations_at_once(grpc_server):
    talks = [Talk(grpc_server, timeout=60) for _ in range(6)]
    for t in talks:
        assert next(t.call).text == "welcome"
    for i in range(20):
        for t in talks:
            assert t.say(str(i)) == f"hello {i}"
    for t in talks:
        t.out.put(None)
        assert [m.text for m in t.call] == ["bye"]
