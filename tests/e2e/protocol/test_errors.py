"""Bad input of every kind: each gets its documented status and a text that names what is wrong; the rest goes on."""

import re
import socket
import struct

import grpc
import numpy as np
import pytest

from support.load import Load
from support.protocol import oip, protobuf as pb
from support.protocol.h2client import H2, prefixed
from support.protocol.protobuf import field, request, tensor

pytestmark = [pytest.mark.core, pytest.mark.quick]
FLOAT = struct.pack("<f", 1.0)
GOOD = request(tensors=[tensor()], raws=[FLOAT])
MAX_MESSAGE = 1 << 20


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("failing/misbehaving.py")


@pytest.fixture
def http(server):
    with H2(server.host, server.port) as connection:
        yield connection


def assert_refused(error, code, text):
    assert error.code().name == code, error.details()
    assert re.search(text, error.details()), error.details()


# --- messages that are no ModelInferRequest, or a wrong one ---

DEEP = b""
for _ in range(200):
    DEEP = pb.field(5, DEEP)
HUGE = 2**63 - 1
BODIES = {
    "empty": (b"", "INVALID_ARGUMENT", "model name"),
    "no_model": (request(model="", tensors=[tensor()], raws=[FLOAT]), "INVALID_ARGUMENT", "model name"),
    "garbage": (b"\xff" * 100, "INVALID_ARGUMENT", "malformed"),
    "text": (b'{"inputs": []}', "INVALID_ARGUMENT", "."),
    "field_0": (field(1, "echo") + b"\x00\x00", "INVALID_ARGUMENT", "malformed"),
    "varint_of_11_bytes": (field(1, "echo") + pb.tag(9, pb.VARINT) + b"\x80" * 10 + b"\x01", "INVALID_ARGUMENT",
                           "malformed"),
    "tag_of_11_bytes": (field(1, "echo") + b"\x80" * 10 + b"\x01", "INVALID_ARGUMENT", "malformed"),
    "wire_type_6": (field(1, "echo") + pb.tag(9, 6) + b"\0" * 8, "INVALID_ARGUMENT", "malformed"),
    "wire_type_7": (field(1, "echo") + pb.tag(9, 7) + b"\0" * 8, "INVALID_ARGUMENT", "malformed"),
    "open_group": (field(1, "echo") + pb.tag(9, 3), "INVALID_ARGUMENT", "malformed"),
    "closed_group": (field(1, "echo") + pb.tag(9, 4), "INVALID_ARGUMENT", "malformed"),
    "length_beyond_the_end": (field(1, "echo") + pb.tag(9, pb.LEN) + pb.varint(1000), "INVALID_ARGUMENT", "malformed"),
    "length_of_2_63": (field(1, "echo") + pb.tag(7, pb.LEN) + pb.varint(2**63), "INVALID_ARGUMENT", "malformed"),
    "length_of_2_64": (field(1, "echo") + pb.tag(5, pb.LEN) + pb.varint(2**64 - 1), "INVALID_ARGUMENT", "malformed"),
    "name_as_varint": (pb.tag(1, pb.VARINT) + b"\x05", "INVALID_ARGUMENT", "model_name: wrong wire type"),
    "inputs_as_varint": (field(1, "echo") + pb.tag(5, pb.VARINT) + b"\x05", "INVALID_ARGUMENT", "inputs"),
    "raw_as_i32": (field(1, "echo") + pb.tag(7, pb.I32) + b"\0\0\0\0", "INVALID_ARGUMENT", "raw_input_contents"),
    "id_not_utf8": (request(tensors=[tensor()], raws=[FLOAT], extra=field(3, b"\xff\xfe")), "INVALID_ARGUMENT",
                    "id is not valid UTF-8"),
    "model_not_utf8": (request(model=b"\xc0\x80"), "INVALID_ARGUMENT", "model_name is not valid UTF-8"),
    "nested_200_deep": (field(1, "echo") + DEEP, "INVALID_ARGUMENT", "inputs"),
    "tensor_without_name": (request(tensors=[tensor(name="")], raws=[FLOAT]), "INVALID_ARGUMENT", r"inputs\[0\]"),
    "tensor_name_not_utf8": (request(tensors=[tensor(name=b"\xed\xa0\x80")], raws=[FLOAT]), "INVALID_ARGUMENT",
                             r"UTF-8"),
    "tensor_twice": (request(tensors=[tensor("dup"), tensor("dup")], raws=[FLOAT, FLOAT]), "INVALID_ARGUMENT",
                     "'dup' is given twice"),
    "tensor_is_garbage": (request(tensors=[b"\xff\xff"], raws=[FLOAT]), "INVALID_ARGUMENT", r"inputs\[0\]"),
    "datatype_unknown": (request(tensors=[tensor("x", "FLOAT")], raws=[FLOAT]), "INVALID_ARGUMENT",
                         "'x'.*unknown datatype 'FLOAT'"),
    "datatype_lower_case": (request(tensors=[tensor("x", "fp32")], raws=[FLOAT]), "INVALID_ARGUMENT", "'x'.*'fp32'"),
    "datatype_missing": (request(tensors=[tensor("x", "")], raws=[FLOAT]), "INVALID_ARGUMENT", "'x'.*datatype"),
    "shape_negative": (request(tensors=[tensor("x", shape=[-1])], raws=[FLOAT]), "INVALID_ARGUMENT", "'x'.*negative"),
    "shape_overflows": (request(tensors=[tensor("x", shape=[2**32, 2**32])], raws=[FLOAT]), "INVALID_ARGUMENT",
                        "'x'.*shape.*too large"),
    "shape_overflows_in_bytes": (request(tensors=[tensor("x", shape=[16, 2**60 + 2])], raws=[FLOAT]),
                                 "INVALID_ARGUMENT", "'x'.*shape.*too large"),
    "shape_wraps_to_one": (request(tensors=[tensor("x", shape=[2**63 - 1, 2**63 - 1])], raws=[FLOAT]),
                           "INVALID_ARGUMENT", "'x'.*shape.*too large"),
    "shape_of_bytes_overflows": (request(tensors=[tensor("x", "BYTES", [HUGE, 2])], raws=[b""]), "INVALID_ARGUMENT",
                                 "'x'"),
    "shape_of_bytes_is_huge": (request(tensors=[tensor("x", "BYTES", [HUGE])], raws=[b"\0" * 8]), "INVALID_ARGUMENT",
                               "'x'"),
    "shape_of_33_dimensions": (request(tensors=[tensor("x", shape=[1] * 33)], raws=[FLOAT]), "INVALID_ARGUMENT",
                               "'x'.*32 dimensions"),
    "raw_too_short": (request(tensors=[tensor("x", shape=[2])], raws=[FLOAT]), "INVALID_ARGUMENT", "'x'.*4 .*8"),
    "raw_too_long": (request(tensors=[tensor("x", shape=[1])], raws=[FLOAT * 2]), "INVALID_ARGUMENT", "'x'.*8 .*4"),
    "raw_for_no_elements": (request(tensors=[tensor("x", shape=[0])], raws=[FLOAT]), "INVALID_ARGUMENT", "'x'"),
    "bytes_cut_in_length": (request(tensors=[tensor("x", "BYTES")], raws=[b"\1\0"]), "INVALID_ARGUMENT", "'x'"),
    "bytes_cut_in_element": (request(tensors=[tensor("x", "BYTES")], raws=[b"\5\0\0\0abc"]), "INVALID_ARGUMENT", "'x'"),
    "bytes_of_4_gib": (request(tensors=[tensor("x", "BYTES")], raws=[b"\xff\xff\xff\xff"]), "INVALID_ARGUMENT", "'x'"),
    "bytes_with_rest": (request(tensors=[tensor("x", "BYTES")], raws=[b"\1\0\0\0ab"]), "INVALID_ARGUMENT", "'x'"),
    "bytes_too_few": (request(tensors=[tensor("x", "BYTES", [2])], raws=[b"\1\0\0\0a"]), "INVALID_ARGUMENT", "'x'"),
    "raws_too_few": (request(tensors=[tensor("x"), tensor("y")], raws=[FLOAT]), "INVALID_ARGUMENT",
                     "raw_input_contents: 1 entries for 2 inputs"),
    "raws_too_many": (request(tensors=[tensor("x")], raws=[FLOAT, FLOAT]), "INVALID_ARGUMENT",
                      "raw_input_contents: 2 entries for 1 inputs"),
    "no_data": (request(tensors=[tensor("x")]), "INVALID_ARGUMENT", "'x'.*no data"),
    "raw_and_typed": (request(tensors=[tensor("x", contents=field(5, field(6, FLOAT)))], raws=[FLOAT]),
                      "INVALID_ARGUMENT", "'x'.*contents.*raw_input_contents"),
    "typed_and_one_raw": (request(tensors=[tensor("x"), tensor("y", contents=field(5, field(6, FLOAT)))],
                                  raws=[FLOAT, FLOAT]), "INVALID_ARGUMENT", "'y'.*contents"),
    "typed_wrong_field": (request(tensors=[tensor("x", contents=field(5, field(3, b"\1")))]), "INVALID_ARGUMENT",
                          "'x'.*int64_contents.*FP32 takes fp32_contents"),
    "typed_two_fields": (request(tensors=[tensor("x", contents=field(5, field(6, FLOAT) + field(3, b"\1")))]),
                         "INVALID_ARGUMENT", "'x'.*int64_contents"),
    "typed_too_few": (request(tensors=[tensor("x", shape=[3], contents=field(5, field(6, FLOAT)))]),
                      "INVALID_ARGUMENT", "'x'.*1 elements.*3"),
    "typed_ragged": (request(tensors=[tensor("x", contents=field(5, field(6, b"\0" * 5)))]), "INVALID_ARGUMENT",
                     "'x'.*fp32_contents"),
    "typed_out_of_range": (request(tensors=[tensor("x", "INT8", contents=field(5, field(2, pb.varint(128))))]),
                           "INVALID_ARGUMENT", r"'x'.*int_contents\[0\].*128.*INT8"),
    "typed_fp16": (request(tensors=[tensor("x", "FP16", contents=field(5, field(6, FLOAT)))]), "INVALID_ARGUMENT",
                   "'x'.*FP16 takes raw_input_contents only"),
    "unknown_model": (request(model="nope", tensors=[tensor()], raws=[FLOAT]), "NOT_FOUND", "'nope'"),
    "unknown_version": (request(tensors=[tensor()], raws=[FLOAT], extra=field(2, "7")), "NOT_FOUND", "'echo'.*'7'"),
    "long_model_name": (request(model="x" * 100_000), "NOT_FOUND", "xxx"),
    "parameter_without_value": (request(extra=field(4, field(1, "p"))), "INVALID_ARGUMENT", "'p'"),
    "parameter_wrong_type": (request(extra=field(4, field(1, "p") + field(2, pb.tag(1, pb.I32) + b"\0" * 4))),
                             "INVALID_ARGUMENT", "'p'"),
    "output_without_name": (request(extra=field(6, field(1, ""))), "INVALID_ARGUMENT", r"outputs\[0\]"),
    "output_parameter": (request(extra=field(6, field(1, "o") + field(2, field(1, "classification")
                                                                      + field(2, field(3, "3"))))), "INVALID_ARGUMENT",
                         "'o'.*'classification' must be an integer"),
    "output_twice": (request(extra=field(6, field(1, "o")) * 2), "INVALID_ARGUMENT", "'o'"),
    "tensor_parameter": (request(tensors=[tensor("x", contents=field(4, field(1, "shared_memory_region")
                                                                      + field(2, field(3, "r"))))], raws=[FLOAT]),
                         "INVALID_ARGUMENT", "'x'.*shared_memory_region without shared_memory_byte_size"),
}


