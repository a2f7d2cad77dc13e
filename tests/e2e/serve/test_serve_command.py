"""The command `serve` (`anyserve-serve`): Ray Serve's commands, options and config files, against the real server."""

import json
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
import yaml
from driver_world import World

from support import paths, ports, wait

SHOP = """
from anyserve import serve

SIZE = 1

@serve.deployment(num_replicas=2, user_config={"a": 1}, max_ongoing_requests=7)
class Shop:
    def __init__(self, size):
        self.size = size

    def reconfigure(self, config):
        self.config = config

    def __call__(self):
        return SIZE, self.size, self.config

    def level(self):
        import logging
        return logging.getLogger("anyserve.serve").getEffectiveLevel()

    def where(self):
        import os
        return os.path.basename(os.getcwd()), os.environ.get("COLOUR")

    def served(self):
        return serve.get_replica_context().app_name

@serve.deployment
class Front:
    def __init__(self, shop):
        self.shop = shop

    async def __call__(self):
        return await self.shop.remote()

app = Shop.bind("one")
both = Front.bind(Shop.bind("two"))

def build(args):
    return Shop.bind(args["size"])
"""
CALL = """
import sys
from anyserve import serve
name, method = sys.argv[1], sys.argv[2]
print(serve.get_app_handle(name).options(method_name=method).remote().result(timeout_s=20))
"""


class Command:
    """`python -m anyserve.serve.cli`, in a folder that has shop.py."""

    def __init__(self, world):
        self.world = world
        self.folder = world.folder / "code"
        self.shop = world.write("code/shop.py", SHOP)
        self.call_file = world.write("call.py", CALL)
        self.count = 0

    def write(self, name, value):
        return self.world.write("code/" + name, value if isinstance(value, str) else yaml.safe_dump(value))

    def start(self, *args):
        self.count += 1
        log = self.world.folder / f"log{self.count}"
        with open(log, "wb") as f:
            process = subprocess.Popen([sys.executable, "-m", "anyserve.serve.cli", *map(str, args)], env=self.world.env,
                                       cwd=self.folder, stdin=subprocess.DEVNULL, stdout=f, stderr=f)  # fmt: skip
        self.world.drivers.append(SimpleNamespace(process=process))
        return process, log

    def run(self, *args, code=0, said=None):
        """stdout of a command; `said` is in its stderr."""
        done = subprocess.run([sys.executable, "-m", "anyserve.serve.cli", *map(str, args)], env=self.world.env, cwd=self.folder,
                              input=said and "n\n", capture_output=True, text=True, timeout=2 * wait.SECONDS)  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        assert (said or "") in done.stderr, done.stderr
        self.stderr = done.stderr
        return done.stdout

    def status(self, *args):
        return yaml.safe_load(self.run("status", *args))

    def wait_running(self, *names):
        wait.until(lambda: self.is_running(names), lambda: self.run("status"))

    def is_running(self, names):
        found = self.status()["applications"]
        return sorted(found) == sorted(names) and all(a["status"] == "RUNNING" for a in found.values())

    def call(self, name="default", method="__call__"):
        return self.world.run(self.call_file, name, method)


@pytest.fixture
def serve():
    world = World()
    yield Command(world)
    world.close()


@pytest.fixture
def started(serve):
    serve.run("start")
    yield serve
    serve.run("shutdown", "-y", said="The server has ended.")


def wait_for(process, log, text):
    wait.until(lambda: text in log.read_text() or process.poll() is not None, log.read_text)
    assert text in log.read_text(), log.read_text()


