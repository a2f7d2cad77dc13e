"""A full queue says when it is worth coming back: at the rate at which it drains."""

import math
import time

import numpy as np
import pytest

from support import wait
from support.protocol import http, oip

pytestmark = pytest.mark.core

SLOW = """
import asyncio
from anyserve import AnyServe

app = AnyServe()


@app.model("nap", max_ongoing_requests=2, max_queued_requests=20)
async def nap(x):
    await asyncio.sleep(float(x[0]))
    return {"y": x}
"""


def fill(server, client, seconds):
    """A nap of so long, then two that run and 20 that wait, until they are cancelled; the calls, and the longest hint: a
    quarter more than the time in which 20 that take as long are served two at a time. This machine may make naps longer."""
    began = time.monotonic()
    client.infer("nap", {"x": np.array([seconds])})
    most = 10 * (time.monotonic() - began) * 1.25
    calls = [client.begin("nap", {"x": np.array([3600.0])}) for _ in range(22)]

    def counts():
        d = server.deployment("slow")
        return d["ongoing"], d["queued"] + d["prefetched"]
    wait.until(lambda: counts() == (2, 20), server.status)
    return calls, most


def test_the_hint_is_the_time_to_an_empty_queue(serve, connect):
    """Two at a time for 50 ms each: 20 that wait are served in half a second."""
    server = serve("slow.py", source=SLOW)
    client = connect(server)
    calls, most = fill(server, client, 0.05)
    error = client.refused("nap", {"x": np.array([0.05])})
    assert 400 <= int(oip.trailers_of(error)["grpc-retry-pushback-ms"]) <= 1000 * most, (error, most)
    for call in calls:
        call.cancel()


def test_over_http_it_is_rounded_up(serve, connect):
    server = serve("slow.py", source=SLOW)
    client = connect(server)
    calls, most = fill(server, client, 0.2)
    h = http.Http1(server.host, server.port)
    reply = h.request("POST", "/v2/models/nap/infer", http.infer_json({"x": np.array([0.2])}))
    h.close()
    assert reply.status == 503 and 2 <= int(reply.headers["retry-after"]) <= math.ceil(most), (reply.headers, most)
    for call in calls:
        call.cancel()
