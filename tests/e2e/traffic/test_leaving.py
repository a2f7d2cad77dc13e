"""A client that leaves a stream: the handler is told, whatever kind it is, whatever it does, however the client speaks.

How soon is measured by tools/cancel_latency_streams.py (docs/TESTING.md).
"""

import json
import socket

import numpy as np
import pytest

from support import wait
from support.protocol import oip
from support.protocol.h2client import H2, prefixed
from support.protocol.raw import HOST

pytestmark = pytest.mark.core

APP = """
import asyncio
from typing import AsyncIterator

import cue
import numpy as np
from anyserve import AnyServe, Request, Tensor

app = AnyServe()
N = {"n": Tensor("INT32", [1])}
TOLD = (GeneratorExit, asyncio.CancelledError)


def result(n):
    return {"text": np.array([b"x" * int(n[0])], object)}


def giving(n, request):
    with cue.scene(request.id) as say:
        try:
            while True:
                yield result(n)
        except GeneratorExit:
            say("told")
            raise


app.model("sync", inputs=N, deployment="sync", max_ongoing_requests=1)(giving)
app.model("threads", inputs=N, threads=1)(giving)


@app.model("async", inputs=N)
async def async_giving(n, request):
    with cue.scene(request.id) as say:
        try:
            while True:
                yield result(n)
        except TOLD:
            say("told")
            raise


@app.model("awaiting", inputs=N)
async def awaiting(n, request):
    with cue.scene(request.id) as say:
        try:
            yield result(n)
            await asyncio.Event().wait()
        except TOLD:
            say("told")
            raise


@app.model("taking", inputs=N)
async def taking(requests: AsyncIterator[Request]):
    with cue.scene() as say:
        try:
            async for r in requests:
                yield result(r.inputs["n"])
            await asyncio.Event().wait()
        except TOLD:
            say("told")
            raise


@app.model("summing", inputs=N)
async def summing(requests: AsyncIterator[Request]):
    with cue.scene() as say:
        try:
            total = sum([int(r.inputs["n"][0]) async for r in requests])
            await asyncio.Event().wait()
            return np.array([total])
        except TOLD:
            say("told")
            raise
"""
HANDLERS = ["sync", "threads", "async", "awaiting", "taking", "summing"]
SMALL, LARGE = 100, 16384


@pytest.fixture(scope="module", params=[1, 2], ids=["1-loop", "2-loops"])
def server(request, serve_module, stage):
    return serve_module("leaving.py", "--threads", request.param, source=APP, env={"ANYSERVE_TEST_STAGE": stage.path})


class Events1:
    """generate_stream over HTTP/1.1."""

    def __init__(self, server, model, n):
        self.sock = socket.create_connection((server.host, server.port), wait.SECONDS)
        body = b'{"n":%d}' % n
        self.sock.sendall(b"POST /v2/models/%s/generate_stream HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s"
                          % (model.encode(), HOST, len(body), body))

    def read(self):
        assert self.sock.recv(65536)

    def close(self):
        self.sock.close()


class Http2:
    def __init__(self, server, model, n):
        self.http = H2(server.host, server.port)
        self.stream = self.begin(model, n)

    def read(self):
        assert self.http.read()

    def reset(self):
        self.http.conn.reset_stream(self.stream, 8)
        self.http.flush()

    def close(self):
        self.http.sock.close()


class Events2(Http2):
    def begin(self, model, n):
        stream = self.http.open([(":method", "POST"), (":scheme", "http"), (":authority", "h"),
                                 (":path", f"/v2/models/{model}/generate_stream")])
        self.http.send(stream, json.dumps({"n": n}).encode(), end=True)
        return stream


class Grpc(Http2):
    def begin(self, model, n):
        stream = self.http.open_grpc("ModelStreamInfer")
        ask = oip.infer_request(model, {"n": np.array([n], np.int32)})
        self.http.send(stream, prefixed(ask.SerializeToString()))
        return stream


CLIENTS = {"events-h1": (Events1, "close"), "events-h2-reset": (Events2, "reset"), "events-h2": (Events2, "close"),
           "grpc-reset": (Grpc, "reset"), "grpc": (Grpc, "close")}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("is_reading", [True, False], ids=["reads", "reads nothing"])
@pytest.mark.parametrize("model", HANDLERS)
def test_the_handler_is_told(server, stage, model, is_reading, client):
    stage.reset()
    make, leave = CLIENTS[client]
    call = make(server, model, SMALL if is_reading else LARGE)
    try:
        (scene,) = stage.started(1)
        for _ in range(20 * (is_reading and model in ("sync", "threads", "async"))):
            call.read()
        getattr(call, leave)()
        assert scene.last_word() == "told"
        wait.until(lambda: sum(d["ongoing"] for d in server.status()["deployments"]) == 0, lambda: server.status())
    finally:
        call.close()
