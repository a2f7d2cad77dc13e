"""as_ray: how a program is run, what its replicas inherit, what ends with it, and beside an installed ray.

The installed ray is a stand-in (fake_ray) of the same shape, since `make test` has no Ray; `make ray` runs programs under both.
"""

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from driver_world import Driver, World

from support import wait
from support.process import procs

FAKE = Path(__file__).parent / "fake_ray"
AS_RAY = ("-m", "anyserve.serve.as_ray")


@pytest.fixture
def world():
    w = World()
    yield w
    w.close()


def start(world, source, *args, before=AS_RAY, name="script.py", env=None):
    """Runs a program under as_ray."""
    path = world.write(name, source)
    world.drivers.append(Driver(world, *before, path, *args, env=env))
    return world.drivers[-1]


def run(world, source, *args, code=0, **kwargs):
    driver = start(world, source, *args, **kwargs)
    driver.process.wait(4 * wait.SECONDS)  # some start ten processes
    return driver.end(code)


def with_fake(world):
    return {"PYTHONPATH": world.env["PYTHONPATH"] + os.pathsep + str(FAKE)}


# --- how a program is run ---


WHERE = """
import sys, os
import ray
from ray import serve
import beside
print(__name__, sys.argv[1:], os.path.basename(__file__), serve.__name__, ray.serve is serve, sys.modules["__main__"].ray is ray)
sys.exit(3)
"""


def test_program_is_the_module_main(world):
    world.write("sub/beside.py", "")
    out = run(world, WHERE, "a", "-m", code=3, name="sub/prog.py")
    assert out == "__main__ ['a', '-m'] prog.py anyserve.serve True True"


def test_module(world):
    world.write("sub/__init__.py", "")
    world.write("beside.py", "")
    world.write("sub/prog.py", WHERE)
    world.drivers.append(Driver(world, *AS_RAY, "-m", "sub.prog", "x"))
    assert world.drivers[-1].end(3) == "__main__ ['x'] prog.py anyserve.serve True True"


@pytest.mark.parametrize("args, code, text", [
    ((), 64, "Usage"), (("-m",), 64, "Usage"), (("-x",), 64, "Usage"), (("absent.py",), 66, "absent.py cannot be read: No such file"),
])  # fmt: skip
def test_wrong_usage(world, args, code, text):
    world.drivers.append(Driver(world, *AS_RAY, *args))
    world.drivers[-1].end(code)
    assert text in world.drivers[-1].err


def test_modules_are_those_of_anyserve_under_a_second_name(world):
    assert run(world, """
import ray.serve.deployment, ray.serve.handle as h
from ray.serve.metrics import Counter
from ray.serve import deployment
import ray.util.state, ray.exceptions
import anyserve.serve, anyserve.serve.handle, anyserve.serve.metrics
print(ray.serve is anyserve.serve, h is anyserve.serve.handle, Counter is anyserve.serve.metrics.Counter, callable(deployment))
print(anyserve.serve.handle.__spec__.name, anyserve.serve.__spec__.name)
""").splitlines() == ["True True True True", "anyserve.serve.handle anyserve.serve"]


def test_what_is_not_there_names_the_page(world):
    out = run(world, """
import ray, ray.util, importlib
for text in ("ray.data", "ray.util.queue", "ray.serve.llm", "ray.serve._private", "ray.train.torch"):
    try:
        importlib.import_module(text)
    except ModuleNotFoundError as e:
        print(e.name, "docs/guide/from-ray.md" in str(e))
for what, name in ((ray, "timeline"), (ray.util, "ActorPool")):
    try:
        getattr(what, name)
    except AttributeError as e:
        print(name, "docs/guide/from-ray.md" in str(e))
print(hasattr(ray, "java_function"))
""")  # fmt: skip
    assert out.splitlines() == ["ray.data True", "ray.util.queue True", "ray.serve.llm True", "ray.serve._private True",
                                "ray.train True", "timeline True", "ActorPool True", "False"]  # fmt: skip


