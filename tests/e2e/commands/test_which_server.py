"""Several servers on one machine: a port or a folder that another has is told with its owner, a status port that nobody
chose is the next free one, and a command that was not told which server it means asks. Each test has /run, /tmp and a
network of its own, and needs root for that."""

import contextlib
import json
import os
import re
import socket
import subprocess

import pytest

from support import wait
from support.process.server import Log, http_get
from support.process.world import PYTHON, USER, command, end, folder, home, in_world, server, spawn

STATUS_PORTS = 100  # STATUS_PORTS of src/app/server/run.c: so many are tried


def started(uid, env, *args):
    process = spawn(uid, env, *args, *PYTHON)
    process.log = Log(process.stdout.buffer)
    process.log.wait("^Ready: ")
    return process


def status_port(process):
    return int(process.log.find(r"http://127\.0\.0\.1:(\d+)/status")[1])


def told_by(port):
    with socket.create_connection(("127.0.0.1", port), wait.SECONDS) as s:
        code, body = http_get(s, "/status", "localhost")
    assert code == 200, body
    return json.loads(body)["server"]


def killed(*processes):
    for process in processes:
        end(process)


# --- the status port ---

def beside_another():
    env = home(USER)
    a = started(USER, env, "run", "--port", 8000)
    assert status_port(a) == 8002
    b = started(USER, env, "run", "--port", 8401)
    c = started(USER, env, "start", "--port", 8402, "--state-dir", folder("/var/lib/c", USER))
    assert [status_port(p) for p in (b, c)] == [8003, 8004]
    said = b.log.text()
    assert re.search(rf"8002 .*port 8000.*pid {a.pid}\b", said) and "8003" in said, said
    assert len({told_by(port)["pid"] for port in (8002, 8003, 8004)}) == 3
    said = command(USER, env, "run", "--port", 8500, "--status-port", 8002, *PYTHON, code=75)
    assert re.search(rf"port 8002 .*port 8000 \(pid {a.pid}, ", said) and "--status-port" in said, said
    end(a)
    # 8000 is free again, and 8003 is not what the user has asked for
    d = started(USER, env, "run")
    assert status_port(d) == 8002
    killed(b, c, d)


def beside_anything():
    """What has it need not be a server: each port up to the last that is tried, and no further."""
    env = home(USER)
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(("127.0.0.1", 8002 + i))) for i in range(STATUS_PORTS)]
        said = command(USER, env, "run", "--port", 8401, *PYTHON, code=75)
        assert f"8002 to {8002 + STATUS_PORTS - 1}" in said and "--status-port" in said, said
        taken[-1].close()
        a = started(USER, env, "run", "--port", 8401)
        assert status_port(a) == 8002 + STATUS_PORTS - 1
        end(a)


def ports_of_ones_own():
    """The ports that were asked for are not taken for it."""
    env = home(USER)
    a = started(USER, env, "run", "--port", 8002, "--grpc-port", 8003)
    assert status_port(a) == 8004
    end(a)


# --- who has it ---

def port_of_a_server():
    env = home(USER)
    a = started(USER, env, "run", "--port", 8000, "--grpc-port", 8001)
    other = folder("/run/other", USER)
    for args in ((), ("--runtime-dir", other)):
        said = command(USER, env, "run", *args, *PYTHON, code=75)
        assert "a server runs on port 8000 already" in said, said
        for word in (f"pid {a.pid},", f"{env['XDG_RUNTIME_DIR']}/anyserve", "started in /", "anyserve shutdown --port 8000"):
            assert word in said, (word, said)
        said = command(USER, env, "run", "--port", 8001, *args, *PYTHON, code=75)
        assert f"server on port 8000 (pid {a.pid}," in said and "another program" not in said, said
    end(a)


def port_of_another_program():
    env = home(USER)
    with socket.create_server(("127.0.0.1", 8000)):  # root's: its descriptors are nobody else's business
        assert "is taken by another program.\n" in command(USER, env, "run", *PYTHON, code=75)
        said = command(0, {}, "run", *PYTHON, code=75)
        assert "another program: python" in said and f"(pid {os.getpid()})" in said, said


