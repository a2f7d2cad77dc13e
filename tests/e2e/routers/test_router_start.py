"""A deployment with a router of its own is ready when its policy process answers, and fails as a replica that cannot start."""

import os
import subprocess
import sys
import urllib.request

import pytest

from support import paths, tool, wait
from support.protocol import prometheus

SLOW = ("--router-timeout", "5s")  # a machine under load may be late
START = """
import time

from anyserve import serve
from anyserve.serve.request_router import RequestRouter

class Router(RequestRouter):
    def initialize_state(self, **kwargs):
        %s

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        return [[r for r in candidate_replicas if r.replica_id.unique_id.endswith("-1")]]

@serve.deployment(num_replicas=2, request_router_config={"request_router_class": %s})
class Who:
    async def __call__(self, request=None):
        return serve.get_replica_context().replica_id.unique_id

app = Who.bind()
"""
RUN = """
if __name__ == "__main__":
    handle = serve.run(app)
    print(sorted({handle.remote().result() for _ in range(10)}))
"""
WAITS = "time.sleep(1.5)  # it is ready later than the replicas"


def run(server, folder, init, name="Router"):
    script = folder / "script.py"
    script.write_text(START % (init, name) + RUN)
    environ = {**os.environ, "PYTHONPATH": str(paths.SDK), "ANYSERVE_PORT": str(server.port), "ANYSERVE_RUNTIME_DIR": server.runtime}
    done = subprocess.run([sys.executable, script], env=environ, cwd=folder, capture_output=True, text=True, timeout=4 * wait.SECONDS)
    server.forget_fds()
    return done


def get(server):
    with urllib.request.urlopen(f"http://{server.address}/", timeout=wait.SECONDS) as answer:
        return answer.read().decode()


def outcomes(server):
    return {dict(labels)["outcome"]: int(value) for (name, labels), value in prometheus.parse(server.metrics()).items()
            if name == "anyserve_router_decisions_total" and dict(labels)["deployment"] == "Who" and value}  # fmt: skip


def test_serve_run_returns_when_the_router_answers(serve, tmp_path):
    server = serve(None, *SLOW, "--state-dir", tmp_path / "state", verb="start", cwd=tmp_path)
    done = run(server, tmp_path, WAITS)
    assert done.returncode == 0 and done.stdout == "['Who-1']\n", done.stdout + done.stderr
    assert outcomes(server) == {"chosen": 10}


def test_deploy_returns_when_the_router_answers(serve, tmp_path):
    (tmp_path / "started.py").write_text(START % (WAITS, "Router"))
    config = tmp_path / "config.yaml"
    config.write_text("applications:\n  - {import_path: 'started:app', route_prefix: /}\n")
    server = serve(None, *SLOW, "--state-dir", tmp_path / "state", verb="start", cwd=tmp_path)
    tool.run(server, "deploy", config)
    assert [get(server) for _ in range(10)] == ["Who-1"] * 10
    assert outcomes(server) == {"chosen": 10}
    events = [line for line in server.log.lines if "replica=Who.policy-0" in line]
    assert "event=policy_process" in events[0] and "event=worker_ready" in events[1], events
    server.forget_fds()


POLICY = """
class Policy:
    def __init__(self):
        raise RuntimeError("it was constructed")

    def __call__(self, ctx):
        return 3, {}
"""
SCALES = "num_replicas='auto', autoscaling_config={'policy': {'policy_function': Policy}}"


def test_a_scaling_policy_is_not_constructed_where_a_file_fixes_the_number(serve, tmp_path):
    (tmp_path / "started.py").write_text(POLICY + (START % ("pass", "Router")).replace("num_replicas=2", SCALES))
    config = tmp_path / "config.yaml"
    text = "applications: [{import_path: 'started:app', route_prefix: /, deployments: [{name: Who%s}]}]\n"
    config.write_text(text % ", num_replicas: 2")
    server = serve(None, *SLOW, "--state-dir", tmp_path / "state", "--max-start-failures", "1", verb="start", cwd=tmp_path)
    tool.run(server, "deploy", config)
    assert [get(server) for _ in range(10)] == ["Who-1"] * 10
    assert outcomes(server) == {"chosen": 10}
    server.expect_error("Who.policy")
    config.write_text(text % "")  # now it is asked
    failed = tool.run(server, "deploy", config, code=3)
    assert "RuntimeError: it was constructed" in failed.out + failed.err
    server.forget_fds()


@pytest.mark.parametrize("init, text", [("raise ValueError('the store is not there')", "ValueError: the store is not there"),
                                        ("import nowhere_at_all", "No module named 'nowhere_at_all'")])  # fmt: skip
def test_serve_run_says_why_a_router_does_not_start(serve, tmp_path, init, text):
    server = serve(None, *SLOW, "--state-dir", tmp_path / "state", "--max-start-failures", "1", verb="start", cwd=tmp_path)
    server.expect_error("Who.policy")
    done = run(server, tmp_path, init)
    assert done.returncode != 0 and not done.stdout
    assert "Failed to update the deployments" in done.stderr and "Who.policy" in done.stderr
    assert text in done.stderr and "initialize_state" in done.stderr
