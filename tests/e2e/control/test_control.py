"""The control API and its commands: what is served is read and changed while it is served."""

import json
import os
import socket
import subprocess

import numpy as np
import pytest

from support import paths, wait
from support.load import Load
from support.process import procs
from support.protocol.http import Unix

APPLICATIONS = "/api/serve/applications/"
DEPLOYMENT = "/api/v1/applications/default/deployments/echo"


def ask(server, method, path, body=None, headers=None):
    """(status, JSON, headers) of one request to control.sock."""
    c = Unix(os.path.join(server.folder_of_port(), "control.sock"))
    try:
        c.request(method, path, body if isinstance(body, (bytes, type(None))) else json.dumps(body), headers or {})
        r = c.getresponse()
        text = r.read()
        return r.status, json.loads(text) if text else None, dict(r.getheaders())
    finally:
        c.close()


def deployment(server):
    status, details, _ = ask(server, "GET", APPLICATIONS)
    assert status == 200
    return details["applications"]["default"]["deployments"]["echo"]


def scaled(server, n):
    """Waits until there are n replicas and nothing else is to come."""
    wait.until(lambda: (d := deployment(server))["status"] == "HEALTHY" and d["target_num_replicas"] == n and
               [r["state"] for r in d["replicas"]] == ["RUNNING"] * n, lambda: deployment(server))


def command(server, *args):
    return subprocess.run([str(paths.BINARY), *args, "--runtime-dir", server.runtime, "--port", str(server.port)],
                          capture_output=True, text=True, timeout=wait.SECONDS)


def echo(client, n):
    assert client.infer("echo", {"x": np.float32([n])})["x"] == n


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


def test_details(serve):
    server = serve("echo.py", "--workers", "2")
    status, details, _ = ask(server, "GET", APPLICATIONS)
    assert status == 200
    assert details["controller_info"] == {"pid": server.controller, "state_dir": server.folder_of_port()}
    app = details["applications"]["default"]
    assert app["name"] == "default" and app["status"] == "RUNNING"
    d = app["deployments"]["echo"]
    assert (d["status"], d["status_trigger"], d["target_num_replicas"]) == ("HEALTHY", "CONFIG_UPDATE_COMPLETED", 2)
    assert [(r["replica_id"], r["state"], r["rank"], r["starts"]) for r in d["replicas"]] == [
        ("echo-0", "RUNNING", 0, 1), ("echo-1", "RUNNING", 1, 1)]
    assert {r["replica_id"]: r["pid"] for r in d["replicas"]} == server.workers()


def test_scale_under_load(serve):
    server = serve("echo.py")
    with Load(server.address, echo, threads=4) as load:
        load.wait_more(20)
        for i, n in enumerate((3, 2, 1)):
            assert ask(server, "POST", DEPLOYMENT + "/scale", {"target_num_replicas": n})[:2] == (200, {"generation": i + 2})
            scaled(server, n)
            assert sorted(r["rank"] for r in deployment(server)["replicas"]) == list(range(n))
            load.wait_more(20)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    assert len(server.workers()) == 1


def test_scale_to_nothing_and_back(serve, connect):
    server = serve("echo.py")
    assert ask(server, "POST", DEPLOYMENT + "/scale", {"target_num_replicas": 0})[0] == 200
    scaled(server, 0)
    wait.until(lambda: not server.workers(), server.status)
    assert ask(server, "POST", DEPLOYMENT + "/scale", {"target_num_replicas": 1})[0] == 200
    scaled(server, 1)
    wait.until(lambda: server.workers(), server.status)
    echo(connect(server), 7)


def test_what_was_asked_for_outlives_the_controller(serve, connect):
    server = serve("echo.py")
    assert ask(server, "POST", DEPLOYMENT + "/scale", {"target_num_replicas": 3})[0] == 200
    scaled(server, 3)
    before, first = server.workers(), server.controller
    procs.kill(first)
    wait.until(lambda: server.controller not in (None, first), server.status)
    scaled(server, 3)
    assert server.workers() == before
    status, history, _ = ask(server, "GET", "/api/serve/history")
    assert status == 200
    assert [(g["generation"], g["cause"]) for g in history["generations"]] == [
        (2, "scale echo to 3"), (1, "run")]
    echo(connect(server), 1)
    assert ask(server, "POST", DEPLOYMENT + "/scale", {"target_num_replicas": 1})[0] == 200
    scaled(server, 1)


def test_restart_replaces_every_replica(serve):
    server = serve("echo.py", "--workers", "2")
    before = server.workers()
    with Load(server.address, echo, threads=2) as load:
        load.wait_more(10)
        assert command(server, "restart", "echo").returncode == 0
        wait.until(lambda: not set(server.workers().values()) & set(before.values()) and len(server.workers()) == 2,
                   server.status)
        scaled(server, 2)
        load.wait_more(10)
    assert set(load.outcomes) == {"OK"}, (load.outcomes, load.errors[-1])
    assert sorted(r["rank"] for r in deployment(server)["replicas"]) == [0, 1]


