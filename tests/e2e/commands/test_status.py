"""What `anyserve status` and the status port say is so now, and not what was so before."""

import json
import os
import re
import signal
import subprocess

import grpc
import pytest

from support import paths, wait
from support.process import procs
from support.process.server import Log
from support.protocol import prometheus
from support.protocol.http import Unix

pytestmark = pytest.mark.core
RETRY = "--restart-backoff", "100ms", "--max-start-failures", "100"


def text(server):
    code, body = server.get("/status?format=text")
    assert code == 200
    return body


def row(server, name):
    """The deployment's line of the table, by the words of its head."""
    table = text(server).split("\nDEPLOYMENT ")[1].split("\n\n")[0].splitlines()
    (line,) = (line.split() for line in table[1:] if line.split()[0] == name)
    return dict(zip(["DEPLOYMENT", *table[0].split()], line))


def numbers(server, name):
    """(wanted, ready, connected), as the table, the JSON and the metrics have them, which must be the same."""
    line, d = row(server, name), server.deployment(name)
    found = d["wanted"], d["ready"], d["replicas"]
    if found != tuple(int(line[k]) for k in ("WANTED", "READY", "CONNECTED")):
        return None  # it moves
    samples = prometheus.parse(server.metrics())
    label = frozenset({("application", "default"), ("deployment", name)})
    metrics = tuple(samples[f"anyserve_replicas{k}", label] for k in ("_wanted", "_ready", ""))
    return found if metrics == found else None


def replicas(server, app="default"):
    """Name → what the control API says of it."""
    c = Unix(os.path.join(server.folder_of_port(), "control.sock"))
    try:
        c.request("GET", "/api/serve/applications/")
        answer = json.loads(c.getresponse().read())
    finally:
        c.close()
    return {r["replica_id"]: r for d in answer["applications"][app]["deployments"].values() for r in d["replicas"]}


def reasons(server):
    return {p["replica"]: p["reason"] for p in server.status()["processes"]}


# --- replicas ---

def test_a_replica_that_is_ready_again_has_no_reason(serve):
    server = serve("echo.py")
    before = server.worker()
    procs.kill(before)
    wait.until(lambda: server.all_ready() and server.worker() != before, lambda: server.status())
    assert reasons(server) == {"echo-0": ""}
    # the controller hears of it a moment after the dispatcher
    wait.until(lambda: replicas(server)["echo-0"]["message"] == "" and "SIGKILL" not in text(server), lambda: text(server))


def test_a_replica_that_hung_is_ready_again(serve):
    server = serve("echo.py", "--ping-interval", "100ms", "--ping-timeout", "1s")
    before = server.worker()
    procs.kill(before, signal.SIGSTOP)
    wait.until(lambda: server.all_ready() and server.worker() != before, lambda: server.status())
    assert server.log.wait("did not answer a ping")
    assert reasons(server) == {"echo-0": ""}
    wait.until(lambda: "ping" not in text(server), lambda: text(server))


def test_nobody_waits_for_others_when_all_have_started(serve):
    server = serve("echo.py", "--workers", "3", "--max-starting", "1")
    server.wait_all_ready()
    assert reasons(server) == dict.fromkeys(["echo-0", "echo-1", "echo-2"], "")
    assert "others are starting" not in text(server)


