"""Commands of people who operate a server: deploy, status -w, shutdown; and the control API over TCP."""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

import numpy as np
import pytest

from support import paths, ports, wait
from support.process import procs
from support.process.commands import Watch, at, run
from support.protocol.fake_control import SYNCED, Control, change, row
from support.protocol.http import Unix

EVENTS = "/api/serve/events"
TOKEN = "correct.horse-battery~staple"


class Listener:
    """The events of a server, one after the other."""

    def __init__(self, server):
        self.connection = Unix(os.path.join(server.folder_of_port(), "control.sock"))
        self.connection.request("GET", EVENTS)
        self.response = self.connection.getresponse()
        assert self.response.status == 200
        assert self.response.getheader("content-type") == "text/event-stream; charset=utf-8"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()

    def next(self):
        while True:
            line = self.response.readline()
            assert line, "the stream has ended"
            if line.startswith(b"data: "):
                return json.loads(line[6:])

    def until(self, wanted):
        """All events up to the first that wanted(event)."""
        events = [self.next()]
        while not wanted(events[-1]):
            events.append(self.next())
        return events


# --- events ---

@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py")


@pytest.mark.core
def test_first_all_then_each_change(server):
    with Listener(server) as a, Listener(server) as b:
        first = a.until(lambda e: e == SYNCED)
        assert first == b.until(lambda e: e == SYNCED)
        app, deployment, replica = first[:3]
        assert app == {"kind": "application", "application": "default", "status": "RUNNING", "message": ""}
        assert deployment == {"kind": "deployment", "application": "default", "deployment": "echo", "status": "HEALTHY",
                              "message": "", "target_num_replicas": 1, "num_replicas": 1, "rolled_back": False,
                              "generation": 1}
        assert replica == {"kind": "replica", "application": "default", "deployment": "echo", "replica": "echo-0",
                           "status": "RUNNING", "message": "", "pid": server.worker(), "rank": 0, "starts": 1}
        assert len(first) == 4
        run("scale", "echo", "2", *at(server), code=0)

        def healthy(n):
            return lambda e: e["kind"] == "deployment" and e["status"] == "HEALTHY" and e["target_num_replicas"] == n
        up = a.until(healthy(2))
        assert up == b.until(healthy(2))
        assert [e["status"] for e in up if e["kind"] == "deployment"] == ["UPSCALING", "HEALTHY"]
        with Listener(server) as late:
            late.until(lambda e: e.get("replica") == "echo-1")
        run("scale", "echo", "1", *at(server), code=0)
        down = a.until(lambda e: e["status"] == "GONE")
        assert [e["status"] for e in down if e.get("replica") == "echo-1"][-1] == "GONE"
        assert {k: down[-1][k] for k in ("kind", "application", "deployment", "replica")} == {
            "kind": "replica", "application": "default", "deployment": "echo", "replica": "echo-1"}


def test_what_is_no_listener(server):
    c = Unix(os.path.join(server.folder_of_port(), "control.sock"))
    for method, status in [("HEAD", 200), ("POST", 405)]:
        c.request(method, EVENTS)
        r = c.getresponse()
        assert r.status == status
        r.read()
    c.close()


def test_a_silent_stream_has_a_heartbeat(serve):
    server = serve("echo.py", "--event-heartbeat", "10ms")
    with Listener(server) as l:
        l.until(lambda e: e == SYNCED)
        assert [l.response.readline() for _ in range(4)] in ([b"\n", b":\n", b"\n", b":\n"], [b":\n", b"\n", b":\n", b"\n"])


def test_who_does_not_read_is_cut_off(serve):
    server = serve("echo.py", "--event-heartbeat", "1ms", "--max-event-bytes", "1K")
    with Listener(server) as good, socket.socket(socket.AF_UNIX) as bad:
        bad.connect(os.path.join(server.folder_of_port(), "control.sock"))
        bad.sendall(f"GET {EVENTS} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        while not server.log.find(r"event=listener_cut_off reason=\"it does not read \(--max-event-bytes\)\""):
            good.response.readline()
        bad.settimeout(wait.SECONDS)
        with pytest.raises((ConnectionResetError, StopIteration)):
            while bad.recv(65536):
                pass
            raise StopIteration
        good.response.readline()


# --- status -w ---

