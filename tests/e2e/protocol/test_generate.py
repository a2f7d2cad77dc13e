"""POST …/generate and …/generate_stream: one response, or one event for each."""

import json
import socket

import numpy as np
import pytest

from support import wait
from support.process import procs
from support.protocol.h2client import H2

pytestmark = [pytest.mark.core, pytest.mark.quick]


@pytest.fixture(autouse=True)
def empty_stage(stage):
    stage.reset()


@pytest.fixture(scope="module", params=[1, 3], ids=["1-loop", "3-loops"])
def server(request, serve_module, stage):
    return serve_module("generating.py", "--threads", request.param, env={"ANYSERVE_TEST_STAGE": stage.path})


def path_of(model, verb="generate_stream"):
    return f"/v2/models/{model}/{verb}"


def post(server, model, verb, **body):
    with H2(server.host, server.port) as http:
        return http.request("POST", path_of(model, verb), body=json.dumps(body).encode())


def status(reply):
    return int(reply.headers[":status"])


def events_of(data):
    """The objects of a text/event-stream in which each event is one line of data."""
    assert not data or data.endswith(b"\n\n")
    lines = data.decode().split("\n\n")[:-1]
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [json.loads(line[6:]) for line in lines]


def stream(server, model, **body):
    reply = post(server, model, "generate_stream", **body)
    assert status(reply) == 200 and reply.ended
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    return events_of(reply.data)


@pytest.mark.parametrize("n", [0, 1, 3, 5000])
def test_each_response_is_an_event(server, n):
    got = stream(server, "words", prompt="grün", n=n, suffix="!", id="x")
    assert got == [{"id": "x", "model_name": "words", "model_version": "1", "parameters": {"i": i},
                    "text": f"grün {i}\n!"} for i in range(n)]


def test_a_plain_model_is_a_stream_of_one(server):
    (got,) = stream(server, "double", n=4)
    assert got["output0"] == 8


def test_a_model_that_takes_a_stream_gets_one_request(server):
    assert [e["output0"] for e in stream(server, "sum", n=7)] == [7]


def test_generate_gives_one_response(server):
    for model, wanted in (("words", {"text": "a 0\n"}), ("double", {"output0": 2})):
        reply = post(server, model, "generate", n=1, **({"prompt": "a"} if model == "words" else {}))
        assert status(reply) == 200 and reply.headers["content-type"] == "application/json"
        got = json.loads(reply.data)
        assert {k: got[k] for k in wanted} == wanted


@pytest.mark.parametrize("n, word", [(0, "no response"), (2, "more than one response")])
def test_generate_takes_no_other_number(server, n, word):
    reply = post(server, "words", "generate", prompt="a", n=n)
    assert status(reply) == 400 and word in json.loads(reply.data)["error"]


def test_infer_refuses_such_models(server):
    with H2(server.host, server.port) as http:
        reply = http.request("POST", path_of("failing", "infer"), body=json.dumps(
            {"inputs": [{"name": "n", "datatype": "INT32", "shape": [1], "data": [1]}]}).encode())
    assert status(reply) == 501 and "generate_stream" in json.loads(reply.data)["error"]


# --- errors ---

@pytest.mark.parametrize("verb", ["generate", "generate_stream"])
def test_an_error_before_the_first_response_has_its_status(server, verb):
    reply = post(server, "failing", verb, n=0)
    assert status(reply) == 400 and json.loads(reply.data) == {"error": 'no "more"'}
    reply = post(server, "nope", verb, n=0)
    assert status(reply) == 404 and json.loads(reply.data) == {"error": "unknown model 'nope'"}
    reply = post(server, "words", verb, n="one")
    assert status(reply) == 400 and "'n'" in json.loads(reply.data)["error"]


def test_a_later_error_is_the_last_event(server):
    *before, last = stream(server, "failing", n=2)
    assert [e["output0"] for e in before] == [0, 1]
    assert last == {"error": 'no "more"'}


def test_bytes_that_are_no_text_are_an_error(server):
    first, last = stream(server, "no_text", n=100)
    assert first["text"] == "fine" and "UTF-8" in last["error"]


def test_worker_killed_in_mid_stream(serve, stage):
    server = serve("generating.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    with H2(server.host, server.port) as http:
        call = http.open([(":method", "POST"), (":scheme", "http"), (":path", path_of("endless")),
                          (":authority", "localhost")])
        http.send(call, b'{"n":1}', end=True)
        (scene,) = stage.started(1)
        while len(http.replies[call].data) < 10_000:
            http.read()
        procs.kill(scene.pid)
        reply = http.reply(call)
        assert "may have been executed" in events_of(reply.data)[-1]["error"]
    server.wait_all_ready()


# --- a client that does not read, a client that leaves ---

def test_a_slow_client_stops_the_generator_and_leaves(server, stage, connect):
    client = connect(server)
    with H2(server.host, server.port) as http:
        http.is_reading = False
        call = http.open([(":method", "POST"), (":scheme", "http"), (":path", path_of("endless")),
                          (":authority", "localhost")])
        http.send(call, b'{"n":1}', end=True)
        (scene,) = stage.started(1)
        counts = [-1]

        def is_paused():
            counts.append(int(client.infer("produced", {"n": np.array([1], np.int32)})["output0"][0]))
            return counts[-1] > 100 and len(counts) > 5 and len(set(counts[-5:])) == 1
        wait.until(is_paused, lambda: f"the generator to stop: {counts}")
        assert server.status()["server"]["live_bytes"] < 2 << 20
        while len(http.replies[call].data) < 60_000:
            http.read()
        http.resume()
        while len(http.replies[call].data) < 4 << 20:
            http.read()
        http.conn.reset_stream(call, 8)
        http.flush()
        assert scene.last_word() == "closed"


def test_a_client_that_ends_its_side_in_mid_event_gets_that_and_is_gone(server, stage):
    size = 16 << 20
    body = b'{"n":[%d]}' % size
    with socket.socket() as s:
        s.settimeout(wait.SECONDS)
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.connect((server.host, server.port))
        s.sendall(b"POST /v2/models/one_large_then_wait/generate_stream HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b"
                  % (len(body), body))
        (scene,) = stage.started(1)
        n = len(s.recv(1000))
        assert n
        s.shutdown(socket.SHUT_WR)
        for _ in range(3):  # the loop's next turns have seen it
            server.status()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        while data := s.recv(1 << 20):
            n += len(data)
        assert n > size
        assert scene.last_word() == "cancelled"
