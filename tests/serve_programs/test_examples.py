"""The programs of examples/serve print what they say; each runs with a server of its own, and as an application elsewhere."""

import hashlib
import os
import subprocess
import sys

import pytest
from support import paths, ports

LONGEST = 120  # seconds
ELSEWHERE = {"router_store", "router_broadcast"}  # tests/e2e/routers/test_router_examples.py
EXAMPLES = {
    "chat": ["anna has come", "bob has come", "bob: hello", "anna: hello, bob", "bob has gone"],
    "iris": ["['setosa', 'virginica', 'versicolor']"],
    "ensemble": ["+0.44 good and  fast!", "-0.22 bad and slow", "+0.33 great"],
    "tokens": ["ALL WORK AND NO PLAY ALL WORK", "FROM AN EVENT LOOP "],
    "tenants": ["anna: 40", "bob: 30", "anna: 40", "carla: 50", "anna: 40", "loaded: anna bob carla"],
    "shards": ["ranks and words: [0, 4] [1, 4] [2, 3] [3, 3]", "found: beta eta theta zeta"],
    "http_api": ['{"total":10.0}', '{"total":9.0}'],
    "http_upload": ['{"size":20000000,"sha256":"%s"}' % hashlib.sha256(bytes(20_000_000)).hexdigest()[:16], "20000000"],
    "http_events": ["text/event-stream; charset=utf-8", "data: ONE", "data: TWO", "data: THREE"],
    "http_auth": ['"anna"', "401 a key is needed Bearer"],
}


def run(tmp_path, *command):
    environ = {**os.environ, "PYTHONPATH": str(paths.SDK), "ANYSERVE_PORT": str(ports.free()),
               "ANYSERVE_RUNTIME_DIR": str(tmp_path / "run"), "ANYSERVE_STATE_DIR": str(tmp_path / "state")}  # fmt: skip
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, timeout=LONGEST, env=environ, cwd=tmp_path,
                          check=False)  # fmt: skip


def test_each_example_is_here():
    assert {p.stem for p in (paths.ROOT / "examples/serve").glob("*.py")} == set(EXAMPLES) | ELSEWHERE


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, tmp_path):
    if name == "iris":
        pytest.importorskip("sklearn")
    ran = run(tmp_path, paths.ROOT / "examples/serve" / (name + ".py"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == EXAMPLES[name], ran.stderr


LOCAL = """
import sys
sys.path.insert(0, {folder!r})
from anyserve.serve.local_testing import run
from ensemble import app
print(round(run(app).remote("good and fast!").result(), 2))
"""


def test_an_example_in_local_testing_mode(tmp_path):
    ran = run(tmp_path, "-c", LOCAL.format(folder=str(paths.ROOT / "examples/serve")))
    assert ran.stdout == "0.44\n", ran.stderr