@pytest.mark.core
def test_watch_on_a_pipe(serve):
    server = serve("echo.py")
    with Watch("status", "-w", *at(server)) as watch:
        watch.log.wait(r"^\d\d:\d\d:\d\d application default: RUNNING$")
        pid = watch.log.wait(r"replica default/echo/echo-0: RUNNING, pid (\d+)$")[1]
        assert int(pid) == server.worker()
        procs.kill(int(pid))
        watch.log.wait(r"replica default/echo/echo-0: \w+, signal 9 \(SIGKILL\)|replica default/echo/echo-0: STARTING")
        watch.log.wait(rf"echo-0: RUNNING, pid (?!{pid})\d+")
        before, first = len(watch.log.lines), server.controller
        procs.kill(first)  # the next one is heard of, and nothing is told twice
        wait.until(lambda: server.controller not in (None, first), server.status)
        run("scale", "echo", "2", *at(server), code=0)
        watch.log.wait("replica default/echo/echo-1: RUNNING", before)
        assert not watch.log.find("deployment default/echo: HEALTHY, 1 replica wanted$", before)
        run("scale", "echo", "1", *at(server), code=0)
        watch.log.wait("replica default/echo/echo-1: GONE", before)
        watch.end(0)


def test_watch_ends_with_the_server(serve):
    server = serve("echo.py")
    with Watch("status", "--watch", "--json", *at(server)) as watch:
        watch.log.wait("synced")
        assert json.loads(watch.log.lines[0])["kind"] == "application"
        server.stop()
        watch.end(1, None)
        assert watch.log.lines[-1] == "anyserve: the server has ended"


def test_watch_on_a_screen(serve):
    server = serve("echo.py")
    main, side = pty.openpty()
    process = subprocess.Popen([str(paths.BINARY), "status", "-w", *at(server)], stdin=side, stdout=side, stderr=side)
    os.close(side)
    seen = b""
    try:
        for n in (b"2", b"1"):
            run("scale", "echo", n.decode(), *at(server), code=0)
            while not re.search(rb"echo +HEALTHY +%s/%s\b" % (n, n), seen.rpartition(b"\x1b[H")[2]):
                assert select.select([main], [], [], wait.SECONDS)[0], seen
                seen += os.read(main, 65536)
        process.send_signal(signal.SIGINT)
        assert process.wait(wait.SECONDS) == 0
    finally:
        process.kill()
        process.wait()
        os.close(main)
    assert re.search(rb"\x1b\[H\d\d:\d\d:\d\d .*\x1b\[K\r\nNAME +STATUS", seen)


def test_nobody_there(tmp_path):
    (tmp_path / "a.yaml").write_text("applications: []")
    for args in [("status", "-w"), ("deploy", tmp_path / "a.yaml"), ("config",), ("delete", "x"), ("shutdown", "-y")]:
        done = run(*args, "--runtime-dir", tmp_path, "--port", 1, code=1)
        assert "no server on port 1" in done.stderr and not done.stdout


# --- deploy: what the command makes of what a server says ---

@pytest.fixture
def control(tmp_path):
    control = Control(tmp_path / "run")
    yield control
    control.close()


@pytest.fixture
def deploy(control, tmp_path):
    file = tmp_path / "shop.yaml"
    file.write_text("applications: []\n")

    def deploy(*options, code):
        done = run("deploy", file, "--runtime-dir", control.runtime, *options, code=code)
        assert control.asked[0][2] == b"applications: []\n"
        return done
    return deploy


PUT = ("PUT", "/api/serve/applications/")
DRY_RUN = ("PUT", "/api/serve/applications/?dry_run=1")


def test_dry_run(control, deploy):
    control.answers[DRY_RUN] = 200, {"changes": [
        change("ranker", "changed", **{"class": "restart", "keys": "version,env"}), change("side")]}
    done = deploy("--dry-run", code=0)
    assert done.stdout == ("APPLICATION  DEPLOYMENT  STEP       COST         KEYS\n"
                           "shop         ranker      changed    restart      version,env\n"
                           "shop         side        added\n1 added, 1 changed, 0 removed, 0 unchanged\n")
    assert len(control.asked) == 1
    assert json.loads(deploy("--dry-run", "--json", code=0).stdout) == control.answers[DRY_RUN][1]


def test_without_waiting(control, deploy):
    control.answers[PUT] = 200, {"generation": 7, "changes": [change("ranker")]}
    assert deploy("--no-wait", code=0).stdout.splitlines()[-1] == "generation 7 has begun"
    assert len(control.asked) == 1


def test_waits_until_all_is_healthy(control, deploy):
    """Across the end of a controller; other applications do not count."""
    control.answers[PUT] = 200, {"generation": 8, "changes": [
        change("ranker"), change("d", application="gone", step="removed"),
        change("d", application="other", step="unchanged")]}
    control.streams = [
        [row("DEPLOYING"), row("UPDATING", "ranker"), row("UNHEALTHY", application="other"),
         row("DELETING", application="gone"), SYNCED, row("STARTING", "ranker", "ranker-0", pid=5)],
        [row("RUNNING"), row("HEALTHY", "ranker"), row("RUNNING", "ranker", "ranker-0", pid=5), SYNCED, None]]
    done = deploy(code=0)
    assert done.stdout.splitlines()[-1] == "generation 8 is healthy"
    assert "  replica shop/ranker/ranker-0: STARTING, pid 5\n" in done.stderr
    assert "  application gone: GONE\n" in done.stderr
    assert "other" not in done.stderr
    assert len(control.asked) == 3