def test_a_config_file_is_deployed_and_replaced(started):
    one = {"name": "one", "route_prefix": "/one", "import_path": "shop.app",
           "deployments": [{"name": "Shop", "num_replicas": 1, "user_config": {"a": 7}}]}  # fmt: skip
    two = {"name": "two", "route_prefix": "/two", "import_path": "shop:build", "args": {"size": 3},
           "runtime_env": {"env_vars": {"COLOUR": "red"}}}  # fmt: skip
    config = started.write("serve.yaml", {"proxy_location": "HeadOnly", "http_options": {"port": started.world.port},
                                          "applications": [one, two]})  # fmt: skip
    started.run("deploy", config)
    assert started.stderr.count("proxy_location has no effect: there is one machine.") == 1
    started.wait_running("one", "two")
    assert started.call("one") == "(1, 'one', {'a': 7})"
    assert started.call("two") == "(1, 3, {'a': 1})"
    assert started.call("two", "where") == "('code', 'red')"
    shop = started.status("-n", "one")["deployments"]["Shop"]
    assert (shop["status"], shop["replica_states"], shop["message"]) == ("HEALTHY", {"RUNNING": 1}, "")
    assert started.status()["applications"]["two"]["deployments"]["Shop"]["replica_states"] == {"RUNNING": 2}
    configs = started.run("config").split("\n---\n\n")
    assert [yaml.safe_load(c)["import_path"] for c in configs] == ["shop:app", "shop:build"]
    # what `config` prints can be deployed again, and an application that is not listed any more goes
    again = started.write("again.yaml", {"applications": [yaml.safe_load(started.run("config", "--name", "two"))]})
    started.run("deploy", again)
    started.wait_running("two")
    assert started.call("two") == "(1, 3, {'a': 1})"


def test_an_import_path_is_deployed(started):
    started.run("deploy", "shop:build", "--name", "mine", "size=4", "--runtime-env-json", json.dumps({"env_vars": {"COLOUR": "blue"}}))
    started.wait_running("mine")
    assert started.call("mine") == "(1, '4', {'a': 1})"
    assert started.call("mine", "where") == "('code', 'blue')"


def test_what_programs_have_deployed_stays(started):
    started.world.run("""
        from anyserve import serve

        @serve.deployment
        def five():
            return 5

        serve.run(five.bind(), name="program", route_prefix="/p")
    """)
    started.run("deploy", started.write("serve.yaml", {"applications": [{"name": "file", "import_path": "shop:app"}]}))
    started.wait_running("file", "program")
    assert started.call("program") == "5"
    assert started.run("config", "-n", "program") == 'No config has been deployed for application "program".\n'


def test_target_capacity_is_of_the_applications_of_files(started):
    started.world.run("""
        from anyserve import serve

        @serve.deployment(num_replicas=2)
        def five():
            return 5

        serve.run(five.bind(), name="program", route_prefix="/p")
    """)

    def deploy(capacity):
        file = {"target_capacity": capacity, "applications": [{"name": "file", "import_path": "shop:app"}]}
        started.run("deploy", started.write("serve.yaml", file))
        assert "target_capacity" not in started.stderr
        wait.until(lambda: started.is_running(["file", "program"]) and states("file", "Shop")["status"] == "HEALTHY",
                   lambda: started.run("status"))  # fmt: skip
        assert started.status()["target_capacity"] == capacity
        return states("file", "Shop")["replica_states"]

    def states(application, name):
        return started.status()["applications"][application]["deployments"][name]

    assert started.status()["target_capacity"] is None
    assert deploy(50) == {"RUNNING": 1}
    assert states("program", "five")["replica_states"] == {"RUNNING": 2}
    assert deploy(100.0) == {"RUNNING": 2}
    assert deploy(0) == {}
    assert started.call("program") == "5"
    assert deploy(None) == {"RUNNING": 2}


def test_logging_config_of_an_application_is_for_all_its_deployments(started):
    entry = {"name": "logs", "import_path": "shop:both", "logging_config": {"log_level": "ERROR"}}
    started.run("deploy", started.write("serve.yaml", {"applications": [entry]}))
    started.wait_running("logs")
    deployments = yaml.safe_load(started.run("config"))["deployments"]
    assert {d["name"]: d["logging_config"] for d in deployments} == {n: {"log_level": "ERROR"} for n in ("Shop", "Front")}


