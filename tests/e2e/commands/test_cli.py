"""The command line: messages, exit codes, what a person reads at start, `anyserve status`, the status port."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from support import paths, ports, wait
from support.process.server import http_get
from support.protocol import oip, prometheus

MODEL = """
from anyserve import AnyServe
app = AnyServe()

@app.model("m")
def m(request):
    return request.inputs
"""


def run(*args, cwd="/tmp", env=None, code=None):
    """A command that ends by itself: (exit code, its whole output)."""
    done = subprocess.run([str(a) for a in (paths.BINARY, *args)], cwd=cwd, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
                          env={**os.environ, "PYTHONPATH": str(paths.SDK), **(env or {})})
    if code is not None:
        assert done.returncode == code, done.stdout
    return done.stdout


@pytest.fixture
def start(tmp_path):
    """start(source or None, *options, target=…) → output of a server that must not start."""
    def start(source, *options, code, target="app.py", **kwargs):
        if source is not None:
            (tmp_path / "app.py").write_text(source)
        out = run("run", target, "--port", "0", "--status-port", "0", "--runtime-dir", tmp_path / "run",
                  "--python", sys.executable, *options, cwd=tmp_path, code=code, **kwargs)
        assert len(out.splitlines()) <= 30, f"more than a screen:\n{out}"
        assert "Sanitizer" not in out
        leftover = [f for _, _, files in os.walk(tmp_path / "run") for f in files if f != "lock"]
        assert not leftover
        return out
    return start


# --- servers that cannot start ---

def test_busy_port(start):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for option in ("--port", "--grpc-port", "--status-port"):
            out = start(MODEL, option, port, code=75)
            assert str(port) in out and option in out and "taken" in out


def test_port_of_a_running_server(server, start):
    out = start(MODEL, "--port", server.port, code=75)
    assert f"a server runs on port {server.port} already (pid {server.supervisor}," in out and server.runtime in out
    out = run("run", "--port", server.port, "--status-port", "0", "--runtime-dir", server.runtime, code=75)
    assert f"a server runs on port {server.port} already" in out and f"anyserve shutdown --port {server.port}" in out


def test_missing_file(start):
    out = start(None, target="nope.py", code=66)
    assert "nope.py" in out


def test_missing_module(start):
    out = start(None, target="no.such.module", code=66)
    assert "no" in out


def test_missing_attribute(start):
    out = start(MODEL.replace("app", "application"), target="app.py:app", code=66)
    assert "'app'" in out and "application" in out  # the candidate


def test_no_application(start):
    out = start("x = 1\n", code=66)
    assert "no AnyServe object" in out


def test_attribute_of_another_kind(start):
    out = start(MODEL + "other = 7\n", target="app.py:other", code=66)
    assert "int" in out and "app" in out


def test_import_error(start):
    out = start("import a_module_that_is_not_there\n", code=70)
    assert "a_module_that_is_not_there" in out and "app.py" in out


def test_syntax_error(start):
    out = start("def f(:\n", code=70)
    assert "SyntaxError" in out and "app.py" in out


def test_constructor_raises(start):
    source = MODEL + """
@app.model("c")
class C:
    def __init__(self):
        raise OSError("no weights here")
    def __call__(self, request):
        return request.inputs
"""
    out = start(source, code=70)
    assert "no weights here" in out and "Nothing is served" in out


@pytest.mark.parametrize("line, text", [
    ('app.model("bad name")(m)', "bad name"), ('app.model("m")(m)', "'m'.*twice"),
    ('app.model("x", inputs={"a": Tensor("FLOAT", [1])})(m)', "FLOAT"),
    ('app.model("x", threads=0)(m)', "threads"), ('app.model("x", max_ongoing_requests="7")(m)', "'7'"),
    ('app.model("x", inputs={"a": Tensor("FP32", [1])})(lambda b: b)', "'b'"),
    ('app.model("x", deployment="a b")(m)', "a b")])
def test_wrong_declaration(start, line, text):
    out = start("from anyserve import Tensor\n" + MODEL + line + "\n", code=78)
    assert re.search(text, out), out


def test_no_models(start):
    assert "no models" in start("from anyserve import AnyServe\napp = AnyServe()\n", code=78)


@pytest.mark.parametrize("python", ["/bin/false", "/bin/true", "/no/such/python", "/etc/passwd", "/tmp"])
def test_wrong_interpreter(start, python):
    out = start(MODEL, "--python", python, code=69)
    assert python in out and "--python" in out


def test_interpreter_without_numpy(start, tmp_path):
    """A python that finds our package, but no numpy."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    out = start(MODEL, "--python", python, code=69)
    assert "numpy" in out


