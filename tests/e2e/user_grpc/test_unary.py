"""gRPC services of the user with one message in each direction, and what belongs to every call: metadata, status, cancels."""

import ast
import threading
import time

import pytest

pytestmark = pytest.mark.core
FIRST = (("application", "first"),)


def hello(server, name, metadata=FIRST, **fields):
    return server.greeter.Hello(server.pb.Name(name=name, **fields), metadata=metadata, timeout=30)


def failed(server, name, metadata=FIRST, **fields):
    with pytest.raises(server.grpc.RpcError) as e:
        hello(server, name, metadata, **fields)
    return e.value.code().name, e.value.details()


def test_the_metadata_chooses_the_application(grpc_server):
    assert hello(grpc_server, "you").text == "hello you"
    assert hello(grpc_server, "you", [("application", "second")]).text == "other you"


def test_no_application(grpc_server):
    ping = "Ping /ray.serve.RayServeAPIService/ListApplications for available applications."
    assert failed(grpc_server, "x", ()) == ("NOT_FOUND", "Application metadata not set. " + ping)
    assert failed(grpc_server, "x", [("application", "none")]) == ("NOT_FOUND", "Application 'none' not found. " + ping)


def test_unknown_methods(grpc_server):
    call = grpc_server.channel.unary_unary("/userdefined.Greeter/Nothing")
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        call(b"", metadata=FIRST, timeout=30)
    assert e.value.code().name == "UNIMPLEMENTED"
    assert "/userdefined.Greeter/Nothing" in e.value.details()
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        grpc_server.greeter.Missing(grpc_server.pb.Name(), metadata=FIRST, timeout=30)
    assert e.value.code().name == "INTERNAL"
    assert "Tried to call a method 'Missing' that does not exist." in e.value.details()