BAD = """\
target_capacity: 100.5
proxy_locaton: EveryNode
http_options:
  port: x
  hots: 1
applications:
  - name: a
    import_path: shop
    host: 1.2.3.4
    route_prefix: a
    runtime_env: {pip: [x], working_dir: "s3://x"}
    deployments:
      - nam: Shop
        num_replicas: -1
        ray_actor_options: {num_cpu: 1}
        backpressure_config: {status_code: 200}
      - name: Shop
        gang_scheduling_config: {gang_size: 2}
  - name: a
    import_path: shop:app
    replicas: 1
"""
COMPLAINTS = """\
1:1: target_capacity: is a number from 0 to 100, not 100.5
2:1: proxy_locaton: unknown key; did you mean 'proxy_location'?
4:3: http_options.port: is an integer from 0 to 65535, not 'x'
5:3: http_options.hots: unknown key; did you mean 'host'?
8:5: applications[0].import_path: Got invalid import path "shop".
9:5: applications[0].host: Host 1.2.3.4 is set in the config for application `a`.
10:5: applications[0].route_prefix: Got "a" for route_prefix. Route prefix must start with "/".
11:19: applications[0].runtime_env.pip: 'pip' is not supported
11:29: applications[0].runtime_env.working_dir: 's3://x' is a URI
13:9: applications[0].deployments[0].nam: unknown key; did you mean 'name'?
13:9: applications[0].deployments[0]: needs the key 'name'
14:9: applications[0].deployments[0].num_replicas: is an integer from 0 to 1024, not -1
15:9: applications[0].deployments[0].ray_actor_options: Specifying 'num_cpu' in ray_actor_options is not allowed.
16:9: applications[0].deployments[0].backpressure_config: BackpressureConfig.status_code is 503 or 429, not 200
18:9: applications[0].deployments[1].gang_scheduling_config: is not supported yet
19:5: applications[1].name: application name 'a' is that of applications[0], too
21:5: applications[1].replicas: unknown key
"""


def test_every_mistake_of_a_file_is_named_with_its_place(serve):
    path = serve.write("bad.yaml", BAD)
    serve.run("run", path, code=1)
    lines = [line.removeprefix(f"{path}:") for line in serve.stderr.splitlines() if line.startswith(str(path))]
    wanted = COMPLAINTS.splitlines()
    assert len(lines) == len(wanted), serve.stderr
    for line, start in zip(lines, wanted):
        assert line.startswith(start)


def test_what_the_server_refuses_has_the_places_of_the_file(started):
    text = "applications:\n  - name: fine\n    import_path: shop:app\n    route_prefix: /f\n  - import_path: shop:gone\n    name: b\n"
    path = started.write("serve.yaml", text)
    started.run("deploy", path, code=1)
    assert f"{path}:5:5: " in started.stderr and "gone" in started.stderr, started.stderr
    assert started.status()["applications"] == {}
    path = started.write("serve.yaml", "applications:\n  - import_path: shop:app\n    deployments:\n      - name: Other\n")
    started.run("deploy", path, code=1)
    assert f"{path}:4:9: " in started.stderr and "Other" in started.stderr, started.stderr


@pytest.mark.parametrize("text, complaint", [
    ("applications: [\n", "2:1: "), ("a: 1\na: 2\n", "2:1: the key 'a' is there twice"), ("", "is a mapping, not None"),
    ("applications: 3\n", "1:1: applications: needs `applications`, a list of them"), ("a: &x [*x]\n", ""), ("? [1]\n: 2\n", "1:3: a key is a text"),
    ("a: !!python/object:os.system x\n", "could not determine a constructor"), ("a: " + "[" * 2000 + "]" * 2000 + "\n", "nested too deep"),
], ids=range(8))  # fmt: skip
def test_what_is_no_config_file(serve, text, complaint):
    path = serve.write("bad.yaml", text)
    serve.run("run", path, code=1, said=complaint)
    assert "Traceback" not in serve.stderr