@pytest.mark.parametrize("command", [("version",), ("help",), ("options",), ("schema",), ("completion", "bash"),
                                     ("run", "--help-all")])
def test_what_cannot_be_printed(command):
    with open("/dev/full", "w") as full:
        done = subprocess.run([paths.BINARY, *command], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1


def test_unknown_command():
    assert "no command 'stauts'; did you mean 'status'?" in run("stauts", code=2)
    assert "did you mean 'deploy'?" in run("help", "deplyo", code=2)
    assert "did you mean" not in run("frobnicate", code=2)
    assert "did you mean" not in run("dispatchr", code=2)  # not for people


@pytest.mark.parametrize("command", ["run", "check", "build"])
def test_help_shows_options(command):
    assert "--max-" in run(command, "--help", code=0)


def test_unknown_option(start):
    assert "--workers" in start(MODEL, "--worker", "2", code=2)
    assert "--max-queued-requests" in start(MODEL, "--max-queue-requests", "2", code=2)
    assert "--qqqqq" in start(MODEL, "--qqqqq", code=2)


@pytest.mark.parametrize("args, texts", [
    (["--port", "65536"], ["--port", "65536", "65535"]), (["--workers", "0"], ["--workers=0", "minimum 1"]),
    (["--workers", "many"], ["--workers", "many"]), (["--max-message-bytes", "3G"], ["--max-message-bytes", "3G"]),
    (["--router", "random"], ["random", "least_ongoing", "pow_2"]), (["--ping-timeout", "5x"], ["--ping-timeout", "5x"]),
    (["--threads", "-1"], ["--threads", "-1"]), (["--port"], ["--port", "value"]), (["--debug-errors=x"], ["x"])])
def test_bad_value(start, args, texts):
    out = start(MODEL, *args, code=2)
    assert all(t in out for t in texts), out


def test_unknown_host(start):
    assert "203.0.113.1" in start(MODEL, "--host", "203.0.113.1", code=78)


# --- help ---

def test_help():
    assert "run" in run("--help", code=0) and "75" in run("help", code=0)
    out = run("run", "--help", code=0)
    for option in ("--port", "--workers", "--python", "--debug-errors", "--max-queued-requests"):
        assert option in out
    assert "--ping-interval" not in out
    assert "--ping-interval" in run("run", "--help-all", code=0)
    assert "--json" in run("status", "--help", code=0)
    assert re.match(r"anyserve \d+\.\d+\.\d+$", run("--version", code=0))


# --- a server that runs ---

@pytest.fixture(scope="module")
def server(serve_module):
    status_port, grpc_port = ports.free(), ports.free()
    server = serve_module("talking.py", "--workers", "2", "--status-port", status_port, "--grpc-port", grpc_port)
    server.status_port, server.grpc_port = status_port, grpc_port
    return server


def test_start_output(server):
    out = server.log.text()
    for text in ("talking.py", "talk:1", "talk:2", "2 replicas", server.address, str(server.status_port),
                 str(server.grpc_port), "Call it:", sys.executable):
        assert text in out, text
    assert "level=warn" not in out


def test_output_has_its_replica_in_front(server, connect):
    server.log.wait(r"^\[talking-0\] module is imported$")
    server.log.wait(r"^\[talking-1\] module is imported$")
    since = len(server.log.lines)
    connect(server).infer("talk", {"text": np.array([b"hello from stdout"], object)}, version="1")
    server.log.wait(r"^\[talking-[01]\] stdout says: hello from stdout$", since)
    server.log.wait(r"^\[talking-[01]\] stderr says: hello from stdout$", since)
    server.log.wait(r"^\[talking-[01]\] from a child process$", since)


def test_grpc_port(server, connect):
    assert connect(f"127.0.0.1:{server.grpc_port}").call("ServerReady").ready


def test_status_plain(server):
    out = run("status", "--runtime-dir", server.runtime, code=0)
    for text in ("ready", "talk", "talking-0", "talking-1", str(server.workers()["talking-1"])):
        assert text in out, out
    assert run("status", "--runtime-dir", server.runtime, "--port", server.port, code=0).splitlines()[1:] \
        == out.splitlines()[1:]


@pytest.mark.core
def test_status_json(server, connect):
    client = connect(server)
    before = server.counts()["completed"]
    for _ in range(3):
        client.infer("talk", {"text": np.array([b"x"], object)})
    state = json.loads(run("status", "--json", "--runtime-dir", server.runtime, code=0))
    assert state["server"]["ready"] is True and state["server"]["draining"] is False
    assert [(m["name"], m["version"], m["ready"]) for m in state["models"]] == [("talk", "1", True),
                                                                                ("talk", "2", True)]
    (deployment,) = state["deployments"]
    assert deployment["counts"]["completed"] == before + 3
    assert (deployment["replicas"], deployment["ready"], deployment["down"]) == (2, 2, False)
    assert {r["state"] for r in state["replicas"]} == {"ready"}
    assert all(r["slots"] == 1 and r["service_us"] > 0 for r in state["replicas"] if r["service_us"])


def test_status_without_a_server(tmp_path):
    assert "No server" in run("status", "--runtime-dir", tmp_path, code=1)
    (tmp_path / "8000").mkdir()
    run("status", "--runtime-dir", tmp_path, code=1)


def test_status_of_two_servers(server, serve):
    other = serve("talking.py", "--runtime-dir", server.runtime, wait_ready=False)
    other.runtime = server.runtime
    other.wait_ready()
    try:
        out = run("status", "--runtime-dir", server.runtime)
        assert str(server.port) in out and str(other.port) in out  # which one is meant?
        assert "talking-0" in run("status", "--runtime-dir", server.runtime, "--port", other.port, code=0)
    finally:
        other.process.terminate()
        other.wait_exit(0)
    assert not os.path.exists(other.folder_of_port())


def test_runtime_files(server):
    assert os.stat(server.runtime).st_mode & 0o777 == 0o700
    folder = server.folder_of_port()
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(folder)) == ["control.sock", "driver-token", "join-token", "link.sock", "lock", "logs", "management.sock", "status.sock",
                                          "workers"]
    for token in ("join-token", "driver-token"):
        assert os.stat(os.path.join(folder, token)).st_mode & 0o777 == 0o600
    assert os.stat(os.path.join(folder, "workers")).st_mode & 0o777 == 0o700
    assert re.fullmatch("[0-9a-f]{64}", server.join_token())


