"""What code declares is known before a worker of it has ever come: to the first dispatcher, and to each later one."""

import signal
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest

from support import paths, ports, wait
from support.deployments import api, healthy, put
from support.process import procs
from support.protocol import oip

pytestmark = pytest.mark.core


@pytest.fixture
def hold(tmp_path):
    path = tmp_path / "hold"
    path.touch()
    return path


def held(hold, **env):
    return {"name": "shop", "import_path": "held:app", "working_dir": str(paths.APPS / "failing"),
            "env": {"HOLD": str(hold), **env}, "deployments": [{"name": "held"}]}


def of(*applications):
    return {"applications": list(applications)}


def begin(serve, *args, **kwargs):
    """A server whose controller has begun; no replica of it needs to come up."""
    port = ports.free()
    server = serve(*args, "--port", port, wait_ready=False, **kwargs)
    server.host, server.port, server.address = "127.0.0.1", port, f"127.0.0.1:{port}"
    server.log.wait("event=controller_ready")
    wait.until(lambda: is_starting(server), server.log.text)
    return server


OTHER = {"name": "extra", "import_path": "echo:app", "working_dir": str(paths.APPS)}


def metadata(client, model="adds"):
    return client.call("ModelMetadata", oip.message("ModelMetadataRequest", name=model))


def code_of(client, model="adds"):
    """How its metadata is refused; None: they are answered."""
    try:
        metadata(client, model)
    except grpc.RpcError as error:
        return error.code()
    return None


def index(client):
    rows = client.call("RepositoryIndex", oip.message("RepositoryIndexRequest")).models
    return {row.name: row.state for row in rows}


def is_starting(server):
    return [p["state"] for p in server.status()["processes"] if p["deployment"] == "held"] == ["starting"]


def check_declared(client, size=1):
    assert [list(t.shape) for t in metadata(client).inputs] == [[size]]
    assert index(client)["adds"] != "READY"
    assert not client.call("ModelReady", oip.message("ModelReadyRequest", name="adds")).ready
    assert code_of(client, "unknown") == grpc.StatusCode.NOT_FOUND
    error = client.refused("adds", {"x": np.ones(size + 1, np.int64)})
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    error = client.refused("adds", {"x": np.ones(size, np.int64)}, timeout=0.2)
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED


def test_no_worker_has_ever_come_and_dispatcher_and_controller_die(serve, hold, connect):
    server = begin(serve, paths.APPS / "failing/held.py", env={"HOLD": str(hold)})
    check_declared(connect(server))
    before = metadata(connect(server))
    controller = server.controller
    procs.kill(controller)
    wait.until(lambda: server.controller not in (None, controller), server.log.text)
    procs.kill(server.controller, signal.SIGSTOP)  # it says nothing
    server.replace_dispatcher()
    client = connect(server)
    check_declared(client)
    assert metadata(client) == before
    assert not client.call("ServerReady").ready
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(client.infer, "adds", {"x": np.array([4])})
        wait.until(lambda: server.deployment("held")["queued"] == 1, server.status)
        procs.kill(server.controller)
        hold.unlink()
        assert waits.result()["y"] == 5
    server.wait_all_ready()
    assert "record_differs" not in server.log.text()


def test_a_deploy_is_known_before_its_first_worker(start, hold, connect):
    server = start(of(OTHER))
    server.wait_all_ready()
    client = connect(server)
    assert code_of(client) == grpc.StatusCode.NOT_FOUND
    put(server, of(OTHER, held(hold)))
    wait.until(lambda: is_starting(server), server.status)
    check_declared(client)
    assert client.call("ServerReady").ready
    server.replace_dispatcher()
    check_declared(connect(server))
    put(server, of(OTHER))
    client = connect(server)
    wait.until(lambda: code_of(client) == grpc.StatusCode.NOT_FOUND, server.status)
    server.replace_dispatcher()
    client = connect(server)
    wait.until(lambda: code_of(client) == grpc.StatusCode.NOT_FOUND, server.status)
    hold.unlink()
    put(server, of(OTHER, held(hold)))
    healthy(server, "held", 1)
    assert client.infer("adds", {"x": np.array([4])})["y"] == 5