def test_what_is_said_about_the_machine(world):
    out = run(world, """
import json
import ray, ray.util
from ray.exceptions import NodeDiedError, ObjectLostError, ObjectStoreFullError, OwnerDiedError
ray.init(num_cpus=3, num_gpus=2, resources={"disk": 5})
resources = ray.cluster_resources()
node, = ray.nodes()
print(json.dumps([resources["CPU"], resources["GPU"], resources["disk"], resources["memory"] > 0, ray.available_resources() == resources,
                  node["Alive"], node["Resources"] == resources, node["NodeID"] == ray.get_runtime_context().get_node_id(),
                  ray.get_gpu_ids(), ray.util.get_node_ip_address(), issubclass(OwnerDiedError, ObjectLostError)]))
""", env={"CUDA_VISIBLE_DEVICES": "3,1"})  # fmt: skip
    assert json.loads(out) == [3, 2, 5, True, True, True, True, True, [3, 1], "127.0.0.1", True]


def test_modules_of_starlette_are_loaded_when_they_are_named(world):
    out = run(world, """
import sys
import starlette
from ray import serve
print("starlette.requests" in sys.modules, starlette.requests.Request.__name__, "starlette.responses" in sys.modules)
try:
    starlette.absent
except AttributeError as e:
    print(e)
""")  # fmt: skip
    assert out.splitlines() == ["False Request False", "module 'starlette' has no attribute 'absent'"]


def test_import_loads_little(world):
    out = run(world, """
import sys
import ray
from ray import serve
print([n for n in ("asyncio", "cloudpickle", "numpy", "starlette", "anyserve._native", "anyserve.serve.api") if n in sys.modules])
""")  # fmt: skip
    assert out == "[]"


def test_ray_serve_that_was_imported_before_is_an_error(world):
    out = run(world, """
import sys, types
sys.modules["ray.serve"] = types.ModuleType("ray.serve")
from anyserve.serve import as_ray
try:
    as_ray.install()
except RuntimeError as e:
    print(e)
""", before=())  # fmt: skip
    assert "before the first `import ray`" in out


def test_notebook_extension(world):
    out = run(world, """
from anyserve.serve import as_ray
print(as_ray.is_installed())
as_ray.load_ipython_extension(None)
as_ray.load_ipython_extension(None)
import sys, ray
print(as_ray.is_installed(), ray.__name__, sum(type(f).__name__ == "Finder" for f in sys.meta_path))
""", before=())  # fmt: skip
    assert out.splitlines() == ["False", "True anyserve.serve.as_ray.ray 1"]


