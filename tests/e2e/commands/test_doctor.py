"""`anyserve doctor` looks at the server that runs: its processes' limits, its folders, what it serves."""

import json
import os
import resource
import subprocess
import sys

import pytest

from support import paths, wait
from support.process import procs


def doctor(server, *args, code=0):
    done = subprocess.run([str(a) for a in (paths.BINARY, "doctor", "--json", "--runtime-dir", server.runtime, "--python",
                                            sys.executable, *args)], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(paths.SDK)}, timeout=wait.SECONDS)
    assert done.returncode == code and "Sanitizer" not in done.stderr, done
    return {c["check"]: c for c in json.loads(done.stdout)}


@pytest.fixture(scope="module")
def server(serve_module, tmp_path_factory):
    folder = tmp_path_factory.mktemp("state")
    (folder / "echo.yaml").write_text(json.dumps({"applications": [
        {"name": "default", "import_path": "echo:app", "working_dir": str(paths.APPS)}]}))
    server = serve_module(folder / "echo.yaml", "--state-dir", folder / "kept", verb="start")
    server.state = str(folder / "kept")
    return server


def test_the_limits_are_the_servers(serve):
    """Not those of the shell that asks."""
    server, own = serve("echo.py"), resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    found = doctor(server)["files"]
    assert "the server's dispatcher may open" in found["text"] and " are open" in found["text"]
    assert "a process started here" not in found["text"]
    resource.prlimit(server.dispatcher, resource.RLIMIT_NOFILE, (700, 700))
    found = doctor(server, code=1)["files"]
    assert found["verdict"] == "fail" and "the server's dispatcher may open 700 descriptors" in found["text"], found
    assert f"a process started here: {own}" in found["text"] and "start the server again" in found["advice"]


def test_locked_memory_is_the_workers(serve):
    """They are what pins memory."""
    server = serve("echo.py")
    resource.prlimit(server.worker(), resource.RLIMIT_MEMLOCK, (4096, 4096))
    found = doctor(server)["memlock"]
    assert found["verdict"] == "warn" and "the server's workers may lock 4 KiB" in found["text"], found


def test_the_state_is_the_servers(server, tmp_path):
    found = doctor(server)["state"]
    assert found["verdict"] == "ok" and found["text"].startswith(f"{server.state}, the server's;"), found
    found = doctor(server, "--state-dir", tmp_path)["state"]
    assert found["text"].startswith(f"{server.state}, the server's, not {tmp_path};"), found
    os.rename(server.state, server.state + ".away")
    try:
        found = doctor(server, code=1)["state"]
        assert found["verdict"] == "fail" and "does not exist any more" in found["text"] and server.state in found["text"]
    finally:
        os.rename(server.state + ".away", server.state)


def test_memory_and_groups_are_the_servers(server):
    found = doctor(server)
    assert found["memory"]["text"].startswith("the server may use "), found
    assert found["cgroup"]["text"].startswith("the server that runs limits ")
    assert found["shm"]["text"].endswith("free in the server's /dev/shm"), found


def test_of_run_the_state_is_in_the_servers_folder(serve):
    server = serve("echo.py")
    assert doctor(server)["state"]["text"].startswith(f"{server.folder_of_port()}, the server's;")


def test_without_a_server_it_says_whose_limits_they_are(tmp_path):
    done = subprocess.run([paths.BINARY, "doctor", "--json", "--runtime-dir", tmp_path, "--port", "1", "--state-dir", tmp_path,
                           "--python", sys.executable], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(paths.SDK)}, timeout=wait.SECONDS)
    found = {c["check"]: c for c in json.loads(done.stdout)}
    assert found["server"]["text"] == f"none runs on port 1 in {tmp_path}; the other checks are for a server started here"
    assert found["files"]["text"].startswith("a server started here may open ")
    assert found["memory"]["text"].startswith("a server started here may use ")
    assert "served" not in found


# --- what is served ---

@pytest.mark.long
def test_a_deployment_without_a_replica_is_a_failure(serve, tmp_path, stage):
    flag = tmp_path / "flag"
    server = serve("failing/crashing.py", "--workers", "2", "--max-start-failures", "2", "--restart-backoff", "10ms",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    found = doctor(server)
    assert (found["control"]["verdict"], found["served"]["verdict"]) == ("ok", "ok")
    flag.touch()
    procs.kill(server.workers()["crashing-1"])
    wait.until(lambda: server.deployment()["status"] == "UNHEALTHY", lambda: server.status())
    found = doctor(server)
    assert found["served"]["verdict"] == "warn", found
    assert "crashing: 1 of 2 replicas is ready" in found["served"]["text"]
    procs.kill(server.workers()["crashing-0"])
    wait.until(lambda: server.deployment()["down"], lambda: server.status())
    found = doctor(server, code=1)
    assert found["served"]["verdict"] == "fail" and "anyserve logs" in found["served"]["advice"], found
    assert "crashing: no replica is ready, 2 are wanted" in found["served"]["text"]
    assert "last words before the crash" in found["served"]["text"]
