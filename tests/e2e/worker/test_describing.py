"""get_replica_context() while the file is imported: also in the process that only describes what the file declares."""

import json
import os
import subprocess
import sys

import pytest

from support import paths, wait
from support.protocol.http import Unix

APP = """
import sys
import numpy as np
from anyserve import AnyServe, get_replica_context
app = AnyServe()
CONTEXT = get_replica_context()
print("at import:", CONTEXT.rank, "of", CONTEXT.world_size, CONTEXT.describing, file=sys.stderr, flush=True)
if not CONTEXT.describing:
    WEIGHTS = np.arange(8).reshape(CONTEXT.world_size, -1)[CONTEXT.rank]

@app.model("shard")
def shard():
    return {"rank": np.array([CONTEXT.rank]), "weights": WEIGHTS, "describing": np.array([CONTEXT.describing])}
"""
SPEC = {"applications": [{"name": "shop", "import_path": "sharded.py", "deployments": [{"name": "sharded", "num_replicas": 2}]}]}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sharded.py").write_text(APP)
    return tmp_path


def check(server, connect):
    wait.until(lambda: len(server.workers()) == 2, lambda: server.status())
    client, seen = connect(server), {}
    def both():
        got = client.infer("shard", {})
        assert not got["describing"][0]
        seen[int(got["rank"][0])] = got["weights"].tolist()
        return len(seen) == 2
    wait.until(both, lambda: f"answers of one replica only: {seen}")
    assert seen == {0: [0, 1, 2, 3], 1: [4, 5, 6, 7]}


def test_run(serve, connect, folder):
    server = serve("sharded.py", "--workers", "2", cwd=folder)
    server.log.wait("^at import: 0 of 1 True")  # no replica's line
    check(server, connect)
    server.log.wait(r"^\[sharded-1\] at import: 1 of 2 False")


def test_build(folder):
    p = subprocess.run([paths.BINARY, "build", "sharded.py", "--python", sys.executable], cwd=folder, capture_output=True,
                       text=True, env={**os.environ, "PYTHONPATH": str(paths.SDK)}, timeout=60)  # fmt: skip
    assert p.returncode == 0, p.stderr
    assert "sharded" in p.stdout and "at import: 0 of 1 True" in p.stderr


def test_start(serve, connect, folder):
    (folder / "anyserve.yaml").write_text(json.dumps(SPEC))
    server = serve(folder / "anyserve.yaml", "--state-dir", folder / "state", verb="start", cwd=folder)
    check(server, connect)


def test_deploy(serve, connect, folder):
    """To a server that runs already: there the controller describes it."""
    server = serve(None, "--state-dir", folder / "state", verb="start", cwd=folder)
    control = Unix(os.path.join(server.folder_of_port(), "control.sock"))
    try:
        control.request("PUT", "/api/serve/applications/", json.dumps(SPEC))
        answer = control.getresponse()
        assert answer.status == 200, answer.read()
    finally:
        control.close()
    check(server, connect)
    server.forget_fds()  # it has two replicas now


def test_a_process_of_ones_own_is_no_replica(folder):
    p = subprocess.run([sys.executable, "sharded.py"], cwd=folder, capture_output=True, text=True, timeout=60,
                       env={**os.environ, "PYTHONPATH": str(paths.SDK)})  # fmt: skip
    assert p.returncode == 1 and "this process is no replica" in p.stderr