def test_nothing_to_wait_for(control, deploy):
    control.answers[PUT] = 200, {"generation": 9, "changes": [change("ranker", "unchanged")]}
    assert deploy(code=0).stdout.splitlines()[-1] == "generation 9 is healthy"


def test_a_failed_deploy(control, deploy):
    control.answers[PUT] = 200, {"generation": 7, "changes": [change("ranker", "changed")]}
    control.streams = [[row("DEPLOYING"), row("UPDATING", "ranker"), SYNCED, row("DEPLOY_FAILED", "ranker", rolled_back=True,
                        message="3 starts failed\nTraceback:\nValueError: no weights"), row("DEPLOY_FAILED"), None]]
    done = deploy(code=3)
    assert done.stderr.endswith("anyserve: shop/ranker has failed; what was served before is served again:\n"
                                "3 starts failed\nTraceback:\nValueError: no weights\n")
    assert "generation" not in done.stdout


def test_it_takes_too_long(control, deploy):
    control.answers[PUT] = 200, {"generation": 7, "changes": [change("ranker")]}
    control.streams = [[row("DEPLOYING"), SYNCED, None]]
    assert "not done within --timeout" in deploy("--timeout", "1s", code=4).stderr


def test_a_bad_file(control, deploy, tmp_path):
    control.answers[PUT] = 400, {"error": "request:2:3: applications[0].nmae: unknown key; did you mean 'name'?\nand more"}
    assert deploy(code=78).stderr == \
        f"{tmp_path}/shop.yaml:2:3: applications[0].nmae: unknown key; did you mean 'name'?\nand more\n"


@pytest.mark.parametrize("status, answer, text", [
    (409, {"error": "another deploy is under way"}, "anyserve: another deploy is under way"),
    (200, "{", "cannot be read"), (200, {"changes": 7}, "cannot be read"), (500, "", "answered 500")])
def test_other_answers(control, deploy, status, answer, text):
    control.answers[PUT] = status, answer
    assert text in deploy(code=1).stderr


def test_a_server_that_tells_nothing(control, deploy):
    control.answers[PUT] = 200, {"generation": 7, "changes": [change("ranker")]}
    control.streams = [[{"error": "?"}, "no object", None]]
    done = deploy("--timeout", "1s", code=4)
    assert 'an event that cannot be read: "no object"' in done.stderr


def test_files_that_cannot_be_sent(control, tmp_path):
    empty = tmp_path / "empty.yaml"
    empty.touch()
    for file, code, text in [(empty, 78, "is empty"), (tmp_path / "none", 66, "does not exist"), (tmp_path, 2, "is a directory")]:
        assert text in run("deploy", file, "--runtime-dir", control.runtime, code=code).stderr
    assert not control.asked


def test_delete_and_config(control):
    control.answers[("DELETE", "/api/serve/applications/a%20b")] = 200, {"generation": 2, "changes": [
        change("d", application="a b", step="removed"), change("d", application="other", step="unchanged")]}
    control.answers[("GET", "/api/serve/config")] = 200, "applications: []"
    control.streams = [[row("DELETING", application="a b"), row("UNHEALTHY", application="other"), SYNCED,
                        row("GONE", application="a b"), None]]
    done = run("delete", "a b", "--runtime-dir", control.runtime, code=0)
    assert (done.stdout, done.stderr) == ("a b is gone\n", "  application a b: DELETING\n  application a b: GONE\n")
    assert run("delete", "a b", "--no-wait", "--runtime-dir", control.runtime, code=0).stdout == "a b goes\n"
    control.answers[("GET", "/api/serve/applications/")] = 200, {"applications": {}}
    assert "there is no application 'c'; nothing is served" in run("delete", "c", "--runtime-dir", control.runtime, code=1).stderr
    assert run("config", "--runtime-dir", control.runtime, code=0).stdout == "applications: []\n"


# --- scale, restart, rollback: one deployment ---

@pytest.fixture
def change_ranker(control):
    verbs = {"scale": ("ranker", "2"), "restart": ("ranker",), "rollback": ("ranker",)}
    for verb in verbs:
        control.answers[("POST", f"/api/v1/applications/shop/deployments/ranker/{verb}")] = 200, {}

    def change_ranker(verb, *options, code):
        (name, *more) = verbs[verb]
        return run(verb, f"shop/{name}", *more, *options, "--runtime-dir", control.runtime, code=code)
    return change_ranker


