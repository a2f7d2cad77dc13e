"""Autoscaling policies of the user's own: their numbers are followed, and where there is none the number stays, and requests go on."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from support import paths, tool, wait
from support.deployments import deployment, run
from support.process import procs

pytestmark = pytest.mark.core
SLOW = ("--scaling-timeout", "10s")  # a machine under load may be late


class Policy:
    """A server of scaled_by_policy.py, and the file that its policy reads or writes."""

    def __init__(self, server, file):
        self.server, self.file = server, file

    def want(self, word):
        new = self.file.with_suffix(".new")
        new.write_text(str(word))
        new.rename(self.file)

    def told(self):
        return json.loads(self.file.read_text())

    def detail(self):
        return deployment(self.server, "Work", "default")["autoscaling_detail"]

    def number(self):
        return deployment(self.server, "Work", "default")["target_num_replicas"]

    def settled(self, n):
        def is_so():
            d = deployment(self.server, "Work", "default")
            return d["target_num_replicas"] == n and [r["state"] for r in d["replicas"]] == ["RUNNING"] * n
        wait.until(is_so, lambda: deployment(self.server, "Work", "default"))
        self.server.forget_fds()

    def failed(self, why):
        wait.until(lambda: any(why in e for e in self.detail()["errors"]), self.detail)
        wait.until(lambda: "; no answer of the policy: " in run("status", "--runtime-dir", self.server.runtime).stdout, self.detail)

    def ask(self, query=""):
        with urllib.request.urlopen(f"http://{self.server.address}/?{query}", timeout=wait.SECONDS) as answer:
            return answer.read().decode()


@pytest.fixture
def policy(serve, tmp_path):
    def start(which, *options, wanted="1"):
        file = tmp_path / "wanted"
        file.write_text(wanted)
        server = serve("scaled_by_policy.py", "--scaling-interval", "50ms", *options, env={"POLICY": which, "WANTED": str(file)})
        return Policy(server, file)
    return start


def test_a_function_decides(policy):
    p = policy("file", *SLOW)
    p.settled(1)
    for n in (3, 2, 4, 1):
        p.want(n)
        p.settled(n)
    p.want(9)  # bounds are applied to what it says
    p.settled(4)
    p.want(0)
    p.settled(1)
    wait.until(lambda: "; the policy wants 0, at least 1 by min_replicas; stays at 1"
               in run("status", "--runtime-dir", p.server.runtime).stdout, p.detail)
    assert p.detail()["errors"] == []


def test_a_deployment_file_names_the_policy(start_file, tmp_path):
    """Delays are applied to its numbers; another policy replaces no replica."""
    def spec(policy, **config):
        return {"applications": [{"name": "default", "import_path": "scaled_by_policy:app", "working_dir": str(paths.APPS),
                                  "deployments": [{"name": "Work", "autoscaling_config": {
                                      "max_replicas": 4, **config, "policy": {"policy_function": policy}}}]}]}
    wanted = tmp_path / "wanted"
    wanted.write_text("3")
    server = start_file(spec("scaled_by_policy:by_file", upscale_delay_s=3600), "--scaling-interval", "50ms", *SLOW,
                        env={"WANTED": str(wanted)})
    p = Policy(server, wanted)
    wait.until(lambda: p.detail()["scaling_status"] == "UPSCALING", p.detail)
    assert "; the policy wants 3; from 1 to 3 in" in p.detail()["message"] and p.number() == 1
    (tmp_path / "anyserve.yaml").write_text(json.dumps(spec("scaled_by_policy.on_the_loop", upscale_delay_s=0)))
    first = {n: pid for n, pid in server.workers().items() if "policy" not in n}
    tool.run(server, "deploy", tmp_path / "anyserve.yaml")
    p.settled(3)
    assert first.items() <= server.workers().items()


def test_a_policy_by_requests(policy, tmp_path):
    """What it is told: requests that wait and that are executed, and of which replica."""
    p = policy("requests", *SLOW)
    p.settled(1)
    gate = tmp_path / "gate"
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(p.ask, f"gate={gate}") for _ in range(3)]
        p.settled(3)
        wait.until(lambda: sorted(p.told()["ongoing"].values()) == [1, 1, 1], p.told)
        told = p.told()
        assert told["running"] == sorted(told["ongoing"]) and len(told["running"]) == 3
        assert (told["deployment_name"], told["app_name"]) == ("Work", "default")
        assert (told["current_num_replicas"], told["target_num_replicas"]) == (3, 3)
        assert (told["total_num_requests"], told["total_queued_requests"], told["total_running_requests"]) == (3, 0, 3)
        assert (told["capacity_adjusted_min_replicas"], told["capacity_adjusted_max_replicas"]) == (1, 4)
        assert told["policy_state"]["calls"] >= 1 and told["upscale_delay_s"] == 0
        assert told["last_scale_up_time"] > 1e9 and told["last_scale_down_time"] is None
        gate.write_text("")
        assert {c.result() for c in calls} == set(told["running"])
    p.settled(1)
    wait.until(lambda: p.told()["last_scale_down_time"] is not None, p.told)


def test_the_built_in_policy_called_by_one(policy, tmp_path):
    """Its number is that of the server, 5 requests / target_ongoing_requests 2, rounded up."""
    p = policy("built in", *SLOW)
    p.settled(1)
    gate = tmp_path / "gate"
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        calls = [pool.submit(p.ask, f"gate={gate}") for _ in range(5)]
        p.settled(3)
        wait.until(lambda: "; the policy wants 3" in p.detail()["message"], p.detail)
        gate.write_text("")
        assert all(c.result().startswith("Work-") for c in calls)
    p.settled(1)


def test_a_class_is_constructed_once(policy):
    p = policy("class", *SLOW)
    p.settled(3)


@pytest.mark.parametrize("word, why", [
    ("raise", "the policy has raised ValueError: no number today"), ("nan", "nan is no number of replicas"),
    ("-1", "-1.0 is no number of replicas: 0 to 1000000"), (10**9, "1000000000.0 is no number of replicas: 0 to 1000000")])
def test_what_is_no_answer_changes_nothing(policy, word, why):
    p = policy("file", *SLOW, wanted="2")
    p.settled(2)
    p.want(word)
    p.failed(why)
    assert p.ask() in ("Work-0", "Work-1") and p.number() == 2
    p.want(3)
    p.settled(3)
    assert p.detail()["errors"] == []


@pytest.mark.parametrize("which", ["file", "loop"])
def test_a_policy_that_exits_has_failed(policy, which):
    """sys.exit() fails the question; the process goes on."""
    p = policy(which, *SLOW, wanted="2")
    p.settled(2)
    process = next(r["pid"] for r in p.server.status()["replicas"] if r["name"].startswith("Work.policy-"))
    p.want("system exit")
    p.failed("the policy has raised SystemExit: no number")
    p.want(3)
    p.settled(3)
    assert process == next(r["pid"] for r in p.server.status()["replicas"] if r["name"].startswith("Work.policy-"))
    assert not [line for line in p.server.log.lines if "event=task_raised" in line]


def test_a_function_that_blocks(policy):
    """It does so in a thread, and for ever: the process stays, and the number."""
    p = policy("file", "--scaling-timeout", "500ms", wanted="2")
    p.settled(2)
    p.want("block")
    p.failed("the policy's call before this one still runs")
    assert p.ask() and p.number() == 2


def test_a_policy_that_blocks_the_loop_is_replaced(policy):
    p = policy("loop", "--scaling-timeout", "500ms", wanted="2")
    p.settled(2)
    since = len(p.server.log.lines)
    p.server.expect_error("Work.policy")
    p.want("block")
    p.failed("has not answered")  # within 0.5 s, or, to the next question, the one before
    assert p.ask() and p.number() == 2
    p.want(3)
    p.server.log.wait("event=worker_(hung|health).*Work.policy-0", since)
    p.settled(3)


def test_a_policy_that_ends_its_process(policy):
    p = policy("file", *SLOW, wanted="2")
    p.settled(2)
    p.server.expect_error("Work.policy")
    p.want("exit")
    p.failed("the process Work.policy does not run")
    assert p.ask() and p.number() == 2
    p.want(3)
    p.settled(3)


def test_a_killed_process_is_asked_again(policy):
    p = policy("file", *SLOW, wanted="2")
    p.settled(2)
    p.server.expect_error("Work.policy")
    os.kill(next(r["pid"] for r in p.server.status()["replicas"] if r["name"].startswith("Work.policy-")), signal.SIGKILL)
    p.want(4)
    p.settled(4)


def test_the_number_outlives_controller_and_dispatcher(policy):
    p = policy("file", *SLOW, wanted="3")
    p.settled(3)
    p.want("raise")
    p.failed("the policy has raised ValueError")
    old = p.server.controller
    procs.kill(old)
    wait.until(lambda: p.server.controller not in (None, old), "no other controller")
    p.failed("the policy has raised ValueError")
    p.settled(3)
    p.server.replace_dispatcher()
    p.failed("the policy has raised ValueError")
    p.settled(3)
    p.want(2)
    p.settled(2)


SCRIPT = """
import time
from anyserve import serve

def three(ctx):  # of a script: it cannot be imported elsewhere
    return 3, {}

@serve.deployment(autoscaling_config={"max_replicas": 4, "upscale_delay_s": 0, "policy": {"policy_function": three}})
class Work:
    async def __call__(self):
        return serve.get_replica_context().replica_id.unique_id

serve.run(Work.bind(), route_prefix=None)
while serve.status().applications["default"].deployments["Work"].replica_states.get("RUNNING", 0) != 3:
    time.sleep(0.05)
print("three")
"""


def test_a_policy_of_a_script(serve, tmp_path):
    server = serve(None, *SLOW, "--state-dir", tmp_path / "state", verb="start", cwd=tmp_path)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environ = {**os.environ, "PYTHONPATH": str(paths.SDK), "ANYSERVE_PORT": str(server.port), "ANYSERVE_RUNTIME_DIR": server.runtime}
    done = subprocess.run([sys.executable, script], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=4 * wait.SECONDS)
    assert done.returncode == 0 and done.stdout == "three\n", done.stdout + done.stderr + server.log.text()
    server.forget_fds()
