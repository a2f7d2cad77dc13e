"""Commands while a process of the server is stopped (SIGSTOP) or says nothing: each ends in its time, and says which
process it was."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys

import pytest

from support import paths, wait
from support.process.commands import Watch, at, run
from support.protocol.fake_control import SYNCED, Control

QUICK = ("--answer-timeout", "300ms")
ROLES = ["supervisor", "dispatcher", "controller"]
FILE = """applications:
- name: default
  import_path: echo:app
  working_dir: %s
  deployments:
  - name: echo
    graceful_shutdown_timeout_s: %d
"""


def state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


@contextlib.contextmanager
def stopped(pid):
    os.kill(pid, signal.SIGSTOP)
    wait.until(lambda: state(pid) == "T", f"{pid} goes on")
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):  # the server has replaced it
            os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def server(serve_module):
    return serve_module("echo.py", "--heartbeat-timeout", "off", "--ping-timeout", "1h")


@pytest.fixture(autouse=True)
def is_whole(request):
    """What was begun by a command that did not wait for it has ended."""
    yield
    if "server" in request.fixturenames:
        server = request.getfixturevalue("server")
        run("scale", "echo", "1", *at(server), code=0)
        server.wait_all_ready()
        server.forget_fds()
        server.note_fds()


def named(said, role, pid):
    text = said.stdout + said.stderr
    assert re.search(rf"the {role} \(pid {pid}\)", text) and f"kill -CONT {pid}" in text, said


# command: for each role that is stopped the exit code; where it is not 0, that process is named
ANSWERED = {"supervisor": 0, "dispatcher": 0, "controller": 0}
BY_DISPATCHER = {**ANSWERED, "dispatcher": 1}
BY_CONTROLLER = {**ANSWERED, "controller": 1}
SEEN_THROUGH = {"supervisor": 4, "dispatcher": 4, "controller": 1}
COMMANDS = [
    (["status"], BY_DISPATCHER), (["status", "--json"], BY_DISPATCHER), (["workers"], BY_DISPATCHER),
    (["config"], BY_CONTROLLER), (["logs"], ANSWERED), (["complete", "DEPLOYMENT"], ANSWERED),
    (["scale", "echo", "2", "--no-wait"], BY_CONTROLLER), (["scale", "echo", "2", "--timeout", "1s"], SEEN_THROUGH),
    (["scale", "default/echo", "2", "--timeout", "1s"], SEEN_THROUGH), (["scale", "echo", "--reset", "--no-wait"], BY_CONTROLLER),
    (["restart", "echo", "--timeout", "1s"], SEEN_THROUGH), (["deploy", "{file}", "--dry-run"], BY_CONTROLLER),
    (["deploy", "{file}", "--no-wait"], BY_CONTROLLER), (["delete", "nothing", "--timeout", "1s"], {"controller": 1}),
    (["rollback", "echo", "--timeout", "1s"], {"controller": 1}), (["doctor"], {role: 1 for role in ROLES}),
    (["infer", "echo", "x:FP32=1", "--timeout", "2s"], {**ANSWERED, "dispatcher": 104}),
    (["bench", "echo", "--input", "x:FP32=1", "--timeout", "2s", "--duration", "50ms", "--warmup", "off"],
     {**ANSWERED, "dispatcher": 104})]


@pytest.mark.parametrize("role", [r if r == "controller" else pytest.param(r, marks=pytest.mark.long) for r in ROLES])
@pytest.mark.parametrize("args, codes", COMMANDS, ids=[" ".join(c[0]) for c in COMMANDS])
def test_a_command_ends(server, tmp_path, args, codes, role):
    file = tmp_path / "anyserve.yaml"
    file.write_text(FILE % (paths.APPS, sum(map(ord, role + args[-1]))))
    args = [str(file) if a == "{file}" else a for a in args]
    if args[0] == "infer":
        args[2:3] = ["--input", args[2]]
    if args[0] not in ("infer", "bench"):
        args += QUICK
    if args[0] == "doctor":
        args += ["--python", sys.executable]
    pid = getattr(server, role)
    with stopped(pid):
        said = run(*args, *at(server), env={**os.environ, "PYTHONPATH": str(paths.SDK)})
    if codes.get(role) is not None:
        assert said.returncode == codes[role], said
        if said.returncode:
            named(said, role, pid)


def test_a_command_that_follows(server):
    controller = server.controller
    with Watch("status", "-w", *at(server), *QUICK) as watch:
        watch.log.wait("echo")
        with stopped(controller):
            watch.end(1, signum=None)
    assert re.search(rf"the controller \(pid {controller}\) .*kill -CONT {controller}", watch.log.text())


def test_the_control_api_over_tcp(serve, tmp_path):
    """The process is another machine's: its address is what can be said."""
    token = tmp_path / "token"
    token.write_text("secret")
    token.chmod(0o600)
    server = serve("echo.py", "--heartbeat-timeout", "off", "--control", "127.0.0.1:0", "--control-token-file", token)
    address = server.log.wait(r"control +(\S+)")[1]
    with stopped(server.controller):
        said = run("config", "--control", address, "--control-token-file", token, *QUICK, code=1)
    assert f"the control API at {address}" in said.stderr and "300ms" in said.stderr, said