@pytest.mark.parametrize("size", [0, 1, 8 << 10, 100 << 10, 3 << 20])
def test_bytes_of_any_size(grpc_server, size):
    data = bytes(range(256)) * (size // 256) + bytes(size % 256)
    answer = hello(grpc_server, "x", data=data)
    assert answer.number == size and answer.data == data


def test_the_context(grpc_server):
    given = [("application", "first"), ("request_id", "r-1"), ("multiplexed_model_id", "m"), ("session_id", "s"),
             ("raw-bin", b"\x00\x01\xff"), ("twice", "a"), ("twice", "b"), ("traceparent", "00-" + "1" * 32 + "-" + "2" * 16 + "-01")]  # fmt: skip
    answer, call = grpc_server.greeter.Hello.with_call(grpc_server.pb.Name(name="context"), metadata=given, timeout=30)
    seen = ast.literal_eval(answer.text)
    ours = [pair for pair in seen["metadata"] if pair[0] != "user-agent"]
    assert sorted(ours, key=str) == sorted(given, key=str)
    assert seen["peer"].startswith("ipv4:127.0.0.1:")
    assert (seen["request_id"], seen["application"], seen["model"]) == ("r-1", "first", "m")
    assert seen["ids"] == ("r-1", "first", "m", "s")
    assert (seen["code"], seen["details"], seen["trailing"]) == (0, "", [("request_id", "r-1")])
    assert seen["same"] and seen["auth"] == {} and seen["identities"] is None
    assert seen["parent"].startswith("00-111")
    assert ("request_id", "r-1") in call.trailing_metadata()


def test_calls_of_a_handler_belong_to_the_trace_of_its_request(grpc_server):
    trace = {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01", "tracestate": "a=b"}
    for given in (trace, {}):
        answer = grpc_server.greeter.Hello(grpc_server.pb.Name(name="trace"), metadata=[*FIRST, *given.items()], timeout=30)
        assert ast.literal_eval(answer.text) == (given or None)


def test_a_request_id_is_made(grpc_server):
    ids = set()
    for _ in range(2):
        _, call = grpc_server.greeter.Hello.with_call(grpc_server.pb.Name(name="x"), metadata=FIRST, timeout=30)
        ids.add(dict(call.trailing_metadata())["request_id"])
    assert len(ids) == 2 and all(len(i) == 36 for i in ids)


def test_trailers_of_a_good_call(grpc_server):
    answer, call = grpc_server.greeter.Hello.with_call(grpc_server.pb.Name(name="trailers"), metadata=FIRST, timeout=30)
    assert answer.text == "hello trailers"
    assert call.code() == grpc_server.grpc.StatusCode.OK
    trailers = [pair for pair in call.trailing_metadata() if pair[0] != "request_id"]
    assert sorted(map(tuple, trailers)) == [("first", "1"), ("first", "2"), ("raw-bin", b"\x00\xff")]


def test_a_status_of_the_user(grpc_server):
    assert failed(grpc_server, "code") == ("DATA_LOSS", "lost\nin two lines: 100% ü ")
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        hello(grpc_server, "code and raise")
    assert e.value.code().name == "FAILED_PRECONDITION" and e.value.details() == "not now"
    assert dict(e.value.trailing_metadata())["why"] == "because"


def test_exceptions(grpc_server):
    assert failed(grpc_server, "raise") == ("INTERNAL", "a value is wrong")
    code, text = failed(grpc_server, "raise", number=5000)
    assert code == "INTERNAL" and len(text) == 4096 and text.endswith("!... [truncated]")
    assert failed(grpc_server, "backpressure") == (
        "RESOURCE_EXHAUSTED", "Request dropped due to backpressure (num_queued_requests=3, max_queued_requests=2).")  # fmt: skip
    assert failed(grpc_server, "unavailable")[0] == "UNAVAILABLE"
    assert failed(grpc_server, "timeout") == ("DEADLINE_EXCEEDED", "Request timed out.")
    assert hello(grpc_server, "on").text == "hello on"


def test_bad_answers(grpc_server):
    code, text = failed(grpc_server, "bad result")
    assert code == "INTERNAL" and "returns a protobuf message, not dict" in text
    code, text = failed(grpc_server, "bad trailer")
    assert code == "INTERNAL" and "'Bad Key' is no key of metadata" in text


def test_bytes_that_are_no_message(grpc_server):
    call = grpc_server.channel.unary_unary("/userdefined.Greeter/Hello")
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        call(b"\xff\xff\xff\xff", metadata=FIRST, timeout=30)
    assert e.value.code().name == "INTERNAL" and "Exception deserializing request" in e.value.details()


def test_two_messages_for_a_method_with_one(grpc_server):
    call = grpc_server.channel.stream_unary("/userdefined.Greeter/Hello")
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        call(iter([b"", b""]), metadata=FIRST, timeout=30)
    assert e.value.code().name == "UNIMPLEMENTED" and e.value.details() == "more than one message on a unary call"


def cancelled(server):
    return server.serve.get_app_handle("first").remote("cancelled").result(timeout_s=30)


def wait_for_cancels(server, n):
    until = time.monotonic() + 30
    while cancelled(server) < n:
        assert time.monotonic() < until
        threading.Event().wait(0.02)


def test_a_client_that_leaves_cancels_the_method(grpc_server):
    before = cancelled(grpc_server)
    with pytest.raises(grpc_server.grpc.RpcError) as e:
        grpc_server.greeter.Hello(grpc_server.pb.Name(name="sleep"), metadata=FIRST, timeout=1)
    assert e.value.code().name == "DEADLINE_EXCEEDED"
    wait_for_cancels(grpc_server, before + 1)


def test_many_at_once(grpc_server):
    calls = [grpc_server.greeter.Hello.future(grpc_server.pb.Name(name=str(i)), metadata=FIRST, timeout=60) for i in range(200)]
    assert [c.result().text for c in calls] == [f"hello {i}" for i in range(200)]


def test_the_service_of_ray(grpc_server):
    names = grpc_server.channel.unary_unary("/ray.serve.RayServeAPIService/ListApplications")(b"", timeout=30)
    assert names == b"\x0a\x05first\x0a\x06second"
    assert grpc_server.channel.unary_unary("/ray.serve.RayServeAPIService/Healthz")(b"", timeout=30) == b"\x0a\x07success"


def test_gzip(grpc_server):
    answer = grpc_server.greeter.Hello(grpc_server.pb.Name(name="x", data=bytes(100000)), metadata=FIRST, timeout=30,
                                       compression=grpc_server.grpc.Compression.Gzip)  # fmt: skip
    assert answer.number == 100000