@pytest.mark.parametrize("name", BODIES)
def test_body(client, name):
    body, code, text = BODIES[name]
    assert_refused(client.refused(body, send=client.raw), code, text)


def test_the_good_body_is_good(client):
    answer = oip.Answer(oip.messages()["ModelInferResponse"].FromString(client.raw(GOOD)))
    assert answer["x"].tolist() == [1.0]


def test_unknown_fields_are_passed_over(client):
    extra = field(99, b"later") + field(98, 7) + pb.tag(97, pb.I32) + b"1234" + pb.tag(96, pb.I64) + b"12345678"
    client.raw(GOOD + extra)


def test_every_truncation(client):
    body = request("wants", tensors=[tensor("a", "FP32", [1, 2]), tensor("b", "BYTES", [1])],
                   raws=[FLOAT * 2, b"\3\0\0\0abc"])
    client.raw(body)
    for n in range(len(body)):
        error = client.refused(body[:n], send=client.raw)
        assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND), (n, error.details())
        assert error.details()


def test_every_single_bit_flip(client):
    """None crashes it; what is still a request is answered."""
    for at in range(len(GOOD)):
        for bit in range(8):
            body = bytearray(GOOD)
            body[at] ^= 1 << bit
            try:
                client.raw(bytes(body))
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND), error.details()


