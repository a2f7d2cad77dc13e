"""`make chaos` in short, part four: the kernel ends a worker because memory is out. It alone dies, and it is said why."""

import pytest

import chaos
from support import paths, wait

from scenarios import memory  # noqa: E402, of tests/chaos

MODEL = paths.ROOT / "tests/chaos/apps/model.py"

GREEDY = """
import os
from anyserve import AnyServe
app = AnyServe()
@app.model("fine")
def fine(request):
    return request.inputs
held = []
while os.path.exists(os.environ["GREED"]):
    held.append(b"x" * (8 << 20))
"""


@pytest.fixture
def group():
    if paths.SANITIZED:
        pytest.skip("a sanitized dispatcher is larger than any worker")
    if memory.own_group() is None:
        pytest.skip("there is no memory control group (v1) that we may divide")
    group = memory.Group(memory.own_group(), memory.LIMIT)
    yield group
    group.remove()


def test_out_of_memory(group, serve, connect):
    with group:
        server = serve(MODEL, "--workers", "2", "--log-level", "warn")
    old = server.dispatcher
    with chaos.loaded(server, "http", "nap", rate=50) as load:
        (answer,) = memory.victims(server, 1)
    assert answer[0] == 503 and answer[1]["anyserve-may-have-executed"] == "1"
    assert not load.outcome.errors, load.outcome.examples()
    server.wait_all_ready()
    assert memory.all_are_reported(server, group) and server.dispatcher == old


def test_out_of_memory_before_ready_is_a_failure_of_its_own(group, serve, tmp_path):
    """Unlike another kill from outside it counts: a worker that never fits is given up."""
    greed = tmp_path / "greed"
    with group:
        server = serve("greedy.py", "--restart-backoff", "1ms", "--max-start-failures", "2", source=GREEDY,
                       env={"GREED": str(greed)})
    server.expect_error("worker_exit .*given up")
    greed.touch()
    chaos.rig.procs.kill(server.worker())
    wait.until(lambda: server.deployment()["down"], lambda: server.status(), 60)
    (process,) = server.status()["processes"]
    assert "the kernel was out of memory" in process["reason"]
    assert group.kills() >= 2 and memory.all_are_reported(server, group)