def test_another_deploy_before_a_worker_came_replaces_it(start, hold, connect):
    server = start(of(OTHER))
    server.wait_all_ready()
    put(server, of(OTHER, held(hold, SIZE="2", MORE="1")))
    client = connect(server)
    wait.until(lambda: code_of(client) is None, server.status)
    check_declared(client, 2)
    assert list(metadata(client, "more").versions) == ["7"]
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(client.refused, "adds", {"x": np.ones(2, np.int64)})
        wait.until(lambda: server.deployment("held")["queued"] == 1, server.status)
        put(server, of(OTHER, held(hold, SIZE="3")))
        assert waits.result().code() == grpc.StatusCode.UNAVAILABLE  # it was checked against what is no more
    check_declared(client, 3)
    assert code_of(client, "more") == grpc.StatusCode.NOT_FOUND
    assert client.call("ServerReady").ready
    server.replace_dispatcher()
    check_declared(connect(server), 3)
    hold.unlink()
    healthy(server, "held", 1)
    assert connect(server).infer("adds", {"x": np.ones(3, np.int64)})["y"].tolist() == [4, 4, 4]


def test_another_version_is_not_the_default_before_its_first_worker(start, hold, connect):
    hold.unlink()
    server = start(of(held(hold)))
    server.wait_all_ready()
    hold.touch()
    second = {**held(hold, VERSION="2", DEPLOYMENT="second"), "name": "second", "deployments": [{"name": "second"}]}
    put(server, of(held(hold), second))
    client = connect(server)
    wait.until(lambda: list(metadata(client).versions) == ["1", "2"], server.status)
    for _ in range(3):
        assert client.infer("adds", {"x": np.array([4])})["y"] == 5
    error = client.refused("adds", {"x": np.array([4])}, timeout=0.2, version="2")
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    hold.unlink()
    healthy(server, "second", 1, "second")
    assert client.infer("adds", {"x": np.array([4])})["y"] == 6
    server.forget_fds()


def test_what_a_worker_registered_counts_more_than_a_deploy(start, hold, connect):
    """An update that does not come up is taken back, and its models with it."""
    hold.unlink()
    server = start(of(held(hold)), "--update-failures", "1", "--max-start-failures", "2")
    server.wait_all_ready()
    hold.touch()
    put(server, of(held(hold, SIZE="2", MORE="1", FAIL="1")))
    client = connect(server)
    assert metadata(client).inputs[0].shape == [1]
    assert code_of(client, "more") == grpc.StatusCode.NOT_FOUND
    server.replace_dispatcher()
    client = connect(server)
    wait.until(lambda: metadata(client).inputs[0].shape == [1], server.status)
    assert client.infer("adds", {"x": np.array([4])})["y"] == 5

    def is_back():
        d = api(server, "GET", "/api/serve/applications/")[1]["applications"]["shop"]["deployments"]["held"]
        return d["status"] == "DEPLOY_FAILED"

    wait.until(is_back, server.status)
    for pid in server.worker_pids():
        procs.kill(pid)
    procs.kill(server.controller, signal.SIGSTOP)
    server.replace_dispatcher()
    client = connect(server)
    assert metadata(client).inputs[0].shape == [1]
    assert code_of(client, "more") == grpc.StatusCode.NOT_FOUND
    procs.kill(server.controller)
    hold.unlink()
    server.wait_all_ready()


def test_a_server_that_starts_again_reads_it_from_its_store(start, hold, connect):
    hold.unlink()
    server = start(of(held(hold)))
    server.wait_all_ready()
    server.stop()
    hold.touch()
    server = begin(start, None)
    check_declared(connect(server))
    hold.unlink()
    server.wait_all_ready()
