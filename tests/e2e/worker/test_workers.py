"""Workers in every language, on one page each: they come by themselves, serve one model together, die and return."""

import os
import signal

import grpc
import numpy as np
import pytest

from support import wait, workers
from support.protocol import oip
from support.steady import Load

LANGUAGES = sorted(workers.LANGUAGES)
A = np.arange(3, dtype=np.float32)


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module(None, "--worker-grace", "5s", "--worker-heartbeat", "200ms", "--threads", "1")


@pytest.mark.parametrize("language", LANGUAGES)
def test_one_alone(server, client, language):
    with workers.start(server, language) as worker:
        workers.wait_registered(worker)
        answer = client.infer("add", {"b": A, "a": A + 1}, id="7")
        assert answer["sum"].tolist() == [1, 3, 5] and answer.message.id == "7"
        assert client.infer("add", {"a": A[:0], "b": A[:0]})["sum"].shape == (0,)
        x = {"x": np.arange(300000, dtype=np.int64).reshape(3, 100, 1000), "s": oip.bytes_array([b"one", "zwölf".encode()])}
        answer = client.infer("echo", x)
        assert all((answer[name] == x[name]).all() for name in x)
        error = client.refused("add", {"a": A, "b": A[:2]})
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert error.details() == "a and b have different lengths"
        error = client.refused("add", {"a": A, "b": A.astype(np.float64)})
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT and "FP64" in error.details()
        code, text = worker.stop()
        assert code == 0 and len(text.splitlines()) == 1, text
    assert client.refused("add", {"a": A, "b": A}).code() == grpc.StatusCode.NOT_FOUND
    assert not server.status()["deployments"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_sigterm_finishes_what_is_under_way(server, language):
    with workers.start(server, language) as worker:
        workers.wait_registered(worker)
        load = Load(server, 200)
        load.run_until(lambda: load.right > 50)
        with workers.start(server, language, "other") as other:
            workers.wait_registered(other)
            assert worker.stop()[0] == 0
            load.run_until(lambda: load.right > 150)
            load.stop()
        assert not load.wrong and not load.errors, load.text()


@pytest.mark.parametrize("language", LANGUAGES)
def test_registers_again_with_a_new_dispatcher(serve, connect, language):
    server = serve(None, "--worker-heartbeat", "100ms")
    server.expect_error("dispatcher")
    with workers.start(server, language) as worker:
        workers.wait_registered(worker)
        at = len(worker.log.lines)
        before = server.dispatcher
        os.kill(before, signal.SIGKILL)
        worker.log.wait("registered", at)
        assert server.dispatcher != before
        assert connect(server).infer("add", {"a": A, "b": A})["sum"].tolist() == [0, 2, 4]
        server.note_fds()
        assert worker.stop()[0] == 0


# --- over TCP, with the token ---

@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "token"
    path.write_text("our-token")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def far(serve_module, token_file):
    return serve_module(None, "--management", "127.0.0.1:0", "--management-token-file", token_file, "--worker-grace", "5s",
                        "--worker-heartbeat", "100ms")


@pytest.mark.parametrize("language", LANGUAGES)
def test_over_tcp(far, connect, language):
    """It registers, says that it lives, and takes its offer back, all with the token."""
    at = far.log.wait(r"management  (\S+)")[1]
    with workers.start(far, language, management=at, ANYSERVE_TOKEN="our-token") as worker:
        workers.wait_registered(worker)
        assert connect(far).infer("add", {"a": A, "b": A})["sum"].tolist() == [0, 2, 4]
        (replica,) = {r["pid"] for r in far.status()["replicas"]}
        assert replica == worker.process.pid
        beats = 'anyserve_http_requests_total{resource="management",status="200"} '
        before = int(far.metrics().split(beats)[1].split()[0])
        wait.until(lambda: int(far.metrics().split(beats)[1].split()[0]) > before + 2, "no heartbeats")
        assert worker.stop()[0] == 0
    assert not far.status()["replicas"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_over_tcp_with_another_token(far, language):
    """It says why it is not served, and tries again."""
    at = far.log.wait(r"management  (\S+)")[1]
    with workers.start(far, language, management=at, ANYSERVE_TOKEN="another") as worker:
        worker.log.wait("wrong token")
        worker.log.wait("wrong token", len(worker.log.lines))
        assert not far.status()["replicas"]


# --- all of them ---

def test_all_languages_serve_one_model_while_each_is_killed(server):
    """500 requests a second: no wrong answer, and, since the model is idempotent, no error."""
    running = {language: workers.start(server, language) for language in workers.ALL}
    try:
        for worker in running.values():
            workers.wait_registered(worker)
        load = Load(server, 500)
        try:
            for language in workers.ALL * 2:
                seen = load.right
                load.run_until(lambda seen=seen: load.right > seen + 100)
                running[language].kill()
                seen = load.right
                load.run_until(lambda seen=seen: load.right > seen + 50)
                running[language] = workers.start(server, language)
                workers.wait_registered(running[language])
            seen = load.right
            load.run_until(lambda: load.right > seen + 100)
        finally:
            load.stop()
        assert not load.wrong and not load.errors, load.text()
        for worker in running.values():
            assert worker.stop()[0] == 0
    finally:
        for worker in running.values():
            worker.kill()
