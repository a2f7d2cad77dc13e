"""A dispatcher that was just started knows what is served, although no replica can come back and there is no controller."""

import signal
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from support import wait
from support.deployments import healthy, put, spec
from support.process import procs
from support.process.upgrading import Upgrade
from support.protocol import oip

pytestmark = pytest.mark.core


@pytest.fixture
def held(serve, tmp_path):
    """held(*options) → a server whose replicas, once they have ended, start no more while server.hold exists."""
    def start(*options, **kwargs):
        hold, shape = tmp_path / "hold", tmp_path / "shape"
        server = serve("failing/declaring.py", "--restart-backoff", "1ms", *options,
                       env={"HOLD": str(hold), "SHAPE": str(shape)}, **kwargs)
        server.hold, server.shape = hold, shape
        server.wait_all_ready()
        return server
    return start


def lose_all(server):
    """Afterwards there is no worker, and none comes before server.hold is removed."""
    server.hold.touch()
    for pid in server.worker_pids():
        procs.kill(pid)
    wait.until(lambda: all(p["state"] in ("starting", "waiting") for p in server.status()["processes"]), server.status)


def metadata(client, model="adds", version=""):
    return client.call("ModelMetadata", oip.message("ModelMetadataRequest", name=model, version=version))


def ready(client, model="adds"):
    return client.call("ModelReady", oip.message("ModelReadyRequest", name=model)).ready


def test_a_dispatcher_without_a_replica_and_a_controller(held, connect):
    server = held("--workers", "2")
    before = metadata(connect(server))
    procs.kill(server.controller, signal.SIGSTOP)  # it starts nothing, and says nothing
    lose_all(server)
    server.replace_dispatcher()
    client = connect(server)
    assert metadata(client) == before
    assert list(metadata(client, "any").versions) == ["7"]
    assert not ready(client)
    assert not client.call("ServerReady").ready
    error = client.refused("other", {"x": np.ones(1)})
    assert error.code() == grpc.StatusCode.NOT_FOUND  # nobody is going to bring it
    error = client.refused("adds", {"x": np.ones(2, np.int64)})
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(client.infer, "adds", {"x": np.array([4])})
        wait.until(lambda: server.deployment()["queued"] == 1, server.status)
        server.hold.unlink()
        procs.kill(server.controller)
        assert waits.result()["y"] == 5
    server.wait_all_ready()


def test_a_deadline_and_the_metrics_while_there_is_none(held, connect):
    server = held()
    lose_all(server)
    server.replace_dispatcher()
    error = connect(server).refused("adds", {"x": np.array([4])}, timeout=0.2)
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    (model,) = [m for m in server.status()["models"] if m["name"] == "adds"]
    assert model["ready"] is False
    server.hold.unlink()
    server.wait_all_ready()


def test_the_next_one_knows_it_too(held, connect):
    server = held()
    lose_all(server)
    for _ in range(3):
        server.replace_dispatcher()
        assert not ready(connect(server))
        assert len(metadata(connect(server)).inputs) == 1
    server.hold.unlink()
    server.wait_all_ready()
    assert connect(server).infer("adds", {"x": np.array([4])})["y"] == 5


def test_a_replica_that_declares_otherwise_counts_more(held, connect):
    server = held()
    lose_all(server)
    server.shape.write_text("2")
    server.replace_dispatcher()
    assert metadata(connect(server)).inputs[0].shape == [1]
    server.hold.unlink()
    server.expect_error("event=record_differs .*reason=\"the model is served with other inputs\"")
    server.wait_all_ready()
    client = connect(server)
    assert metadata(client).inputs[0].shape == [2]
    assert list(client.infer("adds", {"x": np.array([4, 5])})["y"]) == [5, 6]
    server.replace_dispatcher()
    server.wait_all_ready()
    assert metadata(connect(server)).inputs[0].shape == [2]


def test_an_upgrade_carries_them(held, connect):
    server = held()
    lose_all(server)
    for _ in range(2):
        former = server.dispatcher
        with Upgrade(server) as upgrade:
            upgrade.finish()
        assert server.dispatcher != former
        assert len(metadata(connect(server)).inputs) == 1
        assert not ready(connect(server))
    server.replace_dispatcher()
    assert len(metadata(connect(server)).inputs) == 1
    server.hold.unlink()
    server.wait_all_ready()


def refused_code(client, model):
    """None: it is answered."""
    try:
        metadata(client, model)
    except grpc.RpcError as e:
        return e.code()
    return None


def test_a_deployment_that_is_removed_is_forgotten(serve, tmp_path, connect):
    server = serve(None, "--state-dir", tmp_path / "state", "--update-min-ready", "1ms", verb="start")
    both = spec()
    put(server, both)
    healthy(server)
    healthy(server, "side", 1, "extra")
    server.replace_dispatcher()
    server.wait_all_ready()
    assert metadata(connect(server), "side").name == "side"
    (last,) = [p["pid"] for p in server.status()["processes"] if p["deployment"] == "side"]
    procs.kill(last, signal.SIGSTOP)  # it drains until it goes on
    put(server, {"applications": both["applications"][:1]})
    wait.until(lambda: refused_code(connect(server), "side") == grpc.StatusCode.NOT_FOUND, server.status)
    server.replace_dispatcher()
    client = connect(server)
    assert metadata(client, "main").name == "main"
    assert refused_code(client, "side") == grpc.StatusCode.NOT_FOUND
    procs.kill(last, signal.SIGCONT)
    wait.until(lambda: not [p for p in server.status()["processes"] if p["deployment"] == "side"], server.status)
    assert refused_code(client, "side") == grpc.StatusCode.NOT_FOUND
    put(server, both)
    healthy(server, "side", 1, "extra")
    assert metadata(connect(server), "side").name == "side"
