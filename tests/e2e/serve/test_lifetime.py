"""A server that a program has started ends with it, however that ends; Ctrl-C, notebooks, forks, interpreters."""

import os
import pty
import re
import select
import shutil
import signal
import sys
import venv

import pytest
from driver_world import World

from support import paths, wait
from support.process import procs

pytestmark = pytest.mark.core

APP = """
import os, signal, sys
from anyserve import serve

@serve.deployment
class Model:
    def __call__(self, x=1):
        return x + 1
"""


@pytest.fixture
def world():
    w = World()
    yield w
    w.close()


@pytest.mark.parametrize("how", [
    "os.kill(os.getpid(), signal.SIGKILL)", "os._exit(3)", "os.abort()", "sys.exit(4)", "raise ValueError('x')",
    "os.kill(os.getpid(), signal.SIGTERM)",
])  # fmt: skip
def test_no_process_is_left(world, how):
    driver = world.start(APP + f"serve.run(Model.bind())\nprint('up', flush=True)\n{how}")
    driver.wait_for("up")
    driver.process.wait(wait.SECONDS)
    assert driver.process.returncode != 0
    world.wait_gone()


def test_a_call_that_is_made_at_the_end_ends_no_process_with_a_signal(world):
    driver = world.start(APP + """
@serve.deployment
class Last:
    def __init__(self, model):
        self.model = model

    def __call__(self, x):
        return x

    def __del__(self):
        print("told", self.model.remote(1), flush=True)

print(serve.run(Last.bind(Model.bind()), route_prefix=None).remote(1).result())
""")
    driver.process.wait(wait.SECONDS)
    world.wait_gone()
    driver.end(0)
    assert "told DeploymentResponse" in driver.said and "Fatal Python error" not in driver.said


def test_nor_when_it_is_killed_while_the_server_starts(world):
    driver = world.start(APP + """
import threading
from anyserve.serve._driver import server as _server
wait_ready = _server._Log.wait_ready
def kill(self):
    os.kill(os.getpid(), signal.SIGKILL)
_server._Log.wait_ready = kill
serve.run(Model.bind())
""")
    driver.process.wait(wait.SECONDS)
    world.wait_gone()


def test_ctrl_c_while_it_blocks(world):
    """As from a terminal: to the whole group. The server is no part of it."""
    driver = world.start(APP + """
print(os.getpid(), flush=True)
try:
    serve.run(Model.bind(), blocking=True)
except KeyboardInterrupt:
    print("interrupted", len(serve.status().applications), flush=True)
""")
    driver.wait_for("")
    wait.until(lambda: "Ctrl-C ends" in driver.err, lambda: driver.said)
    os.killpg(driver.process.pid, signal.SIGINT)
    assert driver.end().splitlines()[1:] == ["interrupted 1"]  # it is the program that ends the server
    assert "Got KeyboardInterrupt, exiting..." in driver.err
    assert world.is_gone()


def test_ctrl_c_while_replicas_start(world):
    driver = world.start(APP + """
@serve.deployment
class Slow:
    def __init__(self):
        print("constructing", flush=True)
        import time
        time.sleep(1000)

    def __call__(self):
        pass

serve.run(Slow.bind())
""")
    wait.until(lambda: "constructing" in driver.err, lambda: driver.said)
    os.killpg(driver.process.pid, signal.SIGINT)
    driver.process.wait(wait.SECONDS)
    assert driver.process.returncode != 0
    world.wait_gone()


def test_a_child_of_the_program_does_not_end_its_server(world):
    out = world.run(APP + """
serve.run(Model.bind())
child = os.fork()
if child == 0:
    sys.exit(0)  # with the atexit functions
os.waitpid(child, 0)
print(len(serve.status().applications))
""")
    assert out == "1"


def test_a_child_that_stays_does_not_keep_the_server(world):
    driver = world.start(APP + """
serve.run(Model.bind())
child = os.fork()
if child == 0:
    os.close(1)
    os.close(2)
    sys.stdin.read()
    os._exit(0)
print(child, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
""")
    child = int(driver.wait_for(""))
    driver.process.wait(wait.SECONDS)
    wait.until(lambda: world.processes() == [child], lambda: f"{world.processes()} but {child}")
    os.kill(child, signal.SIGKILL)


