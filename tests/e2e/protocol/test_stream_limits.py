"""Limits of streams, each at its value and one beyond, as clients and workers see them."""

import contextlib

import grpc
import numpy as np
import pytest

from support.process import procs
from support.protocol import link, oip
from support.protocol.h2client import H2, messages_of, prefixed
from support.protocol.link import Worker

pytestmark = pytest.mark.core

LARGE = 60_000  # elements of eight bytes: more than may wait for a client that does not read


@pytest.fixture(autouse=True)
def empty_stage(stage):
    stage.reset()


def stream_of(http, *messages, end=False):
    call = http.open_grpc("ModelStreamInfer")
    http.send(call, b"".join(prefixed(m.SerializeToString()) for m in messages), end=end)
    return call


def errors_of(reply):
    return [oip.messages()["ModelStreamInferResponse"].FromString(m).error_message for _, m in messages_of(reply.data)]


# --- what a worker may be ahead of its client ---

def part(q, n):
    return link.message(q.stream, {"y": np.zeros(n)}, more=True)


def begin(worker, http):
    """A stream of a worker written by hand, whose client reads nothing."""
    worker.serve("hand", decoupled=True)
    http.is_reading = False
    stream_of(http, oip.infer_request("hand", {"x": np.ones(1)}))
    q = worker.next(link.OPEN)
    worker.next(link.CREDIT)
    return q


def is_alive(worker):
    """The dispatcher has read all that was sent, and found nothing wrong."""
    worker.send(link.frame(link.PING, bytes(8)))
    worker.next(link.PONG)


def is_refused(server, worker, data):
    with contextlib.suppress(ConnectionError):  # the dispatcher need not listen to the end
        worker.send(data)
    worker.wait_end()
    server.log.wait(r"event=worker_gone replica=hand-0.*beyond its stream's credit")


def test_messages_that_a_worker_may_be_ahead(serve):
    """--stream-credit: the first one fills what may wait for the client, so none is granted again."""
    server = serve("echo.py", "--stream-credit", 4, "--stream-credit-bytes", "1G")
    with Worker(server) as worker, H2(server.host, server.port) as http:
        q = begin(worker, http)
        worker.send(part(q, LARGE) + part(q, 1) * 3)
        is_alive(worker)
        is_refused(server, worker, part(q, 1))


@pytest.mark.parametrize("more, messages", [(0, 1), (1, 2)])
def test_bytes_that_a_worker_may_be_ahead(serve, more, messages):
    """--stream-credit-bytes: a message may begin while there is one byte left, and go over it."""
    head, body = link.message(1, {"y": np.zeros(LARGE)}, more=True)[:128], 8 * LARGE
    cost = int.from_bytes(head[56:60], "little") + body  # docs/protocol/link.md, section 7: the table and the body
    server = serve("echo.py", "--stream-credit-bytes", cost + more)
    with Worker(server) as worker, H2(server.host, server.port) as http:
        q = begin(worker, http)
        worker.send(part(q, LARGE) * messages)
        is_alive(worker)
        is_refused(server, worker, part(q, LARGE))


# --- what a client may send ---

@pytest.mark.parametrize("more", [0, 1])
def test_largest_message_of_a_stream(serve, more):
    """--max-message-bytes holds for each of them."""
    ask = oip.infer_request("async", {"n": np.array([1], np.int32)}, id="x" * 100)
    server = serve("streaming.py", "--max-message-bytes", len(ask.SerializeToString()))
    with H2(server.host, server.port) as http:
        if more:
            ask.id += "x"
        reply = http.reply(stream_of(http, ask, end=True))
    if more:
        assert reply.grpc_status == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
        assert f"message of {ask.ByteSize()} bytes is over" in reply.grpc_message
    else:
        assert (reply.grpc_status, errors_of(reply)) == (0, [""])


@pytest.mark.parametrize("more", [0, 1])
def test_requests_of_a_stream_count_as_requests(serve, stage, more):
    """--max-requests: the call is one, and each message under way."""
    server = serve("streaming.py", "--max-requests", 4, env={"ANYSERVE_TEST_STAGE": stage.path})
    with H2(server.host, server.port) as http:
        ask = [oip.infer_request("double", {"n": np.array([k], np.int32)}, id=f"wait{k}") for k in range(4)]
        call = stream_of(http, *ask[:3])
        scenes = stage.started(3)
        http.send(call, prefixed(ask[3].SerializeToString()) * more, end=True)
        if more:
            reply = http.reply(call)
            assert reply.grpc_status == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]
            assert "--max-requests" in reply.grpc_message
        else:
            for scene in scenes:
                scene.go()
            reply = http.reply(call)
            assert (reply.grpc_status, errors_of(reply)) == (0, [""] * 3)


def test_windows_are_what_the_options_say(serve, stage):
    """A handler that takes nothing stops its client at --stream-window; others have --connection-window."""
    server = serve("streaming.py", "--stream-window", 70_000, "--connection-window", 200_000,
                   env={"ANYSERVE_TEST_STAGE": stage.path})
    with H2(server.host, server.port) as http:
        while http.conn.remote_settings.initial_window_size != 70_000 or http.conn.outbound_flow_control_window < 200_000:
            assert http.read()
        assert http.conn.outbound_flow_control_window == 200_000
        call = http.open_grpc("ModelStreamInfer")
        assert http.conn.local_flow_control_window(call) == 70_000


@pytest.mark.parametrize("options", [("--stream-inputs", 1), ("--stream-input-bytes", 1), ("--stream-requests", 1)], ids=str)
def test_the_smallest_windows_of_inputs(serve, stage, options):
    """One message at a time is slow, and nothing else; the worker's window itself is seen by tests/python."""
    server = serve("streaming.py", *options, env={"ANYSERVE_TEST_STAGE": stage.path})
    (worker,) = [pid for name, pid in server.workers().items() if name.startswith("streaming")]
    if "inputs" in options[0] or "bytes" in options[0]:
        assert f"{options[0]}={options[1]}" in procs.command(worker)
    with H2(server.host, server.port) as http:
        reply = http.reply(stream_of(http, *[oip.infer_request("sum", {"n": np.array([k], np.int32)})
                                             for k in range(100)], end=True))
    ((_, m),) = messages_of(reply.data)
    answer = oip.messages()["ModelStreamInferResponse"].FromString(m).infer_response
    assert oip.Answer(answer)["output0"] == 4950
