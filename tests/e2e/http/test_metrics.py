"""What /metrics says of requests to applications: by application, deployment, route and status."""

import contextlib
import json

import pytest
from support import paths, wait
from support.protocol import h2client, prometheus
from support.protocol import http as clients
from support.protocol.http import Unix

pytestmark = pytest.mark.core
NAME = "anyserve_http_requests_total"


def file(**prefixes):
    return {"applications": [{"name": name, "import_path": "http_app:web", "working_dir": str(paths.APPS / "asgi"), "route_prefix": prefix}
                             for name, prefix in prefixes.items()]}  # fmt: skip


@pytest.fixture
def server(serve, tmp_path):
    return serve("site.yaml", "--threads", "2", "--state-dir", tmp_path / "state", verb="start", source=json.dumps(file(a="/a", deep="/a/deep")),
                 env={"PYTHONPATH": str(paths.SDK)})  # fmt: skip


def put(server, spec):
    with contextlib.closing(Unix(server.folder_of_port() + "/control.sock")) as c:
        c.request("PUT", "/api/serve/applications/", json.dumps(spec))
        assert c.getresponse().status == 200


def get(server, path, version="h1"):
    with contextlib.closing(clients.CLIENTS[version](server.host, server.port)) as c:
        return c.request("GET", path, None, [])


def counted(server):
    """(application, deployment, route, status) → how often."""
    samples = prometheus.parse(server.metrics())
    labels = [(dict(labels), int(value)) for (name, labels), value in samples.items() if name == NAME]
    return {tuple(row.get(k) for k in ("application", "deployment", "route", "status")): value
            for row, value in labels if row["resource"] == "application"}  # fmt: skip


def test_requests_are_counted_by_route(server):
    assert counted(server) == {}
    for version in clients.CLIENTS:
        assert get(server, "/a/info", version).status == 200
        assert get(server, "/a/deep/info?x=1", version).status == 200
        assert get(server, "/a/deep/fail", version).status == 500
        assert get(server, "/b/info", version).status == 404  # below no route: a request for no resource
    n = len(clients.CLIENTS)
    (name,) = {deployment for _, deployment, _, _ in counted(server)}
    want = {("a", name, "/a", "200"): n, ("deep", name, "/a/deep", "200"): n, ("deep", name, "/a/deep", "500"): n}
    wait.until(lambda: counted(server) == want, lambda: counted(server))
    with h2client.H2(server.host, server.port) as c:  # a client that goes away before its answer
        c.open([(":method", "GET"), (":scheme", "http"), (":path", "/a/hold?name=gone"), (":authority", "x")], end=True)
        wait.until(lambda: "gone began" in get(server, "/a/logged").json(), "the handler runs")
    wait.until(lambda: counted(server).get(("a", name, "/a", "499")) == 1, lambda: counted(server))
    # a change keeps the counts of routes that stay; those of a route that goes are gone
    before = counted(server)
    put(server, file(a="/a", moved="/a/deep"))
    wait.until(lambda: get(server, "/a/deep/info").status == 200 and not any(k[0] == "deep" for k in counted(server)),
               lambda: counted(server))  # fmt: skip
    now = counted(server)
    assert {k: v for k, v in now.items() if k[0] == "a"} == {k: v for k, v in before.items() if k[0] == "a"}
    assert now["moved", name, "/a/deep", "200"] >= 1
    samples = prometheus.parse(server.metrics())
    assert prometheus.total(samples, NAME, resource="none", status="404") == n