def test_token_is_hidden_from_user_code(server, connect):
    found = connect(server).infer("talk", {"text": np.array([b"environment"], object)}, version="2")["output0"]
    assert found.tolist() == []


# --- the status port ---

def over_tcp(server, target, host="localhost"):
    with socket.create_connection(("127.0.0.1", server.status_port), 30) as s:
        return http_get(s, target, host)


@pytest.mark.core
def test_status_port(server):
    code, body = over_tcp(server, "/status")
    assert code == 200 and json.loads(body)["server"]["pid"] == server.dispatcher
    assert over_tcp(server, "/status?format=text")[0] == 200
    assert over_tcp(server, "/nope")[0] == 404


@pytest.mark.core
def test_probes(server):
    assert over_tcp(server, "/-/healthz") == (200, "success\n")
    # the application is told a moment after the models
    wait.until(lambda: over_tcp(server, "/-/routes") == (200, '{"/v2/models/talk":"default"}\n'),
               lambda: over_tcp(server, "/-/routes"))
    # a probe sends the Host that it likes; names of models are for this machine only
    assert over_tcp(server, "/-/healthz", "evil.example") == (200, "success\n")
    assert over_tcp(server, "/-/routes", "evil.example")[0] == 403


@pytest.mark.core
@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "LocalHost:8002", "[::1]:8002"])
def test_our_own_host(server, host):
    assert over_tcp(server, "/status", host)[0] == 200


