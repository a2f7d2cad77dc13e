"""`anyserve history`: the generations, what each has changed, by which command, and what became of it."""

import json
import re
import subprocess
import time

import pytest

from support import paths, wait
from support.deployments import failed, healthy, put, spec


def run(server, *args, code=0):
    done = subprocess.run([str(a) for a in (paths.BINARY, *args, "--runtime-dir", server.runtime)], capture_output=True,
                          text=True, timeout=wait.SECONDS, stdin=subprocess.DEVNULL)
    assert done.returncode == code, done
    return done.stdout


@pytest.fixture
def begin(start):
    """A server whose replicas come and go: how many descriptors it has then is another test's."""
    def begin(*args):
        server = start(*args)
        server.forget_fds()
        return server
    return begin


def generations(server):
    """Number → the entry, newest first."""
    return {g["generation"]: g for g in json.loads(run(server, "history", "--json"))["generations"]}


def states(server):
    return {n: g["state"] for n, g in generations(server).items()}


def changes(entry):
    return {f"{c['application']}/{c['deployment']}": (c["step"], c["keys"]) for c in entry["changes"]}


def test_what_was_changed_when_and_what_became_of_it(begin):
    before = time.time()
    server = begin(spec(version="1"))
    healthy(server)
    healthy(server, "side", 1, "extra")
    wait.until(lambda: states(server) == {1: "healthy"}, lambda: generations(server))
    assert changes(generations(server)[1]) == {"shop/main": ("added", ""), "extra/side": ("added", "")}
    put(server, spec(version="2", user_config={"top": 2}))
    healthy(server, generation=2)
    run(server, "scale", "main", "3")
    run(server, "rollback", "main")
    found = generations(server)
    assert list(found) == [4, 3, 2, 1] and [g["current"] for g in found.values()] == [True, False, False, False]
    assert [g["cause"] for g in found.values()][:3] == ["rollback main to generation 1", "scale main to 3", "deploy"]
    assert found[1]["cause"].startswith("start ")
    assert changes(found[2]) == {"shop/main": ("changed", "version,user_config")}
    assert changes(found[3]) == {"shop/main": ("scaled", "3")}
    assert changes(found[4]) == {"shop/main": ("changed", "version,user_config")}
    assert states(server) == {4: "healthy", 3: "rolled back", 2: "healthy", 1: "healthy"}
    times = [g["time_ms"] / 1000 for g in found.values()]
    assert times == sorted(times, reverse=True) and before - 1 <= times[-1] <= times[0] <= time.time() + 1
    text = run(server, "history").splitlines()
    assert text[0].split() == ["GENERATION", "WHEN", "STATE", "CHANGES", "COMMAND"]
    assert re.match(r"4 +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +current, healthy +shop/main: version,user_config +rollback main to "
                    r"generation 1$", text[1]), text
    assert re.match(r"3 .* rolled back +shop/main: scaled to 3 +scale main to 3$", text[2]), text


@pytest.mark.long
def test_an_update_that_failed_says_why(begin):
    server = begin(spec(version="1"))
    healthy(server)
    broken = spec(version="2")
    broken["applications"][0]["deployments"][0]["user_config"] = {"refuse": True}
    put(server, broken)
    failed(server)
    found = generations(server)
    assert states(server) == {3: "healthy", 2: "failed", 1: "healthy"}
    assert found[3]["cause"].startswith("update of shop/main failed, back to generation 1") and found[3]["current"]
    assert "this config is refused" in found[2]["message"]
    assert "this config is refused" in found[2]["changes"][0]["message"]
    lines = run(server, "history").splitlines()
    (at,) = (i for i, line in enumerate(lines) if re.match("2 .* failed ", line))
    assert re.match(r" +shop/main: .*this config is refused", lines[at + 1]), lines
    server.stop()
    server = begin(None)  # it is kept
    failed(server)
    wait.until(lambda: states(server) == {3: "healthy", 2: "failed", 1: "healthy"}, lambda: generations(server))


@pytest.mark.long
def test_what_nobody_has_reached_yet(begin):
    server = begin(spec(version="1"))
    healthy(server)
    server.expect_error("given up")
    for top in "hang", "more":
        slow = spec(version=top)
        slow["applications"][0]["deployments"][0]["env"] = {"SLOW_IMPORT": "600"}
        put(server, slow)
    assert states(server) == {3: "in progress", 2: "superseded", 1: "healthy"}
    assert "current, in progress" in run(server, "history")
    put(server, spec(version="1"))
    wait.until(lambda: states(server) == {4: "healthy", 3: "superseded", 2: "superseded", 1: "healthy"},
               lambda: generations(server))


CRASHES = """
import os, sys
from anyserve import AnyServe
if not any("--describe" in a for a in sys.orig_argv):
    print("no licence found", flush=True)
    os._exit(9)
app = AnyServe()

@app.model("m")
def m(request):
    return request.inputs
"""


def test_a_first_version_that_cannot_start_has_failed(begin, tmp_path):
    (tmp_path / "crashes.py").write_text(CRASHES)
    server = begin({"applications": [{"name": "shop", "import_path": "crashes.py", "working_dir": str(tmp_path)}]},
                   "--max-start-failures", "2")
    server.expect_error("given up")
    wait.until(lambda: states(server) == {1: "failed"}, lambda: generations(server))
    assert "no licence found" in generations(server)[1]["message"]
    assert "current, failed" in run(server, "history")


def test_of_run_before_and_after_the_first_change(serve):
    before = time.time()
    server = serve("echo.py")
    server.forget_fds()
    found = generations(server)
    assert list(found) == [1] and found[1]["cause"] == "run" and found[1]["current"]
    wait.until(lambda: states(server) == {1: "healthy"}, lambda: generations(server))
    assert changes(found[1]) == {"default/echo": ("added", "")}
    began = found[1]["time_ms"]
    assert before - 1 <= began / 1000 <= time.time() + 1
    run(server, "scale", "echo", "2")
    found = generations(server)
    assert states(server) == {2: "healthy", 1: "healthy"} and found[1]["time_ms"] == began
    assert changes(found[1]) == {"default/echo": ("added", "")} and changes(found[2]) == {"default/echo": ("scaled", "2")}


def test_a_removed_application(begin):
    server = begin(spec(version="1"))
    healthy(server)
    healthy(server, "side", 1, "extra")
    run(server, "delete", "extra")
    found = generations(server)
    assert changes(found[2]) == {"extra/side": ("removed", "")} and states(server), found
    assert states(server) == {2: "healthy", 1: "healthy"}, found
    assert re.search(r"extra/side: removed +delete extra$", run(server, "history").splitlines()[1])