def folder_of_a_server():
    env = home(USER)
    state, runtime = folder("/var/lib/state", USER), folder("/run/both", USER)
    a = started(USER, env, "start", "--port", 8000, "--state-dir", state, "--runtime-dir", runtime)
    said = command(USER, env, "start", "--port", 8401, "--state-dir", state, *PYTHON, code=75)
    assert f"another server uses {state}" in said and f"port 8000 (pid {a.pid}, " in said and runtime in said, said
    said = command(USER, env, "run", "--port", 8000, "--host", "10.9.8.7", "--runtime-dir", runtime, *PYTHON, code=75)
    assert f"another server holds {runtime}/8000" in said and f"port 8000 (pid {a.pid}, " in said, said
    end(a)


# --- which one is meant ---

FILE = "/var/lib/models.yaml"
COMMANDS = [["status"], ["status", "--json"], ["status", "-w"], ["workers"], ["deploy", FILE], ["delete", "default"],
            ["config"], ["scale", "echo", "2"], ["restart", "echo"], ["rollback", "echo"], ["upgrade"], ["logs"],
            ["shutdown", "-y"], ["doctor", *PYTHON], ["infer", "echo", "--input", "x:INT32=1"], ["bench", "echo"]]


def every_command():
    with open(FILE, "w") as f:
        f.write("applications: []\n")
    env = home(USER)
    a, b = (server(USER, env, port) for port in (8000, 8401))
    for args in COMMANDS:
        said = command(USER, env, *args, code=2)
        assert re.search(rf"--port 8000 .*pid {a.pid}\b", said) and re.search(rf"--port 8401 .*pid {b.pid}\b", said), said
        assert f"{env['XDG_RUNTIME_DIR']}/anyserve" in said, said
    assert command(USER, env, "complete", "DEPLOYMENT", code=2) == ""
    for process, port in ((a, 8000), (b, 8401)):
        assert "ready" in command(USER, env, "status", "--port", port)
        assert f"port {port} has ended" in command(USER, env, "shutdown", "-y", "--port", port)
        assert process.wait(wait.SECONDS) == 0
    assert "no server" in command(USER, env, "status", code=1)


def only_one():
    env = home(USER)
    a = server(USER, env, 8401)
    said = command(USER, env, "status", "--json")
    assert json.loads(said)["server"]["ready"]
    end(a)


def same_port_twice():
    """On two addresses of the machine: the folder tells them apart."""
    env = home(USER)
    there = env["HOME"] + "/.local/state/anyserve/run"
    os.makedirs(there, 0o700)
    subprocess.run(["chown", "-R", str(USER), env["HOME"]], check=True)
    a = server(USER, env, 8000)
    b = server(USER, env, 8000, "--host", "10.9.8.7", "--runtime-dir", there)
    for args in ((), ("--port", 8000)):
        said = command(USER, env, "status", *args, code=2)
        assert f"--port 8000 --runtime-dir {env['XDG_RUNTIME_DIR']}/anyserve " in said, said
        assert f"--port 8000 --runtime-dir {there} " in said and f"pid {b.pid}" in said, said
    assert "ready" in command(USER, env, "status", "--runtime-dir", there)
    assert "has ended" in command(USER, env, "shutdown", "-y", "--runtime-dir", there)
    assert b.wait(wait.SECONDS) == 0
    end(a)


def another_machine():
    """Who is asked by address is told already."""
    env = home(USER)
    a, b = (server(USER, env, port) for port in (8000, 8401))
    said = command(USER, env, "infer", "nope", "--url", "127.0.0.1:8401", code=105)
    assert "nope" in said
    token = "/var/lib/token"
    with open(token, "w") as f:
        f.write("secret\n")
    os.chown(token, USER, USER)
    os.chmod(token, 0o600)
    said = command(USER, env, "status", "--control", "127.0.0.1:1", "--control-token-file", token, code=1)
    assert "cannot connect to 127.0.0.1:1" in said
    killed(a, b)


@pytest.mark.parametrize("test", [beside_another, beside_anything, ports_of_ones_own, port_of_a_server,
                                  port_of_another_program, folder_of_a_server, every_command, only_one, same_port_twice,
                                  another_machine], ids=lambda t: t.__name__)
def test_which_server(test):
    in_world(test)