@pytest.mark.parametrize("verb", ["scale", "restart", "rollback"])
def test_a_change_of_one_deployment_is_waited_for(control, change_ranker, verb):
    """Whatever its application's other deployments are."""
    control.streams = [[row("DEPLOY_FAILED"), row("UPDATING", "ranker"), row("DEPLOY_FAILED", "side"),
                        row("UPDATING", "ranker", application="other"), SYNCED, row("STARTING", "ranker", "ranker-1", pid=5)],
                       [row("DEPLOY_FAILED"), row("HEALTHY", "ranker"), row("DEPLOY_FAILED", "side"),
                        row("STARTING", "ranker", "ranker-1", pid=5), SYNCED, None]]
    done = change_ranker(verb, code=0)
    assert done.stdout == "shop/ranker is healthy\n"
    assert "  replica shop/ranker/ranker-1: STARTING, pid 5\n" in done.stderr
    assert "side" not in done.stderr and "other" not in done.stderr and "application" not in done.stderr
    assert change_ranker(verb, "--no-wait", code=0).stdout == "shop/ranker changes\n"
    control.streams = [[row("UPDATING", "ranker"), SYNCED, None]]
    assert "not done within --timeout" in change_ranker(verb, "--timeout", "500ms", code=4).stderr
    control.streams = [[row("UPDATING", "ranker"), SYNCED, row("DEPLOY_FAILED", "ranker", message="no\nweights"), None]]
    assert change_ranker(verb, code=3).stderr.endswith("anyserve: shop/ranker has failed:\nno\nweights\n")


# --- shutdown ---

@pytest.mark.core
def test_shutdown(serve):
    server = serve("echo.py")
    assert "add --yes" in run("shutdown", *at(server), code=2).stderr
    assert run("shutdown", "-y", *at(server), code=0).stdout == f"the server on port {server.port} has ended\n"
    server.ended(0)


def test_shutdown_asks(serve):
    server = serve("echo.py")
    for answer, code, text in [(b"n\n", 1, b"nothing was done"), (b"y\n", 0, b"has ended")]:
        main, side = pty.openpty()
        process = subprocess.Popen([str(paths.BINARY), "shutdown", *at(server)], stdin=side, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT)
        os.close(side)
        os.write(main, answer)
        out = process.communicate(timeout=wait.SECONDS)[0]
        os.close(main)
        assert process.returncode == code and text in out
        assert f"End the server on port {server.port} (pid {server.supervisor})? [y/N]".encode() in out
    server.ended(0)


def test_shutdown_waits_for_so_long(serve):
    server = serve("echo.py")
    os.kill(server.supervisor, signal.SIGSTOP)
    try:
        assert "has not ended within --timeout" in run("shutdown", "-y", "--timeout", "500ms", *at(server), code=4).stderr
    finally:
        os.kill(server.supervisor, signal.SIGCONT)
    server.ended(0)


def test_shutdown_is_sure_whom_it_ends(tmp_path):
    """Somebody listens in a folder that no server holds."""
    place = tmp_path / "run" / "7"
    place.mkdir(parents=True)
    (place / "lock").write_text(f"{os.getpid()}\n")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(place / "control.sock"))
        s.listen()
        assert "no server on port 7" in run("shutdown", "-y", "--runtime-dir", tmp_path / "run", "--port", 7, code=1).stderr


# --- over TCP ---

@pytest.fixture(scope="module")
def token_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("secret") / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def remote(serve_module, token_file):
    server = serve_module("echo.py", "--control", "localhost:0", "--control-token-file", token_file)
    server.control = server.log.wait(r"control     (\S+)")[1]
    return server


