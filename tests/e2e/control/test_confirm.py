"""The answer to a change waits until the dispatcher knows what has changed: a client may call as soon as it is answered."""

import contextlib
import json
import os
import select
import signal
import time

import pytest
from support import paths, wait
from support.deployments import APPLICATIONS, api
from support.process import procs
from support.protocol import http

pytestmark = pytest.mark.core
PATIENT = ("--heartbeat-timeout", "off")  # the dispatcher is stopped for as long as a test wants

SERVED = """
import sys
sys.path.insert(0, %r)
from anyserve import serve

@serve.deployment
class Hello:
    async def __call__(self, request):
        return "hello"

app = Hello.bind()
"""


@pytest.fixture
def hello(tmp_path):
    """The keys of an application that answers HTTP."""
    (tmp_path / "confirmed.py").write_text(SERVED % str(paths.SDK))
    return lambda prefix: {"import_path": "confirmed:app", "working_dir": str(tmp_path), "route_prefix": prefix}


@pytest.fixture
def server_of(start):
    def server_of(*args):
        server = start(*args)
        server.forget_fds()  # there will be more replicas, or fewer
        return server
    return server_of


class Change:
    """A request to the control API that is not answered yet."""

    def __init__(self, server, method, path, body=None):
        self.conn = http.Unix(os.path.join(server.folder_of_port(), "control.sock"))
        self.conn.request(method, path, None if body is None else json.dumps(body))

    def is_answered(self):
        return bool(select.select([self.conn.sock], [], [], 0)[0])

    def answer(self):
        with contextlib.closing(self.conn):
            r = self.conn.getresponse()
            return r.status, json.loads(r.read())


@contextlib.contextmanager
def stopped(server):
    """Its dispatcher hears nothing."""
    pid = server.dispatcher
    procs.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        procs.kill(pid, signal.SIGCONT)


def generation(server):
    return api(server, "GET", "/api/serve/history")[1]["generations"][0]["generation"]


def get(server, path, version="h1"):
    with contextlib.closing(http.CLIENTS[version](server.host, server.port)) as c:
        return c.request("GET", path)


def changes(server, n, change):
    """When it returns, the controller has made generation n of the change, and has answered whom it answers at once."""
    wait.until(lambda: generation(server) >= n, lambda: f"generation {n}; answered: {change.is_answered() and change.answer()}")


@pytest.mark.parametrize("what", ["application", "file", "delete"])
def test_a_change_waits_for_the_dispatcher(server_of, hello, what):
    server = server_of({"applications": [{"name": "first", **hello("/first")}]}, *PATIENT)
    server.wait_all_ready()
    assert server.log.find(r"^  application first: Hello × 1, HTTP requests below /first$")
    before = generation(server)
    with stopped(server):
        if what == "application":
            change = Change(server, "PUT", APPLICATIONS + "second", hello("/second"))
        elif what == "file":
            change = Change(server, "PUT", APPLICATIONS, {"applications": [{"name": "second", **hello("/second")}]})
        else:
            change = Change(server, "DELETE", APPLICATIONS + "first")
        changes(server, before + 1, change)
        assert not change.is_answered()
    assert change.answer()[1]["generation"] == before + 1
    if what == "delete":
        assert get(server, "/first").status == 404
    else:
        got = get(server, "/second")  # waits for the first replica
        assert (got.status, got.data) == (200, b"hello")


def test_no_call_comes_too_early(server_of, hello):
    """With several loops each has the routes when the change is answered."""
    server = server_of(None, "--threads", "3", "--max-starting", "1")
    for n in range(3):
        assert api(server, "PUT", APPLICATIONS + f"a{n}", hello(f"/a{n}"))[0] == 200
        for version in ("h1", "h2", "h1"):
            assert list(get(server, "/-/routes", version).json()) == [f"/a{k}" for k in range(n + 1)]
    assert [get(server, f"/a{n}").status for n in range(3)] == [200] * 3


def test_a_dispatcher_that_does_not_answer(server_of, hello):
    """The change is answered after the timeout, not before; it holds."""
    server = server_of(None, "--confirm-timeout", "300ms", *PATIENT)
    with stopped(server):
        began = time.monotonic()
        assert api(server, "PUT", APPLICATIONS + "late", hello("/late"))[0] == 200
        assert time.monotonic() - began >= 0.3
        server.log.wait(r"level=warn .*event=not_confirmed timeout_ms=300")
    wait.until(lambda: get(server, "/late").status == 200, server.log.text)


def test_a_dispatcher_that_dies_meanwhile(server_of, hello):
    """The next one is asked."""
    server = server_of(None, "--confirm-timeout", "1h", *PATIENT)
    former = server.dispatcher
    procs.kill(former, signal.SIGSTOP)
    change = Change(server, "PUT", APPLICATIONS + "a", hello("/a"))
    changes(server, 2, change)
    procs.kill(former)
    assert change.answer()[0] == 200
    assert get(server, "/a").status == 200


def test_a_client_that_leaves(server_of, hello):
    server = server_of(None, "--confirm-timeout", "1h", *PATIENT)
    with stopped(server):
        change = Change(server, "PUT", APPLICATIONS + "a", hello("/a"))
        changes(server, 2, change)
        change.conn.close()
        other = Change(server, "PUT", APPLICATIONS + "b", hello("/b"))
        changes(server, 3, other)
    assert other.answer()[0] == 200
    assert get(server, "/a").status == get(server, "/b").status == 200


def test_an_application_that_is_deleted_and_deployed_again(server_of, hello):
    server = server_of(None)
    for _ in range(3):
        assert api(server, "PUT", APPLICATIONS + "a", hello("/a"))[0] == 200
        assert get(server, "/a").status == 200
        assert api(server, "DELETE", APPLICATIONS + "a")[0] == 200
        assert get(server, "/a").status == 404
        wait.until(lambda: "a" not in api(server, "GET", APPLICATIONS)[1]["applications"], "it is gone")
