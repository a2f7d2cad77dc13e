"""Workers that nobody here started: their deployments come, wait for the next one, and go."""

import grpc
import numpy as np
import pytest

from support import wait
from support.protocol import link, oip
from support.protocol.link import Worker

pytestmark = pytest.mark.core

CALL = {"x": np.arange(3, dtype=np.float32)}


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module(None, "--worker-grace", "300ms", "--ping-interval", "200ms")


def known(server, name):
    return any(d["name"] == name for d in server.status()["deployments"])


def test_a_server_without_models_is_ready(server, client):
    assert server.log.find(r"Ready: .* \(waits for workers")
    assert client.call("ServerReady").ready
    assert client.refused("nobody", CALL).code() == grpc.StatusCode.NOT_FOUND
    assert server.get("/-/healthz") == (503, "no routes yet\n")
    assert server.get("/-/routes") == (503, "{}\n")


def test_named_after_its_model(server, client):
    with Worker(server, "team/echo:2") as worker:
        worker.serve("team/echo", version="2")
        call = client.begin("team/echo", CALL, version="2")
        worker.answer(worker.take())
        assert np.array_equal(oip.Answer(call.result())["x"], CALL["x"])
        assert server.deployment("team/echo:2")["queued"] == 0
        assert server.get("/-/healthz") == (200, "success\n")
        assert server.get("/-/routes") == (200, '{"/v2/models/team/echo":"default"}\n')


def test_without_a_name_it_is_named_after_the_first_model(server, client):
    with Worker(server, "") as worker:
        assert worker.greeted()[2] == ""
        assert worker.register("first", version="3", budget=1, max_ongoing=1)[1] == 0
        assert server.deployment("first:3")["ready"] == 0


def test_without_a_name_and_without_a_model(server):
    with Worker(server, "") as worker:
        since = len(server.log.lines)
        worker.greeted()
        worker.send(link.credit(1))
        worker.wait_end()
        server.log.wait("event=worker_gone.*CREDIT before a model was registered", since)


@pytest.mark.parametrize("name", ["a:b:c", "a:", ":1", "a/infer:1", "a//b:1", "a b:1", "x" * 129 + ":1", "x:" + "1" * 65])
def test_bad_names(server, name):
    with Worker(server, name) as worker:
        assert "bad deployment name" in worker.wait_end()


def test_requests_wait_for_the_next_one(serve, connect):
    server = serve(None, "--worker-grace", "1h")
    client = connect(server)
    with Worker(server, "echo:1") as worker:
        worker.serve("echo")
    wait.until(lambda: server.deployment("echo:1")["ready"] == 0, "the worker is still there")
    call = client.begin("echo", CALL)
    wait.until(lambda: server.deployment("echo:1")["queued"] == 1, "the request does not wait")
    with Worker(server, "echo:1") as worker:
        worker.serve("echo")
        worker.answer(worker.take())
        assert np.array_equal(oip.Answer(call.result())["x"], CALL["x"])


def test_forgotten_after_the_grace_time(server, client):
    with Worker(server, "gone:1") as worker:
        worker.serve("gone")
        assert client.call("ModelReady", oip.messages()["ModelReadyRequest"](name="gone")).ready
        running, call = client.begin("gone", CALL), client.begin("gone", CALL)
        worker.take()
        wait.until(lambda: server.deployment("gone:1")["queued"] == 1, server.status)  # for its only slot
    assert running.exception() and call.exception().code() == grpc.StatusCode.UNAVAILABLE
    wait.until(lambda: not known(server, "gone:1"), "the deployment stays")
    assert client.refused("gone", CALL).code() == grpc.StatusCode.NOT_FOUND
    assert "gone:1" not in server.metrics()


def test_another_signature_after_it_was_forgotten(server, client):
    for shape in ([2], [3]):
        with Worker(server, "sig:1") as worker:
            worker.serve("sig", inputs=[("x", "FP32", shape)])
            metadata = client.call("ModelMetadata", oip.messages()["ModelMetadataRequest"](name="sig"))
            assert list(metadata.inputs[0].shape) == shape
        wait.until(lambda: not known(server, "sig:1"), "the deployment stays")


def test_places_are_used_again(server, client):
    """More deployments than there are places, one after the other, while others serve."""
    with Worker(server, "stays:1") as worker:
        worker.serve("stays")
        for i in range(1100):
            with Worker(server, f"m{i}:1") as one:
                one.serve(f"m{i}")
            if i % 100 == 99:
                call = client.begin("stays", CALL)
                worker.answer(worker.take())
                assert np.array_equal(oip.Answer(call.result())["x"], CALL["x"])
                wait.until(lambda: len(server.status()["deployments"]) == 1, "deployments stay")