def entry_points(world):
    """What pip would have written of those of pyproject.toml; the variables with which they are found."""
    import tomllib
    from support import paths

    declared = tomllib.loads((paths.ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    text = "[pytest11]\n" + "".join(f"{name} = {value}\n" for name, value in declared.items())
    world.write("site/anyserve-1.dist-info/entry_points.txt", text)
    world.write("site/anyserve-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: anyserve\nVersion: 1\n")
    return {"PYTHONPATH": os.pathsep.join([str(world.folder / "site"), world.env["PYTHONPATH"]])}


@pytest.mark.parametrize("args", [(), ("-p", "anyserve.serve.as_ray.pytest_plugin")], ids=["installed", "named"])
def test_pytest_plugin(world, args):
    world.write("conftest.py", "from ray import serve\nNAME = serve.__name__\n")
    world.write("test_it.py", """
import ray
from ray import serve
from conftest import NAME

def test_one():
    assert NAME == "anyserve.serve"

    @serve.deployment
    def double(x):
        return 2 * x

    assert serve.run(double.bind(), route_prefix=None).remote(4).result() == 8
    serve.shutdown()
""")  # fmt: skip
    world.drivers.append(Driver(world, "-m", "pytest", "-q", "-p", "no:cacheprovider", *args, "--as-ray", "test_it.py",
                                env=entry_points(world)))  # fmt: skip
    assert "1 passed" in world.drivers[-1].end()


def test_pytest_plugin_without_its_option_changes_nothing(world):
    world.write("test_it.py", """
import sys

def test_one():
    assert not any(type(f).__module__.startswith("anyserve") for f in sys.meta_path)
""")  # fmt: skip
    world.drivers.append(Driver(world, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "anyserve.serve.as_ray.pytest_plugin",
                                "test_it.py"))  # fmt: skip
    assert "1 passed" in world.drivers[-1].end()


def test_replicas_inherit_it(world):
    world.write("app_of_ray.py", """
import ray
from ray import serve
from ray.serve.handle import DeploymentHandle

@ray.remote
def double(x):
    return 2 * x

@serve.deployment
class Front:
    def __init__(self, back: DeploymentHandle):
        self.back = back

    async def __call__(self, x):
        import ray.exceptions
        return await self.back.remote(await double.remote(x)), issubclass(ray.exceptions.GetTimeoutError, TimeoutError)

@serve.deployment
def back(x):
    import ray
    return ray.get(double.remote(x)), ray.__name__

app = Front.bind(back.bind())
""")  # fmt: skip
    out = run(world, """
from ray import serve
import app_of_ray
print(serve.run(app_of_ray.app, route_prefix=None).remote(3).result())
""")  # fmt: skip
    assert out == "((12, 'anyserve.serve.as_ray.ray'), True)"


def test_anyserve_run(world):
    world.write("app_of_ray.py", """
import ray
from ray import serve

@serve.deployment
def name(x):
    return [ray.__name__, x]

app = name.bind()
""")  # fmt: skip
    from support import paths

    world.drivers.append(Driver(world, "run", "app_of_ray:app", "--as-ray", f"--port={world.port}", f"--runtime-dir={world.runtime}",
                                python=paths.BINARY, env={"ANYSERVE_PYTHON": sys.executable}))  # fmt: skip
    server = world.drivers[-1]
    wait.until(lambda: any(line.startswith("Ready: ") for line in server.lines["err"] + server.lines["out"]), lambda: server.said)
    out = world.run("from anyserve import serve\nprint(serve.get_app_handle('default').remote(5).result())")
    assert out == "['anyserve.serve.as_ray.ray', 5]"
    server.process.send_signal(signal.SIGTERM)
    server.end()


# --- the end of actors and tasks ---


COUNTER = """
import os, signal, sys, time
import ray
from ray import serve
from ray.util.state import list_actors

@ray.remote
class Counter:
    def __init__(self):
        self.n = 0
    def add(self):
        self.n += 1
        return self.n
    def pid(self):
        return os.getpid()
    def leave(self):
        ray.actor.exit_actor()

def alive(name):
    return [a.name for a in list_actors(filters=[("state", "=", "ALIVE"), ("class_name", "=", "Counter")]) if a.name == name]

def until(what):
    end = time.monotonic() + 60
    while not what():
        assert time.monotonic() < end
        time.sleep(0.02)
"""


def test_actors_end_with_their_program(world):
    """Those of a server that goes on. One that is detached stays, and other programs find it by its name."""
    run(world, "from ray import serve\nserve.start(detached=True)")
    first = start(world, COUNTER + """
ray.init(namespace="shared")
a = Counter.options(name="a").remote()
b = Counter.options(name="b", lifetime="detached").remote()
f = ray.remote(lambda: 1)
ray.get([a.add.remote(), b.add.remote(), f.remote()])
print("up", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""", name="first.py")  # fmt: skip
    first.wait_for("up")
    first.end(-signal.SIGKILL)
    out = run(world, COUNTER + """
ray.init(namespace="shared")
until(lambda: not alive("a"))
b = ray.get_actor("b")
print(ray.get(b.add.remote()))
try:
    ray.get_actor("a")
except ValueError:
    print("a is gone")
from anyserve.serve._driver.current import driver
until(lambda: len([n for n in driver.find().client.status()["applications"]]) == 1)
ray.kill(b)
print(alive("b"), [n for n in driver.find().client.status()["applications"]], serve.status().applications)
serve.shutdown()
""", name="second.py")  # fmt: skip
    assert out.splitlines() == ["2", "a is gone", "[] [] {}"]


def test_an_actor_ends_when_nobody_can_call_it(world):
    out = run(world, COUNTER + """
ray.init(namespace="n")
a = Counter.options(name="a").remote()
last = a.add.remote()
del a
print(ray.get(last))
until(lambda: not alive("a"))
print(ray.get(Counter.remote().add.remote()))
""")  # fmt: skip
    assert out.splitlines() == ["1", "1"]


def test_restarts(world):
    out = run(world, COUNTER + """
def restarted(actor, pid):
    try:
        return ray.get(actor.pid.remote()) != pid
    except ray.exceptions.RayActorError:
        return False

a = Counter.options(max_restarts=1).remote()
pid = ray.get(a.pid.remote())
os.kill(pid, signal.SIGKILL)
until(lambda: restarted(a, pid))
print(ray.get(a.add.remote()))
os.kill(ray.get(a.pid.remote()), signal.SIGKILL)
def dead():
    try:
        ray.get(a.add.remote())
    except ray.exceptions.ActorDiedError:
        return not alive("")
until(dead)
print("dead")
b = Counter.options(max_restarts=-1).remote()
pid = ray.get(b.pid.remote())
ray.kill(b, no_restart=False)
until(lambda: restarted(b, pid))
c = Counter.remote()
try:
    ray.get(c.leave.remote())
except ray.exceptions.RayActorError:
    print("left")
until(lambda: len(alive("")) == 1)
""")  # fmt: skip
    assert out.splitlines() == ["1", "dead", "left"]


def test_a_dispatcher_that_dies(world):
    """Calls that were under way fail, and the actor lives."""
    driver = start(world, COUNTER + """
@ray.remote
class Waits(Counter._class):
    def wait(self, path):
        open(path, "w").close()
        until(lambda: os.path.exists(path + ".go"))
        return self.add()

a = Waits.remote()
last = a.wait.remote(sys.argv[1])
until(lambda: os.path.exists(sys.argv[1]))
print("waits", flush=True)
try:
    ray.get(last)
except ray.exceptions.ActorUnavailableError as e:
    print("may or may not" in str(e))
open(sys.argv[1] + ".go", "w").close()
print(ray.get(a.add.remote()))
""", str(world.folder / "waits"))  # fmt: skip
    driver.wait_for("waits")
    (dispatcher,) = [p for p in world.processes() if procs.command(p).startswith("anyserve dispatcher ")]
    os.kill(dispatcher, signal.SIGKILL)
    assert driver.end().splitlines() == ["waits", "True", "2"]


def test_a_replica_ends_itself(world):
    out = run(world, """
import os, time
import ray
from ray import serve

@serve.deployment
class Model:
    def __call__(self):
        return os.getpid(), ray.get_runtime_context().get_actor_id()

    def end(self):
        ray.kill(ray.get_runtime_context().current_actor)

handle = serve.run(Model.bind(), route_prefix=None)
pid, actor_id = handle.remote().result()
try:
    handle.end.remote().result()
except ray.exceptions.RayActorError as e:
    print(type(e).__name__)
other = handle.remote().result()
print(other[0] != pid, other[1] != actor_id, ray.get_runtime_context().get_actor_id())
""")  # fmt: skip
    assert out.splitlines() == ["ActorDiedError", "True True None"]


def test_what_an_async_method_cannot_wait_for_without_await(world):
    out = run(world, """
import asyncio
import ray
from ray import serve

@serve.deployment
async def back():
    await asyncio.Event().wait()  # until it is cancelled

@serve.deployment
class Front:
    def __init__(self, back):
        self.back = back

    async def __call__(self):
        ref = await self.back.remote()._to_object_ref()
        try:
            ray.get(ref)
        except RuntimeError as e:
            ref.cancel()
            return str(e)

print(serve.run(Front.bind(back.bind()), route_prefix=None).remote().result())
""")  # fmt: skip
    assert out == "ray.get() and ray.wait() cannot wait for this call in an async method: `await ref` there instead."


def test_serve_shutdown_leaves_actors_and_ray_shutdown_ends_all(world):
    out = run(world, COUNTER + """
a = Counter.remote()
serve.run(serve.deployment(name="f")(lambda x: x).bind(), route_prefix=None)
print(sorted(serve.status().applications), ray.get(a.add.remote()))
serve.shutdown()
print(sorted(serve.status().applications), ray.get(a.add.remote()))
ray.shutdown()
print(os.listdir(os.environ["ANYSERVE_RUNTIME_DIR"]))
""")  # fmt: skip
    assert out.splitlines() == ["['default'] 1", "[] 2", "[]"]


def test_references_are_arguments_of_constructors(world):
    """Of named actors, too, which are looked up and created at once: what they refer to may have to be created for it."""
    out = run(world, """
import time
import ray

@ray.remote
class Named:
    def __init__(self, value, refs):
        self.value, self.refs = value, refs
    def all(self):
        return self.value, ray.get(self.refs)

@ray.remote
def makes(name):
    return ray.get(Named.options(name=name, lifetime="detached").remote(1, []).all.remote())

@ray.remote
def late():
    time.sleep(1)
    return "late"

a = Named.options(name="a").remote(makes.remote("b"), [late.remote()])
print(ray.get(a.all.remote()), ray.get_actor("b") is not None)
""")  # fmt: skip
    assert out == "((1, []), ['late']) True"


def test_tracebacks_begin_in_the_program(world):
    driver = start(world, """
def fails():
    raise KeyError("here")

fails()
""")
    driver.end(1)
    lines = driver.err.splitlines()
    assert lines[0] == "Traceback (most recent call last):" and "script.py" in lines[1] and lines[-1] == "KeyError: 'here'"
    assert "anyserve" not in driver.err.replace(str(world.folder), "")


def test_an_address_of_a_cluster_has_no_effect_and_the_log_says_so(world):
    driver = start(world, "import ray\nray.init(address='ray://host:10001')\nprint(ray.is_initialized())")
    assert driver.end() == "True"
    assert "ray://host:10001" in driver.err


def test_runtime_env(world):
    out = run(world, """
import os, ray
from ray import serve
ray.init(runtime_env={"env_vars": {"COLOUR": "blue"}})
read = ray.remote(lambda: os.environ.get("COLOUR"))

@ray.remote
class Reads:
    def read(self):
        return os.environ.get("COLOUR")

@serve.deployment
def served():
    return os.environ.get("COLOUR")

print(ray.get(read.remote()), ray.get(read.options(runtime_env={"env_vars": {"COLOUR": "red"}}).remote()))
print(ray.get(Reads.remote().read.remote()), serve.run(served.bind(), route_prefix=None).remote().result())
try:
    ray.remote(runtime_env={"pip": ["x"]})(lambda: 1)
except ValueError as e:
    print("pip" in str(e))
""")  # fmt: skip
    assert out.splitlines() == ["blue red", "blue blue", "True"]


def test_tasks_that_raise_are_tried_again(world):
    out = run(world, """
import ray

@ray.remote
class Numbers:
    def __init__(self):
        self.n = 0
    def next(self):
        self.n += 1
        return self.n

@ray.remote(max_retries=2, retry_exceptions=[ConnectionError])
def flaky(numbers, kind):
    n = ray.get(numbers.next.remote())
    if n < 3:
        raise kind(f"attempt {n}")
    return n

def outcome(function, kind=ConnectionError):
    try:
        return ray.get(function.remote(Numbers.remote(), kind))
    except Exception as e:
        return str(e).strip().splitlines()[-1]

print(outcome(flaky))
print(outcome(flaky.options(retry_exceptions=True), OSError))
print(outcome(flaky, OSError))
print(outcome(flaky.options(retry_exceptions=False)))
print(outcome(flaky.options(max_retries=1)))
""")  # fmt: skip
    assert out.splitlines() == ["3", "3", "OSError: attempt 1", "ConnectionError: attempt 1", "ConnectionError: attempt 2"]


def test_a_process_of_tasks_that_dies(world):
    out = run(world, """
import os, tempfile
import ray

@ray.remote
def dies(path):
    with open(path, "a") as f:
        f.write("x")
    if os.path.getsize(path) < 2:
        os._exit(1)
    return "done"

folder = tempfile.mkdtemp()
try:
    ray.get(dies.options(max_retries=0).remote(folder + "/once"))
except ray.exceptions.WorkerCrashedError as e:
    print("crashed")
print(ray.get(dies.remote(folder + "/again")))
""")  # fmt: skip
    assert out.splitlines() == ["crashed", "done"]


# --- beside an installed ray ---


def test_beside_an_installed_ray(world):
    out = run(world, """
import asyncio
import json
import ray
from ray import serve
from ray.util.state import list_actors
import ray.util.state.api

@serve.deployment
class Model:
    async def __call__(self, x):
        if x < 0:
            raise ValueError("negative")
        if x == 10:
            await asyncio.Event().wait()  # until it is cancelled
        return x

@ray.remote
def theirs(x):
    return x + 0.5

said = {}
handle = serve.run(Model.bind(), route_prefix=None)
said["ours"] = serve.__name__, ray.__version__
said["get"] = ray.get([handle.remote(1), theirs.remote(2), handle.remote(3)]), ray.get(handle.remote(4)), ray.get(theirs.remote(5))
pending = ray.ObjectRef()
done = handle.remote(6)
ready, rest = ray.wait([pending, done], num_returns=1, timeout=30)
said["wait"] = ready == [done], rest == [pending]
said["wait_ours"] = len(ray.wait([handle.remote(7)], timeout=30)[0])
said["wait_theirs"] = len(ray.wait([ray.put(1)])[0])
pending._future.set_result(0)
said["wait_both"] = len(ray.wait([pending, handle.remote(8)], num_returns=2, timeout=30)[0])
actors = list_actors(filters=[("class_name", "=", "ServeReplica:default:Model")])
said["list"] = [a["name"] for a in actors]
said["api"] = ray.util.state.api.list_actors is list_actors
replica = ray.get_actor(actors[0]["name"], namespace="serve")
pid = actors[0]["pid"]
ray.kill(replica)
theirs_too = ray.get_actor("theirs")
ray.kill(theirs_too)
said["killed"] = theirs_too.killed, handle.remote(9).result()
slow = handle.remote(10)
ray.cancel(slow)
try:
    slow.result()
except ray.exceptions.TaskCancelledError as e:
    said["cancelled"] = "was cancelled" in str(e)
try:
    handle.remote(-1).result()
except ray.exceptions.RayTaskError as e:
    said["error"] = isinstance(e, ValueError), str(e).strip().splitlines()[-1]
for name in ("RayActorError", "ActorDiedError", "ActorUnavailableError", "RayError"):
    said[name] = issubclass(getattr(serve.exceptions, name), getattr(ray.exceptions, name)), str(getattr(serve.exceptions, name)("text"))
for wrong in (lambda: ray.get(1), lambda: ray.kill(1), lambda: ray.wait([1]), lambda: ray.get_actor("absent")):
    try:
        wrong()
        said["wrong"] = "no error"
    except (ValueError, TypeError):
        pass
said["initialized"] = ray.is_initialized(), ray.calls.count("init")
print(json.dumps(said))
serve.shutdown()
""", env=with_fake(world))  # fmt: skip
    said = json.loads(out)
    assert said == {
        "ours": ["anyserve.serve", "0.0.fake"], "get": [[1, 2.5, 3], 4, 5.5], "wait": [True, True], "wait_ours": 1, "wait_theirs": 1,
        "wait_both": 2, "list": ["SERVE_REPLICA::default#Model#Model-0"], "api": True, "killed": [True, 9], "cancelled": True,
        "error": [True, "ValueError: negative"], "RayActorError": [True, "text"], "ActorDiedError": [True, "text"],
        "ActorUnavailableError": [True, "text"], "RayError": [True, "text"], "initialized": [False, 0],
    }  # fmt: skip


def test_lists_of_both(world):
    out = run(world, """
import ray
from ray import serve
from ray.util.state import list_actors
serve.run(serve.deployment(name="f")(lambda: 1).bind(), route_prefix=None)
print([a["name"] for a in list_actors()])
ray.init()
print([a["name"] for a in list_actors()], len(list_actors(limit=1)))
serve.shutdown()
""", env=with_fake(world))  # fmt: skip
    assert out.splitlines() == ["['SERVE_REPLICA::default#f#f-0']", "['SERVE_REPLICA::default#f#f-0', 'theirs'] 1"]


def test_ray_that_was_imported_before(world):
    out = run(world, """
import ray, ray.util.state
from anyserve.serve import as_ray
as_ray.install()
from ray import serve
print(serve.__name__, hasattr(ray.get, "_anyserve_patched"), hasattr(ray.util.state.list_actors, "_anyserve_patched"), hasattr(ray.init, "_anyserve_patched"))
""", before=(), env=with_fake(world))  # fmt: skip
    assert out == "anyserve.serve True True False"


def test_a_folder_that_is_called_ray_is_no_ray(world):
    (world.folder / "ray").mkdir()
    assert run(world, "import ray\nprint(ray.__name__)") == "anyserve.serve.as_ray.ray"


# --- the command serve ---


def test_command_serve(world):
    world.drivers.append(Driver(world, *AS_RAY, "serve", "--help"))
    assert "run" in world.drivers[-1].end()


def test_a_file_that_is_called_serve_is_a_program(world):
    assert run(world, "import ray\nprint(ray.__name__)", name="serve") == "anyserve.serve.as_ray.ray"
    world.drivers.append(Driver(world, *AS_RAY, "serve"))
    assert world.drivers[-1].end() == "anyserve.serve.as_ray.ray"


def test_serve_deploy(world):
    """To a server that runs without: the application has it."""
    world.write("code/app_of_ray.py", """
import ray
from ray import serve

@serve.deployment
def name(x):
    return [ray.__name__, x]

app = name.bind()
""")  # fmt: skip
    world.write("code/config.yaml", f"applications:\n- import_path: app_of_ray:app\n  working_dir: {world.folder}/code\n  env: {{COLOUR: red}}\n")
    world.run("from anyserve import serve\nserve.start(detached=True)")
    try:
        world.drivers.append(Driver(world, *AS_RAY, "serve", "deploy", "code/config.yaml"))
        world.drivers[-1].end()
        out = world.run("""
import time
from anyserve import serve
until = time.monotonic() + 60
while serve.status().applications["default"].status != "RUNNING":
    assert time.monotonic() < until, serve.status()
    time.sleep(0.05)
print(serve.get_app_handle("default").remote(5).result())
""")
        assert out == "['anyserve.serve.as_ray.ray', 5]"
    finally:
        world.run("from anyserve import serve\nserve.shutdown()")


def test_what_actors_and_tasks_print(world):
    """It has their names before it, and an error that they raise is not logged: whoever calls gets it."""
    driver = start(world, """
import ray

@ray.remote
class Speaks:
    def speak(self):
        print("of an actor", flush=True)
        raise ValueError("quietly")
    def check_health(self):
        return "an ordinary method"

@ray.remote
def speak():
    print("of a task", flush=True)

a = Speaks.remote()
try:
    ray.get(a.speak.remote())
except ValueError:
    print("raised")
ray.get(speak.remote())
print(ray.get(a.check_health.remote()))
""")  # fmt: skip
    assert driver.end().splitlines() == ["raised", "an ordinary method"]
    assert "(Speaks) of an actor" in driver.err and "(TaskHost) of a task" in driver.err
    assert "quietly" not in driver.err


def test_the_child_of_a_fork_does_not_end_the_actors_of_its_parent(world):
    out = run(world, COUNTER + """
a = Counter.remote()
print(ray.get(a.add.remote()), flush=True)
pid = os.fork()
if pid == 0:
    del a
    sys.stdout.flush()
    os._exit(0)
os.waitpid(pid, 0)
print(ray.get(a.add.remote()))
""")  # fmt: skip
    assert out.splitlines() == ["1", "2"]