def test_a_server_that_died_is_started_again(world):
    out = world.run(APP + """
from anyserve.serve._driver.current import driver
serve.run(Model.bind())
pid = driver.server.supervisor()
os.kill(pid, signal.SIGKILL)
driver.server.process.wait()
print(serve.status().applications)
serve.run(Model.bind())
print(list(serve.status().applications), pid != driver.server.supervisor())
""")
    assert out.splitlines() == ["{}", "['default'] True"]


NAMES = APP + """
import time
from anyserve.serve._driver.current import driver
serve.start(detached=True)
handle = serve.run(Model.options(name="m" * 128).bind(), name="a" * 127, route_prefix=None)
print(handle.remote().result())
for names in ("m", "a" * 128), ("m" * 129, "a"):
    try:
        serve.run(Model.options(name=names[0]).bind(), name=names[1], route_prefix=None)
    except Exception as e:
        print(type(e).__name__, "127" in str(e), "128" in str(e))
server = driver.need()
os.kill(server.supervisor(), signal.SIGTERM)
while os.path.exists(os.path.join(server.folder, "lock")):
    time.sleep(0.01)
driver.forget()
serve.start(detached=True)
while not any(a.status == "RUNNING" for a in serve.status().applications.values()):
    time.sleep(0.01)
print([(len(a), *map(len, status.deployments)) for a, status in serve.status().applications.items()])
print(serve.get_app_handle("a" * 127).remote(2).result())
serve.shutdown()
"""


def test_the_longest_names_are_read_again_from_the_state(world):
    """And names of one byte more are refused before anything is stored."""
    out = world.run(NAMES).splitlines()
    assert out == ["2", "RuntimeError True False", "ValueError False True", "[(127, 128)]", "3"]


# --- notebooks ---

KERNEL = """
import ast, asyncio, signal, sys, types
# What a notebook's kernel does: it runs an event loop, and cells as the module __main__, whose last expression is printed.
main = sys.modules["__main__"] = types.ModuleType("__main__")
ipython = sys.modules["IPython"] = types.ModuleType("IPython")
ipython.get_ipython = lambda: main
async def kernel():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in place of asyncio's, which would end the kernel
    for line in sys.stdin:
        source = line.encode().decode("unicode_escape")
        tree = ast.parse(source)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        try:
            exec(compile(tree, "<cell>", "exec"), main.__dict__)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), main.__dict__)
                print("value", await value if asyncio.iscoroutine(value) else value, flush=True)
        except BaseException as e:
            print("raised", type(e).__name__, e, flush=True)
        print("done", flush=True)
asyncio.run(kernel())
"""


class Notebook:
    def __init__(self, world):
        self.driver = world.start(KERNEL, name="kernel.py")
        self.cells = 0

    def cell(self, source):
        """Runs a cell; what it has printed."""
        before = len(self.driver.lines["out"])
        self.driver.tell(source.encode("unicode_escape").decode())
        self.cells += 1

        def done():
            assert self.driver.process.poll() is None, self.driver.said
            return self.driver.lines["out"].count("done") >= self.cells

        wait.until(done, lambda: self.driver.said)
        return [line for line in self.driver.lines["out"][before:] if line != "done"]


ENDED = APP + """
import time
from anyserve.serve._calls.native_transport import GIVE_UP
from anyserve.serve._driver.current import driver
handle = serve.run(Model.bind())
assert handle.remote().result() == 2
server = driver.server
pid = server.supervisor()
os.kill(pid, signal.%s)
server.process.wait()
for i in range(3):
    try:
        handle.remote().result(timeout_s=GIVE_UP - 5)
    except Exception as e:
        print(type(e).__name__, e, flush=True)
"""


@pytest.mark.parametrize("how", ["SIGTERM", "SIGKILL"])
def test_calls_after_the_server_has_ended_fail_at_once(world, how):
    """Not only when they have waited for another one (GIVE_UP): that would be TimeoutError here."""
    said = world.run(ENDED % how).splitlines()
    if how == "SIGKILL":
        shutil.rmtree(world.runtime)  # it left its files
    assert len(said) == 3, said
    # the dispatcher of a server that was killed may have lived long enough to take the first one
    assert "has ended" in said[0] or "was lost while the call was open" in said[0], said
    assert all(re.match(r"ActorUnavailableError.* the server of \S+ has ended", line) for line in said[1:]), said