def test_commands(serve):
    server = serve("echo.py")
    assert command(server, "scale", "default/echo", "2").returncode == 0
    scaled(server, 2)
    for args, code, text in [(("scale", "nobody", "1"), 1, "there is no deployment 'nobody'"),
                             (("scale", "shop/echo", "1"), 1, "'echo' is a deployment of the application 'default'"),
                             (("scale", "echo", "many"), 2, "'many' is not a number of replicas"),
                             (("scale", "/echo", "1"), 2, "is not [APPLICATION/]DEPLOYMENT"),
                             (("scale", "echo", "1025"), 1, "N from 0 to 1024"),
                             (("rollback", "echo"), 1, "'echo' has no earlier generation to go back to")]:
        done = command(server, *args)
        assert done.returncode == code and text in done.stderr and not done.stdout, (args, done)
    assert deployment(server)["target_num_replicas"] == 2
    assert command(server, "scale", "echo", "1").returncode == 0
    scaled(server, 1)


BODY = 'the body must be {"target_num_replicas": N} with N from 0 to 1024, and nothing else'


@pytest.mark.parametrize("body, text", [
    (None, 'the body {"target_num_replicas": N} is missing'), ({"target_num_replicas": 1025}, BODY),
    ({"target_num_replicas": -1}, BODY), ({"target_num_replicas": 1.5}, BODY), ({"target_num_replicas": "1"}, BODY),
    ({"replicas": 1}, BODY), ({"target_num_replicas": 1, "more": 2}, BODY), ({}, BODY), ([1], BODY),
    (b'{"target_num_replicas":1,"target_num_replicas":2}', BODY), (b'{"target_num_replicas":1', "not JSON at byte"),
    (b'{"target_num_replicas":1} more', "not JSON at byte")])
def test_bad_scale(server, body, text):
    status, answer, _ = ask(server, "POST", DEPLOYMENT + "/scale", body)
    assert status == 400 and text in answer["error"]
    assert deployment(server)["target_num_replicas"] == 1


@pytest.mark.parametrize("method, path, want", [
    ("GET", "/api/serve/applications", 404), ("GET", "/v2/health/live", 404), ("POST", APPLICATIONS, 405),
    ("GET", DEPLOYMENT + "/scale", 405), ("POST", "/api/v1/applications/default/deployments/x/scale", 404),
    ("POST", "/api/v1/applications/x/deployments/echo/restart", 404), ("POST", DEPLOYMENT + "/explode", 404),
    ("POST", "/api/v1/applications/default/deployments/%zz/restart", 400), ("PUT", APPLICATIONS, 400),
    ("PUT", APPLICATIONS + "?dry_run=1", 400), ("PUT", APPLICATIONS + "?dryrun=1", 400),
    ("DELETE", APPLICATIONS + "other", 404)])
def test_refused(server, method, path, want):
    body = {"target_num_replicas": 1} if path.endswith("scale") else None
    status, answer, _ = ask(server, method, path, body)
    assert status == want and answer["error"]
    assert deployment(server)["status"] == "HEALTHY"


def test_a_body_at_the_limit(serve):
    server = serve("echo.py", "--max-spec-bytes", "64")
    body = b'{"target_num_replicas":1}'
    assert ask(server, "POST", DEPLOYMENT + "/scale", body.ljust(64))[0] == 200
    status, answer, _ = ask(server, "POST", DEPLOYMENT + "/scale", body.ljust(65))
    assert status == 413 and "--max-spec-bytes" in answer["error"]


def test_connections_at_the_limit(serve):
    server = serve("echo.py", "--max-control-connections", "2")
    path = os.path.join(server.folder_of_port(), "control.sock")
    held = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    try:
        for s in held:
            s.settimeout(wait.SECONDS)
            s.connect(path)
        for s in held[:2]:
            s.sendall(b"GET /api/serve/history HTTP/1.1\r\nHost: x\r\n\r\n")
            assert s.recv(100).startswith(b"HTTP/1.1 200 ")
        assert held[2].recv(100) == b""  # one too many is closed
    finally:
        for s in held:
            s.close()


def test_it_ends_with_a_connection_open(serve):
    server = serve("echo.py")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(os.path.join(server.folder_of_port(), "control.sock"))
        s.sendall(b"GET /api/serve/history HTTP/1.1\r\nHost: x\r\n")  # and no end
        assert ask(server, "GET", APPLICATIONS)[0] == 200
        server.stop()
        s.settimeout(wait.SECONDS)
        assert s.recv(1) == b""
    assert not os.path.exists(os.path.join(server.folder_of_port(), "control.sock"))