@pytest.mark.parametrize("verb, role", [("shutdown", "supervisor"), ("shutdown", "dispatcher"), ("upgrade", "supervisor"),
                                        ("upgrade", "dispatcher"), ("upgrade", "controller")])
def test_what_is_begun_by_a_signal(serve, verb, role):
    """The supervisor does it: what keeps it from that is named at once, and when the time is over."""
    server = serve("echo.py", "--heartbeat-timeout", "off", "--drain-timeout", "1h")
    pid = getattr(server, role)
    with stopped(pid):
        said = run(verb, *(["-y"] if verb == "shutdown" else []), "--timeout", "2s", *QUICK, *at(server))
        if said.returncode == 0:  # the supervisor can do it without this one
            assert role != "supervisor", said
        else:
            assert said.returncode == 4, said
            named(said, role, pid)
            assert said.stderr.count(f"kill -CONT {pid}") == 1, said
    if verb == "shutdown":
        server.ended(0)
    else:
        server.log.wait("event=upgraded")
        server.forget_fds()


# --- one that says nothing ---

def test_nobody_accepts(tmp_path):
    """The queue of those who wait to be accepted is full: connect() itself would wait."""
    with contextlib.ExitStack() as stack:
        control = Control(tmp_path / "fake", 7)
        stack.callback(control.close)
        for name in ("control.sock", "status.sock"):
            path = os.path.join(control.runtime, "7", name)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            s = stack.enter_context(socket.socket(socket.AF_UNIX))
            s.bind(path)
            s.listen(0)
            for _ in range(3):
                c = stack.enter_context(socket.socket(socket.AF_UNIX))
                c.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    c.connect(path)
        for args in (["config"], ["status"], ["scale", "a/b", "1"], ["status", "-w"], ["complete", "DEPLOYMENT"], ["upgrade", "--timeout", "1s"],
                     ["shutdown", "-y", "--timeout", "1s"]):
            said = run(*args, *QUICK, "--runtime-dir", control.runtime, "--port", 7)
            assert said.returncode == (0 if args[0] == "complete" else 1), said
            assert args[0] == "complete" or "answer" in said.stderr, said


class Silent(Control):
    """Says nothing to a PUT before it has answered so many that ask whether it is well."""

    def __init__(self, folder, probes):
        super().__init__(folder)
        self.probes = probes
        handler = self.server.RequestHandlerClass
        serve = handler._serve

        def patient(request):
            if request.command == "PUT":
                wait.until(lambda: self.probed() >= self.probes, "nobody asks")
            serve(request)
        handler.do_PUT = patient

    def probed(self):
        return sum(path == "/" for _, path, _ in self.asked)


@pytest.fixture
def silent(tmp_path):
    control = Silent(tmp_path / "run", 3)
    yield control
    control.close()


def test_one_that_works_is_waited_for(silent, tmp_path):
    """A deploy loads the code first: as long as the controller answers others, it is not taken for hung."""
    file = tmp_path / "a.yaml"
    file.write_text("applications: []")
    silent.answers[("PUT", "/api/serve/applications/")] = 200, {"generation": 1, "changes": []}
    done = run("deploy", file, "--runtime-dir", silent.runtime, "--answer-timeout", "500ms", code=0)
    assert "generation 1" in done.stdout and silent.probed() == 3


def test_nothing_happens_for_long(silent):
    """A stream without events is no silent server: it is asked, and followed on."""
    silent.streams = [[SYNCED, None]]
    with Watch("status", "-w", "--runtime-dir", silent.runtime, "--answer-timeout", "500ms") as watch:
        wait.until(lambda: silent.probed() >= 3, watch.log.text)
        watch.end(0)
    assert "answer" not in watch.log.text()


def test_the_whole_command_has_one_time(silent):
    """--timeout counts from its beginning, not anew for each step."""
    silent.answers[("GET", "/api/serve/applications/")] = 200, {"applications": {}}
    silent.probes = 10**9
    with subprocess.Popen([paths.BINARY, "deploy", "/dev/stdin", "--runtime-dir", silent.runtime, "--answer-timeout", "500ms",
                           "--timeout", "2s"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        said = process.communicate("applications: []", timeout=wait.SECONDS)[1]
    assert process.returncode == 4 and "not done within --timeout" in said, said
    assert silent.probed() >= 1
    silent.probes = 0
