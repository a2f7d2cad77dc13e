"""What clients hold of the dispatcher's memory: bytes count when they have come, answers until they are taken."""

import numpy as np
import pytest

from support import oip, procs, prometheus, wait
from support.h2client import H2, prefixed

pytestmark = pytest.mark.core

MIB = 1 << 20
LARGE = 15 * MIB  # of a budget of 64 MiB
SENT = 110  # bytes of it that come


def held(server):
    return server.status()["server"]["inflight_bytes"]


# --- requests ---

def by_grpc(http, method="ModelInfer"):
    http.send(http.open_grpc(method), prefixed(bytes(SENT), length=LARGE))


def by_stream(http):
    by_grpc(http, "ModelStreamInfer")


def by_http(http):
    stream = http.open([(":method", "POST"), (":scheme", "http"), (":path", "/v2/models/echo/infer"),
                        (":authority", "a"), ("content-length", str(LARGE))])
    http.send(stream, bytes(SENT))


@pytest.mark.parametrize("begin", [by_grpc, by_stream, by_http])
def test_a_declared_length_holds_nothing(serve, begin):
    """Four messages of 15 MiB are announced, and nobody else is refused for it."""
    server = serve("echo.py", "--max-inflight-bytes", 64 * MIB)
    x = np.ones(LARGE // 8, np.float64)
    with H2(server.host, server.port) as http, oip.Client(server.address) as other:
        for _ in range(4):
            begin(http)
        assert http.request("GET", "/v2/health/live").headers[":status"] == "200"  # all that was sent has been read
        assert held(server) < MIB
        assert other.infer("echo", {"x": x})["x"].size == x.size


# --- answers ---

def answered(server):
    return prometheus.total(prometheus.parse(server.metrics()), "anyserve_requests_total", method="ModelInfer")


def test_answers_that_nobody_reads(serve):
    """A hundred answers of a MiB for one client that takes none, with 16 MiB for what is held."""
    server = serve("misbehaving.py", "--max-inflight-bytes", 16 * MIB)
    ask = prefixed(oip.infer_request("big", {}, parameters={"n": MIB}).SerializeToString())
    with oip.Client(server.address) as other:
        other.infer("big", {}, parameters={"n": MIB})
        before = procs.status(server.dispatcher, "VmRSS")
        with H2(server.host, server.port) as http:
            http.is_reading = False
            for _ in range(100):
                http.send(http.open_grpc(), ask, end=True)
            wait.until(lambda: answered(server) == 101, lambda: server.status())
            grown = procs.status(server.dispatcher, "VmRSS") - before
            assert other.infer("big", {}, parameters={"n": 1000})["output0"].size == 1000
        if not procs.is_sanitized(server.dispatcher):
            assert grown < 32 << 10  # KiB