@pytest.mark.core
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", ""])
def test_foreign_host(server, host):
    """A name that a foreign DNS server could point to us."""
    assert over_tcp(server, "/status", host)[0] == 403
    assert over_tcp(server, "/metrics", host)[0] == 403


REQUESTS = {
    b"POST /status HTTP/1.1\r\nHost: localhost\r\n\r\n": 405,
    b"GET /status HTTP/1.1\r\n\r\n": 400,
    b"GET /status HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n": 400,
    b"GET /status HTTP/2.0\r\nHost: localhost\r\n\r\n": 505,
    b"GET status HTTP/1.1\r\nHost: localhost\r\n\r\n": 400,
    b"rubbish\r\n\r\n": 400,
    b"GET /status HTTP/1.1\r\n Host: localhost\r\n\r\n": 400,
    b"GET /" + b"x" * 10_000 + b" HTTP/1.1\r\n\r\n": 414,
    b"GET /status HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10_000 + b"\r\n\r\n": 431,
}


@pytest.mark.core
@pytest.mark.parametrize("request_bytes", REQUESTS, ids=lambda r: r[:40].decode())
def test_bad_status_request(server, request_bytes):
    with socket.create_connection(("127.0.0.1", server.status_port), 30) as s:
        s.sendall(request_bytes)
        data = b""
        try:
            while chunk := s.recv(65536):
                data += chunk
        except ConnectionResetError:
            pass  # it had not read all of our rubbish
    assert int(data.split()[1]) == REQUESTS[request_bytes]


@pytest.mark.core
def test_many_status_connections(server):
    """The status page's connections are bounded, and silent ones go away."""
    held = [socket.create_connection(("127.0.0.1", server.status_port), 30) for _ in range(70)]
    for s in held:
        s.close()

    def is_answered():
        try:
            return over_tcp(server, "/status")[0] == 200
        except ConnectionError:  # those before are still being closed: one too many
            return False
    wait.until(is_answered, "an answer")


def test_status_while_clients_have_no_room(serve):
    """Limits of clients are not those of the status page, and its requests are not counted as theirs."""
    server = serve("echo.py", "--max-connections", "1", "--max-requests", "1", "--max-headers", "16", "--max-header-bytes", "1K",
                   "--max-inflight-bytes", "64K", "--max-http-body-bytes", "16K", "--max-inflated-bytes", "16K")
    with socket.create_connection((server.host, server.port), 30) as client:
        client.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        assert client.recv(65536).startswith(b"HTTP/1.1 200")
        for _ in range(3):
            metrics = prometheus.parse(server.metrics())
            assert server.status()["server"]["pid"] == server.dispatcher
        assert server.get("/status", "localhost\r\n" + "\r\n".join(["A: b"] * 20))[0] == 200
        assert prometheus.total(metrics, "anyserve_connections") == 1
        assert prometheus.total(metrics, "anyserve_http_requests_total") == 1
        assert prometheus.total(metrics, "anyserve_connections_refused_total") == 0