@pytest.mark.parametrize("method", ["ModelReady", "ModelMetadata"])
@pytest.mark.parametrize("body", [b"\xff", pb.tag(1, pb.LEN) + b"\x7f", pb.tag(1, pb.VARINT) + b"\1"])
def test_small_messages(client, method, body):
    assert_refused(client.refused(body, method=method, send=client.raw), "INVALID_ARGUMENT", "malformed")


# --- a declared signature ---

GOOD_INPUTS = {"a": np.zeros((1, 2), np.float32), "b": oip.bytes_array([b"x"])}
UNFIT = {
    "missing": ({"a": GOOD_INPUTS["a"]}, "'b'"),
    "unexpected": ({**GOOD_INPUTS, "c": np.zeros(1)}, "'c'"),
    "datatype": ({**GOOD_INPUTS, "a": np.zeros((1, 2))}, "'a'.*FP64.*FP32|'a'.*FP32.*FP64"),
    "rank": ({**GOOD_INPUTS, "a": np.zeros(2, np.float32)}, "'a'.*shape"),
    "size": ({**GOOD_INPUTS, "a": np.zeros((1, 3), np.float32)}, "'a'.*shape"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_unfit_for_the_signature(server, client, name):
    inputs, text = UNFIT[name]
    dispatched = server.counts("misbehaving")["dispatched"]
    assert_refused(client.refused("wants", inputs), "INVALID_ARGUMENT", text)
    assert server.counts("misbehaving")["dispatched"] == dispatched  # Python has not seen it


# --- limits ---

@pytest.fixture(scope="module")
def small_server(serve_module):
    return serve_module("failing/misbehaving.py", "--max-message-bytes", MAX_MESSAGE, "--max-inflight-bytes", 3 * MAX_MESSAGE,
                        "--connection-share", 100)


def padded(n):
    """A good request of exactly n bytes."""
    body = GOOD + field(99, b"\0" * (n - len(GOOD)))
    return GOOD + field(99, b"\0" * (n - len(GOOD) - (len(body) - n)))


def test_message_limit(connect, small_server):
    client = connect(small_server)
    body = padded(MAX_MESSAGE)
    assert len(body) == MAX_MESSAGE
    client.raw(body)
    assert_refused(client.refused(padded(MAX_MESSAGE + 1), send=client.raw), "RESOURCE_EXHAUSTED",
                   f"{MAX_MESSAGE + 1} bytes.*--max-message-bytes {MAX_MESSAGE}")


def test_answer_limit(connect, small_server):
    """An answer over the limit is refused in the worker, which lives on."""
    client, workers = connect(small_server), small_server.workers()
    assert client.infer("big", {}, parameters={"n": MAX_MESSAGE - 1000})["output0"].size == MAX_MESSAGE - 1000
    error = client.refused("big", {}, parameters={"n": MAX_MESSAGE + 1})
    assert error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.RESOURCE_EXHAUSTED)
    assert "'big'" in error.details() and "--max-message-bytes" in error.details()
    assert small_server.workers() == workers


def test_a_length_of_4_gib_takes_no_memory(small_server):
    with H2(small_server.host, small_server.port) as http:
        reply = http.grpc(prefixed(b"", length=2**32 - 1))
        assert (reply.grpc_status, "--max-message-bytes" in reply.grpc_message) == (8, True)


def test_byte_budget(connect, small_server):
    """Three uploads under way fill the budget; the fourth is refused, and taken when one has gone."""
    uploads = []
    for _ in range(3):
        http = H2(small_server.host, small_server.port)
        stream = http.open_grpc()
        http.send(stream, prefixed(padded(MAX_MESSAGE)[:-1], length=MAX_MESSAGE))
        uploads.append((http, stream))
    client = connect(small_server)
    wait_budget(small_server, 3 * MAX_MESSAGE)
    error = client.refused(GOOD, send=client.raw)
    assert_refused(error, "RESOURCE_EXHAUSTED", "--max-inflight-bytes")
    assert client.call("ServerLive").live  # an empty message takes nothing
    uploads.pop()[0].sock.close()
    wait_budget(small_server, 2 * MAX_MESSAGE)
    client.raw(padded(MAX_MESSAGE))
    http, stream = uploads.pop()
    http.send(stream, padded(MAX_MESSAGE)[-1:], end=True)
    assert http.reply(stream).grpc_status == 0
    http.sock.close()
    uploads.pop()[0].sock.close()


def wait_budget(server, n):
    from support import wait
    wait.until(lambda: server.status()["server"]["inflight_bytes"] == n, lambda: server.status()["server"])


# --- gRPC framing ---

FRAMES = {
    "no_message": (b"", 12, "none"),
    "two_messages": (prefixed(GOOD) * 2, 12, "more than one message"),
    "two_small_messages": (prefixed(b"") * 2, 12, "more than one message"),
    "compressed": (prefixed(GOOD, compressed=1), 13, "compressed message without a grpc-encoding"),
    "flag_2": (prefixed(GOOD, compressed=2), 13, "compression flag"),
    "flag_255": (b"\xff", 13, "compression flag"),
    "cut_in_prefix": (b"\0\0\0", 13, "inside a message"),
    "cut_in_message": (prefixed(GOOD)[:-1], 13, "inside a message"),
    "cut_after_prefix": (prefixed(GOOD)[:5], 13, "inside a message"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_framing(http, name):
    body, status, text = FRAMES[name]
    reply = http.grpc(body)
    assert (reply.headers[":status"], reply.grpc_status) == ("200", status), reply
    assert text in reply.grpc_message


def test_framing_in_single_bytes(http):
    stream = http.open_grpc()
    body = prefixed(GOOD)
    for i in range(len(body)):
        http.send(stream, body[i:i + 1], end=i == len(body) - 1)
    reply = http.reply(stream)
    assert (reply.grpc_status, reply.trailers.get("grpc-status")) == (0, "0")


def test_errors_are_trailers_only(http):
    """Retries are possible only while no headers were sent before the status."""
    reply = http.grpc(prefixed(request(model="nope")))
    assert (reply.headers["grpc-status"], reply.trailers, reply.data) == ("5", {}, b"")


# --- deadlines ---

@pytest.mark.parametrize("value", ["0n", "0u", "0m", "0S", "0H"])
def test_deadline_already_past(http, value):
    reply = http.grpc(prefixed(GOOD), extra=[("grpc-timeout", value)])
    assert (reply.grpc_status, "deadline" in reply.grpc_message) == (4, True)


@pytest.mark.parametrize("value", ["1", "S", "abc", "-1S", "1x", "1.5S", "123456789S", "1 S", "1SS"])
def test_malformed_deadline(http, value):
    reply = http.grpc(prefixed(GOOD), extra=[("grpc-timeout", value)])
    assert reply.grpc_status == 3
    assert "grpc-timeout" in reply.grpc_message


@pytest.mark.parametrize("value", ["99999999H", "10S", "99999999n", "1H"])
def test_good_deadline(http, value):
    assert http.grpc(prefixed(GOOD), extra=[("grpc-timeout", value)]).grpc_status == 0


def test_malformed_base64(http):
    reply = http.grpc(prefixed(GOOD), extra=[("x-good-bin", "AAEC"), ("x-bad-bin", "AAEC,not base64!")])
    assert (reply.grpc_status, "'x-bad-bin'" in reply.grpc_message) == (3, True)


# --- clients that leave ---

def test_gone_in_mid_upload(server):
    for how in ("close", "reset", "half-closed", "rst-stream"):
        http = H2(server.host, server.port)
        stream = http.open_grpc()
        http.send(stream, prefixed(b"x" * 100_000, length=1_000_000))
        if how == "reset":
            http.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "half-closed":
            http.sock.shutdown(socket.SHUT_WR)
            while http.read():
                pass
        elif how == "rst-stream":
            http.conn.reset_stream(stream)
            http.flush()
            assert http.grpc(prefixed(GOOD)).grpc_status == 0
        http.sock.close()


def test_gone_before_the_answer(server):
    for _ in range(20):
        http = H2(server.host, server.port)
        http.send(http.open_grpc(), prefixed(GOOD), end=True)
        http.sock.close()


def test_refused_in_mid_upload(small_server):
    """The status comes while the client still sends, and the connection lives on."""
    with H2(small_server.host, small_server.port) as http:
        stream = http.open_grpc()
        http.send(stream, prefixed(b"", length=MAX_MESSAGE + 1))
        assert http.reply(stream).grpc_status == 8
        assert http.grpc(prefixed(GOOD)).grpc_status == 0


# --- handlers that misbehave ---

RETURNED = {
    "returns_none": "None", "returns_wrong_dtype": "'y'.*FP64.*FP32|'y'.*FP32.*FP64",
    "returns_wrong_shape": "'y'.*shape", "returns_unknown_output": "'[yz]'", "returns_one_too_many": "'z'",
    "returns_none_inside": "'y'.*None", "returns_missing_output": "'y'", "returns_too_many": "2 outputs|returned 2",
    "returns_complex": "'y'.*complex", "returns_object": "'y'", "returns_coroutine": "coroutine",
    "returns_bad_parameter": "'p'", "returns_bad_parameters": "7",
    "any_none": "None", "any_complex": "'output0'.*complex", "any_object": "'output0'", "any_none_inside": "'y'.*None",
    "async_none": "None",
}


@pytest.mark.parametrize("model", RETURNED)
def test_returned(client, model):
    error = client.refused(model, {})
    assert_refused(error, "INTERNAL", RETURNED[model])
    assert f"'{model}'" in error.details()


RAISED = {
    "raises_plain": ("INTERNAL", "'raises_plain' raised ZeroDivisionError: secret: division by zero$"),
    "raises_async": ("INTERNAL", "ZeroDivisionError"),
    "raises_error": ("FAILED_PRECONDITION", "^grüße: not now$"),
    "raises_unicode": ("INTERNAL", "lone surrogate"),
    "raises_huge": ("DATA_LOSS", "^ü{500,}"),
    "raises_huge_plain": ("INTERNAL", "ValueError: x{500,}"),
    "raises_empty": ("ABORTED", "^$"),
    "raises_unprintable": ("INTERNAL", "raises_unprintable|handler failed"),
    "raises_timeout": ("INTERNAL", "TimeoutError"),
    "raises_memory": ("INTERNAL", "MemoryError"),
    "raises_stop_iteration": ("INTERNAL", "StopIteration"),
    "raises_recursion": ("INTERNAL", "RecursionError"),
    "cancels_itself": ("CANCELLED", "."),
    "awaits_cancelled": ("CANCELLED", "."),
}


@pytest.mark.parametrize("model", RAISED)
def test_raised(server, client, model):
    workers = server.workers()
    assert_refused(client.refused(model, {}), *RAISED[model])
    assert client.infer("echo", {"x": np.ones(1)})["x"] == 1
    assert server.workers() == workers


def test_traceback_goes_to_the_log_only(server, client):
    since = len(server.log.lines)
    error = client.refused("raises_plain", {})
    assert "Traceback" not in error.details()
    server.log.wait(r"^\[misbehaving-0\] Traceback", since)
    server.log.wait(r"misbehaving\.py.*line", since)


def test_debug_errors(serve, connect):
    server = serve("failing/misbehaving.py", "--debug-errors")
    error = connect(server).refused("raises_plain", {})
    assert_refused(error, "INTERNAL", r"(?s)Traceback.*misbehaving\.py.*ZeroDivisionError: secret")


# --- all at once ---

def test_nothing_else_is_harmed(server, client):
    """Every bad thing of this file while good requests run: not one of them fails."""
    def echo(c, n):
        assert c.infer("echo", {"x": np.array([n])})["x"] == n

    with Load(server.address, echo, threads=4) as load:
        load.wait_more(20)
        for body, *_ in BODIES.values():
            client.refused(body, send=client.raw)
        with H2(server.host, server.port) as http:
            for body, *_ in FRAMES.values():
                http.grpc(body)
        for model in (*RETURNED, *RAISED):
            client.refused(model, {})
        test_gone_in_mid_upload(server)
        test_gone_before_the_answer(server)
        load.wait_more(20)
    assert set(load.outcomes) == {"OK"}
