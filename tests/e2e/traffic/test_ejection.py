"""A replica that fails, or is slow, where its peers are not gets no requests for a while; it comes back by itself."""

import os

import grpc
import numpy as np
import pytest

from support import wait
from support.load import Load
from support.protocol import prometheus

pytestmark = pytest.mark.core

SICK = """
import os
import time

import numpy as np

from anyserve import AnyServe, Error

app = AnyServe()
sick = os.environ.get("ANYSERVE_REPLICA", "").endswith("-0")
flag = os.environ["SICK_FLAG"]


@app.model("fails")
def fails(x):
    if sick and os.path.exists(flag):
        raise RuntimeError("this replica is broken")
    return {"y": x + 1}


@app.model("slow", deployment="slow")
def slow(x):
    time.sleep(0.1 if sick and os.path.exists(flag) else 0.004)
    return {"y": x + 1}


@app.model("choosy", deployment="choosy")
def choosy(x):
    if x[0] < 0:
        raise Error("INVALID_ARGUMENT", "negative")
    return {"y": x + 1}
"""


@pytest.fixture(scope="module")
def server(serve_module, tmp_path_factory):
    flag = tmp_path_factory.mktemp("sick") / "flag"
    server = serve_module("sick.py", "--workers", "3", "--breaker-open", "300ms", source=SICK,
                          env={"SICK_FLAG": str(flag)})
    server.flag = flag
    return server


@pytest.fixture
def sick(server):
    """Three replicas of each deployment, of which the first is ill until the file goes."""
    server.flag.write_text("")
    return server


def breaker(server, replica):
    return next(r["breaker"] for r in server.status()["replicas"] if r["name"] == replica)


def add_one(model):
    def call(client, n):
        assert client.infer(model, {"x": np.array([n])})["y"] == n + 1
    return call


def test_a_replica_that_fails(sick):
    with Load(sick.address, add_one("fails"), threads=4) as load:
        wait.until(lambda: breaker(sick, "sick-0") == "open", sick.status)
        wait.until(lambda: load.count("INTERNAL") >= 5, lambda: load.outcomes)  # the clients hear of it a moment later
        assert load.count("INTERNAL") <= 9, load.outcomes  # some were on their way
        load.wait_more(100)
        os.unlink(sick.flag)
        wait.until(lambda: breaker(sick, "sick-0") == "closed", sick.status)
        failed = prometheus.total(prometheus.parse(sick.metrics()), "anyserve_requests_total", code="INTERNAL")
        wait.until(lambda: load.count("INTERNAL") == failed, lambda: (failed, load.outcomes))
        load.wait_more(100)
        assert load.count("INTERNAL") == failed
    assert set(load.outcomes) == {"OK", "INTERNAL"}


def test_a_replica_that_is_slow(sick):
    with Load(sick.address, add_one("slow"), threads=6) as load:
        wait.until(lambda: breaker(sick, "slow-0") == "open", sick.status)
        os.unlink(sick.flag)
        wait.until(lambda: breaker(sick, "slow-0") == "closed", sick.status)
    assert set(load.outcomes) == {"OK"}


def test_what_is_the_requests_fault_counts_not(sick, connect):
    client = connect(sick)
    for _ in range(60):
        with pytest.raises(grpc.RpcError) as e:
            client.infer("choosy", {"x": np.array([-1])})
        assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert {breaker(sick, f"choosy-{i}") for i in range(3)} == {"closed"}
