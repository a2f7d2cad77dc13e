"""Request routers of the user's own, in a policy process beside the real dispatcher and real replicas."""

import os
import signal
import subprocess
import sys
import urllib.request

import pytest

from support import paths, tool, wait

REPLICAS = ["Who-0", "Who-1", "Who-2"]
SLOW = ("--router-timeout", "5s")  # a machine under load may be late


def test_a_uniform_router(routed):
    app = routed("uniform", *SLOW)
    assert sorted(set(app.ask(times=60))) == REPLICAS
    assert app.outcomes() == {"chosen": 60}
    log = app.server.log
    wait.until(lambda: sum("] completed Who-" in line for line in log.lines) == 60, log.text)
    assert sum("] routed " in line for line in log.lines) == 60


def test_the_named_replica_gets_the_request(routed):
    app = routed("named", *SLOW)
    for name in REPLICAS:
        assert app.ask(name, times=20) == [name] * 20
    assert app.outcomes() == {"chosen": 60}


def test_a_router_that_raises(routed):
    app = routed("named", *SLOW)
    assert len(app.ask("raise", times=50)) == 50
    assert app.outcomes() == {"raised": 50}
    assert sum("event=router_raised" in line for line in app.server.log.lines) == 1
    assert app.ask("Who-1") == ["Who-1"]


def test_a_router_that_exits(routed):
    """sys.exit() fails the call that it is in; the process goes on."""
    app = routed("exits", *SLOW)
    pid = app.pid()
    assert len(app.ask("exit", times=20)) == 20
    assert app.outcomes() == {"raised": 20}
    for text in ("SystemExit: no replica", "on_request_routed: KeyboardInterrupt: routed", "on_request_completed: SystemExit: completed"):
        app.server.log.wait(f'event=router_raised .*error="{text}"')
    assert app.ask("Who-1") == ["Who-1"] and app.outcomes() == {"raised": 20, "chosen": 1}
    assert app.pid() == pid
    assert not [line for line in app.server.log.lines if "event=task_raised" in line]


def test_a_router_that_returns_what_is_no_replica(routed):
    app = routed("named", *SLOW)
    assert len(app.ask("unknown", times=20)) == 20
    assert len(app.ask("nothing", times=20)) == 20
    assert app.outcomes() == {"unknown": 20, "none": 20}
    assert sum("event=router_unknown_replica" in line for line in app.server.log.lines) == 1


def test_a_router_that_is_late(routed):
    app = routed("named")  # 2 ms
    assert len(app.ask("wait", times=10)) == 10
    assert app.outcomes() == {"late": 10}


def test_a_router_that_blocks_is_replaced(routed):
    app = routed("named")
    since = len(app.server.log.lines)
    assert len(app.ask("block", times=10)) == 10
    assert len(app.ask("Who-1", times=10)) == 10  # the process hangs
    app.server.expect_error("Who.policy")
    app.wait_for_process(since)
    assert app.outcomes().get("late", 0) >= 10
    app.server.log.wait("event=worker_(hung|health).*Who.policy-0", since)


def test_a_router_that_dies_loses_no_request(routed):
    app = routed("named", *SLOW)
    since = len(app.server.log.lines)
    app.server.expect_error("Who.policy")
    assert len(app.ask("die", times=10)) == 10
    assert app.outcomes()["lost"] >= 1
    app.wait_for_process(since)
    assert app.ask("Who-2") == ["Who-2"]


def test_a_killed_process_comes_again(routed):
    app = routed("named", *SLOW)
    since = len(app.server.log.lines)
    app.server.expect_error("Who.policy")
    os.kill(app.pid(), signal.SIGKILL)
    assert len(app.ask("Who-2", times=20)) == 20
    app.wait_for_process(since)
    assert app.ask("Who-2", times=5) == ["Who-2"] * 5, app.outcomes()


def test_the_process_survives_the_dispatcher_and_the_controller(routed):
    app = routed("named", *SLOW)
    pid, since = app.pid(), len(app.server.log.lines)
    os.kill(app.server.controller, signal.SIGKILL)
    app.server.replace_dispatcher()
    app.server.log.wait("event=controller_ready", since)
    app.wait_for_process(since)
    wait.until(lambda: app.ask("Who-2", times=3) == ["Who-2"] * 3, "the router is asked again")
    assert app.pid() == pid


def test_replicas_that_come_and_go(routed):
    app = routed("named", *SLOW)
    tool.run(app.server, "scale", "Who", "4")
    wait.until(lambda: app.ask("Who-3") == ["Who-3"], "the new replica is chosen")
    tool.run(app.server, "scale", "Who", "2")
    wait.until(lambda: app.ask("Who-3") != ["Who-3"], "the replica has gone")
    assert app.outcomes().get("none", 0) + app.outcomes().get("unknown", 0) > 0


@pytest.mark.parametrize("size", [1000, 60_000, 300_000, 3_000_000])
def test_arguments_of_any_length(routed, size):
    app = routed("named", *SLOW)
    assert app.ask("Who-1", size=size) == ["Who-1"]
    assert app.outcomes() == {"chosen": 1}


def test_a_central_store_is_a_deployment(routed):
    app = routed("central", *SLOW)
    assert app.ask(times=9) == REPLICAS * 3
    assert app.outcomes() == {"chosen": 9}


def test_without_own_router_there_is_no_process(serve):
    server = serve("serve_chain.py:back")
    assert not [r for r in server.status()["replicas"] if ".policy" in r["name"]]
    assert "anyserve_router_decisions_total{" not in server.metrics()