def get(remote, **headers):
    request = urllib.request.Request(f"http://{remote.control}/api/serve/applications/",
                                     headers={k: v for k, v in headers.items() if v is not None})
    try:
        with urllib.request.urlopen(request, timeout=wait.SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as e:
        return e.code, json.load(e)["error"]


BEARER = f"Bearer {TOKEN}"


@pytest.mark.core
@pytest.mark.parametrize("headers, status, text", [
    ({}, 401, "is missing"), ({"Authorization": "Bearer wrong"}, 401, "wrong token"),
    ({"Authorization": f"Bearer {TOKEN}x"}, 401, "wrong token"), ({"Authorization": "Basic eDp5"}, 401, "is not 'Bearer"),
    ({"Host": "evil.example:80"}, 403, "'host'"), ({"Host": "[::1"}, 403, "'host'"), ({"Host": "localhost.evil"}, 403, "'host'"),
    ({"Origin": "http://evil.example"}, 403, "other sites"), ({"Origin": "null"}, 403, "other sites"),
    ({"Origin": "http://localhost"}, 403, "other sites"), ({"Origin": "http://localhost:1", "Host": "localhost"}, 403, "other")])
def test_refused_over_tcp(remote, headers, status, text):
    found, error = get(remote, **{"Authorization": BEARER, **headers} if headers and "Authorization" not in headers else headers)
    assert found == status and text in error


@pytest.mark.core
@pytest.mark.parametrize("headers", [
    {}, {"Host": "LOCALHOST:1"}, {"Host": "[::1]:7"}, {"Host": "192.0.2.1"}, {"Host": socket.gethostname()},
    {"Host": "localhost:5", "Origin": "http://localhost:5"}, {"Host": "127.0.0.1", "Origin": "https://127.0.0.1"}])
def test_taken_over_tcp(remote, headers):
    status, details = get(remote, Authorization=BEARER, **headers)
    assert status == 200 and details["applications"]["default"]["status"] == "RUNNING"


def test_commands_over_tcp(remote, token_file):
    there = "--control", remote.control, "--control-token-file", token_file
    assert re.search(r"^  echo +HEALTHY +1/1$", run("status", *there, code=0).stdout, re.M)
    assert json.loads(run("status", "--json", *there, code=0).stdout)["applications"]["default"]["status"] == "RUNNING"
    with Watch("status", "-w", *there) as watch:
        watch.log.wait("deployment default/echo: HEALTHY, 1 replica wanted")
        run("scale", "echo", "2", *there, code=0)
        watch.log.wait("deployment default/echo: HEALTHY, 2 replicas wanted")
        run("scale", "echo", "1", *there, code=0)
        watch.log.wait("replica default/echo/echo-1: GONE")
        watch.end(0)


def test_commands_that_cannot(remote, token_file, tmp_path):
    other = tmp_path / "other"
    other.write_text("nonsense")
    other.chmod(0o600)
    for args, code, text in [
            (("--control", remote.control), 2, "needs --control-token-file"),
            (("--control", remote.control, "--control-token-file", other), 1, "answered 401: wrong token"),
            (("--control", "nonsense", "--control-token-file", token_file), 2, "is not ADDRESS:PORT"),
            (("--control", "127.0.0.1:1", "--control-token-file", token_file), 1, "cannot connect to 127.0.0.1:1"),
            (("--control", remote.control, "--control-token-file", tmp_path / "none"), 78, "cannot open the token file")]:
        for command in [("scale", "echo", "1"), ("status", "-w"), ("status",)]:
            assert text in run(*command, *args, code=code).stderr


def test_servers_that_do_not_start(token_file, tmp_path):
    open_file = tmp_path / "open"
    open_file.write_text(TOKEN)
    start = "run", "--port", "0", "--status-port", "0", "--runtime-dir", tmp_path / "run"
    for args, code, text in [
            (("--control", "127.0.0.1:0"), 2, "--control needs --control-token-file"),
            (("--control-token-file", token_file), 2, "--control-token-file is for --control"),
            (("--control", "here", "--control-token-file", token_file), 2, "--control 'here' is not ADDRESS:PORT"),
            (("--control", "127.0.0.1:0", "--control-token-file", open_file), 78, "may be used by others")]:
        assert text in run(*start, *args, code=code).stderr


def test_a_token_that_is_lost(serve, tmp_path):
    """The next controller cannot read it: nobody comes in over TCP, and the log says so."""
    path = tmp_path / "token"
    path.write_text(TOKEN)
    path.chmod(0o600)
    server = serve("echo.py", "--control", "127.0.0.1:0", "--control-token-file", path)
    server.control = server.log.wait(r"control     (\S+)")[1]
    assert get(server, Authorization=BEARER)[0] == 200
    path.unlink()
    server.expect_error("event=no_control_token")
    procs.kill(server.controller)
    server.log.wait("event=no_control_token .*cannot open the token file")
    assert get(server, Authorization=BEARER) == (401, "the server has no token to compare with")



# --- logs ---

TALKER = """
from anyserve import AnyServe
app = AnyServe()
print("hello")

@app.model("talk")
def talk(request):
    print(bytes(request.inputs["text"].reshape(-1)[0]).decode(), flush=True)
    return request.inputs
"""


@pytest.fixture
def talker(serve, connect):
    """(server, say): say(text, …) has lines printed by the one replica."""
    def start(*options):
        server = serve("talk.py", *options, source=TALKER)
        client = connect(server)

        def say(*texts):
            for text in texts:
                client.infer("talk", {"text": np.array([text.encode()], dtype=object)})
        return server, say
    return start


def logs(server, *args, code=0):
    return run("logs", *args, *at(server), code=code).stdout.splitlines()


@pytest.mark.core
def test_logs(talker):
    server, say = talker()
    say("one", "two", "three")
    wait.until(lambda: "three" in logs(server, "--replica", "talk-0"), server.log.text)
    assert logs(server, "--replica", "talk-0", "-n", "2") == ["two", "three"]
    assert logs(server, "--lines", "0") == []
    everything = logs(server)
    assert everything[-3:] == ["[talk-0] one", "[talk-0] two", "[talk-0] three"]
    assert any(re.match(r"\[controller\] time=\S+ level=info event=controller_ready ", line) for line in everything)
    assert any(re.match(r"\[supervisor\] Ready: ", line) for line in everything)
    assert any(re.match(r"\[dispatcher\] time=\S+ level=info event=worker_ready ", line) for line in everything)
    stamped = logs(server, "--timestamps")
    assert [line.split(" ", 1)[1] for line in stamped] == everything
    assert stamped == sorted(stamped, key=lambda line: line[:24])
    done = run("logs", "--replica", "talk-7", *at(server), code=66)
    assert done.stderr == "anyserve: no output of 'talk-7' is kept; output is kept of: controller dispatcher supervisor talk-0\n"


def test_logs_outlive_those_who_wrote_them(talker):
    server, say = talker()
    say("first life")
    pid = server.worker()
    procs.kill(pid)
    procs.kill(server.dispatcher)
    procs.kill(server.controller)
    wait.until(lambda: server.controller and server.workers().get("talk-0") not in (None, pid), server.log.text)
    wait.until(lambda: sum("event=controller_ready" in line for line in logs(server, "--replica", "controller")) == 2,
               server.log.text)
    assert "first life" in logs(server, "--replica", "talk-0")
    assert any("event=dispatcher_exit" in line for line in logs(server, "--replica", "supervisor"))


def test_follow_over_rotation_and_replacement(talker):
    server, say = talker("--log-keep", "4K")
    with Watch("logs", "-f", "--replica", "talk-0", *at(server)) as watch:
        texts = [f"line {i} {'x' * (i % 50)}" for i in range(200)]  # several files full
        for i, text in enumerate(texts):
            say(text)
            if i % 20 == 19:
                watch.log.wait(f"^{text}$")  # more than is kept, unread, would be lost
            if i == 100:
                pid = server.worker()
                procs.kill(pid)
                wait.until(lambda: server.workers().get("talk-0") not in (None, pid), server.log.text)
        assert [line for line in watch.log.lines if line.startswith("line")] == texts
        kept = os.path.join(server.folder_of_port(), "logs")
        assert {"talk-0.log", "talk-0.log.1"} <= set(os.listdir(kept))
        assert sum(os.path.getsize(os.path.join(kept, f)) for f in os.listdir(kept) if f.startswith("talk")) <= 4096
        assert 0 < len(logs(server, "--replica", "talk-0", "-n", "1000")) < 100
        watch.end(0)


def test_follow_a_new_replica_to_the_end(talker):
    server, _ = talker()
    with Watch("logs", "--follow", "-n", "0", *at(server)) as watch, Watch("logs", "-f", *at(server)) as all_of_it:
        all_of_it.log.wait(r"\[controller\] .*event=controller_ready")
        run("scale", "talk", "2", *at(server), code=0)
        watch.log.wait(r"^\[talk-1\] hello$")
        assert not watch.log.find("event=controller_ready")
        server.stop()
        watch.end(0, None)
        all_of_it.end(0, None)
        assert watch.log.lines[-1] == "anyserve: the server has ended"
        assert watch.log.find(r"^\[dispatcher\] .*event=drained")


def test_replicas_that_are_gone(serve):
    server = serve("echo.py", "--max-old-logs", "1")
    folder = os.path.join(server.folder_of_port(), "logs")

    def replicas():
        return sorted(f for f in os.listdir(folder) if f.startswith("echo"))
    run("scale", "echo", "3", *at(server), code=0)
    wait.until(lambda: replicas() == ["echo-0.log", "echo-1.log", "echo-2.log"], replicas)
    wait.until(lambda: len(server.workers()) == 3, server.status)
    run("scale", "echo", "1", *at(server), code=0)
    wait.until(lambda: len(replicas()) == 2 and len(server.workers()) == 1, replicas)


def test_what_is_no_log_line_is_kept_too(serve):
    """The last words of a process that aborts, of whatever kind."""
    server = serve("echo.py")
    for name, pid in [("dispatcher", server.dispatcher), ("controller", server.controller)]:
        os.kill(pid, signal.SIGABRT)
        server.log.wait(rf"^\[supervisor\] .*event={name}_exit .*reason=\"signal 6 \(SIGABRT\)\" .*last=\"anyserve: aborted: ")
        server.log.wait(rf"^\[{name}\] anyserve: aborted: ")
        wait.until(lambda: getattr(server, name) not in (None, pid), server.log.text)
        assert any(re.search("Z anyserve: aborted: |^anyserve: aborted: ", line)
                   for line in logs(server, "--replica", name, "-n", "1000"))


def test_nothing_is_kept(serve):
    server = serve("echo.py", "--log-keep", "off")
    assert os.listdir(os.path.join(server.folder_of_port(), "logs")) == []
    assert logs(server) == []
    done = run("logs", "--replica", "echo-0", *at(server), code=66)
    assert "output is kept of: nothing" in done.stderr


def test_a_server_that_was_killed(serve):
    """What it left is there until the next one takes its place."""
    server = serve("echo.py")
    with Watch("logs", "-f", *at(server)) as watch:
        watch.log.wait("Ready: ")
        procs.kill(server.supervisor)
        watch.end(0, None)
    assert any("Ready: " in line for line in logs(server, "--replica", "supervisor"))
    server.is_spoiled = True
    server.process.wait()
    server.exit_code = -9


# --- deploy, with a server ---

def write(file, version="1", apps=("shop", "extra"), **more):
    file.write_text(json.dumps({"applications": [
        {"name": app, "import_path": "deployed:app", "working_dir": str(paths.APPS),
         "deployments": [{"name": "main", "version": version, **more}]} for app in apps[:1]] + [
        {"name": app, "import_path": "deployed:app", "working_dir": str(paths.APPS), "env": {"SIDE": "1"}}
        for app in apps[1:]]}))


def test_deploy_for_real(serve, tmp_path):
    file = tmp_path / "anyserve.yaml"
    write(file)
    server = serve(file, "--state-dir", tmp_path / "state", "--update-min-ready", "100ms", "--restart-backoff", "10ms",
                   verb="start")
    before = server.workers()
    write(file, "2")
    plan = run("deploy", "--dry-run", file, *at(server), code=0).stdout
    assert re.search(r"^shop +main +changed +restart +version$", plan, re.M) and "0 added, 1 changed, 0 removed" in plan
    assert server.workers() == before

    done = run("deploy", file, *at(server), code=0)
    assert re.search(r"^generation \d+ is healthy$", done.stdout, re.M)
    assert "deployment shop/main: HEALTHY" in done.stderr and "extra" not in done.stderr
    now = server.workers()
    assert not set(now.values()) & {pid for name, pid in before.items() if name.startswith("main")}

    config = run("config", *at(server), code=0).stdout
    (tmp_path / "config.yaml").write_text(config)
    assert "2 applications" in run("check", tmp_path / "config.yaml", code=0).stdout
    assert "0 added, 0 changed, 0 removed, 2 unchanged" in run("deploy", tmp_path / "config.yaml", *at(server), code=0).stdout

    write(file, "3", env={"BREAK_IMPORT": "1"})
    done = run("deploy", file, *at(server), code=3)
    assert "shop/main has failed; what was served before is served again:" in done.stderr
    assert "RuntimeError: this version cannot be imported" in done.stderr
    file.write_text("applications:\n- nmae: shop\n")
    done = run("deploy", file, *at(server), code=78)
    assert re.search(rf"^{file}:2:3: .*nmae", done.stderr, re.M)
    write(file, "4")
    file.write_text(file.read_text().replace("deployed:app", "no_such_module:app"))
    assert "no_such_module" in run("deploy", file, *at(server), code=78).stderr
    assert run("delete", "extra", *at(server), code=0)
    with Watch("status", "-w", *at(server)) as watch:
        watch.log.wait("application shop")
        wait.until(lambda: "side-0" not in server.workers(), server.status)
        watch.end(0)
    write(file, "2", apps=("shop",))
    assert server.workers() == {k: v for k, v in now.items() if k.startswith("main")}
    assert "1 unchanged" in run("deploy", file, *at(server), code=0).stdout


# --- doctor ---

def doctor(*args, code=0):
    done = run("doctor", "--json", *args, code=code, env={**os.environ, "PYTHONPATH": str(paths.SDK)})
    return {c["check"]: c for c in json.loads(done.stdout)}


def test_doctor_of_a_server(serve, tmp_path):
    server = serve("echo.py")
    here = *at(server), "--python", sys.executable, "--state-dir", tmp_path
    found = doctor(*here)
    assert set(found) == {"python", "kernel", "files", "memlock", "memory", "cgroup", "shm", "runtime", "state", "server",
                          "control", "served", "cpus", "exposure"}
    assert (found["server"]["verdict"], found["control"]["verdict"]) == ("ok", "ok")
    assert found["server"]["text"] == f"the server on port {server.port} is ready"
    text = run("doctor", *here, code=0, env={**os.environ, "PYTHONPATH": str(paths.SDK)}).stdout
    assert re.search(r"^ok    python    .*: Python 3", text, re.M) and re.search(r"\d+ ok, \d warnings, 0 failures\n$", text)
    os.kill(server.controller, signal.SIGSTOP)
    try:
        found = doctor(*here, code=1)
    finally:
        os.kill(server.controller, signal.SIGCONT)
    assert found["control"]["verdict"] == "fail" and "logs --replica controller" in found["control"]["advice"]


def test_doctor_of_a_machine(tmp_path):
    here = "--runtime-dir", tmp_path, "--python", sys.executable, "--state-dir", tmp_path / "not" / "yet"
    port = ports.free()
    with socket.create_server(("127.0.0.1", port)):
        found = doctor(*here, "--port", port)
        assert found["port"]["verdict"] == "warn" and "another program uses it" in found["port"]["text"]
    found = doctor(*here, "--port", port)
    assert (found["port"]["verdict"], found["server"]["text"]) == (
        "ok", f"none runs on port {port} in {tmp_path}; the other checks are for a server started here")
    assert found["state"]["verdict"] == "ok" and not (tmp_path / "not").exists() and not os.listdir(tmp_path)


@pytest.mark.parametrize("args, check, text", [
    (("--python", "/bin/false"), "python", "cannot load anyserve"), (("--python", "/no/such"), "python", "cannot be started"),
    (("--runtime-dir", "/proc/x"), "runtime", "/proc cannot be written to"), (("--state-dir", "/proc/x"), "state", "/proc cannot be written to")])
def test_doctor_finds(tmp_path, args, check, text):
    given = dict([("--runtime-dir", tmp_path), ("--python", sys.executable), ("--state-dir", tmp_path), args])
    found = doctor(*(str(word) for pair in given.items() for word in pair), "--port", "1", code=1)
    assert found[check]["verdict"] == "fail" and text in found[check]["text"] and found[check]["advice"]


def test_doctor_of_a_user_without_a_home(tmp_path):
    with tempfile.TemporaryDirectory(prefix="as-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        program = shutil.copy2(paths.BINARY, folder)
        env = {k: v for k, v in os.environ.items() if k not in ("HOME", "XDG_STATE_HOME")}
        other = {"user": 65534} if os.geteuid() == 0 else {}
        done = subprocess.run([program, "doctor", "--json", "--runtime-dir", "/tmp", "--port", "1"], capture_output=True,
                              text=True, env=env, cwd="/", timeout=wait.SECONDS, **other)
    assert done.returncode in (0, 1) and not done.stderr, done
    (state,) = (c for c in json.loads(done.stdout) if c["check"] == "state")
    assert state["verdict"] == "warn" and "no home folder" in state["text"] and "--state-dir" in state["advice"]


# --- completion ---

@pytest.fixture(scope="module")
def complete(tmp_path_factory):
    """complete("anyserve", "lo") → what bash would offer for the last word, by its own machinery."""
    script = tmp_path_factory.mktemp("bash") / "anyserve"
    script.write_text(run("completion", "bash", code=0).stdout)

    def complete(*words):
        line = f'source {script}; words=("$@"); COMP_WORDS=("${{words[@]}}"); COMP_CWORD=$(($# - 1));' \
               ' f=$(complete -p anyserve); f=${f#*-F }; ${f%% *}; printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "-c", line, "bash", str(paths.BINARY), *words], capture_output=True, text=True,
                              timeout=wait.SECONDS, cwd=paths.APPS)
        assert done.returncode == 0 and not done.stderr, done
        return done.stdout.split()
    return complete


def test_completion_of_words(complete):
    assert complete("lo") == ["logs"]
    assert "dispatcher" not in complete("") and {"deploy", "doctor"} <= set(complete(""))
    assert complete("help", "sh") == ["shutdown"]
    assert complete("completion", "") == ["bash", "zsh", "fish"]
    assert set(complete("status", "--")) == {"--help", "--port", "--control", "--control-token-file", "--runtime-dir", "--answer-timeout",
                                             "--watch", "--json"}
    assert complete("run", "--log-level", "w") == ["warn"]
    assert complete("run", "--log-level", "=", "d") == ["debug"]
    assert complete("run", "--log-level", "=") == ["error", "warn", "info", "debug"]
    assert complete("run", "--debug-errors", "--router-t") == ["--router-timeout"]  # a switch takes no value
    assert complete("run", "--port", "80") == []
    assert complete("run", "ech") == ["echo.py"] == complete("deploy", "--timeout", "3s", "ech")
    assert complete("run", "--runtime-dir", "/us") == ["/usr"]
    assert complete("deploy", "echo.py", "ech") == []  # there is one argument
    assert complete("nonsense", "x") == []


def test_completion_of_names(complete, server, tmp_path):
    there = at(server)
    assert complete("scale", *there, "e") == ["echo"]
    assert complete("scale", *there, "echo", "") == []
    assert complete("delete", *there, "") == ["default"]
    assert complete("logs", *there, "--replica", "e") == ["echo-0"]
    assert complete("logs", *there, "--replica", "") == ["supervisor", "dispatcher", "controller", "echo-0"]
    assert complete("scale", "--runtime-dir", str(tmp_path), "") == []


def test_every_shell(complete):
    commands = set(complete(""))
    fish = run("completion", "fish", code=0).stdout
    assert commands == set(re.findall(r"__fish_use_subcommand -fa (\S+)", fish))
    assert run("completion", "zsh", code=0).stdout.splitlines()[1] == "autoload -Uz bashcompinit && bashcompinit"
    assert "bash, zsh or fish" in run("completion", "tcsh", code=2).stderr
