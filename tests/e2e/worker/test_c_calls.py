"""Deployments in C that call each other: A and B have one slot each, and call each other in a circle; what they hold when
they wait, are cancelled, or die. And examples/c-worker/caller.c, which calls Python."""

import json
import re

import grpc
import pytest

from support import paths, wait
from support.deployments import deployment, healthy
from support.load import Load
from support.process import procs
from support.protocol import oip

pytestmark = pytest.mark.core

CALLING = paths.BUILD / "tests/workers/calling"
QUICK = ("--update-min-ready", "30ms", "--restart-backoff", "10ms")


def spec(threads, replicas, env=None, **more):
    def app(name, other):
        return {"name": name.lower(), "env": env or {},
                "command": [str(CALLING), name, str(threads), other.lower(), other], "deployments": [{"name": name, "num_replicas": replicas, **more}]}
    return {"applications": [app("A", "B"), app("B", "A")]}


def start(serve, folder, *options, threads=1, replicas=1, **more):
    (folder / "anyserve.yaml").write_text(json.dumps(spec(threads, replicas, **more)))
    server = serve(folder / "anyserve.yaml", "--state-dir", folder / "state", *QUICK, *options, verb="start")
    server.files = folder
    return server


@pytest.fixture(scope="module")
def server(serve_module, tmp_path_factory):
    return start(serve_module, tmp_path_factory.mktemp("calls"))


def ask(client, text, at="A"):
    return said(client.infer(f"{at}.in", {"ask": oip.bytes_array([text.encode()])}))


def said(answer):
    return answer["said"].tobytes().decode()


def begin(client, text, at="A"):
    return client.begin(f"{at}.in", {"ask": oip.bytes_array([text.encode()])})


def refused(client, text, at="A"):
    return client.refused(f"{at}.in", {"ask": oip.bytes_array([text.encode()])})


def test_along_a_circle_with_one_slot_each(client):
    assert ask(client, "trail 0") == "A"
    assert ask(client, "trail 1") == "A>B"
    assert ask(client, "trail 5") == "A>B>A>B>A>B"
    assert ask(client, "trail 4", "B") == "B>A>B>A>B"


def test_many_requests_enter_at_both_ends(client):
    calls = [(i, begin(client, f"trail {i % 5}", "AB"[i % 2])) for i in range(64)]
    for i, call in calls:
        assert said(oip.Answer(call.result())) == ">".join("AB"[(i + k) % 2] for k in range(i % 5 + 1))


def test_a_tree_that_is_too_deep(client):
    error = refused(client, "trail 40")
    assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "16 deep" in error.details()
    assert ask(client, "trail 1") == "A>B"


def test_a_stream_between_them(client):
    assert ask(client, "sum 5000") == str(sum(range(5000)))
    assert ask(client, "sum 0") == "0"


def test_more_calls_than_the_window(client):
    assert ask(client, "many 3000") == "3000"
    assert ask(client, "forget 3000") == "3000"
    assert ask(client, "trail 1") == "A>B"


def test_a_cancel_reaches_the_last_one(server, client):
    call = begin(client, "hold")
    wait.until(lambda: executing(server, "B") == 1, lambda: deployment(server, "B", "b"))
    seen = len(server.log.lines)
    call.cancel()
    server.log.wait("B: cancelled", seen)
    wait.until(lambda: executing(server, "A") == executing(server, "B") == 0, lambda: deployment(server, "B", "b"))


def executing(server, name):
    (found,) = [d for d in server.status()["deployments"] if name in (d["name"], d.get("deployment"))]
    return found["ongoing"] + found["beyond"]


def test_a_callee_dies(serve, connect, tmp_path):
    server = start(serve, tmp_path, env={"ONCE": "1"})
    client = connect(server)
    told = ask(client, "next-die")
    assert re.match(r"14 1 ", told), told  # UNAVAILABLE, and it may have run
    healthy(server, "B", 1, "b")
    assert ask(client, "trail 1") == "A>B"


def test_killed_callees_under_load(serve, tmp_path):
    server = start(serve, tmp_path, threads=2, replicas=2)

    def pids(name):
        return [r["pid"] for r in deployment(server, name, name.lower())["replicas"]]

    with Load(server.address, lambda client, n: ask(client, f"trail {n % 3}"), 4) as load:
        for name in "BAB":
            load.wait_more(50)
            killed = pids(name)[0]
            procs.kill(killed)
            wait.until(lambda: killed not in pids(name), "its death is noticed")
            healthy(server, name, 2, name.lower())
        load.wait_more(50)
    assert set(load.outcomes) == {"OK"}, load.outcomes
