"""An autoscaling policy of an application, which decides for all its deployments: its numbers are followed, and without an answer
all numbers stay."""

import json
import os
import signal
import urllib.request

import pytest
from support import paths, tool, wait
from support.deployments import deployment, run

pytestmark = pytest.mark.core
SLOW = ("--scaling-timeout", "10s")  # a machine under load may be late
POLICY = {"policy_function": "scaled_together:coupled"}


def spec(**application):
    return {"applications": [{"name": "default", "import_path": "scaled_together:app", "working_dir": str(paths.APPS),
                              "route_prefix": "/", **application}]}


class Together:
    """A server of scaled_together.py, and the file that its policy reads."""

    def __init__(self, server, file):
        self.server, self.file = server, file

    def want(self, word):
        new = self.file.with_suffix(".new")
        new.write_text(str(word))
        new.rename(self.file)

    def details(self):
        return [deployment(self.server, name, "default") for name in ("First", "Second")]

    def numbers(self):
        return [d["target_num_replicas"] for d in self.details()]

    def settled(self, *numbers):
        def is_so():
            return [(d["target_num_replicas"], [r["state"] for r in d["replicas"]]) for d in self.details()] == [
                (n, ["RUNNING"] * n) for n in numbers]
        wait.until(is_so, self.details)
        self.server.forget_fds()

    def failed(self, why):
        wait.until(lambda: all(any(why in e for e in d["autoscaling_detail"]["errors"]) for d in self.details()), self.details)
        wait.until(lambda: run("status", "--runtime-dir", self.server.runtime).stdout.count("; no answer of the policy: ") == 2,
                   self.details)

    def ask(self):
        with urllib.request.urlopen(f"http://{self.server.address}/", timeout=wait.SECONDS) as answer:
            return answer.read().decode()


@pytest.fixture
def together(start_file, tmp_path):
    def start(*options, wanted="1", **policy):
        file = tmp_path / "wanted"
        file.write_text(wanted)
        server = start_file(spec(autoscaling_policy={**POLICY, **policy}), "--scaling-interval", "50ms", *options,
                            env={"WANTED": str(file)})
        return Together(server, file)
    return start


def test_one_policy_couples_two_deployments(together):
    t = together(*SLOW)
    t.settled(1, 1)
    for n in (3, 2):
        t.want(n)
        t.settled(n, n)
    t.want(9)  # the bounds of each are applied
    t.settled(4, 3)
    t.want(0)
    t.settled(1, 1)
    names = {r["name"].rpartition("-")[0] for r in t.server.status()["replicas"]}
    assert names == {"First", "First.policy", "Second"}  # one process for both
    assert t.ask() == "first"


def test_a_deployment_that_it_leaves_out_keeps_its_number(together):
    t = together(*SLOW, wanted="2")
    t.settled(2, 2)
    t.want("first only 3")
    t.settled(3, 2)
    assert t.details()[1]["autoscaling_detail"]["errors"] == []


def test_its_arguments_and_the_states_of_its_deployments(together):
    t = together(*SLOW, policy_kwargs={"more": 1})
    t.settled(1, 2)
    t.want("calls")
    t.settled(4, 3)


@pytest.mark.parametrize("word, why", [
    ("raise", "the policy has raised ValueError: no number today"), ("nan", "for First: nan is no number of replicas"),
    ("-1", "for First: -1.0 is no number of replicas: 0 to 1000000"), (10**9, "for First: 1000000000.0 is no number of replicas"),
    ("no dict", "3, which is no dict of numbers by DeploymentID"),
    ("unknown", "a number for Deployment(name='Third', app='default'), which is no deployment that it was asked for")])
def test_what_is_no_answer_changes_nothing(together, word, why):
    t = together(*SLOW, wanted="2")
    t.settled(2, 2)
    t.want(word)
    t.failed(why)
    assert t.ask() == "first" and t.numbers() == [2, 2]
    t.want(3)
    t.settled(3, 3)
    assert [d["autoscaling_detail"]["errors"] for d in t.details()] == [[], []]


def test_a_policy_that_blocks(together):
    t = together("--scaling-timeout", "500ms", wanted="2")
    t.settled(2, 2)
    t.want("block")
    t.failed("the policy's call before this one still runs")
    assert t.ask() == "first" and t.numbers() == [2, 2]


def test_a_killed_process_is_asked_again(together):
    t = together(*SLOW, wanted="2")
    t.settled(2, 2)
    t.server.expect_error("First.policy")
    os.kill(next(r["pid"] for r in t.server.status()["replicas"] if r["name"].startswith("First.policy-")), signal.SIGKILL)
    t.want(3)
    t.settled(3, 3)


def test_it_comes_and_goes_with_the_file(together, tmp_path):
    """Without it the built-in policy decides, there is no such process, and no replica is replaced."""
    t = together(*SLOW, wanted="2")
    t.settled(2, 2)
    file = tmp_path / "without.json"
    file.write_text(json.dumps(spec()))
    tool.run(t.server, "deploy", file)
    t.settled(1, 1)
    wait.until(lambda: not any("policy" in name for name in t.server.workers()), t.server.workers)
    left = t.server.workers()
    tool.run(t.server, "deploy", tmp_path / "anyserve.yaml")
    t.settled(2, 2)
    assert left.items() <= t.server.workers().items()


@pytest.mark.parametrize("policy, said", [
    ({"policy_function": "coupled"}, 'autoscaling_policy: policy: policy_function must be an import path'),
    ({"policy_kwargs": {}}, "autoscaling_policy: policy_function must be the import path of a function of the program"),
    ({**POLICY, "policy_kwargs": 3}, "policy_kwargs must be a mapping"), ({**POLICY, "more": 3}, "more"), (3, "autoscaling_policy")])
def test_wrong_policies_are_named(tmp_path, policy, said):
    file = tmp_path / "anyserve.yaml"
    file.write_text(json.dumps(spec(autoscaling_policy=policy)))
    done = run("check", file)
    assert done.returncode != 0 and said in done.stderr + done.stdout, done
