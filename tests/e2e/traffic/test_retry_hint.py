"""A full queue says when it is worth coming back: at the rate at which it drains."""

import numpy as np
import pytest

from support import http, oip, wait

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


def test_the_hint_is_the_time_to_an_empty_queue(serve, connect):
    """Two at a time for 50 ms each: 20 that wait are served in half a second."""
    server = serve("slow.py", source=SLOW)
    client = connect(server)
    client.infer("nap", {"x": np.array([0.05])})
    calls = [client.begin("nap", {"x": np.array([0.05])}) for _ in range(40)]
    hints = []
    for call in calls:
        error = call.exception()
        if error:
            hints.append(int(oip.trailers_of(error)["grpc-retry-pushback-ms"]))
    assert len(hints) == 18, hints  # two run, 20 wait
    assert all(400 <= h <= 1000 for h in hints), hints


def test_over_http_it_is_rounded_up(serve, connect):
    server = serve("slow.py", source=SLOW)
    client = connect(server)
    client.infer("nap", {"x": np.array([0.2])})
    calls = [client.begin("nap", {"x": np.array([0.2])}) for _ in range(22)]
    wait.until(lambda: server.deployment("slow")["queued"] > 18, server.status)
    h = http.Http1(server.host, server.port)
    reply = h.request("POST", "/v2/models/nap/infer", http.infer_json({"x": np.array([0.2])}))
    while reply.status == 200:  # one had left in between
        reply = h.request("POST", "/v2/models/nap/infer", http.infer_json({"x": np.array([0.2])}))
    h.close()
    assert reply.status == 503 and reply.headers["retry-after"] in ("2", "3"), reply.headers
    for call in calls:
        call.exception()