@pytest.mark.core
def test_status_head(server):
    """HEAD answers the head that GET would, as RFC 9110 asks of every server."""
    with socket.create_connection(("127.0.0.1", server.status_port), 30) as s:
        s.sendall(b"HEAD /-/healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        data = b""
        while chunk := s.recv(65536):
            data += chunk
    assert data.startswith(b"HTTP/1.1 200") and b"content-length: 8\r\n" in data.lower() and data.endswith(b"\r\n\r\n")


@pytest.mark.core
def test_metrics(server, connect):
    client = connect(server)
    before = prometheus.parse(server.metrics())
    for _ in range(5):
        client.infer("talk", {"text": np.array([b"x"], object)})
    client.refused("nope", {})
    code, text = over_tcp(server, "/metrics")
    assert code == 200
    after = prometheus.parse(text)

    def grown(name, **labels):
        return prometheus.total(after, name, **labels) - prometheus.total(before, name, **labels)

    assert grown("anyserve_requests_total", method="ModelInfer", code="OK") == 5
    assert grown("anyserve_requests_total", method="ModelInfer", code="NOT_FOUND") == 1
    assert grown("anyserve_completed_total", deployment="talking") == 5
    assert grown("anyserve_request_duration_seconds_count", deployment="talking") == 5
    queue, dispatch, service, request = (grown(f"anyserve_{part}_duration_seconds_sum", deployment="talking")
                                         for part in ("queue", "dispatch", "service", "request"))
    assert min(dispatch, service) > 0 and queue + dispatch + service > request - 1e-6
    assert prometheus.total(after, "anyserve_replicas_ready", deployment="talking") == 2
    assert prometheus.total(after, "anyserve_connections") >= 1
    assert prometheus.total(after, "anyserve_build_info") == 1
    assert prometheus.total(after, "anyserve_exchanges") == prometheus.total(before, "anyserve_exchanges") == 0
    assert prometheus.total(after, "anyserve_live_bytes") > 0
    assert grown("anyserve_received_bytes_total") > 500 and grown("anyserve_sent_bytes_total") > 200


@pytest.mark.core
def test_every_metric_is_documented(server):
    """As a row of a table of docs/OPERATING.md, with its type; and nothing else is."""
    printed = set(re.findall(r"^# TYPE (\S+) (\S+)$", server.metrics(), re.M))
    rows = re.findall(r"^\| (`anyserve_.*?`) \| (\w+) \|", (paths.ROOT / "docs/OPERATING.md").read_text(), re.M)
    assert {(name, kind) for names, kind in rows for name in re.findall("`(.*?)`", names)} == printed


def test_metrics_of_workers(server, connect):
    """Each counts for itself; it shows its counts when it is idle, or a moment later."""
    client = connect(server)
    before = prometheus.parse(server.metrics())
    for _ in range(20):
        client.infer("talk", {"text": np.array([b"x"], object)})

    def grown(name, **labels):
        after = prometheus.parse(server.metrics())
        return prometheus.total(after, name, **labels) - prometheus.total(before, name, **labels)

    wait.until(lambda: grown("anyserve_worker_calls_total") == 20, lambda: server.metrics())
    assert 20 <= grown("anyserve_worker_syscalls_total", kind="write") <= 40
    assert grown("anyserve_worker_syscalls_total", kind="read") >= 20
    assert grown("anyserve_worker_wakes_total") >= 20
    assert grown("anyserve_worker_cancels_total") == 0
    replicas = server.status()["replicas"]
    after = prometheus.parse(server.metrics())
    for r in replicas:
        assert prometheus.total(after, "anyserve_worker_calls_total", replica=r["name"]) == r["worker"]["calls"]


# --- what can be served ---

@pytest.mark.parametrize("name", ["infer.py", "versions.py", "with space.py", "ünï.py", "-.py", "x" * 140 + ".py",
                                  "2.py"])
def test_file_names(serve, connect, name):
    server = serve(name, source=MODEL)
    assert connect(server).infer("m", {"x": np.ones(1)})["x"] == 1


def test_targets(tmp_path, serve, connect):
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "mod.py").write_text(MODEL.replace("app", "other"))
    for target in ("pack.mod", "pack.mod:other", "pack/mod.py:other"):
        server = serve(target, cwd=tmp_path)
        assert connect(server).infer("m", {"x": np.ones(1)})["x"] == 1


def test_default_app(serve, connect):
    server = serve("plain.py", source="""
from anyserve import model

@model("m:v7")
def m(x):
    return x
""")
    assert connect(server).infer("m", {"x": np.ones(1)}, version="v7")["output0"] == 1


def test_module_that_prints(serve, connect):
    """What a module prints while it is imported is no part of the description."""
    server = serve("chatty.py", source="print('a\\tb:1')\nprint('deployment')\n" + MODEL)
    assert connect(server).infer("m", {"x": np.ones(1)})["x"] == 1