def test_a_replica_that_is_dead_has_its_reason(serve, tmp_path, stage):
    flag = tmp_path / "flag"
    server = serve("failing/crashing.py", "--restart-backoff", "10ms", "--max-start-failures", "3",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    flag.touch()
    procs.kill(server.worker())
    wait.until(lambda: server.deployment()["down"], "the deployment to be given up")
    assert re.search(r"^crashing-0: down, exit code 9\n", text(server), re.M)
    assert "last words before the crash" in reasons(server)["crashing-0"]
    assert "exit code 9" in replicas(server)["crashing-0"]["message"]


# --- deployments ---

def test_wanted_ready_and_connected_are_three_numbers(serve, tmp_path, stage):
    flag = tmp_path / "flag"
    server = serve("failing/crashing.py", "--workers", "2", "--max-start-failures", "2", "--restart-backoff", "10ms",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    wait.until(lambda: numbers(server, "crashing") == (2, 2, 2), lambda: text(server))
    flag.touch()
    procs.kill(server.workers()["crashing-1"])
    wait.until(lambda: numbers(server, "crashing") == (2, 1, 1), lambda: text(server))
    procs.kill(server.workers()["crashing-0"])
    wait.until(lambda: numbers(server, "crashing") == (2, 0, 0), lambda: text(server))
    wait.until(lambda: row(server, "crashing")["STATUS"] in ("UNHEALTHY", "DOWN"), lambda: text(server))


def test_a_deployment_that_no_replica_ever_came_for_is_shown(serve, tmp_path, stage):
    """After the dispatcher was started anew there is none that has registered."""
    flag = tmp_path / "flag"
    server = serve("failing/crashing.py", "--max-start-failures", "2", "--restart-backoff", "10ms",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    flag.touch()
    procs.kill(server.worker())
    wait.until(lambda: server.deployment()["down"], "the deployment to be given up")
    before = server.dispatcher
    procs.kill(before)
    wait.until(lambda: server.get("/status")[0] == 200 and server.dispatcher != before, "another dispatcher")
    wait.until(lambda: numbers(server, "crashing") == (1, 0, 0), lambda: text(server))
    assert row(server, "crashing")["STATUS"] in ("UNHEALTHY", "DOWN")


def test_healthy_is_no_word_for_a_deployment_whose_replicas_are_dead(serve):
    """Whoever decides about the status may be dead, or hang, as well."""
    server = serve("echo.py", "--heartbeat-timeout", "off")
    controller = server.controller
    os.kill(controller, signal.SIGSTOP)
    try:
        procs.kill(server.worker())
        wait.until(lambda: server.deployment()["replicas"] == 0, lambda: server.status())
        d = server.deployment()
        assert d["status"] == "UNHEALTHY" and d["message"] == "no replica is ready, 1 is wanted", d
        assert row(server, "echo")["STATUS"] == "UNHEALTHY"
    finally:
        os.kill(controller, signal.SIGCONT)
    server.wait_all_ready()
    wait.until(lambda: row(server, "echo")["STATUS"] == "HEALTHY", lambda: text(server))


def test_a_lost_request_has_failed_once(staged, stage, connect):
    server = staged()
    call = connect(server).begin("staged", {})
    (scene,) = stage.started(1)
    procs.kill(scene.pid)
    assert call.exception().code() == grpc.StatusCode.UNAVAILABLE
    wait.until(lambda: server.counts("staged")["lost"] == 1, lambda: server.status())
    assert row(server, "staged")["FAILED"] == "1"
    server.wait_all_ready()


# --- health ---

def test_healthz_is_about_the_proxy_and_ready_about_what_it_serves(serve, tmp_path, stage):
    """As Ray Serve's: OPERATING.md says which question is asked where."""
    flag = tmp_path / "flag"
    server = serve("failing/crashing.py", "--max-start-failures", "2", "--restart-backoff", "10ms",
                   env={"CRASH_FLAG": str(flag), "ANYSERVE_TEST_STAGE": stage.path})
    server.expect_error("worker_exit .*given up")
    assert server.get("/-/healthz") == (200, "success\n")
    flag.touch()
    procs.kill(server.worker())
    wait.until(lambda: server.deployment()["down"], "the deployment to be given up")
    assert server.get("/-/healthz") == (200, "success\n")
    assert server.status()["server"]["ready"] is False


# --- a change in the place of another ---

class Command:
    """One that waits; its lines as they come."""

    def __init__(self, server, *args):
        self.process = subprocess.Popen([str(a) for a in (paths.BINARY, *args, "--runtime-dir", server.runtime)],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.log = Log(self.process.stdout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.join()

    def ends(self, code):
        assert self.process.wait(wait.SECONDS) == code, self.log.text()
        self.log.join()
        return self.log.text()


STUCK = """
import os, sys
from anyserve import AnyServe
if os.path.exists(os.environ["CRASH_FLAG"]) and not any("--describe" in a for a in sys.orig_argv):
    os._exit(9)
app = AnyServe()

@app.model("stuck")
def stuck(request):
    return request.inputs
"""


@pytest.fixture
def stuck(serve, tmp_path):
    """A server of one replica, beside which no other one starts."""
    flag = tmp_path / "flag"
    server = serve("stuck.py", *RETRY, source=STUCK, env={"CRASH_FLAG": str(flag)})
    flag.touch()
    return server


def test_a_scale_that_another_took_the_place_of_says_so(stuck):
    with Command(stuck, "scale", "stuck", "3") as first:
        first.log.wait("3 replicas wanted")
        with Command(stuck, "scale", "stuck", "1") as second:
            assert "default/stuck is healthy" in second.ends(0)
        said = first.ends(1)
    assert "superseded" in said and "1 replica is wanted, not 3" in said and "anyserve history" in said, said
    assert "is healthy" not in said


def test_a_scale_to_the_same_number_is_not_superseded(stuck):
    with Command(stuck, "scale", "stuck", "1") as first:
        assert "default/stuck is healthy" in first.ends(0)


def test_a_deploy_that_another_took_the_place_of_says_so(stuck, tmp_path):
    served = subprocess.run([paths.BINARY, "config", "--runtime-dir", stuck.runtime], capture_output=True, text=True,
                            check=True).stdout
    assert served.endswith("      - name: stuck\n")
    for n in 3, 1:
        (tmp_path / f"{n}.yaml").write_text(f"{served}        num_replicas: {n}\n")
    with Command(stuck, "deploy", tmp_path / "3.yaml") as first:
        first.log.wait("3 replicas wanted")
        with Command(stuck, "deploy", tmp_path / "1.yaml", "--no-wait") as second:
            assert "generation 3 has begun" in second.ends(0)
        said = first.ends(1)
    assert "superseded by generation 3" in said and "generation 2 is healthy" not in said, said


# --- what the code declares ---

DECLARED = """
from anyserve import AnyServe
app = AnyServe()
app.deployment("two", num_replicas=2, memory="600M")

@app.model("a", deployment="two")
def a(request):
    return request.inputs

@app.model("b", deployment="one")
def b(request):
    return request.inputs
"""


def declared(serve, *options):
    """Deployment → replicas that there are to be, and the line of the banner."""
    server = serve("declared.py", *options, source=DECLARED)
    server.wait_all_ready()
    wanted = {d["name"]: d["wanted"] for d in server.status()["deployments"]}
    assert {n: len([w for w in server.workers() if w.startswith(n)]) for n in wanted} == wanted
    banner = dict(re.findall(r"^  deployment  (\w+), (\d+ replicas?)$", server.log.text(), re.M))
    return server, wanted, banner


def test_run_has_as_many_replicas_as_the_code_declares(serve):
    server, wanted, banner = declared(serve)
    assert wanted == {"two": 2, "one": 1} and banner == {"two": "2 replicas", "one": "1 replica"}
    bound = server.log.find(r"event=memory_bound by=(\S+)")
    assert bound, server.log.text()
    if bound[1] == "RLIMIT_DATA":
        for pid in (pid for name, pid in server.workers().items() if name.startswith("two")):
            with open(f"/proc/{pid}/limits") as f:
                assert re.search(rf"^Max data size +{600 << 20} ", f.read(), re.M)


def test_workers_on_the_command_line_wins(serve):
    _, wanted, banner = declared(serve, "--workers", "1")
    assert wanted == {"two": 1, "one": 1} and banner == {"two": "1 replica", "one": "1 replica"}
