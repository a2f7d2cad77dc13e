"""ModelStreamInfer: answers of many messages, requests of many messages, and what happens when either side stops."""

import asyncio
import concurrent.futures
import gzip
import queue
import threading

import grpc
import numpy as np
import pytest
import tritonclient.grpc as triton
import tritonclient.grpc.aio as triton_aio
from tritonclient.utils import InferenceServerException

from support import wait
from support.process import procs
from support.protocol import oip
from support.protocol.h2client import H2, messages_of, prefixed

pytestmark = [pytest.mark.core, pytest.mark.quick]

KINDS = ["sync", "threads", "async", "class"]
METHOD = f"/{oip.SERVICE}/ModelStreamInfer"


@pytest.fixture(autouse=True)
def empty_stage(stage):
    stage.reset()


@pytest.fixture(scope="module", params=[1, 4], ids=["1-loop", "4-loops"])
def server(request, serve_module, stage):
    return serve_module("streaming.py", "--threads", request.param, env={"ANYSERVE_TEST_STAGE": stage.path})


class Stream:
    """One call, whose messages are sent and read one by one."""

    def __init__(self, address, metadata=(), timeout=wait.SECONDS):
        self.channel = grpc.insecure_channel(address, oip.UNLIMITED)
        self._out = queue.SimpleQueue()
        method = self.channel.stream_stream(METHOD, lambda q: q.SerializeToString(),
                                            oip.messages()["ModelStreamInferResponse"].FromString)
        self.call = method(iter(self._out.get, None), metadata=metadata, timeout=timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.call.cancel()
        self._out.put(None)
        self.channel.close()

    def send(self, model, n=None, id="", **parameters):
        inputs = {} if n is None else {"n": np.array([n], np.int32)}
        self._out.put(oip.infer_request(model, inputs, id=id, parameters=parameters))

    def end(self):
        self._out.put(None)

    def next(self):
        return next(self.call)

    def rest(self):
        return list(self.call)


@pytest.fixture
def stream(server):
    with Stream(server.address) as s:
        yield s


def value(m):
    assert not m.error_message, m.error_message
    return int(oip.Answer(m.infer_response).outputs["output0"].ravel()[0])


def values(messages):
    return [value(m) for m in messages]


def is_final(m):
    return m.infer_response.parameters["triton_final_response"].bool_param


# --- responses ---

@pytest.mark.parametrize("n", [0, 1, 3, 1000])
@pytest.mark.parametrize("model", KINDS)
def test_any_number_of_responses(stream, model, n):
    stream.send(model, n, id="a")
    stream.end()
    got = stream.rest()
    assert values(got) == list(range(n))
    assert all(m.infer_response.id == "a" and m.infer_response.model_name == model for m in got)
    assert not any(is_final(m) for m in got)
    if model == "class":
        assert [m.infer_response.parameters["square"].int64_param for m in got] == [i * i for i in range(n)]


@pytest.mark.parametrize("n", [0, 2])
def test_the_end_of_a_stream_is_told_where_it_is_asked_for(stream, n):
    stream.send("async", n, id="a", triton_enable_empty_final_response=True)
    got = [stream.next() for _ in range(n + 1)]
    assert values(got[:-1]) == list(range(n))
    assert [is_final(m) for m in got] == [False] * n + [True]
    assert got[-1].infer_response.id == "a" and not got[-1].infer_response.outputs


def test_large_responses(stream):
    stream.send("large", 20)
    stream.end()
    for i, m in enumerate(stream.rest()):
        assert oip.Answer(m.infer_response).outputs["output0"].tobytes() == bytes([i]) * 300_000
    assert i == 19


@pytest.mark.parametrize("model", KINDS)
def test_triton_client_reads_ten_thousand(server, model):
    got = queue.SimpleQueue()
    with triton.InferenceServerClient(server.address) as client:
        client.start_stream(lambda result, error: got.put((result, error)))
        n = triton.InferInput("n", [1], "INT32")
        n.set_data_from_numpy(np.array([10_000], np.int32))
        client.async_stream_infer(model, [n], request_id="x", enable_empty_final_response=True)
        for i in range(10_001):
            result, error = got.get(timeout=wait.SECONDS)
            assert error is None
            response = result.get_response()
            if i < 10_000:
                assert result.as_numpy("output0") == [i]
            assert response.parameters["triton_final_response"].bool_param == (i == 10_000)
        client.stop_stream()


def test_triton_aio_client(server):
    async def run():
        async with triton_aio.InferenceServerClient(server.address) as client:
            async def requests():
                for k in range(5):
                    n = triton.InferInput("n", [1], "INT32")
                    n.set_data_from_numpy(np.array([k], np.int32))
                    yield {"model_name": "async", "inputs": [n], "request_id": str(k)}
            found = {}
            async for result, error in client.stream_infer(requests()):
                assert error is None
                found.setdefault(result.get_response().id, []).append(int(result.as_numpy("output0")[0]))
            return found
    assert asyncio.run(run()) == {str(k): list(range(k)) for k in range(1, 5)}


@pytest.mark.parametrize("model", ["async", "threads"])
def test_a_hundred_clients(server, model):
    def one(_):
        with Stream(server.address) as s:
            s.send(model, 100)
            s.end()
            return values(s.rest())
    with concurrent.futures.ThreadPoolExecutor(100) as pool:
        assert all(got == list(range(100)) for got in pool.map(one, range(100)))


# --- many requests on one stream ---

def test_plain_answers_come_in_the_order_of_their_requests(server, stage, stream):
    stream.send("double", 1, id="wait")
    (scene,) = stage.started(1)
    before = server.counts("streaming")["completed"]
    for k in range(2, 20):
        stream.send("double", k, id=str(k))
    stream.send("nope", 1, id="unknown")
    stream.send("async", 2, id="stream")  # is not held up by them
    assert values([stream.next(), stream.next()]) == [0, 1]
    wait.until(lambda: server.counts("streaming")["completed"] == before + 19, "the others to be answered")
    scene.go()
    stream.end()
    got = stream.rest()
    assert values(got[:-1]) == [2 * k for k in range(1, 20)]
    assert all(is_final(m) for m in got[:-1])
    assert got[-1].error_message == "unknown model 'nope'" and got[-1].infer_response.id == "unknown"


def test_streams_on_one_call_run_at_once(stream):
    for k in range(10):
        stream.send("async", 100, id=str(k))
    stream.end()
    found = {}
    for m in stream.rest():
        found.setdefault(m.infer_response.id, []).append(value(m))
    assert found == {str(k): list(range(100)) for k in range(10)}


def test_requests_under_way_are_bounded(serve, stage):
    server = serve("streaming.py", "--stream-requests", 2, env={"ANYSERVE_TEST_STAGE": stage.path})
    with Stream(server.address) as s:
        for k in range(4):
            s.send("double", k, id=f"wait{k}")
        s.end()
        stage.started(2)
        assert server.deployment("streaming")["ongoing"] == 2
        stage.scenes[0].go()
        assert values([s.next()]) == [0]
        assert stage.started(3)[2].tag == "wait2"
        for k in (1, 2, 3):
            stage.started(k + 1)[k].go()
        assert values(s.rest()) == [2, 4, 6]


def test_classes_beside_large_outputs_wait_for_their_client(server):
    """Classes are no bytes of the worker's answer: they must be there still when the client reads on."""
    ask = oip.infer_request("scores", {}, id="s")
    for name, count in (("large", 0), ("scores", 3000)):
        out = ask.outputs.add()
        out.name = name
        if count:
            out.parameters["classification"].int64_param = count
    before = server.counts("streaming")["completed"]
    with H2(server.host, server.port) as http:
        http.is_reading = False
        call = http.open_grpc("ModelStreamInfer")
        for _ in range(3):
            http.send(call, prefixed(ask.SerializeToString()))
        wait.until(lambda: server.counts("streaming")["completed"] >= before + 1, "an answer")
        for _ in range(3):  # whose memory is used again
            http.send(http.open_grpc(), prefixed(ask.SerializeToString()), end=True)
        wait.until(lambda: server.counts("streaming")["completed"] >= before + 4, "other answers")
        http.resume()
        http.send(call, b"", end=True)
        found = [oip.messages()["ModelStreamInferResponse"].FromString(m)
                 for _, m in messages_of(http.reply(call).data)]
    assert len(found) == 3
    for m in found:
        outputs = oip.Answer(m.infer_response).outputs
        assert outputs["large"].tolist() == list(range(100_000))
        assert outputs["scores"].ravel().tolist() == [f"{k}:{k}".encode() for k in range(2999, -1, -1)]


# --- errors ---

def test_errors_are_messages_and_the_call_goes_on(stream):
    stream.send("failing", 7, id="f")
    assert value(stream.next()) == 7
    failed = stream.next()
    assert (failed.error_message, failed.infer_response.id) == ("after one", "f")
    stream.send("bad", id="b")
    assert value(stream.next()) == 1
    assert "returned None" in stream.next().error_message
    stream.send("async", id="m")
    assert "missing input 'n'" in stream.next().error_message
    stream._out.put(oip.message("ModelInferRequest", model_name="async", id="broken", raw_input_contents=[b"x"]))
    assert "raw_input_contents" in stream.next().error_message
    stream.send("async", 1, id="ok")
    stream.end()
    assert values(stream.rest()) == [0]


def test_errors_end_the_call_where_that_is_asked_for(server):
    with Stream(server.address, metadata=[("triton_grpc_error", "true")]) as s:
        s.send("failing", 7)
        assert value(s.next()) == 7
        with pytest.raises(grpc.RpcError) as e:
            s.next()
        assert (e.value.code(), e.value.details()) == (grpc.StatusCode.FAILED_PRECONDITION, "after one")


def test_what_is_inflated_when_the_call_has_ended_is_given_to_nobody(server, stage):
    def double(id, n):
        return oip.infer_request("double", {"n": np.zeros(n, np.int32)}, id=id).SerializeToString()

    late, last = (prefixed(gzip.compress(double(id, 8 << 20), 1), 1) for id in ("wait late", "wait last"))
    gzipped = ("grpc-encoding", "gzip")
    with H2(server.host, server.port) as http:
        call = http.open_grpc("ModelStreamInfer", [("triton_grpc_error", "true"), gzipped])
        http.deaf.add(call)  # its status waits behind the first answer
        http.send(call, prefixed(double("", 50_000)) + prefixed(double("wait first", 1)))
        (first,) = stage.started(1)
        first.go("raise")  # before: under load the handler may take longer than the inflation
        http.send(call, late)
        other = http.open_grpc("ModelInfer", [gzipped])
        http.send(other, last, end=True)  # is inflated behind the other
        stage.started(2)
        assert stage.tags() == ["wait first", "wait last"]


def test_a_deadline_ends_the_call(server, stage):
    with Stream(server.address, timeout=2) as s:
        s.send("one_then_wait", id="d")
        assert value(s.next()) == 1
        (scene,) = stage.started(1)
        with pytest.raises(grpc.RpcError) as e:
            s.rest()
        assert e.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert scene.last_word() == "cancelled"


def test_model_infer_refuses_such_models(server, connect):
    call = connect(server).begin("async", {"n": np.array([1], np.int32)})
    assert call.exception().code() == grpc.StatusCode.UNIMPLEMENTED
    assert "ModelStreamInfer" in call.exception().details()
    with triton.InferenceServerClient(server.address) as client, pytest.raises(InferenceServerException):
        client.infer("async", [])


# --- a client that does not read, a client that leaves ---

ENDLESS = ["endless_sync", "endless_threads", "endless_async"]


def begin_unread(http, model, id):
    """A call whose answer is not read."""
    http.is_reading = False
    call = http.open_grpc("ModelStreamInfer")
    http.send(call, prefixed(oip.infer_request(model, {}, id=id).SerializeToString()))
    return call


def made(client, model):
    return int(client.infer("produced", {}, parameters={"name": model})["output0"][0])


@pytest.mark.parametrize("model", ["endless_threads", "endless_async"])
def test_a_client_that_stops_reading_stops_the_generator(server, stage, connect, model):
    client = connect(server)
    with H2(server.host, server.port) as http:
        call = begin_unread(http, model, "slow")
        (scene,) = stage.started(1)
        counts = [-1]

        def is_paused():
            counts.append(made(client, model))
            return counts[-1] > 300 and counts[-1] == counts[-2] == counts[-min(5, len(counts))]
        wait.until(is_paused, lambda: f"the generator to stop: {counts}")
        stopped = counts[-1]
        assert stopped < 2000  # windows of HTTP/2, 256K here, 256K of credit: a KiB each
        assert server.status()["server"]["live_bytes"] < 2 << 20
        while len(http.replies[call].data) < 60_000:
            http.read()
        http.resume()
        while len(http.replies[call].data) < 4 << 20:
            http.read()
        assert made(client, model) > stopped
        http.conn.reset_stream(call, 8)
        http.flush()
        assert scene.last_word() in ("closed", "GeneratorExit", "CancelledError")


@pytest.mark.parametrize("model", ENDLESS)
@pytest.mark.parametrize("is_reading", [True, False], ids=["reading", "not reading"])
def test_a_client_that_leaves_closes_the_generator(server, stage, model, is_reading):
    with H2(server.host, server.port) as http:
        call = begin_unread(http, model, "leaver")
        (scene,) = stage.started(1)
        if is_reading:
            http.resume()
        while len(http.replies[call].data) < 10_000:
            http.read()
    assert scene.last_word() in ("closed", "GeneratorExit", "CancelledError")


def test_a_client_that_leaves_cancels_what_waits(server, stage):
    with Stream(server.address) as s:
        s.send("one_then_wait", id="a")
        s.send("one_then_wait", id="b")
        scenes = stage.started(2)
        s.call.cancel()
        assert [scene.last_word() for scene in scenes] == ["cancelled", "cancelled"]


# --- processes die ---

def test_worker_killed_in_mid_stream(serve, stage):
    server = serve("streaming.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    with Stream(server.address) as s:
        for model in ("one_then_wait", "idempotent"):  # what was given cannot be taken back
            s.send(model, id="a")
            assert value(s.next()) == 1
            scene = stage.started(1)[0]
            procs.kill(scene.pid)
            assert "may have been executed" in s.next().error_message
            server.wait_all_ready()
            stage.reset()
        s.send("async", 2)
        s.end()
        assert values(s.rest()) == [0, 1]


def test_dispatcher_killed_in_mid_stream(serve, stage):
    server = serve("streaming.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    with Stream(server.address) as s:
        s.send("one_then_wait", id="a")
        assert value(s.next()) == 1
        (scene,) = stage.started(1)
        procs.kill(server.dispatcher)
        with pytest.raises(grpc.RpcError) as e:
            s.next()
        assert e.value.code() == grpc.StatusCode.UNAVAILABLE
        assert scene.last_word() == "cancelled"
    server.wait_all_ready()
    with Stream(server.address) as s:
        s.send("async", 1)
        s.end()
        assert values(s.rest()) == [0]


def test_what_is_under_way_is_finished_when_the_server_ends(serve, stage):
    server = serve("streaming.py", env={"ANYSERVE_TEST_STAGE": stage.path})
    with Stream(server.address) as s:
        s.send("one_then_wait", id="a")
        assert value(s.next()) == 1
        (scene,) = stage.started(1)
        ending = threading.Thread(target=server.stop)
        ending.start()
        server.log.wait("event=drain|event=draining|drain")
        scene.go()
        assert value(s.next()) == 2
        with pytest.raises(grpc.RpcError) as e:
            s.next()
        assert e.value.code() == grpc.StatusCode.UNAVAILABLE
        ending.join()


# --- streams of inputs ---

def test_all_requests_of_a_call_are_one_input(stream):
    for k in range(1, 101):
        stream.send("running_sum", k, id=str(k))
    got = [stream.next() for _ in range(100)]
    assert values(got) == [k * (k + 1) // 2 for k in range(1, 101)]
    assert {m.infer_response.id for m in got} == {"1"}
    stream.end()
    assert stream.rest() == []


def test_a_stream_of_inputs_may_have_one_answer(stream):
    for k in range(1000):
        stream.send("sum", k)
    stream.send("double", 4, id="in between")
    stream.end()
    found = {m.infer_response.model_name: value(m) for m in stream.rest()}
    assert found == {"sum": 999 * 1000 // 2, "double": 8}


def test_large_inputs(stream):
    for _ in range(10):
        stream._out.put(oip.infer_request("sum", {"n": np.ones(100_000, np.int32)}))
    stream.end()
    assert values(stream.rest()) == [1_000_000]


def test_a_handler_may_end_before_its_input(stream):
    for k in range(4):
        stream.send("first_two", k, id=str(k), triton_enable_empty_final_response=True)
        if k == 1:
            found = [stream.next(), stream.next()]
    stream.end()
    found += stream.rest()
    ids = [oip.Answer(m.infer_response).outputs["output0"].tolist() for m in found if m.infer_response.outputs]
    assert ids == [[b"0", b"1"], [b"2", b"3"]]


def test_a_slow_handler_stops_its_client(server, stage, stream):
    big = oip.infer_request("slow_reader", {"n": np.zeros(100_000, np.int32)}, id="s")
    for _ in range(100):
        stream._out.put(big)
    (scene,) = stage.started(1)
    live = []

    def is_still():
        live.append(server.status()["server"]["live_bytes"])
        return len(live) > 5 and len(set(live[-5:])) == 1
    wait.until(is_still, lambda: f"the client to be stopped: {live[-5:]}")
    assert live[-1] < 5 << 20
    scene.go()
    stream.end()
    assert values(stream.rest()) == [100]


def test_a_bad_input_is_told_and_the_others_go_on(stream):
    stream.send("sum", 1, id="good")
    stream._out.put(oip.message("ModelInferRequest", model_name="sum", id="broken", raw_input_contents=[b"x"]))
    m = stream.next()
    assert "raw_input_contents" in m.error_message and m.infer_response.id in ("broken", "")
    stream.send("sum", 2)
    stream.end()
    assert values(stream.rest()) == [3]


def test_a_client_leaves_while_its_inputs_wait_in_the_queue(server, stage, connect):
    """One is read, some are with the worker, the others and their second messages wait here."""
    with H2(server.host, server.port) as http:
        for k in range(8):
            call = http.open_grpc("ModelStreamInfer")
            for _ in range(2):
                http.send(call, prefixed(oip.infer_request("one_reader", {"n": np.zeros(1, np.int32)},
                                                           id=str(k)).SerializeToString()))
            if k == 0:
                stage.started(1)
        wait.until(lambda: server.deployment("one_reader")["queued"] > 0, "requests to wait in the queue")
        connect(server).infer("produced", {}, parameters={"name": "endless_sync"})  # all was read
    assert stage.scenes[0].last_word() == "cancelled"
    wait.until(lambda: server.deployment("one_reader")["queued"] == 0, "the queue to be empty")
    with Stream(server.address) as s:
        s.send("async", 2)
        s.end()
        assert values(s.rest()) == [0, 1]


def test_an_input_that_waits_when_the_server_ends_is_the_last(serve, stage):
    """Its handler hears that nothing follows, and answers."""
    server = serve("streaming.py", "--goaway-grace", "0", env={"ANYSERVE_TEST_STAGE": stage.path})
    sent = 300
    with H2(server.host, server.port) as http:
        call = http.open_grpc("ModelStreamInfer")
        one = prefixed(oip.infer_request("slow_reader", {"n": np.zeros(1, np.int32)}, id="s").SerializeToString())
        http.send(call, one * sent)
        (scene,) = stage.started(1)
        # answered behind all that was sent
        http.grpc(prefixed(oip.infer_request("produced", {}, parameters={"name": "x"}).SerializeToString()))
        ending = threading.Thread(target=server.stop)
        ending.start()
        while 2 ** 31 - 1 in http.goaways[-1:] or not http.goaways:
            http.read()
        scene.go()
        reply = http.reply(call)
    ((_, m),) = messages_of(reply.data)
    assert 1 < value(oip.messages()["ModelStreamInferResponse"].FromString(m)) < sent
    assert reply.grpc_status == grpc.StatusCode.UNAVAILABLE.value[0]
    ending.join()
