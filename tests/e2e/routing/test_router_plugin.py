"""A router in C that the dispatcher loads: --router-plugin."""

import contextlib
import subprocess
from pathlib import Path

import pytest
from support import paths
from support.protocol import http

pytestmark = pytest.mark.core
EXAMPLE = Path(__file__).parents[3] / "examples/router_plugin"


@pytest.fixture(scope="session")
def plugin(tmp_path_factory):
    """The example, built by its own Makefile."""
    folder = tmp_path_factory.mktemp("plugin")
    for name in "Makefile", "prefix.c":
        (folder / name).write_bytes((EXAMPLE / name).read_bytes())
    subprocess.run(["make", "-C", folder, f"INCLUDE={EXAMPLE.parents[1] / 'include'}"], check=True, capture_output=True)
    return folder / "prefix.so"


def post(r, body):
    with contextlib.closing(http.CLIENTS["h1"](r.server.host, r.server.port)) as c:
        reply = c.request("POST", "/models", body=body)
    assert reply.status == 200, (reply.status, reply.body)
    return reply.json()


def test_equal_bodies_go_to_one_replica(routing, plugin):
    r = routing(4, server_options=("--router-plugin", f"models#Models={plugin}"))
    seen = {}
    for _ in range(5):
        for key in range(13):  # no multiple of the number of replicas
            seen.setdefault(key, set()).add(post(r, b"prefix %d" % key)["pid"])
    assert all(len(pids) == 1 for pids in seen.values()), seen
    assert len(set.union(*seen.values())) > 1
    assert r.get()["pid"]  # it has no body: the plugin has no choice, the policy decides
    assert r.router()["fallbacks"] >= 1, r.router()


def test_an_object_that_is_none_stops_the_start(server_command, tmp_path):
    wrong = tmp_path / "wrong.so"
    wrong.write_bytes(b"no object")
    done = server_command("run", "--router-plugin", f"a={wrong}")
    assert done.returncode == 78
    assert "--router-plugin" in done.stderr and str(wrong) in done.stderr


def test_a_list_that_is_wrong_is_named(server_command):
    done = server_command("run", "--router-plugin", "a=b.so,c")
    assert done.returncode == 2
    assert "'c' is not DEPLOYMENT=FILE" in done.stderr


@pytest.fixture
def server_command():
    def run(*args):
        return subprocess.run([paths.BUILD / "src/app/anyserve", *args], capture_output=True, text=True, timeout=60, check=False)
    return run