def test_signals_while_the_code_loads(serve, tmp_path, connect):
    """Those that mean something to a server wait for it, and do not end it."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    server = serve("slow.py", wait_ready=False, source=f"print('loading', flush=True)\nopen({str(gate)!r}).close()\n" + MODEL)
    server.log.wait("^loading$")
    server.expect_error("upgrade_failed")
    os.kill(server.supervisor, signal.SIGUSR1)
    os.kill(server.supervisor, signal.SIGUSR2)
    open(gate, "w").close()  # of the description; the worker comes by here, too
    server.log.wait("event=upgrade_failed reason=\"the server is not ready yet\"")
    open(gate, "w").close()
    server.wait_ready()
    assert connect(server).infer("m", {"x": np.ones(1)})["x"] == 1


def test_closed_standard_descriptors():
    """What is opened first is not taken for them."""
    with tempfile.TemporaryDirectory(prefix="as-", dir="/tmp") as runtime:
        port = ports.free()
        command = [paths.BINARY, "run", "echo.py", "--port", port, "--status-port", "0", "--runtime-dir", runtime, "--python",
                   sys.executable]
        process = subprocess.Popen(["sh", "-c", 'exec "$@" 0<&- 1>&- 2>&-', "sh", *map(str, command)], cwd=paths.APPS,
                                   stderr=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(paths.SDK)})
        try:
            def is_ready():
                return "ready" in run("status", "--runtime-dir", runtime, "--port", port)
            wait.until(is_ready, lambda: process.poll())
            # a request may come to a dispatcher that gives way to another one
            with oip.Client(f"127.0.0.1:{port}", oip.TRANSPARENT) as client:
                wait.until(lambda: client.call("ServerReady").ready, lambda: process.poll())
                assert client.infer("echo", {"x": np.float32([3])})["x"] == 3
            with open(f"/proc/{process.pid}/task/{process.pid}/children") as f:
                ours = [process.pid, *map(int, f.read().split())]
            taken = [os.readlink(f"/proc/{pid}/fd/{n}") for pid in ours for n in (0, 1, 2)]
            assert len(ours) == 4 and not [path for path in taken if re.match("socket:|anon_inode:", path)], taken
        finally:
            process.terminate()
            assert process.wait(wait.SECONDS) == 0


def test_a_hangup_that_was_ignored(serve, connect):
    """As nohup does it: the server outlives its terminal."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        server = serve("echo.py")
    finally:
        signal.signal(signal.SIGHUP, before)
    os.kill(server.supervisor, signal.SIGHUP)
    os.kill(server.supervisor, signal.SIGUSR1)
    server.log.wait("event=revive")  # it has read what came before
    assert connect(server).infer("echo", {"x": np.float32([3])})["x"] == 3
    assert "event=drain" not in server.log.text()


def test_host(serve, connect):
    server = serve("echo.py", "--host", "::1", "--port", ports.free())
    assert connect(f"[::1]:{server.port}").call("ServerReady").ready
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_log_level(serve):
    server = serve("echo.py", "--log-level", "error")
    assert "level=info" not in server.log.text()


LOG_LINE = re.compile(r"\[(supervisor|dispatcher|controller|logs-0)\] "
                      r"time=20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z level=(error|warn|info|debug) event=\w+"
                      r"( \w+=([!#-<>-\[\]-~]+|\"([^\"\\]|\\.)*\"))*")


@pytest.mark.core
def test_log_lines_of_all_processes_have_one_format(serve, connect):
    server = serve("logs.py", "--log-level", "debug", source=MODEL + """

@app.model("bad")
def bad(x):
    raise ValueError('not "good" = bad\\n')
""")
    connect(server).refused("bad", {"x": np.ones(1)})
    os.kill(server.dispatcher, 9)
    server.log.wait("event=link_lost")
    server.wait_all_ready()
    os.kill(server.worker(), 9)
    server.log.wait(r"\[controller\] .*event=worker_exit replica=logs-0")
    server.log.wait(r"\[dispatcher\] .*event=worker_gone replica=logs-0")
    server.wait_all_ready()
    server.note_fds()
    seen = [line for line in server.log.lines if "event=" in line]
    for line in seen:
        assert LOG_LINE.fullmatch(line), line
    assert {LOG_LINE.fullmatch(line)[1] for line in seen} == {"supervisor", "dispatcher", "controller", "logs-0"}
    raised = next(line for line in seen if "event=handler_raised" in line)
    assert raised.endswith(r'''model=bad error="ValueError: not \"good\" = bad\n"'''), raised
