"""What user code says, on its way to clients, with bytes that would end a line or a text: none of them becomes syntax of
HTTP, of gRPC or of server-sent events. The bytes of HTTP/1.1 are read here, without a client's help."""

import json
import socket

import grpc
import pytest

from support import wait
from support.protocol import oip
from support.protocol.h2client import H2, prefixed

pytestmark = pytest.mark.core

INJECTED = "x-injected"
TEXTS = ["a\r\nx-injected: 1", "a\r\n\r\nHTTP/1.1 200 OK\r\nx-injected: 1\r\n\r\n", "a\nx-injected: 1\n\n", "a\rx-injected: 1\r\r",
         "a\n\ndata: x-injected\n\n", " a ", "\0a\0", "\x1b[31m\x7f", "grün\u2028\u0085", "%0d%0ax-injected: 1"]
SOURCE = '''
import numpy as np
from anyserve import AnyServe, Error, Response, Tensor

app = AnyServe()
TEXT = {"text": Tensor("BYTES", [1])}

@app.model("fails", inputs=TEXT)
def fails(text):
    raise Error("INVALID_ARGUMENT", text[0].decode())

@app.model("raises", inputs=TEXT)
def raises(text):
    raise ValueError(text[0].decode())

@app.model("says", inputs=TEXT)
def says(text):
    return Response({"out": text}, {"said": text[0].decode()})

@app.model("streams", inputs=TEXT)
async def streams(text):
    yield Response({"out": text}, {"said": text[0].decode()})
    raise Error("INVALID_ARGUMENT", text[0].decode())
'''


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("fields.py", "--debug-errors", source=SOURCE)


def ask(server, path, text):
    """(head, body) of an answer over HTTP/1.1 that the server ends with its connection: all bytes of it."""
    body = json.dumps({"text": text, "id": text}) if "generate" in path else json.dumps(
        {"id": text, "inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [text]}]})
    request = f"POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {len(body.encode())}\r\n\r\n{body}"
    with socket.create_connection((server.host, server.port), wait.SECONDS) as s:
        s.sendall(request.encode())
        got = b"".join(iter(lambda: s.recv(65536), b""))
    head, _, rest = got.partition(b"\r\n\r\n")
    return head, rest


def chunks(body):
    """The body of a chunked answer, which ends with it."""
    out = b""
    while True:
        size, _, body = body.partition(b"\r\n")
        n = int(size, 16)
        out, body = out + body[:n], body[n + 2:]
        if not n:
            assert body == b""
            return out


def check_head(head, status):
    lines = head.decode().split("\r\n")
    assert lines[0].split()[1] == str(status) and INJECTED not in head.decode()
    assert all(": " in line and line.isprintable() for line in lines[1:]), lines
    return dict(line.split(": ", 1) for line in lines[1:])


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("model, status", [("fails", 400), ("raises", 500), ("says", 200)])
@pytest.mark.parametrize("call", ["infer", "generate"])
def test_http1(server, call, model, status, text):
    head, body = ask(server, f"/v2/models/{model}/{call}", text)
    fields = check_head(head, status)
    assert len(body) == int(fields["content-length"])
    said = json.loads(body)
    if status == 200:
        assert said["id"] == text and said["parameters"]["said"] == text
    else:
        assert text in said["error"]


@pytest.mark.parametrize("text", TEXTS)
def test_events(server, text):
    """Two events, whatever they say: the second is the error."""
    head, body = ask(server, "/v2/models/streams/generate_stream", text)
    assert check_head(head, 200)["content-type"].startswith("text/event-stream")
    events = chunks(body).decode()
    assert not [c for c in events if c in "\r\0"] and events.endswith("\n\n")
    first, second = events[:-2].split("\n\n")
    assert all(e.startswith("data: ") and "\n" not in e for e in (first, second))
    assert json.loads(first[6:])["out"] == text and text in json.loads(second[6:])["error"]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("model", ["fails", "raises"])
def test_http2_and_grpc(server, model, text):
    """h2 refuses fields that are none, and grpcio gives the text back as it was said."""
    request = oip.message("ModelInferRequest", model_name=model, id=text)
    x = request.inputs.add(name="text", datatype="BYTES", shape=[1])
    x.contents.bytes_contents.append(text.encode())
    with H2(server.host, server.port) as connection:
        reply = connection.grpc(prefixed(request.SerializeToString()))
        assert set(reply.all) <= {":status", "content-type", "grpc-status", "grpc-message", "grpc-status-details-bin"}
        message = reply.all["grpc-message"]
        assert message.isascii() and message.isprintable() and message == message.strip()
    with oip.Client(server.address) as client, pytest.raises(grpc.RpcError) as error:
        client.raw(request.SerializeToString())
    assert text in error.value.details()