@pytest.mark.parametrize("args, code, text", [
    (["run", "nope:app"], 1, "There is no module 'nope'"),
    (["run", "shop:gone"], 1, "shop has no attribute 'gone'."),
    (["run", "shop"], 1, 'Got invalid import path "shop".'),
    (["run", "shop:app", "size=1"], 1, "Arguments can only be passed to an application builder function"),
    (["run", "shop:build", "size"], 1, "Invalid application argument 'size', must be of the form '<key>=<val>'."),
    (["run", "shop:build"], 1, "KeyError: 'size'"),
    (["run", "shop:app", "--working-dir", "s3://bucket/x.zip"], 1, "is a URI; only folders of this machine are supported"),
    (["run", "shop:app", "--runtime-env-json", "{"], 1, "--runtime-env-json is no JSON"),
    (["run", "shop:app", "--reload", "--non-blocking"], 1, "The --non-blocking option conflicts with the --reload option."),
    (["run", "shop:app", "--bogus"], 2, "unrecognized arguments: --bogus"),
    (["run", "shop:app", "--address", "http://example.com:8265"], 1, "only servers of this machine can be managed"),
    (["status"], 1, "No server runs at port"), (["deploy", "shop:app"], 1, "No server runs at port"),
    (["shutdown"], 0, "No Serve instance found running on the cluster"),
    (["build", "shop:build"], 1, "Expected 'shop:build' to be an Application"),
    (["grow"], 2, "invalid choice: 'grow'"),
], ids=lambda v: "_".join(v).replace("/", "") if isinstance(v, list) else "")  # fmt: skip
def test_what_commands_refuse(serve, args, code, text):
    serve.run(*args, code=code, said=text)


def test_run_ends_with_its_server(serve):
    process, log = serve.start("run", "shop:build", "size=7", "--name", "shop", "--route-prefix", "/shop")
    wait_for(process, log, "Ctrl-C ends this program.")
    assert serve.call("shop") == "(1, '7', {'a': 1})"
    process.send_signal(signal.SIGINT)
    assert process.wait(2 * wait.SECONDS) == 0, log.read_text()
    serve.world.wait_gone()


def test_run_of_a_config_file_starts_a_server_with_its_options(serve):
    port = ports.free()
    path = serve.write("serve.yaml", {"http_options": {"host": "127.0.0.1", "port": port}, "logging_config": {"log_level": "WARNING"},
                                      "applications": [{"name": "shop", "import_path": "shop:app"}]})  # fmt: skip
    process, log = serve.start("run", path)
    wait_for(process, log, "Ctrl-C ends this program.")
    assert f"the server is at http://127.0.0.1:{port}," in log.read_text()
    serve.world.env["ANYSERVE_PORT"] = str(port)
    serve.wait_running("shop")
    assert serve.call("shop") == "(1, 'one', {'a': 1})"
    process.send_signal(signal.SIGINT)
    assert process.wait(2 * wait.SECONDS) == 0, log.read_text()
    serve.world.wait_gone()


def test_run_uses_a_server_that_runs_and_leaves_it(started):
    process, log = started.start("run", "shop:app", "--name", "mine", "--address", f"http://localhost:{started.world.port}")
    wait_for(process, log, "Ctrl-C ends this program.")
    assert started.call("mine", "served") == "mine"
    process.send_signal(signal.SIGINT)
    assert process.wait(2 * wait.SECONDS) == 0, log.read_text()
    assert started.status()["applications"] == {}


def test_reload(serve):
    process, log = serve.start("run", "--reload", "shop:build", "size=7")
    wait_for(process, log, "is ready")
    assert serve.call() == "(1, '7', {'a': 1})"
    serve.shop.write_text("SIZE = (\n")
    wait_for(process, log, "Deploying the latest version of the application failed.")
    assert serve.call() == "(1, '7', {'a': 1})"
    serve.shop.write_text(SHOP.replace("SIZE = 1", "SIZE = 22"))
    wait.until(lambda: serve.call() == "(22, '7', {'a': 1})", log.read_text)
    process.send_signal(signal.SIGINT)
    assert process.wait(2 * wait.SECONDS) == 0, log.read_text()
    serve.world.wait_gone()