def test_a_router_by_throughput(routed):
    app = routed("throughput", *SLOW)
    for _ in range(30):
        assert len(app.ask(times=10)) == 10  # as many as the replicas have slots for, so one is always free
    assert app.outcomes() == {"chosen": 300}


def test_statistics_that_are_too_large(routed):
    app = routed("named", *SLOW, STATS=str(1 << 20))
    for name in REPLICAS:
        app.server.log.wait(rf"\[{name}\] .*event=report_too_large kind=3 bytes=\d+ limit_bytes=262144")
    assert app.ask("Who-2", times=3) == ["Who-2"] * 3


FILE = """
applications:
  - import_path: plain:app
    route_prefix: /
    deployments:
      - name: Plain
        num_replicas: 2
        request_router_config: {request_router_class: "%s", request_router_kwargs: {suffix: "%s"}}
      - {name: Plain.policy, health_check_timeout_s: 9}
"""
PLAIN = """
from anyserve import serve
from anyserve.serve.request_router import RequestRouter

class Ends(RequestRouter):
    def initialize_state(self, suffix):
        self.suffix = suffix

    async def choose_replicas(self, candidate_replicas, pending_request=None):
        return [[r for r in candidate_replicas if r.replica_id.unique_id.endswith(self.suffix)]]

@serve.deployment
class Plain:
    async def __call__(self, request):
        return serve.get_replica_context().replica_id.unique_id

app = Plain.bind()
"""


def get(server):
    with urllib.request.urlopen(f"http://{server.address}/", timeout=wait.SECONDS) as answer:
        return answer.read().decode()


def test_a_deployment_file_names_the_router(serve, tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN)
    config = tmp_path / "config.yaml"
    config.write_text(FILE % ("plain:Ends", "-1"))
    server = serve(config, *SLOW, "--state-dir", tmp_path / "state", verb="start", cwd=tmp_path)
    server.wait_all_ready()
    assert {get(server) for _ in range(5)} == {"Plain-1"}
    pids = server.workers()
    since = len(server.log.lines)
    config.write_text(FILE % ("plain:Ends", "-0"))  # another router: no replica is replaced
    tool.run(server, "deploy", config)
    server.log.wait("event=policy_process deployment=Plain", since)
    wait.until(lambda: get(server) == "Plain-0", "the new router is asked")
    after = server.workers()
    assert {n: p for n, p in pids.items() if "policy" not in n} == {n: p for n, p in after.items() if "policy" not in n}
    built_in = (FILE % ("round_robin", "")).replace('suffix: ""', "max_wait_s: 1")  # it has arguments of its own
    config.write_text(built_in.replace("      - {name: Plain.policy, health_check_timeout_s: 9}\n", ""))
    tool.run(server, "deploy", config)
    wait.until(lambda: len(server.workers()) == 2, lambda: f"the process ends: {server.workers()}")
    assert {get(server) for _ in range(20)} == {"Plain-0", "Plain-1"}


def test_a_router_that_cannot_start_fails_the_deployment(serve, tmp_path):
    (tmp_path / "plain.py").write_text(PLAIN + "\ndef use():\n    import raises  # so it is copied with this one\n")
    (tmp_path / "raises.py").write_text("\nNone.size\n")
    config = tmp_path / "config.yaml"
    config.write_text(FILE % ("plain:Ends", "-1"))
    server = serve(config, *SLOW, "--state-dir", tmp_path / "state", "--max-start-failures", "1", verb="start", cwd=tmp_path)
    server.wait_all_ready()
    server.expect_error("Plain.policy")
    config.write_text(FILE % ("plain:Nope", "-1"))
    failed = tool.run(server, "deploy", config, code=3)
    assert "plain:Nope: module 'plain' has no attribute 'Nope'" in failed.out + failed.err + server.log.text()
    assert {get(server) for _ in range(5)} == {"Plain-1"}  # the former process goes on
    config.write_text(FILE % ("raises:Ends", "-1"))
    failed = tool.run(server, "deploy", config, code=3)
    text = failed.out + failed.err + server.log.text()
    assert "importing raises:Ends failed" in text and 'raises.py", line 2' in text
    assert "AttributeError: 'NoneType' object has no attribute 'size'" in text
    assert get(server) == "Plain-1"


SCRIPT = """
from anyserve import serve
from anyserve.serve.request_router import RequestRouter

class First(RequestRouter):  # of a script: it cannot be imported elsewhere
    async def choose_replicas(self, candidate_replicas, pending_request=None):
        return [[r for r in candidate_replicas if r.replica_id.unique_id.endswith("-1")]]

@serve.deployment(num_replicas=2, request_router_config={"request_router_class": First})
class Who:
    async def __call__(self):
        return serve.get_replica_context().replica_id.unique_id

for _ in range(2):  # the second time replaces replicas and process
    handle = serve.run(Who.bind(), route_prefix=None)
    print({handle.remote().result() for _ in range(10)}, sorted(serve.status().applications["default"].deployments))
"""


def test_a_router_of_a_script(serve, tmp_path):
    server = serve(None, *SLOW, "--state-dir", tmp_path / "state", verb="start", cwd=tmp_path)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environ = {**os.environ, "PYTHONPATH": str(paths.SDK), "ANYSERVE_PORT": str(server.port), "ANYSERVE_RUNTIME_DIR": server.runtime}
    done = subprocess.run([sys.executable, script], env=environ, cwd=tmp_path, capture_output=True, text=True, timeout=4 * wait.SECONDS)
    lines = done.stdout.splitlines()
    assert done.returncode == 0 and len(lines) == 2, done.stdout + done.stderr + server.log.text()
    assert lines[0] == "{'Who-1'} ['Who']"
    assert lines[1].endswith("['Who']")
    server.forget_fds()
