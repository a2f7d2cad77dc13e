"""Calls from programs: a handle of what was run, of another program's application, from a notebook; runs under load."""

import os
import signal

import pytest
from driver_world import World
from test_lifetime import Notebook

from support import wait

pytestmark = pytest.mark.core

PID = """
import os, sys, threading, time
from anyserve import serve

@serve.deployment(num_replicas=2, max_ongoing_requests=4, max_queued_requests=1000)
class Who:
    async def __call__(self, x):
        return os.getpid(), x

    def sync(self, x):
        return -x
"""


@pytest.fixture
def world():
    w = World()
    yield w
    w.close()


def test_what_was_run_is_called(world):
    out = world.run("""
from anyserve import serve

@serve.deployment
class Child:
    def __init__(self, n):
        self.n = n

    def plus(self, x):
        return self.n + x

@serve.deployment
class Parent:
    def __init__(self, child):
        self.child = child

    async def __call__(self, x):
        return 10 * await self.child.plus.remote(x)

handle = serve.run(Parent.bind(Child.bind(3)))
print(handle.remote(4).result(), serve.get_app_handle("default").remote(1).result(),
      serve.get_deployment_handle("Child", "default").plus.remote(5).result())
""")
    assert out == "70 40 8"


def test_a_process_that_a_replica_forks_calls(world):
    out = world.run("""
import os
from anyserve import serve

@serve.deployment
class Child:
    def plus(self, x):
        return x + 1

@serve.deployment
class Parent:
    def __init__(self, child):
        self.child = child

    def __call__(self, x):
        before = self.child.plus.remote(x).result()
        r, w = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(w, b"%d" % self.child.plus.remote(before).result())
            finally:
                os._exit(0)
        os.close(w)
        with open(r) as f:
            in_fork = f.read()
        os.waitpid(pid, 0)
        return before, in_fork, self.child.plus.remote(9).result()

handle = serve.run(Parent.bind(Child.bind()))
print(handle.remote(4).result())
""")
    assert out == "(5, '6', 10)"


def test_two_programs_call_each_others_applications(world):
    first = world.start(PID + """
mine = serve.run(Who.bind(), name="one", route_prefix="/one")
print("up", flush=True)
input()
print([serve.get_app_handle("two").sync.remote(i).result() for i in range(3)], mine.sync.remote(9).result(), flush=True)
input()
""")
    first.wait_for("up")
    second = world.start(PID + """
serve.run(Who.bind(), name="two", route_prefix="/two")
print("up", flush=True)
print([serve.get_app_handle("one").sync.remote(i).result() for i in range(3)], flush=True)
input()
""", name="second.py")
    second.wait_for("[0, -1, -2]")
    first.tell()
    first.wait_for("[0, -1, -2] -9")
    second.tell()
    second.end()
    first.tell()
    first.end()


def test_the_same_program_again_under_load_loses_no_request(world):
    """Each run makes new replicas, and no call fails, of the program and of another one."""
    program = PID + """
handle = serve.run(Who.bind())
print("up", flush=True)
for line in sys.stdin:
    break
"""
    first = world.start("import os\nos.environ['LOAD'] = '1'\n" + PID + """
handle = serve.run(Who.bind())
stop, failed, seen, count = threading.Event(), [], [], [0]

def load(sync):
    while not stop.is_set():
        try:
            if sync:
                assert handle.sync.remote(5).result(timeout_s=20) == -5
            else:
                pid, _ = handle.remote(7).result(timeout_s=20)
                if not seen or seen[-1] != pid:
                    seen.append(pid)
            count[0] += 1
        except BaseException as e:
            failed.append(repr(e))
            return
        time.sleep(0.01)  # a few hundred calls each second

threads = [threading.Thread(target=load, args=(i % 2 == 0,)) for i in range(4)]
for t in threads:
    t.start()
print("up", flush=True)
input()
stop.set()
for t in threads:
    t.join()
print("failed", failed, flush=True)
print("replicas", len(set(seen)) >= 6, count[0] > 50, flush=True)
""")
    first.wait_for("up")
    for _ in range(2):
        again = world.start(program, name="again.py")
        again.wait_for("up")
        again.tell()
        again.end()
    first.tell()
    first.wait_for("failed []")
    first.wait_for("replicas True True")
    first.end()


def test_cells_of_a_notebook_call_with_and_without_await(world):
    notebook = Notebook(world)
    notebook.cell(PID)
    assert notebook.cell("handle = serve.run(Who.bind())") == []
    assert notebook.cell("handle.sync.remote(4).result()") == ["value -4"]
    assert notebook.cell("async def call():\n    return await handle.sync.remote(2)\ncall()") == ["value -2"]
    # a function of a cell that another cell has changed
    notebook.cell("@serve.deployment\nclass Who:\n    def sync(self, x):\n        return 100 + x")
    assert notebook.cell("handle = serve.run(Who.bind())") == []
    assert notebook.cell("async def call():\n    return await handle.sync.remote(2)\ncall()") == ["value 102"]


def test_a_replica_that_dies_is_replaced_and_the_handle_goes_on(world):
    out = world.run(PID + """
handle = serve.run(Who.options(num_replicas=1).bind())
pid, _ = handle.remote(1).result()
os.kill(pid, 9)
while True:  # calls that had started fail, those that had not are sent again
    try:
        other, _ = handle.remote(1).result(timeout_s=20)
        break
    except Exception as e:
        print(type(e).__name__)
print(other != pid)
""")
    assert out.splitlines()[-1] == "True"


def test_calls_after_shutdown_say_so(world):
    out = world.run(PID + """
handle = serve.run(Who.bind())
print(handle.sync.remote(1).result())
serve.shutdown()
handle = serve.run(Who.bind())
print(handle.sync.remote(2).result())
""")
    assert out.splitlines() == ["-1", "-2"]


def test_a_killed_program_ends_what_it_has_called(world):
    """The calls of a dead driver are cancelled; the server, which is another program's, goes on."""
    first = world.start("""
import asyncio
from anyserve import serve

@serve.deployment(max_ongoing_requests=1)
class Slow:
    async def __call__(self, path):
        try:
            open(path, "w").close()
            await asyncio.Event().wait()
        finally:
            open(path + ".cancelled", "w").close()

    async def quick(self):
        return "quick"

handle = serve.run(Slow.bind(), name="slow")
print("up", flush=True)
input()
print(handle.quick.remote().result(), flush=True)
""")
    first.wait_for("up")
    path = world.folder / "begun"
    second = world.start(f"from anyserve import serve\nserve.get_app_handle('slow').remote({str(path)!r}).result()", name="b.py")
    wait.until(path.exists, lambda: second.said)
    os.kill(second.process.pid, signal.SIGKILL)
    second.process.wait()
    wait.until((world.folder / "begun.cancelled").exists, lambda: first.said)
    first.tell()
    first.wait_for("quick")
    first.end()