def test_build_writes_a_file_that_can_be_deployed(started):
    started.run("build", "shop:app", "shop:both", "-o", "made.yaml")
    made = yaml.safe_load((started.folder / "made.yaml").read_text())
    assert list(made) == ["proxy_location", "http_options", "grpc_options", "logging_config", "applications"]
    assert [(a["name"], a["route_prefix"], a["import_path"]) for a in made["applications"]] == [("app1", "/app1", "shop:app"), ("app2", "/app2", "shop:both")]
    assert made["applications"][0]["deployments"] == [{"name": "Shop", "num_replicas": 2, "max_ongoing_requests": 7, "user_config": {"a": 1}}]
    assert [d["name"] for d in made["applications"][1]["deployments"]] == ["Shop", "Front"]
    assert yaml.safe_load(started.run("build", "shop:app"))["applications"][0]["route_prefix"] == "/"
    started.run("deploy", "made.yaml")
    started.wait_running("app1", "app2")
    assert started.call("app2") == "(1, 'two', {'a': 1})"


def test_shutdown_asks(started):
    started.run("deploy", "shop:app")
    started.run("shutdown", code=1, said="Do you want to continue?")
    assert list(started.status()["applications"]) == ["default"]


def test_options_of_the_server_reach_it(serve):
    """As `anyserve options` of the process that was started; those without effect are said."""
    path = serve.write("serve.yaml", {"http_options": {"port": serve.world.port, "keep_alive_timeout_s": 0, "request_timeout_s": 2.5,
                                                       "root_path": "/x", "root_url": "http://h"},
                                      "applications": [{"name": "shop", "import_path": "shop:app"}]})  # fmt: skip
    process, log = serve.start("run", path)
    wait_for(process, log, "Ctrl-C ends this program.")
    pid = int(log.read_text().split("pid ")[1].split()[0])
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        arguments = f.read().decode().split("\0")
    assert {"--idle-timeout=1000us", "--request-timeout=2500000us", "--root-path=/x"} <= set(arguments)
    assert "http_options: root_url has no effect." in log.read_text()
    process.send_signal(signal.SIGINT)
    assert process.wait(2 * wait.SECONDS) == 0, log.read_text()


PRICES = """
import grpc
import pantry
from anyserve import serve

@serve.deployment
class Prices:
    def Price(self, ask):
        return pantry.Answer(text=ask.name.upper(), value=ask.count * 3)

app = Prices.bind()
"""


def test_grpc_services_of_a_config_file(started):
    stubs = paths.ROOT / "tests/serve_programs/grpc_services/stubs"
    started.write("pantry.py", (stubs / "pantry.py").read_text())
    started.write("prices.py", PRICES)
    path = started.write("serve.yaml", {"grpc_options": {"grpc_servicer_functions": ["pantry:add_PantryServicer_to_server"]},
                                        "applications": [{"name": "prices", "import_path": "prices:app"}]})  # fmt: skip
    started.run("deploy", path)
    started.wait_running("prices")
    call = "import sys, grpc, pantry\nstub = pantry.PantryStub(grpc.insecure_channel('127.0.0.1:' + sys.argv[1]))\n" \
           "print(stub.Price(pantry.Ask(name='tea', count=4), timeout=20))"  # fmt: skip
    said = started.world.run(started.write("call.py", call), str(started.world.port), env={"PYTHONPATH": str(stubs)})
    assert said.split() == ["text:", '"TEA"', "value:", "12"]
    assert yaml.safe_load(started.run("config"))["grpc_servicer_functions"] == ["pantry:add_PantryServicer_to_server"]