def test_run_works_in_a_cell_although_a_loop_runs(world):
    notebook = Notebook(world)
    assert notebook.cell(APP) == []
    assert notebook.cell("handle = serve.run(Model.bind())\nstr(handle)") == ["value DeploymentHandle(deployment='Model')"]
    assert notebook.cell("serve.status().applications['default'].status.value") == ["value RUNNING"]
    # a class that a later cell has changed
    notebook.cell("@serve.deployment\nclass Model:\n    def __init__(self):\n        raise ValueError('second')")
    (line, *_) = notebook.cell("serve.run(Model.bind())")
    assert line.startswith("raised RuntimeError Deploying application default failed: Failed to update the deployments ['Model'].")
    notebook.driver.process.kill()  # the kernel crashes
    notebook.driver.process.wait()
    world.wait_gone()


def test_a_kernel_that_is_interrupted_keeps_its_server(world):
    notebook = Notebook(world)
    notebook.cell(APP + "import threading\nserve.run(Model.bind())")
    notebook.driver.tell("print('waits', flush=True); threading.Event().wait(1000)")
    notebook.driver.wait_for("waits")
    os.kill(notebook.driver.process.pid, signal.SIGINT)
    notebook.cells += 1
    wait.until(lambda: notebook.driver.lines["out"].count("done") >= notebook.cells, lambda: notebook.driver.said)
    assert notebook.cell("serve.status().applications['default'].status.value") == ["value RUNNING"]


# --- interpreters ---


def test_replicas_have_the_interpreter_of_the_program(world):
    """That of its virtual environment, although the server was started by another one."""
    first = world.start(APP + "serve.run(Model.bind(), name='first')\nprint('up', flush=True)\ninput()")
    first.wait_for("up")
    folder = world.folder / "env"
    venv.create(folder, symlinks=True, with_pip=False, system_site_packages=True)
    second = world.start("""
import sys
from anyserve import serve

@serve.deployment
class Who:
    def __init__(self):
        import sys
        print("replica of", sys.prefix, flush=True)

    def __call__(self):
        pass

serve.run(Who.bind(), name="second", route_prefix=None)
""", name="second.py", python=folder / "bin/python", env={"PYTHONPATH": os.pathsep.join(
        [str(paths.SDK), *[p for p in sys.path if p.endswith("site-packages")]])})  # fmt: skip
    second.end()
    wait.until(lambda: f"replica of {folder}" in first.err, lambda: first.said)
    first.tell()
    first.end()


def test_an_interpreter_that_cannot_load_the_code_is_named(world):
    """Before anything that serves is touched."""
    out = world.run(APP + """
from anyserve.serve._driver import code as _code
serve.run(Model.bind())
_code.python_version = lambda: "3.4"
try:
    serve.run(Model.bind())
except RuntimeError as e:
    print(e)
app = serve.status().applications["default"]
print(app.status.value, app.deployments["Model"].status.value)
""")
    assert "Python 3.4" in out and "Python %d.%d" % sys.version_info[:2] in out and sys.executable in out
    assert out.splitlines()[-1] == "RUNNING HEALTHY"


def read_terminal(fd, until=None):
    """What is printed there, until it has these bytes, or until nobody has the terminal any more."""
    text = b""
    while until is None or until not in text:
        ready, _, _ = select.select([fd], [], [], 60)
        assert ready, text
        try:
            part = os.read(fd, 4096)
        except OSError:  # nobody has it
            break
        if not part:
            break
        text += part
    return text


def test_the_terminal_of_the_program_is_its_own(world):
    """Ctrl-C in a real terminal: the program decides, and nothing is left."""
    # not input(): a Ctrl-C that comes just before its read() would not end it
    path = world.write("script.py", APP + """
import time
serve.run(Model.bind())
print("up", flush=True)
while True:
    time.sleep(0.01)
""")
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(world.folder)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # `&` in a script: it would be ignored
        os.execve(sys.executable, [sys.executable, str(path)], world.env)
    try:
        text = read_terminal(fd, b"up\r\n")
        os.write(fd, b"\x03")
        text += read_terminal(fd)
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(fd)
    assert b"KeyboardInterrupt" in text, text
    assert os.waitstatus_to_exitcode(status) != 0
    assert world.is_gone()
