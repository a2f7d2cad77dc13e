"""The examples of state that routers share: a central store, and statistics that are broadcast to all."""

import os
import subprocess
import sys

import pytest

from support import paths, wait

SLOW = ("--router-timeout", "5s")  # a machine under load may be late


@pytest.mark.parametrize("name", ["router_store", "router_broadcast"])
def test_a_prompt_goes_to_the_replica_that_has_its_beginning(serve, tmp_path, name):
    server = serve(None, *SLOW, "--state-dir", tmp_path / "state", verb="start", cwd=tmp_path)
    environ = {**os.environ, "PYTHONPATH": str(paths.SDK), "ANYSERVE_PORT": str(server.port), "ANYSERVE_RUNTIME_DIR": server.runtime}
    done = subprocess.run([sys.executable, paths.ROOT / "examples/serve" / (name + ".py")], env=environ, cwd=tmp_path,
                          capture_output=True, text=True, timeout=4 * wait.SECONDS)
    server.forget_fds()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["first: 0 of 10 beginnings were known", "second: 10 of 10 beginnings were known",
                                        "third: 10 of 10 beginnings were known"], server.log.text()
